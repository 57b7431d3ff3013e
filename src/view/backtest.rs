//! The output of `guard`.

use super::style::Style;
use super::text::{
    columns, columns_of, cost, cut, cut_id, duration, join, line, pad, plural, thousands,
};
use crate::inspect::backtest::{Backtest, Stopped, Suggestion};
use crate::watch::LoopKind;

const HEADS: [&str; 6] = ["ENDED", "MODEL", "TOOL", "TOKENS", "COST", "TIME"];
const WIDTHS: [usize; 6] = [11, 5, 5, 9, 8, 6];

/// The sessions that limits would have stopped, what that would have saved, and how many had ended well.
pub fn backtest(backtest: &Backtest, style: &Style) -> Vec<String> {
    let mut out = Vec::new();
    if !backtest.stopped.is_empty() {
        let ids = backtest
            .stopped
            .iter()
            .map(|one| columns(&line(&one.session_id)));
        let ids = ids.max().unwrap_or(0);
        let at_width = backtest.stopped.iter().map(|one| place(one).len());
        let at_width = at_width.max().unwrap_or(0).max(2);
        let others = at_width + 2 + WIDTHS.iter().map(|width| width + 1).sum::<usize>();
        let id_width = ids.clamp(8, style.width.saturating_sub(others).clamp(12, 36));
        let heads = HEADS.map(str::to_owned);
        let head = row(&pad("SESSION", id_width), &pad("AT", at_width), &heads);
        out.push(style.dim(&cut(head.trim_end(), style.width)));
        for one in &backtest.stopped {
            let id = pad(&cut_id(&line(&one.session_id), id_width), id_width);
            let text = row(&id, &pad(&place(one), at_width), &numbers(one));
            let text = cut(text.trim_end(), style.width).into_owned();
            out.push(match one.ended_well {
                true => style.yellow(&text),
                false => text,
            });
            let why = one.stop.refused.to_string();
            out.push(style.dim(&cut(&format!("  {}", line(&why)), style.width)));
        }
        out.push(String::new());
    }
    out.extend(summary(backtest));
    out
}

/// The address of the call, with its session if that is a subagent.
fn place(stopped: &Stopped) -> String {
    let stop = &stopped.stop;
    match stop.session_id == stopped.session_id {
        true => stop.address.to_string(),
        false => format!("{}/{}", cut_id(&line(&stop.session_id), 16), stop.address),
    }
}

/// How it ended, and what happened after the stop.
fn numbers(stopped: &Stopped) -> [String; 6] {
    let saved = &stopped.saved;
    let outcome = stopped.outcome.as_deref().unwrap_or("not ended");
    [
        line(outcome).into_owned(),
        thousands(saved.model_calls),
        thousands(saved.tool_calls),
        thousands(saved.tokens),
        cost(saved.known_cost()),
        duration(saved.active_ns),
    ]
}

fn row(id: &str, at: &str, numbers: &[String; 6]) -> String {
    format!("{id} {at} {}", columns_of(numbers.iter().zip(WIDTHS)))
}

fn summary(backtest: &Backtest) -> Vec<String> {
    let mut out = Vec::new();
    let sessions = plural(backtest.sessions, "session");
    let stopped = backtest.stopped.len() as u64;
    let wrong = backtest.false_stops() as u64;
    out.push(format!(
        "{} of {sessions} would have been stopped, {} of them ended well (false stops).",
        thousands(stopped),
        thousands(wrong)
    ));
    if stopped > 0 {
        let saved = backtest.saved();
        let money = match saved.known_cost() {
            Some(usd) => format!(", {}", cost(Some(usd))),
            None => String::new(),
        };
        out.push(format!(
            "That would have saved {}, {}, {}{money}.",
            plural(saved.model_calls, "model call"),
            plural(saved.tool_calls, "tool call"),
            plural(saved.tokens, "token"),
        ));
    }
    let loops = LoopKind::ALL.into_iter().zip(backtest.loops);
    let loops = loops.filter(|(_, n)| *n > 0);
    let loops = loops.map(|(kind, n)| format!("{n} {}", kind.as_str()));
    out.extend(join(loops, ", ").map(|loops| format!("Loops: {loops}.")));
    out.extend(unpriced(backtest));
    out
}

fn unpriced(backtest: &Backtest) -> Option<String> {
    let models = backtest.unpriced_models.iter();
    let models = join(models.map(|model| line(model)), ", ")?;
    Some(format!(
        "The price of {models} is not known; such calls are not in the cost."
    ))
}

/// Suggested limits as a configuration file, with what they would have stopped.
pub fn suggestion(suggestion: &Suggestion, tried: &Backtest) -> Vec<String> {
    let sessions = plural(suggestion.sessions, "session");
    let mut out = vec![
        format!("# What {sessions} that ended well needed, and a fifth more than 95 % of them."),
        format!(
            "# These limits would have stopped {} of {}; {} of those ended well.",
            tried.stopped.len(),
            plural(tried.sessions, "session"),
            tried.false_stops(),
        ),
    ];
    if suggestion.good_loops > 0 {
        out.push(format!(
            "# {} that ended well had a loop, so loops are only recorded.",
            plural(suggestion.good_loops, "session")
        ));
    }
    out.extend(unpriced(tried).map(|text| format!("# {text}")));
    out.push("[limits]".into());
    for setting in suggestion.limits.to_toml() {
        let name = setting.split(' ').next().unwrap_or_default();
        let spread = suggestion.spreads.iter().find(|(limit, _)| *limit == name);
        let note = spread.map(|(name, spread)| {
            let text = |value: f64| match *name {
                "cost_usd" => cost(Some(value)),
                "duration" => duration((value * 1e9) as u64),
                _ => thousands(value as u64),
            };
            let (median, p95, most) = (text(spread.median), text(spread.p95), text(spread.most));
            format!("# half needed {median}, 95 % {p95}, one {most}")
        });
        let setting = format!("{setting:24} {}", note.unwrap_or_default());
        out.push(setting.trim_end().to_owned());
    }
    out
}
