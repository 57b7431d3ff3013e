//! Spans that other libraries make by the GenAI conventions, in the shapes that rig gives them.

mod support;

use serde_json::{Value, json};
use spanledger::ledger::Line;
use spanledger::{Outcome, Rule, SpanExt, spans};
use support::{LineExt, Recording, Trace};
use tracing::field::Empty;
use tracing::{Span, info_span};

/// As rig's agent opens it when nothing is around.
fn invoke_agent(name: &str) -> Span {
    info_span!(
        parent: None,
        "invoke_agent",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = name,
        gen_ai.system_instructions = Empty,
        gen_ai.prompt = Empty,
        gen_ai.completion = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
    )
}

/// As rig's agent opens it for every call of a model.
fn chat() -> Span {
    info_span!(
        target: "rig::agent_chat",
        "chat",
        rig.completion_parent = true,
        gen_ai.operation.name = "chat",
        gen_ai.system_instructions = Empty,
        gen_ai.provider.name = Empty,
        gen_ai.request.model = Empty,
        gen_ai.request.stream = Empty,
        gen_ai.response.id = Empty,
        gen_ai.response.model = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.usage.tool_use_prompt_tokens = Empty,
        gen_ai.usage.reasoning_tokens = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        gen_ai.tool.definitions = Empty,
        gen_ai.agent.name = "adder",
    )
}

/// As rig's agent opens it for every call of a tool.
fn execute_tool() -> Span {
    info_span!(
        "execute_tool",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.type = "function",
        gen_ai.tool.name = Empty,
        gen_ai.tool.call.id = Empty,
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        gen_ai.tool.call.outcome = Empty,
        gen_ai.tool.error.type = Empty
    )
}

fn text(role: &str, content: &str) -> Value {
    json!({"role": role, "parts": [{"type": "text", "content": content}]})
}

/// A whole call: what was sent, what came back.
fn call(sent: &[Value], answer: Option<&str>) {
    let chat = chat();
    chat.record("gen_ai.input.messages", json!(sent).to_string());
    let _in_chat = chat.enter();
    chat.record("gen_ai.provider.name", "openai");
    chat.record("gen_ai.request.model", "gpt-4o");
    let Some(answer) = answer else { return };
    chat.record("gen_ai.response.id", "chatcmpl-1");
    chat.record("gen_ai.usage.input_tokens", 100_u64);
    chat.record("gen_ai.usage.output_tokens", 10_u64);
    let output = json!([{"role": "assistant", "parts": [{"type": "text", "content": answer}], "finish_reason": "stop"}]);
    chat.record("gen_ai.output.messages", output.to_string());
}

fn tool(name: &str, id: &str) {
    let tool = execute_tool();
    let _in_tool = tool.enter();
    tool.record("gen_ai.tool.name", name);
    tool.record("gen_ai.tool.call.id", id);
    tool.record("gen_ai.tool.call.arguments", r#"{"x":1}"#);
    tool.record("gen_ai.tool.call.outcome", "success");
    tool.record("gen_ai.tool.call.result", "2");
}

/// The texts of the messages, in order, by who said them.
fn messages(trace: &Trace) -> Vec<(&str, &str)> {
    let said = trace.lines().filter_map(|line| {
        let who = line.kind.strip_prefix("message_")?;
        Some((who, line.payload.get("content")?.as_str()?))
    });
    said.collect()
}

fn only_session(trace: &Trace) -> &str {
    assert_eq!(trace.sessions.len(), 1, "{:?}", trace.sessions.keys());
    trace.sessions.keys().next().unwrap()
}

#[test]
fn an_agent_of_another_library_is_a_run_with_its_calls_and_tools() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("adder");
        let _in_agent = agent.enter();
        call(&[text("user", "What is 1 + 1?")], Some("I'll add."));
        tool("add", "call_1");
        agent.record("gen_ai.usage.input_tokens", 100_u64);
    });
    let trace = recording.trace();
    let session = only_session(&trace);
    let start = trace.one("session_start");
    assert_eq!(start.text("agent"), "adder");
    assert_eq!(start.text("session_id"), session);
    let model = trace.one("model_result");
    assert_eq!(model.text("provider_id"), "openai");
    assert_eq!(model.text("model_id"), "gpt-4o");
    assert_eq!(model.text("response_id"), "chatcmpl-1");
    assert_eq!(model.text("finish_reason"), "stop");
    assert_eq!(model.get("usage.input_tokens"), 100);
    assert_eq!(model.get("usage.output_tokens"), 10);
    assert_eq!(model.payload["gen_ai.agent.name"], "adder");
    let tool = trace.one("tool_result");
    assert_eq!(tool.text("tool_id"), "add");
    assert_eq!(tool.text("tool_call_id"), "call_1");
    assert_eq!(tool.text("tool_type"), "function");
    assert_eq!(tool.get("args"), &json!({"x": 1}));
    assert_eq!(tool.text("result"), "2");
    assert_eq!(tool.text("outcome"), "ok");
    // What hangs from what is as the library said.
    assert_eq!(model.parent_span_id, start.span_id);
    assert_eq!(tool.parent_span_id, start.span_id);
    assert_eq!(
        trace.one("session_end").get("totals.usage.input_tokens"),
        100
    );
    assert_eq!(recording.guard.health().failed, 0);
}

#[test]
fn an_operation_that_is_recorded_late_says_what_the_span_is() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_late", "a").start();
        let _in_run = run.enter();
        let span = info_span!(
            "work",
            gen_ai.operation.name = Empty,
            gen_ai.tool.name = Empty
        );
        // As with `#[instrument]`, where a function records it when it has begun.
        let _in_span = span.enter();
        span.record("gen_ai.tool.name", "grep");
        assert!(recording.trace().all("tool_call").is_empty());
        span.record("gen_ai.operation.name", "execute_tool");
        assert_eq!(recording.trace().one("tool_call").text("tool_id"), "grep");
    });
    assert_eq!(recording.trace().one("tool_result").text("tool_id"), "grep");
}

#[test]
fn a_span_that_never_says_its_operation_is_what_its_name_begins_with() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_name", "a").start();
        let _in_run = run.enter();
        drop(info_span!(
            "execute_tool grep",
            gen_ai.operation.name = Empty
        ));
        drop(info_span!("something", gen_ai.operation.name = Empty));
    });
    let trace = recording.trace();
    assert_eq!(trace.all("tool_result").len(), 1);
    assert_eq!(trace.one("span_end").text("name"), "something");
}

#[test]
fn what_happens_inside_a_span_that_has_not_said_what_it_is_opens_it_first() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_inside", "a").start();
        let _in_run = run.enter();
        let outer = info_span!("outer", gen_ai.operation.name = Empty);
        let _in_outer = outer.enter();
        drop(spans::tool_call("bash", "c1").start());
        outer.record("gen_ai.operation.name", "chat");
    });
    let trace = recording.trace();
    let outer = trace.one("span_start");
    assert_eq!(trace.one("tool_call").parent_span_id, outer.span_id);
    assert!(trace.all("model_call").is_empty());
}

#[test]
fn operations_without_a_kind_of_their_own_are_spans_under_their_own_name() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        drop(info_span!(
            target: "rig::modalities",
            "rerank",
            gen_ai.operation.name = "rerank",
            gen_ai.request.model = "rerank-3",
            gen_ai.usage.input_tokens = 7,
        ));
    });
    let trace = recording.trace();
    let span = trace.one("span_end");
    assert_eq!(span.text("name"), "rerank");
    assert_eq!(
        span.get("fields"),
        &json!({"gen_ai.operation.name": "rerank", "gen_ai.request.model": "rerank-3", "gen_ai.usage.input_tokens": 7})
    );
    assert_eq!(span.parent_span_id, trace.one("session_start").span_id);
}

#[test]
fn an_operation_that_is_a_model_call_but_no_chat_keeps_its_name() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = info_span!(
            "w",
            gen_ai.operation.name = "invoke_workflow",
            gen_ai.workflow.name = "nightly"
        );
        let _in_agent = agent.enter();
        drop(info_span!(
            "embeddings",
            gen_ai.operation.name = "embeddings",
            gen_ai.request.model = "e-3"
        ));
    });
    let trace = recording.trace();
    let operation = |line: &Line| line.payload["gen_ai.operation.name"].clone();
    assert_eq!(trace.one("session_start").text("agent"), "nightly");
    assert_eq!(operation(trace.one("session_start")), "invoke_workflow");
    assert_eq!(operation(trace.one("model_result")), "embeddings");
}

#[test]
fn names_of_older_versions_of_the_conventions_are_understood() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        drop(info_span!(
            "chat old",
            gen_ai.operation.name = "chat",
            gen_ai.system = "anthropic",
            gen_ai.request.model = "claude",
            gen_ai.request.max_tokens = 64,
            gen_ai.request.top_p = 0.5,
            gen_ai.usage.prompt_tokens = 11,
            gen_ai.usage.completion_tokens = 12,
            gen_ai.usage.cache_read_input_tokens = 3,
            gen_ai.usage.cache_creation_input_tokens = 4,
            gen_ai.usage.reasoning_tokens = 5,
            gen_ai.response.finish_reasons = r#"["length"]"#,
        ));
        drop(info_span!(
            "chat newer",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = "openai",
            gen_ai.usage.cache_creation.input_tokens = 4,
            gen_ai.usage.cache_read.input_tokens = 3,
        ));
        drop(info_span!(
            "chat newest",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = "google",
            gen_ai.usage.cache_write.input_tokens = 4,
            gen_ai.usage.reasoning.output_tokens = 5,
        ));
    });
    let trace = recording.trace();
    let old = trace.find("model_result", "provider_id", "anthropic");
    assert_eq!(old.text("model_id"), "claude");
    assert_eq!(old.get("max_tokens"), 64);
    assert_eq!(old.text("finish_reason"), "length");
    assert_eq!(old.payload["gen_ai.request.top_p"], 0.5);
    assert_eq!(
        old.get("usage"),
        &json!({"input_tokens": 11, "output_tokens": 12, "reasoning_tokens": 5, "cache_read_tokens": 3, "cache_write_tokens": 4})
    );
    let newer = trace.find("model_result", "provider_id", "openai");
    assert_eq!(
        newer.get("usage"),
        &json!({"cache_read_tokens": 3, "cache_write_tokens": 4})
    );
    let newest = trace.find("model_result", "provider_id", "google");
    assert_eq!(
        newest.get("usage"),
        &json!({"reasoning_tokens": 5, "cache_write_tokens": 4})
    );
}

#[test]
fn a_run_is_the_session_that_its_conversation_names() {
    let recording = Recording::new();
    recording.run(|| {
        for _ in 0..2 {
            let agent = info_span!(
                "invoke_agent a",
                gen_ai.operation.name = "invoke_agent",
                gen_ai.conversation.id = "conv-7"
            );
            drop(agent);
        }
        let late = info_span!(
            "invoke_agent b",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.conversation.id = Empty
        );
        late.record("gen_ai.conversation.id", "conv-8");
    });
    let trace = recording.trace();
    let kinds = [
        "segment",
        "session_start",
        "session_end",
        "session_resume",
        "session_end",
    ];
    assert_eq!(trace.kinds("conv-7"), kinds);
    assert_eq!(trace.kinds("conv-8"), kinds[..3]);
}

#[test]
fn an_agent_inside_a_session_is_a_run_of_that_session() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_outer", "outer").start();
        let _in_run = run.enter();
        let agent = info_span!(
            "invoke_agent x",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.agent.name = "x"
        );
        let _in_agent = agent.enter();
        call(&[text("user", "hi")], Some("hello"));
    });
    let trace = recording.trace();
    assert_eq!(only_session(&trace), "ses_outer");
    let inner = trace.one("session_resume");
    assert_eq!(inner.parent_span_id, trace.one("session_start").span_id);
    assert_eq!(trace.one("model_call").parent_span_id, inner.span_id);
    let end = trace.find("session_end", "agent", "outer");
    assert_eq!(end.get("totals.usage.input_tokens"), 100, "counted once");
}

#[test]
fn calls_inside_a_run_of_ours_belong_to_it_and_are_recorded_once() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_ours", "ours").start();
        let _in_run = run.enter();
        let turn = spans::session_turn().start();
        let _in_turn = turn.enter();
        call(&[text("user", "hi")], Some("hello"));
        tool("add", "c1");
    });
    let trace = recording.trace();
    assert_eq!(only_session(&trace), "ses_ours");
    let turn = trace.one("turn_start");
    assert_eq!(trace.one("model_result").parent_span_id, turn.span_id);
    assert_eq!(trace.one("tool_result").parent_span_id, turn.span_id);
    assert_eq!(
        turn.payload.get("synthetic"),
        None,
        "the turn there is enough"
    );
    assert_eq!(trace.one("tool_result").turn, Some(1));
}

#[test]
fn a_span_of_our_own_shape_wins() {
    let recording = Recording::new();
    recording.run(|| {
        drop(info_span!(
            "tool.call",
            tool_id = "bash",
            gen_ai.operation.name = "chat"
        ));
    });
    let trace = recording.trace();
    let tool = trace.one("tool_result");
    assert_eq!(tool.text("tool_id"), "bash");
    assert_eq!(tool.payload["gen_ai.operation.name"], "chat");
}

#[test]
fn calls_under_one_request_share_a_session_that_its_end_brings_to_rest() {
    let recording = Recording::new();
    recording.run(|| {
        for request in ["one", "two"] {
            let request = info_span!("request", path = request);
            let _in_request = request.enter();
            call(&[text("user", "hi")], Some("a tool"));
            tool("add", "c1");
            call(
                &[
                    text("user", "hi"),
                    text("assistant", "a tool"),
                    text("user", "2"),
                ],
                Some("two"),
            );
        }
    });
    let trace = recording.trace();
    assert_eq!(trace.sessions.len(), 2);
    for lines in trace.sessions.values() {
        let of = |kind: &str| lines.iter().filter(|l| l.kind == kind).count();
        assert_eq!((of("model_result"), of("tool_result")), (2, 1));
        assert_eq!((of("turn_start"), of("turn_end")), (2, 2));
        let spans = lines.iter().filter_map(|line| line.trace_id.as_deref());
        assert!(spans.collect::<std::collections::HashSet<_>>().len() == 1);
        assert_eq!(lines.last().unwrap().kind, "turn_end");
    }
}

#[test]
fn a_turn_is_made_up_from_one_model_call_to_the_next() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("adder");
        let _in_agent = agent.enter();
        call(&[text("user", "a")], Some("b"));
        tool("add", "c1");
        call(
            &[text("user", "a"), text("assistant", "b"), text("user", "c")],
            Some("d"),
        );
    });
    let trace = recording.trace();
    let told: Vec<_> = trace
        .session(only_session(&trace))
        .iter()
        .filter(|line| line.kind != "span_update" && line.kind != "segment")
        .map(|line| (line.kind.as_str(), line.turn))
        .collect();
    assert_eq!(
        told,
        [
            ("session_start", None),
            ("turn_start", Some(1)),
            ("model_call", Some(1)),
            ("message_user", Some(1)),
            ("message_assistant", Some(1)),
            ("model_result", Some(1)),
            ("tool_call", Some(1)),
            ("tool_result", Some(1)),
            ("turn_end", Some(1)),
            ("turn_start", Some(2)),
            ("model_call", Some(2)),
            ("message_user", Some(2)),
            ("message_assistant", Some(2)),
            ("model_result", Some(2)),
            ("turn_end", Some(2)),
            ("session_end", None),
        ]
    );
    let run = &trace.one("session_start").span_id;
    for turn in trace.all("turn_end") {
        assert_eq!(turn.get("synthetic"), true);
        assert_eq!(&turn.parent_span_id, run);
    }
}

#[test]
fn a_call_that_got_no_answer_and_is_tried_again_is_one_turn_and_tells_its_messages_once() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        call(&[text("user", "a")], None);
        call(&[text("user", "a")], Some("b"));
    });
    let trace = recording.trace();
    assert_eq!(trace.all("model_result").len(), 2);
    assert_eq!(trace.all("turn_end").len(), 1);
    assert_eq!(messages(&trace), [("user", "a"), ("assistant", "b")]);
}

#[test]
fn each_message_is_told_once_though_every_call_repeats_the_history() {
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
fn a_question_asked_again_in_a_conversation_of_its_own_is_told_again() {
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
fn parts_of_a_message_that_are_no_text_are_kept() {
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
fn instructions_and_tool_definitions_are_told_once_and_stamp_the_calls() {
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
fn content_in_a_shape_that_nobody_knows_is_kept_as_it_is() {
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
fn a_tool_that_failed_says_so() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        let failed = execute_tool();
        failed.record("gen_ai.tool.name", "divide");
        failed.record("gen_ai.tool.call.outcome", "error");
        failed.record("gen_ai.tool.error.type", "other");
        let denied = execute_tool();
        denied.record("gen_ai.tool.name", "rm");
        denied.record("gen_ai.tool.call.outcome", "denied");
        let skipped = execute_tool();
        skipped.record("gen_ai.tool.name", "sleep");
        skipped.record("gen_ai.tool.call.outcome", "skipped");
    });
    let trace = recording.trace();
    let failed = trace.find("tool_result", "tool_id", "divide");
    assert_eq!(failed.text("outcome"), "error");
    assert_eq!(failed.text("error.error_type"), "other");
    let denied = trace.find("tool_result", "tool_id", "rm");
    assert_eq!(denied.text("outcome"), "denied");
    let skipped = trace.find("tool_result", "tool_id", "sleep");
    assert_eq!(skipped.text("outcome"), "unset");
    assert_eq!(skipped.payload["gen_ai.tool.call.outcome"], "skipped");
}

#[test]
fn what_the_conventions_say_of_an_error_is_the_spans_error() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        drop(info_span!(
            "chat m",
            gen_ai.operation.name = "chat",
            error.type = "rate_limit",
            error.message = "too many"
        ));
        drop(info_span!(
            "chat n",
            gen_ai.operation.name = "chat",
            otel.status_code = "OK"
        ));
    });
    let trace = recording.trace();
    let failed = trace.find("model_result", "outcome", "error");
    assert_eq!(
        failed.get("error"),
        &json!({"error_type": "rate_limit", "message": "too many"})
    );
    trace.find("model_result", "outcome", "ok");
}

#[test]
fn secrets_in_what_a_library_records_are_masked() {
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

#[test]
fn it_can_be_switched_off() {
    let recording = Recording::with(|builder| builder.recognise_gen_ai(false));
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        call(&[text("user", "hi")], Some("hello"));
    });
    assert!(recording.trace().sessions.is_empty());
}

#[test]
fn a_level_below_what_is_carried_on_makes_no_difference() {
    let recording = Recording::new();
    recording.run(|| {
        drop(tracing::debug_span!(
            "chat m",
            gen_ai.operation.name = "chat"
        ));
    });
    recording.trace().one("model_result");
}

#[test]
fn a_span_that_is_recognised_can_be_finished_and_recorded_on_like_ours() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        let tool = execute_tool();
        tool.record("gen_ai.tool.name", "bash");
        tool.record_result("done");
        tool.finish(Outcome::Ok);
        assert_eq!(recording.trace().one("tool_result").text("result"), "done");
    });
    assert_eq!(recording.trace().one("tool_result").text("outcome"), "ok");
}

#[test]
fn a_rule_maps_names_and_fields_of_a_library() {
    let recording = Recording::with(|builder| {
        let library = "recognise::library";
        builder
            .recognise(Rule::run("agent.query").target(library))
            .recognise(
                Rule::tool_call("tool")
                    .target(library)
                    .declares("otel.name")
                    .field_after("otel.name", "tool.", "tool_id")
                    .field("input", "args"),
            )
            .recognise(Rule::model_call("complete").field("model", "model_id"))
    });
    recording.run(|| {
        let query = info_span!(target: "recognise::library::agents", "agent.query");
        let _in_query = query.enter();
        drop(info_span!(
            "complete",
            model = "m-1",
            gen_ai.usage.input_tokens = 3
        ));
        let tool =
            info_span!(target: "recognise::library", "tool", otel.name = Empty, input = Empty);
        tool.record("input", r#"{"q":1}"#);
        tool.record("otel.name", "tool.search");
        drop(tool);
        // Neither of these is the library's.
        drop(info_span!(target: "recognise::library", "tool"));
        drop(info_span!(target: "recognise::library2", "tool", otel.name = "tool.other"));
    });
    let trace = recording.trace();
    let run = trace.one("session_start");
    let tool = trace.one("tool_call");
    assert_eq!(tool.text("tool_id"), "search");
    assert_eq!(tool.get("args"), &json!({"q": 1}));
    assert_eq!(tool.parent_span_id, run.span_id);
    let call = trace.one("model_result");
    assert_eq!(call.text("model_id"), "m-1");
    assert_eq!(call.get("usage.input_tokens"), 3);
    assert!(trace.all("span_end").is_empty());
}
