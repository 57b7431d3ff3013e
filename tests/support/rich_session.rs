//! A session that has everything an export may meet.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spanledger::read::session_dir;
use spanledger::{Failure, Outcome, SpanExt, Usage, events, spans};
use tempfile::TempDir;

use super::Recording;

pub const SESSION: &str = "ses_rich";
pub const SUBAGENT: &str = "ses_rich-review";
/// A text with characters that formats may not be able to hold.
pub const HOSTILE: &str = "NUL \0, bell \x07, line\u{2028}separator, \u{85}\u{2029}, \u{1f4a9}, =1+1, ../../etc/passwd, </script>";

/// Records the session, its subagent, and a second segment of lines as other programs could have written them.
pub fn record() -> TempDir {
    let recording = Recording::with(|builder| builder.inline_limit(2048));
    recording.run(|| {
        let run = spans::session_run(SESSION, "planner")
            .model("anthropic", "claude-sonnet-4-5")
            .title("Fix the build")
            .run_name("fill")
            .workspace_root("/home/ada/pump")
            .start();
        run.in_scope(|| {
            events::system_prompt("You are a careful engineer.").emit();
            events::tool_catalog(json!([{"name": "bash", "description": "Run a command", "schema": {"type": "object"}}])).emit();
            in_turn(first_turn);
            in_turn(second_turn);
            trial();
        });
        run.set("stop_reason", "end_turn");
        run.finish(Outcome::Ok);
    });
    let dir = recording.end();
    write_second_segment(&session_dir(dir.path(), SESSION));
    dir
}

pub fn dir(root: &Path) -> PathBuf {
    session_dir(root, SESSION)
}

fn in_turn(work: impl FnOnce()) {
    let turn = spans::session_turn().trigger("user").start();
    turn.in_scope(work);
    turn.set("stop_reason", "end_turn");
    turn.finish(Outcome::Ok);
}

fn model(message: &str, work: impl FnOnce()) {
    let call = spans::model_call("anthropic", "claude-sonnet-4-5")
        .temperature(0.2)
        .set("context_window", 200_000)
        .start();
    call.in_scope(work);
    call.record_usage(&Usage {
        input_tokens: Some(812),
        cache_read_tokens: Some(5),
        output_tokens: Some(31),
        cost_usd: Some(0.01),
        ..Usage::default()
    });
    call.set("message_id", message);
    call.record_finish_reason("tool_use");
    call.finish(Outcome::Ok);
}

fn tool(name: &str, id: &str, args: Value) -> tracing::Span {
    spans::tool_call(name, id).args(args).start()
}

fn first_turn() {
    events::message_user("What is here? \u{1f980}")
        .message_id("msg_1")
        .attachments(json!([{"name": "plan.pdf", "media_type": "application/pdf", "url": "file:///plan.pdf"}]))
        .emit();
    model("msg_2", || {
        events::message_reasoning("List the files first.")
            .message_id("msg_2")
            .emit();
        let mut answer = tracing::Span::current().stream("msg_2");
        answer.push("I list ");
        answer.push("the files.");
        answer.end();
    });
    let list = tool("bash", "call_1", json!({"command": "ls"}));
    list.set("tool_kind", "execute");
    list.set("stdout", "Cargo.toml\n");
    list.record_exit_code(0);
    list.finish(Outcome::Ok);
    // The same id again, and arguments that are no object.
    let again = tool("read", "call_1", json!("Cargo.toml"));
    again.record_result(&json!({"lines": [HOSTILE]}));
    again.finish(Outcome::Ok);
    let rm = tool("bash", "call_2", json!({"command": "rm -rf /"}));
    let permission = spans::permission_evaluate("bash")
        .tool_call_id("call_2")
        .pattern("rm *")
        .child_of(&rm)
        .start();
    permission.record_action("deny", "manifest");
    permission.finish(Outcome::Denied);
    rm.finish(Outcome::Denied);
    let build = tool("bash", "call_3", json!({"command": "cargo build"}));
    build.set("stderr", "error[E0308]");
    build.record_exit_code(101);
    build.record_failure(&Failure::new("ExitStatus", "exit status: 101"));
    build.finish(Outcome::Error);
    let secret = tool(
        "fetch",
        "call_4",
        json!({"api_key": "k-0123456789abcdef", "url": "https://example.com"}),
    );
    secret.record_result(&"case ok\n".repeat(1000));
    secret.finish(Outcome::Ok);
    let mut aborted = tracing::Span::current().stream("msg_3");
    aborted.push("This stops ");
    aborted.abort("user");
    for (iteration, kind, error) in [
        (0, "validation_failed", "consistency: city mismatch"),
        (1, "accepted", ""),
    ] {
        events::verdict(iteration, kind).error(error).emit();
    }
    events::iterate_result("accepted")
        .kind("fill")
        .iterations(2)
        .max_iterations(3)
        .grounded(true)
        .artifact(json!({"a": 1}))
        .emit();
}

fn second_turn() {
    events::rewind("msg_1")
        .hidden_ids(json!(["msg_2", "msg_3"]))
        .emit();
    events::branch("ses_branch").message_id("msg_1").emit();
    events::message_user("Edit it.")
        .message_id("msg_4")
        .replaces("msg_1")
        .emit();
    let compaction = spans::compaction_run().auto(true).start();
    compaction.set("messages_before", 9);
    compaction.set("messages_after", 3);
    compaction.record_summary("The build fails.");
    compaction.finish(Outcome::Ok);
    model("msg_5", || ());
    let edit = tool("edit", "call_5", json!({"path": "src/a.rs"}));
    let ask = spans::permission_evaluate("edit")
        .tool_call_id("call_5")
        .child_of(&edit)
        .start();
    events::hitl_request("int_1")
        .tool_call_id("call_5")
        .on(&ask)
        .emit();
    ask.session().unwrap().record(
        events::hitl_response("int_1")
            .decision("allow_once")
            .decided_by("ada"),
    );
    ask.record_action("ask", "session");
    ask.record_decision("allow_once", "ada");
    ask.finish(Outcome::Ok);
    edit.record_result(&json!({"changed": 1}));
    edit.finish(Outcome::Ok);
    let review = spans::session_run(SUBAGENT, "reviewer")
        .model("anthropic", "claude-haiku-4-5")
        .start();
    review.in_scope(|| {
        in_turn(|| {
            events::message_user("Review it.").emit();
            model("msg_r", || events::message_assistant("It is sound.").emit());
        })
    });
    review.finish(Outcome::Ok);
    events::artifact("flow.png")
        .mime("image/png")
        .caption("The flow")
        .tool_call_id("call_5")
        .emit();
    events::attempt("a1")
        .rationale("Try it")
        .metrics(json!({"loss": 0.5}))
        .emit();
    events::state_update().state(json!({"step": 2})).emit();
    events::loop_warning("bash", 3)
        .window_size(6)
        .evidence(json!(["1:9"]))
        .emit();
    events::rpc("in", "session/cancel")
        .set("params", json!({"sessionId": SESSION}))
        .emit();
    events::custom("weather_report", json!({"sky": "clear"})).emit();
    tracing::error!("The disk is nearly full.");
    events::message_assistant("Done: see flow.png.")
        .message_id("msg_5")
        .emit();
}

fn trial() {
    events::trial("trial_1")
        .experiment_id("exp_1")
        .dataset_id("electrical@1")
        .task_id("task_1")
        .task_revision("sha256:00")
        .harness("tool_loop")
        .adapter_revision("r1")
        .config(json!({"max_turns": 10}))
        .adaptation(json!({
            "family_id": "drop", "seed_task_id": "task_0", "variation_key": "voltage=400",
            "variation": {"voltage": "400"},
            "derivation_lineage": [{"axis": "voltage", "value": "400", "parent_value": "230"}],
        }))
        .emit();
    events::environment()
        .image("python:3.12")
        .backend("local")
        .tool_versions(json!({"bash": "5.2"}))
        .emit();
    events::input_file("input.csv")
        .sha256("00ff")
        .bytes(10)
        .set("source", "https://example.com/input.csv")
        .emit();
    events::phase("setup")
        .start("2026-11-16T10:00:00.000000Z")
        .end("2026-11-16T10:00:01.500000Z")
        .emit();
    let advisor = spans::model_call("anthropic", "claude-opus-4-1")
        .purpose("advisor")
        .start();
    advisor.record_usage(&Usage {
        input_tokens: Some(40),
        output_tokens: Some(3),
        ..Usage::default()
    });
    advisor.finish(Outcome::Ok);
    events::output().r#final("V = 5.2").emit();
    events::evaluation().scores(json!({"reward": 0.5, "validity": {"output_parseable": true, "schema_valid": true, "verifier_completed": true, "errors": []}, "breakdown": {"numeric": 0.5}})).emit();
    events::annotation(
        "trial",
        json!({"judgment": "pass", "notes": "good", "categories": ["units"]}),
    )
    .author("ada")
    .emit();
}

/// A run whose writer died, a gap, a kind of a later version, and halves of surrogate pairs.
fn write_second_segment(session: &Path) {
    let spans = |id: &str, parent: Option<&str>| {
        let parent = parent
            .map(|id| format!(r#","parent_span_id":"{id}""#))
            .unwrap_or_default();
        format!(r#""trace_id":"000000000000000000000000000000a1","span_id":"{id}"{parent}"#)
    };
    let (run, turn, call) = ("00000000000000a1", "00000000000000a2", "00000000000000a3");
    let start = |second: u32| format!(r#""start":"2036-11-16T10:00:{second:02}.000000000Z""#);
    let args =
        r#""tool_id":"bash","tool_call_id":"call_1","args":{"command":"echo \ud83d \u0000"}"#;
    let interrupted = r#""duration_ns":2000000000,"outcome":"interrupted","reason":"writer_gone""#;
    let lines = [
        (
            "segment",
            String::new(),
            r#""writer":"w2","format":1,"spanledger":"0.1.0""#.to_owned(),
        ),
        (
            "gap",
            String::new(),
            r#""count":2,"by_kind":{"log":2},"cause":"disk full""#.to_owned(),
        ),
        (
            "session_resume",
            spans(run, None),
            format!(r#"{},"session_id":"{SESSION}","agent":"planner""#, start(1)),
        ),
        (
            "turn_start",
            spans(turn, Some(run)),
            format!(r#"{},"turn_index":3"#, start(2)),
        ),
        (
            "message_user",
            spans(turn, None),
            r#""content":"Half \ud83d of a pair","message_id":"msg_6""#.to_owned(),
        ),
        (
            "tool_call",
            spans(call, Some(turn)),
            format!("{},{args}", start(3)),
        ),
        (
            "message_delta",
            spans(turn, None),
            r#""message_id":"msg_7","text":"It was ","offset":0"#.to_owned(),
        ),
        (
            "from_the_future",
            spans(turn, None),
            r#""deep":{"er":[1,null]}"#.to_owned(),
        ),
        (
            "interrupted",
            spans(call, Some(turn)),
            format!(
                r#""closes":"tool_result",{},{args},{interrupted}"#,
                start(3)
            ),
        ),
        (
            "interrupted",
            spans(turn, Some(run)),
            format!(
                r#""closes":"turn_end",{},{interrupted},"turn_index":3"#,
                start(2)
            ),
        ),
        (
            "interrupted",
            spans(run, None),
            format!(
                r#""closes":"session_end",{},{interrupted},"agent":"planner""#,
                start(1)
            ),
        ),
    ];
    let mut text = String::new();
    for (n, (kind, spans, payload)) in lines.iter().enumerate() {
        let spans = if spans.is_empty() {
            String::new()
        } else {
            format!(",{spans}")
        };
        let turn = if n > 2 { r#","turn":3"# } else { "" };
        text += &format!(
            r#"{{"v":1,"seg":2,"seq":{},"ts":"2036-11-16T10:00:{n:02}.000000Z","kind":"{kind}","session_id":"{SESSION}"{turn}{spans},"payload":{{{payload}}}}}"#,
            n + 1
        );
        text.push('\n');
    }
    std::fs::write(session.join("trace.0002.jsonl"), text).unwrap();
}
