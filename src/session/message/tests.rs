use super::*;
use crate::trace::RawLine;

fn node(kind: &str, payload: &str) -> Node {
    let line = format!(
        r#"{{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05Z","kind":"{kind}","session_id":"s","payload":{payload}}}"#
    );
    Node::of_line(&RawLine::parse(line.as_bytes()).unwrap())
}

#[test]
fn parts_have_their_content() {
    let node = node(
        "message_assistant",
        r#"{"parts":[{"type":"text","content":"Look."},
            {"type":"tool_call","id":"c1","name":"bash","arguments":{"n":1}},
            {"type":"tool_call_response","id":"c1","response":"ok"},
            {"type":"blob","data":"x"}]}"#,
    );
    let parts: Vec<_> = node.parts().collect();
    let [text, call, response, other] = &parts[..] else {
        panic!("{parts:?}");
    };
    assert!(matches!(text, Part::Text(text) if text == "Look."));
    assert!(
        matches!(call, Part::ToolCall { id, name, arguments: Some(args) }
            if id == "c1" && name == "bash" && args.json() == r#"{"n":1}"#)
    );
    assert!(
        matches!(response, Part::ToolResponse { id, response: Some(value) }
            if id == "c1" && value.text().as_deref() == Some("ok"))
    );
    assert!(matches!(other, Part::Other { kind, part }
            if kind == "blob" && part.get("data").is_some()));
    let words: Vec<_> = parts.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["text", "calls bash", "to c1", "blob"]);
}

#[test]
fn only_messages_have_a_role() {
    assert_eq!(node("message_tool", "{}").role(), Some(Role::Tool));
    assert_eq!(node("message_delta", "{}").role(), Some(Role::Assistant));
    assert_eq!(node("tool_call", "{}").role(), None);
    assert_eq!(node("mine", "{}").role(), None);
}
