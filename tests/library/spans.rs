//! The six spans: macros and constructors give the same lines, and each field is written in time.

use serde_json::{Value, json};
use spanledger::{SpanExt, Usage, spans};
use tracing::field::Empty;
use tracing::info_span;

use crate::support::{LineExt, Recording};

/// The lines that an agent leaves behind, without ids and times.
fn recorded(agent: impl FnOnce()) -> Vec<(String, Option<u32>, Value)> {
    let recording = Recording::new();
    recording.run(agent);
    let trace = recording.trace();
    assert!(trace.damage.is_empty(), "{:?}", trace.damage);
    trace.without_run_details()
}

/// The five counts of the flat fields, and the cost.
fn usage() -> Usage {
    Usage {
        input_tokens: Some(900),
        output_tokens: Some(40),
        reasoning_tokens: Some(12),
        cache_read_tokens: Some(800),
        cache_write_tokens: Some(7),
        cost_usd: Some(0.25),
        ..Usage::default()
    }
}

fn usage_json() -> Value {
    json!({
        "input_tokens": 900, "output_tokens": 40, "reasoning_tokens": 12,
        "cache_read_tokens": 800, "cache_write_tokens": 7, "cost_usd": 0.25,
    })
}

#[test]
fn plain_tool_call_macro_gives_two_lines() {
    let recording = Recording::new();
    recording.run(|| {
        let _tool = info_span!("tool.call", tool_id = "bash", tool_call_id = "c1").entered();
    });
    let trace = recording.trace();
    let (open, close) = (trace.one("tool_call"), trace.one("tool_result"));
    assert_eq!(open.text("tool_id"), "bash");
    assert_eq!(close.text("tool_call_id"), "c1");
    assert_eq!(open.span_id, close.span_id);
    assert_eq!(close.text("outcome"), "unset");
    assert!(close.get("duration_ns").is_u64());
    assert_eq!(recording.guard.health().orphaned, 2);
}

#[test]
fn session_run_by_macro_equals_constructor() {
    let by_macro = recorded(|| {
        let run = info_span!(
            "session.run",
            session_id = "ses_1",
            agent = "planner",
            model_id = "sonnet",
            provider_id = "anthropic",
            variant = "high",
            temperature = 0.5,
            workspace_root = "/src",
            title = "Fix it",
            cost_usd = Empty,
            stop_reason = Empty,
        );
        run.record("cost_usd", 1.5);
        run.record("stop_reason", "done");
    });
    let by_constructor = recorded(|| {
        let run = spans::session_run("ses_1", "planner")
            .model("anthropic", "sonnet")
            .variant("high")
            .temperature(0.5)
            .workspace_root("/src")
            .title("Fix it")
            .start();
        run.record_usage(&Usage {
            cost_usd: Some(1.5),
            ..Usage::default()
        });
        run.set("stop_reason", "done");
    });
    assert_eq!(by_macro, by_constructor);
    let kinds: Vec<_> = by_macro.iter().map(|(kind, ..)| kind.as_str()).collect();
    assert_eq!(
        kinds,
        ["session_start", "span_update", "span_update", "session_end"]
    );
    let (.., close) = &by_macro[3];
    for (field, value) in [
        ("session_id", json!("ses_1")),
        ("agent", json!("planner")),
        ("model_id", json!("sonnet")),
        ("provider_id", json!("anthropic")),
        ("variant", json!("high")),
        ("temperature", json!(0.5)),
        ("workspace_root", json!("/src")),
        ("title", json!("Fix it")),
        ("stop_reason", json!("done")),
        ("usage", json!({"cost_usd": 1.5})),
    ] {
        assert_eq!(close[field], value, "{field}");
    }
    assert!(close["process"]["pid"].is_u64());
}

#[test]
fn session_turn_by_macro_equals_constructor() {
    let by_macro = recorded(|| {
        let _run = info_span!("session.run", session_id = "s").entered();
        let turn = info_span!(
            "session.turn",
            turn_index = 3,
            input_tokens = 900,
            output_tokens = 40,
            reasoning_tokens = 12,
            cache_read_tokens = 800,
            cache_write_tokens = 7,
            cost_usd = 0.25,
            stop_reason = Empty,
        );
        turn.record("stop_reason", "end_turn");
    });
    let by_constructor = recorded(|| {
        let _run = info_span!("session.run", session_id = "s").entered();
        let turn = spans::session_turn().turn_index(3).usage(&usage()).start();
        turn.set("stop_reason", "end_turn");
    });
    assert_eq!(by_macro, by_constructor);
    let (kind, turn, close) = &by_macro[3];
    assert_eq!((kind.as_str(), *turn), ("turn_end", Some(3)));
    assert_eq!(close["usage"], usage_json());
    assert_eq!(close["stop_reason"], "end_turn");
    assert_eq!(close.get("input_tokens"), None);
}

#[test]
fn model_call_by_macro_equals_constructor() {
    let by_macro = recorded(|| {
        let call = info_span!(
            "model.call",
            provider_id = "anthropic",
            model_id = "sonnet",
            variant = "high",
            temperature = 0.5,
            max_tokens = 4096,
            input_tokens = Empty,
            output_tokens = Empty,
            reasoning_tokens = Empty,
            cache_read_tokens = Empty,
            cache_write_tokens = Empty,
            cost_usd = Empty,
            finish_reason = Empty,
            response_id = Empty,
        );
        call.record("input_tokens", 900);
        call.record("output_tokens", 40);
        call.record("reasoning_tokens", 12);
        call.record("cache_read_tokens", 800);
        call.record("cache_write_tokens", 7);
        call.record("cost_usd", 0.25);
        call.record("finish_reason", "stop");
        call.record("response_id", "r1");
    });
    let by_constructor = recorded(|| {
        let call = spans::model_call("anthropic", "sonnet")
            .variant("high")
            .temperature(0.5)
            .max_tokens(4096)
            .start();
        call.record_usage(&usage());
        call.set("finish_reason", "stop");
        call.set("response_id", "r1");
    });
    assert_eq!(by_macro, by_constructor);
    let kinds: Vec<_> = by_macro.iter().map(|(kind, ..)| kind.as_str()).collect();
    assert_eq!(kinds, ["model_call", "model_result"]);
    let (.., close) = &by_macro[1];
    assert_eq!(close["usage"], usage_json());
    assert_eq!(close["max_tokens"], 4096);
    assert_eq!(close["finish_reason"], "stop");
    assert_eq!(close["response_id"], "r1");
}

#[test]
fn tool_call_by_macro_equals_constructor() {
    let by_macro = recorded(|| {
        let tool = info_span!(
            "tool.call",
            tool_id = "bash",
            tool_call_id = "c1",
            tool_type = "function",
            args = r#"{"command":"ls","deep":[1,{"a":null}]}"#,
            result = Empty,
            exit_code = Empty,
            truncated = Empty,
            error = Empty,
        );
        tool.record("result", r#"{"hits":3}"#);
        tool.record("exit_code", 2);
        tool.record("truncated", true);
        tool.record("error", "no such file");
    });
    let by_constructor = recorded(|| {
        let tool = spans::tool_call("bash", "c1")
            .tool_type("function")
            .args(json!({"command": "ls", "deep": [1, {"a": null}]}))
            .start();
        tool.record_result(&json!({"hits": 3}));
        tool.set("exit_code", 2);
        tool.set("truncated", true);
        tool.set("error", "no such file");
    });
    assert_eq!(by_macro, by_constructor);
    let (kind, _, close) = &by_macro[1];
    assert_eq!(kind, "tool_result");
    assert_eq!(close["args"]["deep"], json!([1, {"a": null}]));
    assert_eq!(close["result"], json!({"hits": 3}));
    assert_eq!(close["exit_code"], 2);
    assert_eq!(close["truncated"], true);
    assert_eq!(close["error"], json!({"message": "no such file"}));
    assert_eq!(close["outcome"], "error");
}

#[test]
fn plain_text_args_and_results_stay_text() {
    let by_macro = recorded(|| {
        drop(info_span!(
            "tool.call",
            tool_id = "bash",
            tool_call_id = "c1",
            args = "ls -l",
            result = "{ not json"
        ));
    });
    let by_constructor = recorded(|| {
        let tool = spans::tool_call("bash", "c1").args("ls -l");
        drop(tool.set("result", "{ not json").start());
    });
    assert_eq!(by_macro, by_constructor);
    assert_eq!(by_macro[1].2["args"], "ls -l");
    assert_eq!(by_macro[1].2["result"], "{ not json");
}

#[test]
fn permission_evaluate_by_macro_equals_constructor() {
    let by_macro = recorded(|| {
        let permission = info_span!(
            "permission.evaluate",
            tool_id = "bash",
            tool_call_id = "c1",
            pattern = "rm *",
            action = Empty,
            source = Empty,
            rule = Empty,
        );
        permission.record("action", "deny");
        permission.record("source", "project");
        permission.record("rule", r#"{"pattern":"rm *","action":"deny"}"#);
    });
    let by_constructor = recorded(|| {
        let permission = spans::permission_evaluate("bash")
            .tool_call_id("c1")
            .pattern("rm *")
            .start();
        permission.set("action", "deny");
        permission.set("source", "project");
        permission.set("rule", json!({"pattern": "rm *", "action": "deny"}));
    });
    assert_eq!(by_macro, by_constructor);
    let kinds: Vec<_> = by_macro.iter().map(|(kind, ..)| kind.as_str()).collect();
    assert_eq!(kinds, ["permission_request", "permission_evaluate"]);
    let (.., close) = &by_macro[1];
    assert_eq!(close["rule"]["pattern"], "rm *");
    assert_eq!(close["outcome"], "denied");
}

#[test]
fn compaction_run_by_macro_equals_constructor() {
    let by_macro = recorded(|| {
        let compaction = info_span!(
            "compaction.run",
            session_id = "s",
            auto = true,
            tail_start_id = "msg_9",
            summarized_message_count = Empty,
            input_tokens = Empty,
            output_tokens = Empty,
            summary = Empty,
        );
        compaction.record("summarized_message_count", 42);
        compaction.record("input_tokens", 5000);
        compaction.record("output_tokens", 300);
        compaction.record("summary", "so far");
    });
    let by_constructor = recorded(|| {
        let compaction = spans::compaction_run()
            .set("session_id", "s")
            .auto(true)
            .tail_start_id("msg_9")
            .start();
        compaction.set("summarized_message_count", 42);
        compaction.set("input_tokens", 5000);
        compaction.set("output_tokens", 300);
        compaction.set("summary", "so far");
    });
    assert_eq!(by_macro, by_constructor);
    let kinds: Vec<_> = by_macro.iter().map(|(kind, ..)| kind.as_str()).collect();
    assert_eq!(kinds, ["compaction_start", "context_compaction"]);
    let (.., close) = &by_macro[1];
    assert_eq!(close["input_tokens"], 5000);
    assert_eq!(close["output_tokens"], 300);
    assert_eq!(close.get("usage"), None);
    assert_eq!(close["auto"], true);
}

#[test]
fn late_inputs_and_unknown_fields_are_written_at_once() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = info_span!("tool.call", tool_id = "bash", args = Empty, shard = Empty);
        tool.record("args", r#"{"command":"ls"}"#);
        tool.record("shard", 7);
        let trace = recording.trace();
        let updates = trace.all("span_update");
        assert_eq!(updates.len(), 2);
        assert_eq!(updates[0].get("args.command"), "ls");
        assert_eq!(updates[1].get("shard"), 7);
        assert_eq!(updates[0].span_id, trace.one("tool_call").span_id);
    });
    let trace = recording.trace();
    let close = trace.one("tool_result");
    assert_eq!(close.get("args.command"), "ls");
    assert_eq!(close.get("shard"), 7);
}

#[test]
fn tool_outputs_are_on_the_close_line_only() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = spans::tool_call("bash", "c1").start();
        tool.record_result("done");
        tool.set("exit_code", 0);
        tool.set("stdout", "done");
    });
    let trace = recording.trace();
    assert!(trace.all("span_update").is_empty());
    assert_eq!(trace.one("tool_call").get("result"), &Value::Null);
    assert_eq!(trace.one("tool_result").text("result"), "done");
}

#[test]
fn run_and_turn_outputs_are_written_at_once() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        let turn = run.in_scope(|| spans::session_turn().start());
        turn.record_usage(&usage());
        turn.set("stop_reason", "end_turn");
        run.set("stop_reason", "done");
        let trace = recording.trace();
        let updates = trace.all("span_update");
        assert_eq!(updates[0].payload["usage"], usage_json());
        assert_eq!(updates[1].text("stop_reason"), "end_turn");
        assert_eq!(updates[1].turn, Some(1));
        assert_eq!(updates[2].text("stop_reason"), "done");
        assert_eq!(updates[2].turn, None);
    });
}

#[test]
fn usage_field_that_is_no_number_is_kept() {
    let lines = recorded(|| {
        drop(info_span!(
            "model.call",
            model_id = "m",
            input_tokens = "many"
        ))
    });
    assert_eq!(lines[1].2["input_tokens"], "many");
    assert_eq!(lines[1].2.get("usage"), None);
}

#[test]
fn usage_object_equals_flat_fields() {
    let flat = recorded(|| {
        let call = spans::model_call("anthropic", "sonnet").start();
        call.record_usage(&usage());
    });
    let whole = recorded(|| {
        let call = spans::model_call("anthropic", "sonnet").start();
        call.set("usage", usage_json());
    });
    let at_open = recorded(|| {
        let call = spans::model_call("anthropic", "sonnet");
        drop(call.set("usage", usage_json()).start());
    });
    assert_eq!(flat, whole);
    assert_eq!(at_open[1].2["usage"], usage_json());
}

#[test]
fn unknown_usage_members_are_kept_as_details() {
    let lines = recorded(|| {
        let call = spans::model_call("anthropic", "sonnet").start();
        call.set("usage", json!({"input_tokens": 9, "service_tier": "batch"}));
    });
    assert_eq!(
        lines[1].2["usage"],
        json!({"input_tokens": 9, "usage_details": {"service_tier": "batch"}})
    );
}
