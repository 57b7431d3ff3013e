//! Checks as a JUnit report.

use crate::inspect::baseline::Check;

/// A report with one test case for each check.
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
    for c in super::text::line(text).chars() {
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
