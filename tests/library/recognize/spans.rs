//! Kinds and field names of recognized spans.

use serde_json::json;
use spanledger::trace::Line;
use spanledger::{Outcome, Rule, SpanExt, spans};
use tracing::field::Empty;
use tracing::info_span;

use crate::support::rig_spans::{call, execute_tool, invoke_agent, only_session, text, tool};
use crate::support::{LineExt, Recording};

#[test]
fn agent_becomes_a_run_with_calls_and_tools() {
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
    // The parents are the library's.
    assert_eq!(model.parent_span_id, start.span_id);
    assert_eq!(tool.parent_span_id, start.span_id);
    assert_eq!(
        trace.one("session_end").get("totals.usage.input_tokens"),
        100
    );
    assert_eq!(recording.guard.health().failed, 0);
}

#[test]
fn late_operation_decides_the_kind() {
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
fn operation_recorded_inside_opens_the_span() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_inside", "a").start();
        let _in_run = run.enter();
        let span = info_span!(
            "work",
            gen_ai.operation.name = Empty,
            gen_ai.tool.name = Empty
        );
        let _in_span = span.enter();
        span.record("gen_ai.operation.name", "execute_tool");
        assert_eq!(recording.trace().all("tool_call").len(), 1);
    });
}

#[test]
fn name_decides_when_no_operation_is_recorded() {
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
fn child_opens_an_undecided_span() {
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
fn other_operations_are_plain_spans() {
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
fn model_operation_other_than_chat_keeps_its_name() {
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
fn older_attribute_names_are_understood() {
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
fn our_own_span_shape_wins() {
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
fn failed_tool_is_an_error() {
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
fn error_attributes_become_the_spans_error() {
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
fn recognition_can_be_disabled() {
    let recording = Recording::with(|builder| builder.recognize_gen_ai(false));
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        call(&[text("user", "hi")], Some("hello"));
    });
    assert!(recording.trace().sessions.is_empty());
}

#[test]
fn debug_level_span_is_recognized() {
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
fn recognized_span_can_be_finished_and_recorded_on() {
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
fn rule_maps_names_and_fields() {
    let recording = Recording::with(|builder| {
        let library = "recognize::library";
        builder
            .recognize(Rule::run("agent.query").target(library))
            .recognize(
                Rule::tool_call("tool")
                    .target(library)
                    .declares("otel.name")
                    .field_after("otel.name", "tool.", "tool_id")
                    .field("input", "args"),
            )
            .recognize(Rule::model_call("complete").field("model", "model_id"))
    });
    recording.run(|| {
        let query = info_span!(target: "recognize::library::agents", "agent.query");
        let _in_query = query.enter();
        drop(info_span!(
            "complete",
            model = "m-1",
            gen_ai.usage.input_tokens = 3
        ));
        let tool =
            info_span!(target: "recognize::library", "tool", otel.name = Empty, input = Empty);
        tool.record("input", r#"{"q":1}"#);
        tool.record("otel.name", "tool.search");
        drop(tool);
        // Neither of these is the library's.
        drop(info_span!(target: "recognize::library", "tool"));
        drop(info_span!(target: "recognize::library2", "tool", otel.name = "tool.other"));
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
