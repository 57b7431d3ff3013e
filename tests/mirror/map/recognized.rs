//! Recognized spans are sent as their library made them.

use serde_json::json;
use spanledger::mirror::otlp::span::SpanKind;
use tracing::field::Empty;
use tracing::info_span;

use crate::map::setup::{attributes, named, one, sent};

#[test]
fn library_parents_are_kept_without_synthetic_turns() {
    let spans = sent(Some(json!({"content": true})), || {
        let agent = info_span!(
            "invoke_agent",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.agent.name = "adder"
        );
        let _in_agent = agent.enter();
        drop(info_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = "openai",
            gen_ai.request.model = "gpt-4o",
            gen_ai.usage.input_tokens = 100,
            gen_ai.usage.cache_creation.input_tokens = 8,
        ));
        let tool = info_span!(
            "execute_tool",
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = Empty,
            gen_ai.tool.call.arguments = Empty
        );
        tool.record("gen_ai.tool.name", "add");
        tool.record("gen_ai.tool.call.arguments", r#"{"x":1}"#);
    });
    let run = named(&spans, "invoke_agent adder");
    let chat = named(&spans, "chat gpt-4o");
    let tool = named(&spans, "execute_tool add");
    assert_eq!(spans.len(), 3);
    assert_eq!(chat.parent_span_id, run.span_id);
    assert_eq!(tool.parent_span_id, run.span_id);
    assert_eq!(chat.kind, SpanKind::Client as i32);
    let sent_attributes = attributes(&chat.attributes);
    assert_eq!(sent_attributes["gen_ai.operation.name"], "chat");
    assert_eq!(sent_attributes["gen_ai.provider.name"], "openai");
    assert_eq!(sent_attributes["gen_ai.usage.input_tokens"], 100);
    assert_eq!(
        sent_attributes["gen_ai.usage.cache_creation.input_tokens"],
        8
    );
    assert_eq!(sent_attributes["agent.turn_index"], 1);
    let sent_attributes = attributes(&tool.attributes);
    assert_eq!(sent_attributes["gen_ai.tool.call.arguments"], r#"{"x":1}"#);
}

#[test]
fn unusual_operation_keeps_its_name() {
    let spans = sent(None, || {
        let workflow = info_span!(
            "invoke_workflow",
            gen_ai.operation.name = "invoke_workflow",
            gen_ai.workflow.name = "nightly"
        );
        let _in_workflow = workflow.enter();
        drop(info_span!(
            "embeddings",
            gen_ai.operation.name = "embeddings",
            gen_ai.request.model = "e-3"
        ));
        drop(info_span!(
            "rerank",
            gen_ai.operation.name = "rerank",
            gen_ai.request.model = "r-1",
        ));
    });
    for (name, operation) in [
        ("invoke_workflow nightly", "invoke_workflow"),
        ("embeddings e-3", "embeddings"),
        ("rerank", "rerank"),
    ] {
        let sent_attributes = attributes(&named(&spans, name).attributes);
        assert_eq!(sent_attributes["gen_ai.operation.name"], operation);
    }
    let sent_attributes = attributes(&named(&spans, "rerank").attributes);
    assert_eq!(sent_attributes["gen_ai.request.model"], "r-1");
}

#[test]
fn only_a_turn_can_be_synthetic() {
    let synthetic = json!({"synthetic": true});
    assert!(one(json!({}), "turn_end", synthetic.clone()).is_none());
    let tool = one(json!({}), "tool_result", synthetic).unwrap();
    assert_eq!(attributes(&tool.attributes)["agent.synthetic"], true);
}

#[test]
fn content_of_other_operations_is_not_sent() {
    let spans = sent(None, || {
        let agent = info_span!("invoke_agent", gen_ai.operation.name = "invoke_agent");
        let _in_agent = agent.enter();
        drop(info_span!(
            "plan",
            gen_ai.operation.name = "plan",
            gen_ai.input.messages = "a secret plan",
            gen_ai.prompt = "a secret plan",
        ));
    });
    let plan = named(&spans, "plan");
    assert!(!format!("{plan:?}").contains("secret"), "{plan:?}");
}
