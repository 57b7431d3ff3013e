//! One event of every kind.

use serde_json::{Value, json};
use spanledger::events::{self, Event};
use spanledger::{Failure, Usage};

/// Every kind that an agent can write, with all its fields, and the payload it must become.
pub fn every_event() -> Vec<(&'static str, Event, Value)> {
    let sha = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let mut all: Vec<(&'static str, Event, Value)> = Vec::new();
    let mut kind = |kind, event: Event, payload| all.push((kind, event, payload));
    kind(
        "session_title",
        events::session_title("Fix the build").into(),
        json!({"title": "Fix the build"}),
    );
    kind(
        "session_update",
        events::session_update()
            .model_id("opus")
            .provider_id("anthropic")
            .variant("high")
            .temperature(0.5)
            .archived_at("2026-01-01T00:00:00Z")
            .metadata(json!({"a": [1]}))
            .into(),
        json!({"model_id": "opus", "provider_id": "anthropic", "variant": "high",
            "temperature": 0.5, "archived_at": "2026-01-01T00:00:00Z", "metadata": {"a": [1]}}),
    );
    kind(
        "session_status",
        events::session_status("retrying")
            .attempt(2)
            .message("overloaded")
            .next_at("2026-01-01T00:00:00Z")
            .into(),
        json!({"status": "retrying", "attempt": 2, "message": "overloaded",
            "next_at": "2026-01-01T00:00:00Z"}),
    );
    kind(
        "message_user",
        events::message_user("Why?")
            .message_id("m1")
            .parts(json!([{"type": "text", "text": "Why?"}]))
            .attachments(json!([{"name": "a.png", "bytes": 3}]))
            .queued_at("2026-01-01T00:00:00Z")
            .trigger("user")
            .snapshot_id("snap_1")
            .replaces("m0")
            .metadata(json!({"k": "v"}))
            .into(),
        json!({"content": "Why?", "message_id": "m1", "parts": [{"type": "text", "text": "Why?"}],
            "attachments": [{"name": "a.png", "bytes": 3}], "queued_at": "2026-01-01T00:00:00Z",
            "trigger": "user", "snapshot_id": "snap_1", "replaces": "m0", "metadata": {"k": "v"}}),
    );
    kind(
        "message_assistant",
        events::message_assistant("Because")
            .message_id("m2")
            .parts(json!([]))
            .part_index(1)
            .attachments(json!([]))
            .complete(false)
            .abort_reason("stopped")
            .replaces("m0")
            .metadata(json!({}))
            .into(),
        json!({"content": "Because", "message_id": "m2", "parts": [], "part_index": 1,
            "attachments": [], "complete": false, "abort_reason": "stopped", "replaces": "m0",
            "metadata": {}}),
    );
    kind(
        "message_reasoning",
        events::message_reasoning("Hm")
            .message_id("m2")
            .part_index(0)
            .parts(json!([]))
            .complete(true)
            .metadata(json!({"signature": "x"}))
            .into(),
        json!({"content": "Hm", "message_id": "m2", "part_index": 0, "parts": [],
            "complete": true, "metadata": {"signature": "x"}}),
    );
    kind(
        "message_system",
        events::message_system("Be brief")
            .message_id("m0")
            .parts(json!([]))
            .metadata(json!({}))
            .into(),
        json!({"content": "Be brief", "message_id": "m0", "parts": [], "metadata": {}}),
    );
    kind(
        "message_delta",
        events::message_delta("m2", "Be")
            .part_index(1)
            .offset(0)
            .into(),
        json!({"message_id": "m2", "text": "Be", "part_index": 1, "offset": 0}),
    );
    kind(
        "tool_input_delta",
        events::tool_input_delta("c1", "{\"a")
            .part_index(1)
            .offset(9)
            .into(),
        json!({"tool_call_id": "c1", "text": "{\"a", "part_index": 1, "offset": 9}),
    );
    kind(
        "model_usage",
        events::model_usage(&Usage {
            input_tokens: Some(10),
            output_tokens: Some(3),
            cost_usd: Some(0.5),
            usage_details: Some(json!({"service_tier": "batch"})),
            ..Usage::default()
        }),
        json!({"input_tokens": 10, "output_tokens": 3, "cost_usd": 0.5, "usage_details": {"service_tier": "batch"}}),
    );
    kind(
        "hitl_request",
        events::hitl_request("int_1")
            .pending(json!({"tool": "bash"}))
            .tool_id("bash")
            .tool_call_id("c1")
            .options(json!(["allow", "deny"]))
            .into(),
        json!({"interrupt_id": "int_1", "pending": {"tool": "bash"}, "tool_id": "bash",
            "tool_call_id": "c1", "options": ["allow", "deny"]}),
    );
    kind(
        "hitl_response",
        events::hitl_response("int_1")
            .decision("allow_once")
            .decided_by("ada")
            .payload(json!({"note": 1}))
            .into(),
        json!({"interrupt_id": "int_1", "decision": "allow_once", "decided_by": "ada",
            "payload": {"note": 1}}),
    );
    kind(
        "artifact",
        events::artifact("plot.png")
            .mime("image/png")
            .caption("Loss")
            .tool_call_id("c1")
            .format("png")
            .size_px(json!([640, 480]))
            .dpi(150)
            .slot("figure-1")
            .source_code("plot()")
            .sha256(sha)
            .bytes(1234)
            .blob(sha)
            .into(),
        json!({"path": "plot.png", "mime": "image/png", "caption": "Loss", "tool_call_id": "c1",
            "format": "png", "size_px": [640, 480], "dpi": 150, "slot": "figure-1",
            "source_code": "plot()", "sha256": sha, "bytes": 1234, "blob": sha}),
    );
    kind(
        "attempt",
        events::attempt("a2")
            .parent_id("a1")
            .rationale("smaller steps")
            .parameters_changed(json!({"lr": 0.1}))
            .metrics(json!({"loss": 2.5}))
            .candidate_path("c.py")
            .plot_artifact_path("p.png")
            .notes("ok")
            .into(),
        json!({"id": "a2", "parent_id": "a1", "rationale": "smaller steps",
            "parameters_changed": {"lr": 0.1}, "metrics": {"loss": 2.5},
            "candidate_path": "c.py", "plot_artifact_path": "p.png", "notes": "ok"}),
    );
    kind(
        "verdict",
        events::verdict(1, "validation_failed")
            .error("city mismatch")
            .span_id("00f067aa0ba902b7")
            .into(),
        json!({"iteration": 1, "verdict_kind": "validation_failed", "error": "city mismatch",
            "span_id": "00f067aa0ba902b7"}),
    );
    kind(
        "iterate_result",
        events::iterate_result("accepted")
            .kind("fill")
            .prompt("produce it")
            .iterations(2)
            .max_iterations(3)
            .artifact(json!({"rows": 1}))
            .grounded(true)
            .daemon("validatord")
            .into(),
        json!({"final_verdict": "accepted", "kind": "fill", "prompt": "produce it",
            "iterations": 2, "max_iterations": 3, "artifact": {"rows": 1}, "grounded": true,
            "daemon": "validatord"}),
    );
    kind(
        "state_update",
        events::state_update()
            .state(json!({"step": 2}))
            .diff(json!([{"op": "add"}]))
            .into(),
        json!({"state": {"step": 2}, "diff": [{"op": "add"}]}),
    );
    kind(
        "error",
        events::failure(&Failure::new("Timeout", "too slow").details(json!({"after": 5}))),
        json!({"error": {"error_type": "Timeout", "message": "too slow", "details": {"after": 5}}}),
    );
    kind(
        "loop_warning",
        events::loop_warning("bash ls", 3)
            .verdict("polling")
            .window_size(20)
            .evidence(json!(["1:4", "1:9"]))
            .into(),
        json!({"pattern": "bash ls", "repetitions": 3, "verdict": "polling", "window_size": 20,
            "evidence": ["1:4", "1:9"]}),
    );
    kind(
        "rewind",
        events::rewind("m1")
            .hidden_ids(json!(["m2", "m3"]))
            .snapshot_id("snap_1")
            .into(),
        json!({"to_message_id": "m1", "hidden_ids": ["m2", "m3"], "snapshot_id": "snap_1"}),
    );
    kind(
        "branch",
        events::branch("ses_child").message_id("m1").into(),
        json!({"child_session_id": "ses_child", "message_id": "m1"}),
    );
    kind(
        "hook",
        events::hook("tool.before", "fmt")
            .decision("allow")
            .reason("clean")
            .into(),
        json!({"point": "tool.before", "name": "fmt", "decision": "allow", "reason": "clean"}),
    );
    kind(
        "client_attach",
        events::client_attach("zed").into(),
        json!({"client": "zed"}),
    );
    kind(
        "client_detach",
        events::client_detach("zed").into(),
        json!({"client": "zed"}),
    );
    kind(
        "rpc",
        events::rpc("in", "session/prompt")
            .id(7)
            .params(json!({"a": 1}))
            .result(json!({"b": 2}))
            .error(json!({"code": -32600}))
            .into(),
        json!({"direction": "in", "method": "session/prompt", "id": 7, "params": {"a": 1},
            "result": {"b": 2}, "error": {"code": -32600}}),
    );
    kind(
        "trial",
        events::trial("t1")
            .experiment_id("e1")
            .dataset_id("d1")
            .task_id("k1")
            .task_revision("r1")
            .harness("h")
            .adapter_revision("r2")
            .config(json!({"n": 1}))
            .adaptation(json!({"from": "x"}))
            .into(),
        json!({"trial_id": "t1", "experiment_id": "e1", "dataset_id": "d1", "task_id": "k1",
            "task_revision": "r1", "harness": "h", "adapter_revision": "r2", "config": {"n": 1},
            "adaptation": {"from": "x"}}),
    );
    kind(
        "environment",
        events::environment()
            .image("rust:1.95")
            .backend("docker")
            .tool_versions(json!({"cargo": "1.95"}))
            .into(),
        json!({"image": "rust:1.95", "backend": "docker", "tool_versions": {"cargo": "1.95"}}),
    );
    kind(
        "input_file",
        events::input_file("in.csv").sha256(sha).bytes(9).into(),
        json!({"path": "in.csv", "sha256": sha, "bytes": 9}),
    );
    kind(
        "output",
        events::output().r#final("42").raw(json!({"x": 1})).into(),
        json!({"final": "42", "raw": {"x": 1}}),
    );
    kind(
        "evaluation",
        events::evaluation()
            .scores(json!({"exact": 1}))
            .author("grader")
            .into(),
        json!({"scores": {"exact": 1}, "author": "grader"}),
    );
    kind(
        "annotation",
        events::annotation("1:7", "wrong file").author("ada").into(),
        json!({"target": "1:7", "value": "wrong file", "author": "ada"}),
    );
    kind(
        "phase",
        events::phase("setup")
            .start("2026-01-01T00:00:00Z")
            .end("2026-01-01T00:00:01Z")
            .into(),
        json!({"name": "setup", "start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:00:01Z"}),
    );
    kind(
        "import",
        events::import("claude-code")
            .source_id("abc")
            .raw_blob(sha)
            .into(),
        json!({"format": "claude-code", "source_id": "abc", "raw_blob": sha}),
    );
    all
}
