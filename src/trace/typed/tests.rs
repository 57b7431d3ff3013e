use super::*;

fn line(kind: &str, payload: &str) -> String {
    format!(
        r#"{{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05.123456Z","kind":"{kind}","session_id":"s","payload":{payload}}}"#
    )
}

#[test]
fn a_view_reads_fields_by_their_types() {
    let text = line(
        "model_result",
        r#"{"start":"1970-01-01T00:00:01.5Z","outcome":"error","model_id":"m","temperature":0.5,"stream":true,
           "max_tokens":"many","params":{"top_p":1},"usage":{"input_tokens":3,"cost_usd":0.1},
           "error":{"error_type":"Timeout","message":"late"}}"#,
    );
    let call = ModelCall::of(&RawLine::parse(text.as_bytes()).unwrap()).unwrap();
    assert_eq!(
        call.error().unwrap().error_type().as_deref(),
        Some("Timeout")
    );
    assert_eq!(call.model_id().as_deref(), Some("m"));
    assert_eq!(
        (call.start(), call.outcome()),
        (Some(1_500_000_000), Some(Outcome::Error))
    );
    assert_eq!((call.temperature(), call.stream()), (Some(0.5), Some(true)));
    assert_eq!((call.max_tokens(), call.variant()), (None, None));
    assert_eq!(call.params().unwrap().json(), r#"{"top_p":1}"#);
    assert_eq!(call.usage().unwrap().input_tokens, Some(3));
}

#[test]
fn a_view_is_only_of_its_kinds() {
    let parse = |text: &str| ToolCall::of(&RawLine::parse(text.as_bytes()).unwrap()).is_some();
    assert!(parse(&line("tool_call", "{}")) && parse(&line("tool_result", "{}")));
    assert!(parse(&line("interrupted", r#"{"closes":"tool_result"}"#)));
    assert!(!parse(&line("interrupted", r#"{"closes":"turn_end"}"#)));
    assert!(!parse(&line("model_call", "{}")) && !parse(&line("mine", "{}")));
    let text = line("message_delta", r#"{"message_id":"m","text":"x"}"#);
    let delta = Delta::of(&RawLine::parse(text.as_bytes()).unwrap()).unwrap();
    assert_eq!(delta.text().unwrap().text().as_deref(), Some("x"));
}

#[test]
fn the_newest_value_of_a_field_counts() {
    let objects = [
        r#"{"a":3}"#,
        r#"{"a":2,"b":2}"#,
        r#"{"a":1,"b":1,"final":1}"#,
    ];
    let fields = Fields::newest_first(objects);
    let number = |name: &str| fields.get(name).and_then(|value| value.u64());
    assert_eq!((number("final"), number("x")), (Some(1), None));
    assert_eq!((number("b"), number("a")), (Some(2), Some(3)));
    assert_eq!(Output::from(fields).r#final().unwrap().u64(), Some(1));
    assert!(Fields::newest_first([]).get("a").is_none());
    assert!(
        Fields::newest_first(["no object", r#"{"a":1}"#])
            .get("a")
            .is_some()
    );
}
