use super::*;

#[test]
fn message_has_parts_by_the_conventions() {
    let mut fields = Fields::default();
    fields.set(field!(Message.content), br#""hi \"you\"""#);
    let parts = br#"[{"type":"text","text":"hi"},{"type":"tool_call","id":"c1","name":"ls"}]"#;
    fields.set(field!(Message.parts), parts);
    let json = message(Kind::MessageAssistant, "assistant", &fields);
    let expected = r#"{"role":"assistant","parts":[{"type":"text","content":"hi \"you\""},{"type":"tool_call","id":"c1","name":"ls"}]},"#;
    assert_eq!(String::from_utf8(json).unwrap(), expected);
    let empty = message(Kind::MessageUser, "user", &Fields::default());
    assert_eq!(empty, br#"{"role":"user"},"#);
}

#[test]
fn tools_are_functions_with_parameters() {
    let catalog = br#"[{"name":"ls","schema":{"type":"object"}},"odd"]"#;
    let json = shaped(ContextAsset::ToolCatalog, catalog);
    let expected = r#"[{"name":"ls","parameters":{"type":"object"},"type":"function"},"odd"]"#;
    assert_eq!(std::str::from_utf8(&json), Ok(expected));
    let marker = br#"{"$blob":"ab","bytes":70000}"#;
    assert_eq!(*shaped(ContextAsset::ToolCatalog, marker), *marker);
}

#[test]
fn waiting_messages_are_bounded() {
    let mut conversation = Conversation::default();
    conversation.wait(b"{\"role\":\"user\"},");
    conversation.wait(&[b'x'; MAX_WAITING]);
    assert_eq!(conversation.begin_call().input.len(), MAX_WAITING);
    assert!(conversation.begin_call().input.is_empty());
}
