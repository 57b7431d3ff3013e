//! The text of `assert`, and the same as a JUnit report.

use serde_json::Value;

use super::style::Style;
use super::text::{cost, duration, line, pad, plural, thousands};
use crate::inspect::baseline::{Check, CheckKind};

/// The result of the checks of a session.
pub fn checks_of(session_id: &str, checks: &[Check], style: &Style) -> Vec<String> {
    let mut out = Vec::new();
    for check in checks {
        let name = pad(check.kind.as_str(), 11);
        out.push(match &check.why {
            None => format!("{} {name} {}", style.green("ok  "), accepted(check)),
            Some(why) => format!("{} {name} {}", style.red("FAIL"), line(why)),
        });
    }
    let failed = checks.iter().filter(|check| !check.passed).count() as u64;
    let id = line(session_id);
    out.push(match failed {
        0 => format!("{id}: {} passed", plural(checks.len() as u64, "check")),
        n => format!(
            "{id}: {} of {} failed",
            thousands(n),
            plural(checks.len() as u64, "check")
        ),
    });
    out
}

/// What was found, and the limit.
fn accepted(check: &Check) -> String {
    let shown = |value: &Value| match (check.kind, value.as_f64(), value) {
        (CheckKind::Cost, usd @ Some(_), _) => cost(usd),
        (CheckKind::Duration, Some(ms), _) => duration((ms * 1e6) as u64),
        (CheckKind::Divergence, Some(part), _) => format!("{part:.2}"),
        (_, Some(number), _) => thousands(number as u64),
        (_, None, Value::String(text)) => line(text).into_owned(),
        (_, None, Value::Array(texts)) if texts.is_empty() => "none".to_owned(),
        (_, None, Value::Array(texts)) => {
            let texts = texts.iter().filter_map(Value::as_str).map(line);
            texts.collect::<Vec<_>>().join(" or ")
        }
        _ => "–".to_owned(),
    };
    format!("{}  (limit {})", shown(&check.actual), shown(&check.limit))
}

/// The same as a JUnit report: one test case for each check.
pub fn junit(session_id: &str, checks: &[Check]) -> Vec<String> {
    let failures = checks.iter().filter(|check| !check.passed).count();
    let name = xml(session_id);
    let mut out = vec![
        r#"<?xml version="1.0" encoding="UTF-8"?>"#.to_owned(),
        format!(
            r#"<testsuite name="spanledger assert {name}" tests="{}" failures="{failures}">"#,
            checks.len()
        ),
    ];
    for check in checks {
        let case = format!(
            r#"  <testcase classname="{name}" name="{}""#,
            check.kind.as_str()
        );
        match &check.why {
            None => out.push(format!("{case}/>")),
            Some(why) => {
                let why = xml(why);
                out.push(format!("{case}>"));
                out.push(format!(r#"    <failure message="{why}"/>"#));
                out.push("  </testcase>".to_owned());
            }
        }
    }
    out.push("</testsuite>".to_owned());
    out
}

/// A text inside an attribute. XML has no way to write most control characters; these are escaped as for a terminal.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in line(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('?'),
            c => out.push(c),
        }
    }
    out
}
