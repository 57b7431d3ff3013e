use super::*;

#[test]
fn turns_with_the_same_index_keep_their_spans() {
    let line = |seg: u32, seq: u64, kind: &str, span: u64| {
        let span = format!("{span:016x}");
        serde_json::json!({
            "v": 1, "seg": seg, "seq": seq, "ts": "2026-11-16T00:31:05.123456Z", "kind": kind,
            "session_id": "s", "turn": 1, "trace_id": "0".repeat(32), "span_id": span, "payload": {},
        })
        .to_string()
    };
    let mut turns = Turns::default();
    for text in [
        line(1, 2, "turn_start", 1),
        line(1, 3, "tool_call", 2),
        line(2, 2, "turn_start", 3),
        line(1, 4, "tool_result", 2),
        line(2, 3, "turn_end", 3),
        line(1, 5, "turn_end", 1),
    ] {
        turns.take(&RawLine::parse(text.as_bytes()).unwrap());
    }
    let mut all = Vec::new();
    while let Some(turn) = turns.ready() {
        all.push(turn);
    }
    all.extend(turns.finish());
    let tools: Vec<_> = all.iter().flat_map(|turn| &turn.nodes).collect();
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0].state, NodeState::Closed);
}
