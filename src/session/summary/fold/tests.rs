use serde_json::json;

use super::*;

fn line(seg: u32, seq: u64, kind: &str, payload: Value) -> String {
    let ts = "2026-11-16T00:31:05.123456Z";
    json!({"v": 1, "seg": seg, "seq": seq, "ts": ts, "kind": kind, "session_id": "s", "payload": payload})
        .to_string()
}

#[test]
fn a_writer_with_two_segments_counts_once() {
    let totals = |turns| json!({"totals": {"turns": turns, "usage": {"input_tokens": 10 * turns}}});
    let lines = [
        line(1, 1, "segment", json!({"writer": "a"})),
        line(1, 2, "turn_end", totals(3)),
        // The same process went on in another segment, and another process joined.
        line(2, 1, "segment", json!({"writer": "a"})),
        line(2, 2, "turn_end", totals(5)),
        line(3, 1, "segment", json!({"writer": "b"})),
        line(3, 2, "turn_end", totals(2)),
    ];
    let mut summary = Summary::default();
    for line in &lines {
        summary.take(&RawLine::parse(line.as_bytes()).unwrap());
    }
    let totals = summary.totals();
    assert_eq!((totals.turns, totals.usage.input_tokens), (7, Some(70)));
}
