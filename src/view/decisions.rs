//! The text of `permissions`.

use super::style::Style;
use super::text::{cut, duration, fits, line, pad, plural, thousands};
use crate::inspect::permissions::{Flip, RecordedDecision, WhatIf};
use crate::session::Action;

fn subject_of(recorded: &RecordedDecision) -> String {
    let name = line(&recorded.tool);
    match &recorded.subject {
        Some(subject) => format!("{name}  {}", line(subject)),
        None => name.into_owned(),
    }
}

/// One decision: what, by which rule, who was asked and how long it took.
pub fn decision(recorded: &RecordedDecision, style: &Style) -> Vec<String> {
    let action = recorded.action.map_or("–", Action::as_str);
    let painted = match action {
        "deny" => style.red(&pad(action, 6)),
        "ask" => style.magenta(&pad(action, 6)),
        _ => style.green(&pad(action, 6)),
    };
    let named = [("rule", &recorded.pattern), ("by", &recorded.source)].into_iter();
    let named = named.filter_map(|(name, text)| Some(format!("{name} {}", line(text.as_ref()?))));
    let mut facts: Vec<_> = named.collect();
    if recorded.asked {
        let who = recorded.decided_by.as_deref().unwrap_or("a person");
        let answer = recorded.answer.as_deref().unwrap_or("no answer");
        facts.push(format!("asked {}: {}", line(who), line(answer)));
    }
    facts.extend(recorded.duration.map(duration));
    let facts = facts.join(", ");
    let address = pad(&recorded.address.to_string(), 8);
    let room = style.width.saturating_sub(15);
    let what = subject_of(recorded);
    let both = format!("{what}  {facts}");
    if fits(&both, room) {
        return vec![format!(
            "{} {painted}{what}  {}",
            style.dim(&address),
            style.dim(&facts)
        )];
    }
    vec![
        format!("{} {painted}{}", style.dim(&address), cut(&what, room)),
        format!("{}{}", " ".repeat(15), style.dim(&cut(&facts, room))),
    ]
}

/// One decision that other rules would change.
pub fn flip(flip: &Flip, style: &Style) -> Vec<String> {
    let recorded = &flip.recorded;
    let before = recorded.action.map_or("–", Action::as_str);
    let answer = match (recorded.asked, &recorded.answer) {
        (true, Some(answer)) => format!(" (answer: {})", line(answer)),
        _ => String::new(),
    };
    let after = flip.decided.action;
    let rule = match flip.decided.rule {
        Some(at) => format!("rule {at}"),
        None => "no rule".to_owned(),
    };
    let change = format!("{before}{answer} → {after}, by {rule}");
    let change = match flip.decided.action {
        Action::Allow => style.yellow(&change),
        _ => style.cyan(&change),
    };
    let place = format!("{}/{}", line(&recorded.session_id), recorded.address);
    let what = subject_of(recorded);
    vec![
        format!("{}  {}", style.dim(&place), change),
        format!("    {}", cut(&what, style.width.saturating_sub(4))),
    ]
}

/// What other rules would change in all.
pub fn what_if(counts: &WhatIf, style: &Style) -> Vec<String> {
    let decisions = plural(counts.decisions, "decision");
    let mut out = vec![style.bold(&format!(
        "{} of {decisions} would flip",
        thousands(counts.flips)
    ))];
    let rows = [
        ("questions to a person saved", counts.saved),
        ("questions to a person added", counts.added),
        ("calls that would run unasked", counts.unasked),
        ("  of these, denied by a person", counts.unasked_denied),
        ("allowed calls that would be denied", counts.denied),
        ("not decided: no recorded action or text", counts.undecided),
    ];
    for (name, n) in rows {
        out.push(format!("  {} {}", pad(name, 40), thousands(n)));
    }
    out
}
