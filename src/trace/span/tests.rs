use super::*;

#[test]
fn fields_have_the_role_of_their_span() {
    use FieldRole::{Error, Input, Outcome, Own, Usage};
    for (span, field, role) in [
        (SpanKind::Tool, "args", Input),
        (SpanKind::Tool, "result", Outcome),
        (SpanKind::Tool, "error", Error),
        (SpanKind::Tool, "input_tokens", Input),
        (SpanKind::Compaction, "input_tokens", Outcome),
        (SpanKind::Model, "input_tokens", Usage(UsageField::Count(0))),
        (SpanKind::Model, "usage", Usage(UsageField::Whole)),
        (SpanKind::Model, "my_own", Input),
        (SpanKind::Other, "error", Input),
        (SpanKind::Turn, "synthetic", Own),
        (SpanKind::Run, "synthetic", Input),
        (SpanKind::Other, "start", Own),
        (SpanKind::Other, "name", Input),
    ] {
        assert_eq!(span.role(field), role, "{span:?} {field}");
    }
}

#[test]
fn texts_of_a_conversation_are_not_json_fields() {
    for field in ["args", "result", "parts", "error", "details", "decision"] {
        assert!(is_json_field(field), "{field}");
    }
    for field in [
        "content", "text", "body", "final", "id", "source", "process", "fields",
    ] {
        assert!(!is_json_field(field), "{field}");
    }
}
