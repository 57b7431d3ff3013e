use super::*;

fn delta(rows: &mut LiveRows, seq: u64, offset: u64, text: &str) -> Vec<String> {
    let text = serde_json::Value::from(text);
    let line = format!(
        "{{\"v\":1,\"seg\":1,\"seq\":{seq},\"ts\":\"2026-11-16T00:31:05.123456Z\",\
         \"kind\":\"message_delta\",\"session_id\":\"s\",\
         \"payload\":{{\"message_id\":\"m\",\"offset\":{offset},\"text\":{text}}}}}"
    );
    let style = Style {
        width: 48,
        ..Style::plain()
    };
    rows.line(&RawLine::parse(line.as_bytes()).unwrap(), &style)
}

#[test]
fn deltas_become_lines_at_newlines_and_at_the_width() {
    let mut rows = LiveRows::new(Some("s"), &[]);
    assert!(delta(&mut rows, 1, 0, "One ").is_empty());
    assert_eq!(
        delta(&mut rows, 2, 4, "line.\nAnd another that is "),
        ["00:31:05 1:1     writes     One line."]
    );
    assert_eq!(
        delta(&mut rows, 3, 30, "longer"),
        ["00:31:05 1:2     writes     And another that is"]
    );
    let rest = rows.settle(Some("s"), &Style::plain());
    assert_eq!(rest, ["00:31:05 1:3     writes     longer"]);
    assert!(rows.settle(None, &Style::plain()).is_empty());
}
