//! Messages in the spans of another library become events.

use serde_json::{Value, json};
use spanledger::spans;
use tracing::info_span;

use crate::support::rig_spans::{call, chat, execute_tool, invoke_agent, messages, text};
use crate::support::{LineExt, Recording};

#[test]
fn repeated_history_records_each_message_once() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        let mut history = vec![text("system", "Be brief.")];
        for answer in ["Shall I?", "Shall I?", "Done."] {
            history.push(text("user", "yes"));
            call(&history, Some(answer));
            history.push(text("assistant", answer));
        }
    });
    assert_eq!(
        messages(&recording.trace()),
        [
            ("system", "Be brief."),
            ("user", "yes"),
            ("assistant", "Shall I?"),
            ("user", "yes"),
            ("assistant", "Shall I?"),
            ("user", "yes"),
            ("assistant", "Done."),
        ]
    );
}

#[test]
fn next_process_records_only_new_messages() {
    let ask = |history: &[Value], answer: &str| {
        let agent = info_span!(
            "invoke_agent",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.conversation.id = "conv"
        );
        let _in_agent = agent.enter();
        call(history, Some(answer));
    };
    let secret = "sk-ant-api03-0123456789abcdefghijABCDEFGHIJ0123456789";
    let first = Recording::new();
    first.run(|| ask(&[text("user", secret)], "Thanks."));
    let second = Recording::again(first.end());
    let history = [
        text("user", secret),
        text("assistant", "Thanks."),
        text("user", "And now?"),
    ];
    second.run(|| ask(&history, "Nothing."));
    let trace = second.trace();
    let new_messages: Vec<_> = messages(&trace).into_iter().skip(1).collect();
    assert_eq!(
        new_messages,
        [
            ("assistant", "Thanks."),
            ("user", "And now?"),
            ("assistant", "Nothing."),
        ]
    );
}

#[test]
fn question_in_another_conversation_is_new() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_twice", "a").start();
        let _in_run = run.enter();
        call(&[text("user", "ping")], Some("pong"));
        call(&[text("user", "ping")], Some("pong"));
    });
    let exchange = [("user", "ping"), ("assistant", "pong")];
    assert_eq!(messages(&recording.trace()), [exchange, exchange].concat());
}

#[test]
fn non_text_parts_are_kept() {
    let recording = Recording::new();
    let call_part = json!({"type": "tool_call", "id": "c1", "name": "add", "arguments": {"x": 1}});
    let answer_part = json!({"type": "tool_call_response", "id": "c1", "response": "2"});
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        let chat = chat();
        let sent = json!([
            text("user", "1 + 1?"),
            {"role": "assistant", "parts": [{"type": "reasoning", "content": "Hm."}, call_part]},
            {"role": "user", "parts": [answer_part]},
        ]);
        chat.record("gen_ai.input.messages", sent.to_string());
    });
    let trace = recording.trace();
    assert_eq!(trace.one("message_reasoning").text("content"), "Hm.");
    assert_eq!(
        trace.one("message_assistant").get("parts"),
        &json!([call_part])
    );
    assert_eq!(
        trace.one("message_tool").get("parts"),
        &json!([answer_part])
    );
}

#[test]
fn instructions_and_tools_are_stored_once() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        for _ in 0..2 {
            let chat = chat();
            let system = json!([{"type": "text", "content": "Be brief."}]).to_string();
            chat.record("gen_ai.system_instructions", &system);
            let _in_chat = chat.enter();
            chat.record("gen_ai.request.model", "gpt-4o");
            let tools =
                json!([{"type": "function", "name": "add", "parameters": {"type": "object"}}]);
            chat.record("gen_ai.tool.definitions", tools.to_string());
            let sent = json!([text("system", "Be brief.")]);
            chat.record("gen_ai.input.messages", sent.to_string());
        }
    });
    let trace = recording.trace();
    let (prompt, catalog) = (trace.one("system_prompt"), trace.one("tool_catalog"));
    assert_eq!(prompt.text("body"), "Be brief.");
    assert!(
        messages(&trace).is_empty(),
        "said as a message it is the same"
    );
    assert_eq!(
        catalog.get("tools"),
        &json!([{"type": "function", "name": "add", "schema": {"type": "object"}}])
    );
    for call in trace.all("model_result") {
        assert_eq!(call.get("system_prompt_digest"), prompt.get("digest"));
        assert_eq!(call.get("tool_catalog_digest"), catalog.get("digest"));
    }
}

#[test]
fn content_of_unknown_shape_is_kept() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        let chat = chat();
        chat.record("gen_ai.input.messages", "user: hi");
        chat.record("gen_ai.output.messages", r#"[{"no": "role"}]"#);
    });
    let trace = recording.trace();
    let call = trace.one("model_result");
    assert_eq!(call.payload["gen_ai.input.messages"], "user: hi");
    assert_eq!(
        call.payload["gen_ai.output.messages"],
        r#"[{"no": "role"}]"#
    );
}

#[test]
fn secrets_of_a_library_are_masked() {
    let secret = "sk-ant-api03-0123456789abcdefghijABCDEFGHIJ0123456789";
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        let message = format!("my key is {secret}");
        call(
            &[text("user", &message), text("tool", &message)],
            Some(&message),
        );
        let tool = execute_tool();
        tool.record("gen_ai.tool.name", "login");
        tool.record(
            "gen_ai.tool.call.arguments",
            json!({"note": message}).to_string(),
        );
        agent.record("gen_ai.prompt", &message);
        let chat = chat();
        chat.record("gen_ai.system_instructions", &message);
        chat.record(
            "gen_ai.tool.definitions",
            json!([{"description": message}]).to_string(),
        );
        chat.record("gen_ai.input.messages", &message);
    });
    let trace = recording.trace();
    assert!(trace.all("message_user").len() == 1 && trace.all("tool_catalog").len() == 1);
    let bytes = trace.bytes();
    assert!(!bytes.windows(secret.len()).any(|w| w == secret.as_bytes()));
}
