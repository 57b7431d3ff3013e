use super::*;

#[test]
fn a_header_is_read_as_it_was_written() {
    let new = NewHeader {
        writer: Some("w1"),
        process: r#"{"pid":7}"#,
        resource: &json!({}),
        mirror: Some(r#"{"endpoint":"http://h"}"#),
        digest_salt: "5a5a",
        session: SessionHeader {
            implicit: Some("no run"),
            counts_from: Some(2),
        },
    };
    let members = String::from_utf8(new.members()).unwrap();
    let line = format!(
        r#"{{"v":1,"seg":3,"seq":1,"ts":"2026-11-16T00:31:05.123456Z","kind":"segment","session_id":"s","payload":{{{}}}}}"#,
        members.trim_end_matches(',')
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.0003.jsonl");
    // A first line that was cut short may stand before it.
    std::fs::write(&path, format!("{}\n{line}\n", &line[..50])).unwrap();
    let read = SegmentHeader::in_file(&path, |header| {
        assert_eq!(header.writer().as_deref(), Some("w1"));
        assert_eq!(header.implicit().as_deref(), Some("no run"));
        assert_eq!(header.counts_from(), Some(2));
        assert_eq!(header.digest_salt().as_deref(), Some("5a5a"));
        Some(header.mirror()?.json().to_owned())
    });
    assert_eq!(read.unwrap().as_deref(), Some(r#"{"endpoint":"http://h"}"#));
}
