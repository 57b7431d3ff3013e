//! Whether the turns of a session can be run again.

use super::style::Style;
use super::text::{cut, line, pad, plural, wrap};
use crate::inspect::replay::TurnReplay;

/// The rows of a turn: whether it can be run again, and what is missing.
pub fn replay_turn(turn: &TurnReplay, style: &Style) -> Vec<String> {
    let name = match turn.turn {
        Some(turn) => format!("Turn {turn}"),
        None => "Outside of turns".to_owned(),
    };
    let verdict = match turn.is_eligible() {
        true => style.green("can be run again   "),
        false => style.red("can't be run again "),
    };
    let mut facts = format!(
        "inputs {}  {}  {}",
        turn.inputs,
        plural(turn.calls.len() as u64, "model call"),
        line(&turn.models.join(", ")),
    );
    if !turn.variants.is_empty() {
        facts.push_str(&format!("  variant {}", line(&turn.variants.join(", "))));
    }
    let room = style.width.saturating_sub(30);
    let mut out = vec![format!("{} {verdict} {}", pad(&name, 9), cut(&facts, room))];
    for missing in &turn.missing {
        let text = format!("missing {}: {}", missing.what.as_str(), missing.why);
        let rows = wrap(&text, style.width.saturating_sub(10));
        out.extend(rows.iter().map(|row| format!("          {row}")));
    }
    out
}
