use std::io::Write;

use super::*;

#[test]
fn reads_a_line_that_replaces_a_truncated_one() {
    let line = |seq: u64, kind: &str| {
        format!(
            "{{\"v\":1,\"seg\":1,\"seq\":{seq},\"ts\":\"2026-01-01T00:00:00Z\",\"session_id\":\"s\",\"kind\":\"{kind}\",\"payload\":{{}}}}\n"
        )
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.0001.jsonl");
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(&path)
        .unwrap();
    file.write_all(line(1, "a").as_bytes()).unwrap();
    let whole = file.metadata().unwrap().len();
    file.write_all(&line(2, "a line cut short").as_bytes()[..90])
        .unwrap();
    let mut reader = SegmentReader::open(&path).unwrap();
    let mut next = || match reader.next().unwrap() {
        Some(ReadItem::Line(line)) => line.kind.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!((next(), next()), ("a".into(), "None".into()));
    file.set_len(whole).unwrap();
    file.write_all(line(2, "b").as_bytes()).unwrap();
    assert_eq!((next(), next()), ("b".into(), "None".into()));
}
