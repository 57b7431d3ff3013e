use super::*;
use crate::session::Turns;
use crate::trace::RawLine;

/// On each level two spans have the same id and contain the two of the next level. Shown under
/// both, twelve levels would be thousands of rows.
#[test]
fn children_of_two_spans_with_one_id_are_shown_once() {
    const LEVELS: u64 = 12;
    let mut turns = Turns::default();
    for level in 1..=LEVELS {
        for _ in 0..2 {
            // A close line whose open line is missing is a node of its own, whatever its id is.
            let line = serde_json::json!({
                "v": 1, "seg": 1, "seq": level, "ts": "2026-11-16T00:31:05.123456Z",
                "kind": "tool_result", "session_id": "s", "turn": 1,
                "trace_id": "0".repeat(32), "span_id": format!("{level:016x}"),
                "parent_span_id": format!("{:016x}", level - 1),
                "payload": {"tool_id": format!("level-{level}"), "duration_ns": 1},
            });
            turns.take(&RawLine::parse(line.to_string().as_bytes()).unwrap());
        }
    }
    let turn = turns.finish().remove(0);
    assert_eq!(turn.nodes.len() as u64, 2 * LEVELS);
    let lines = Timeline::new(&Style::plain()).turn(&turn);
    let shown = lines.iter().filter(|line| line.contains("level-")).count();
    assert_eq!(shown, turn.nodes.len());
}
