//! `demo`: a scripted agent, recorded by the same layer that users add, and its timeline.

use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tracing::{Dispatch, Span};
use tracing_subscriber::layer::SubscriberExt;

use super::context::{Context, Failed};
use spanledger::session::Store;
use spanledger::{Failure, Outcome, SpanExt, Usage, events, new_session_id, spans};

/// Record a scripted agent and show its timeline; no network, no model
///
/// The agent's session has a bit of everything: prompts, parallel tools, a permission that waits
/// for a person and one denied, an error and its retry, a compaction, a subagent, streamed text,
/// an oversize output and a masked secret.
///
/// It is recorded apart from other sessions, in the directory `demo` of the default root, unless --root is
/// given. Nothing is sent, even if an OTLP endpoint is set; `spanledger mirror` sends it on request.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  spanledger demo --root ./traces && spanledger show last --root ./traces"
)]
pub(crate) struct Demo {
    /// The id of the session; a new one by default
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

impl Demo {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        if !context.root_given {
            // Apart from the user's own sessions: `show last` there is never the demo.
            let root = context.store.root().join("demo");
            context.store = Rc::new(Store::new(root));
        }
        let id = self.session.clone().unwrap_or_else(new_session_id);
        let (layer, guard) = spanledger::builder()
            .root(context.store.root())
            .disabled(false)
            // Without this, an endpoint in the environment would be used.
            .mirror(false)
            .resource("service.name", "spanledger-demo")
            .build()?;
        let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
        tracing::dispatcher::with_default(&dispatch, || agent(&id));
        guard.shutdown()?;
        drop(dispatch);
        if context.json {
            context.object(&json!({"session_id": id, "root": context.store.root()}))?;
            return context.flush();
        }
        super::show::Show::of(&id).run(context)?;
        context.line("")?;
        context.line("Try next:")?;
        let command = context.command();
        let entry = context.store.peek(&context.store.dir(&id))?;
        let failed = entry.summary.first_error;
        let failed = failed.map(|error| error.address.to_string());
        let event = format!("show last --event {}", failed.unwrap_or_default());
        for (args, what) in [
            ("list --tree", "the sessions, subagents under their parents"),
            (
                "show last --turn 2",
                "one turn, with all that was in force in it",
            ),
            ("show last --errors", "only what went wrong"),
            (event.as_str(), "one line, decoded"),
            ("find call_3", "a call, by its id"),
            ("grep E0308", "over all lines and blobs"),
        ] {
            context.line(&format!("  {command} {args:<24} {what}"))?;
        }
        context.flush()
    }
}

/// Time passes, so that the timeline has durations to show.
fn work(ms: u64) {
    sleep(Duration::from_millis(ms));
}

fn usage(input: u64, cached: u64, output: u64, reasoning: u64, cost: f64) -> Usage {
    Usage {
        input_tokens: Some(input),
        input_uncached_tokens: Some(input - cached),
        output_tokens: Some(output),
        reasoning_tokens: Some(reasoning),
        cache_read_tokens: Some(cached),
        cache_write_tokens: Some(0),
        cost_usd: Some(cost),
        ..Usage::default()
    }
}

const MODEL: (&str, &str) = ("anthropic", "claude-sonnet-4-5");

fn model(ms: u64, used: &Usage, finish_reason: &str) {
    let call = spans::model_call(MODEL.0, MODEL.1)
        .variant("high")
        .temperature(0.2)
        .start();
    work(ms);
    call.record_usage(used);
    call.set("finish_reason", finish_reason);
    call.finish(Outcome::Ok);
}

/// A decision by a rule.
fn permission(tool: &Span, tool_id: &str, pattern: &str, action: &str, source: &str) {
    let span = spans::permission_evaluate(tool_id)
        .pattern(pattern)
        .child_of(tool)
        .start();
    span.set("action", action);
    span.set("source", source);
    let rule =
        json!({"permission": tool_id, "pattern": pattern, "action": action, "source": source});
    span.set("rule", rule);
    span.finish(match action {
        "deny" => Outcome::Denied,
        _ => Outcome::Ok,
    });
}

/// Starts the call of a shell command.
fn bash(call_id: &str, command: &str) -> Span {
    spans::tool_call("bash", call_id)
        .args(json!({"command": command}))
        .start()
}

/// A turn that a message of the user starts.
fn turn(message_id: &str, message: &str, script: impl FnOnce(&Span)) {
    let turn = spans::session_turn().trigger("user").start();
    let _turn = turn.clone().entered();
    events::message_user(message).message_id(message_id).emit();
    script(&turn);
    turn.set("stop_reason", "end_turn");
    turn.finish(Outcome::Ok);
}

fn agent(id: &str) {
    let run = spans::session_run(id, "builder")
        .model(MODEL.0, MODEL.1)
        .variant("high")
        .temperature(0.2)
        .workspace_root("/home/ada/pump")
        .start();
    let _run = run.clone().entered();
    events::session_title("Fix the failing build").emit();
    events::system_prompt(
        "You are a careful engineer. Run the tests before you say that you are done.",
    )
    .emit();
    events::tool_catalog(json!([
        {"name": "bash", "description": "Run a command", "schema": {"command": "string"}},
        {"name": "read", "description": "Read a file", "schema": {"path": "string"}},
        {"name": "edit", "description": "Change a file", "schema": {"path": "string", "text": "string"}},
    ])).emit();
    events::permission_rules(json!([
        {"permission": "bash", "pattern": "cargo *", "action": "allow", "source": "project"},
        {"permission": "bash", "pattern": "rm *", "action": "deny", "source": "manifest"},
        {"permission": "edit", "pattern": "*", "action": "ask", "source": "session"},
    ]))
    .emit();
    turn(
        "msg_1",
        "The build fails. Please find out why.",
        look_around,
    );
    turn("msg_3", "Go ahead, and clean up the old artifacts.", |_| {
        change_things();
        review(id);
        events::message_assistant(
            "Fixed, and all 900 tests pass. I was not allowed to remove `target`.",
        )
        .message_id("msg_4")
        .emit();
    });
    turn("msg_5", "Plot the flow over time.", |_| plot());
    run.set("stop_reason", "end_turn");
    run.finish(Outcome::Ok);
}

/// Two tools at once, one with a secret in its output, and a streamed answer.
fn look_around(turn: &Span) {
    events::message_reasoning("First the error, then the settings.").emit();
    model(35, &usage(1_840, 0, 96, 40, 0.0069), "tool_use");
    let dispatch = tracing::dispatcher::get_default(Dispatch::clone);
    let in_thread = |script: fn()| {
        let (turn, dispatch) = (turn.clone(), dispatch.clone());
        move || tracing::dispatcher::with_default(&dispatch, || turn.in_scope(script))
    };
    std::thread::scope(|scope| {
        scope.spawn(in_thread(build));
        scope.spawn(in_thread(read_settings));
    });
    let mut answer = turn.stream("msg_2");
    for piece in [
        "The valve's flow is an `f32`, ",
        "but the pump wants an `f64`. ",
        "I will widen it.",
    ] {
        work(4);
        answer.push(piece);
    }
    answer.end();
}

fn build() {
    let call = bash("call_1", "cargo build");
    permission(&call, "bash", "*", "allow", "project");
    work(50);
    call.record_result(
        "error[E0308]: mismatched types\n --> src/valve.rs:41:9\n  |\n41 |     flow\n  |     ^^^^ expected `f64`, found `f32`",
    );
    call.set("exit_code", 101);
    call.finish(Outcome::Ok);
}

fn read_settings() {
    let call = spans::tool_call("read", "call_2")
        .args(json!({"path": ".env"}))
        .start();
    permission(&call, "read", "*", "allow", "project");
    work(15);
    call.record_result("REGISTRY_TOKEN=tk-9f2b7c41d0e84a6fb3\nREGION=eu-1\nRUST_LOG=info");
    call.finish(Outcome::Ok);
}

/// A person is asked, a rule denies, a tool fails and is tried again.
fn change_things() {
    model(25, &usage(2_310, 1_792, 121, 0, 0.0037), "tool_use");
    edit();
    let rm = bash("call_4", "rm -rf target");
    permission(&rm, "bash", "rm *", "deny", "manifest");
    rm.finish(Outcome::Denied);

    let first = bash("call_5", "cargo test");
    permission(&first, "bash", "cargo *", "allow", "project");
    work(30);
    first.record_failure(&Failure::new("Timeout", "no output for 30 s"));
    first.set("exit_code", 124);
    first.finish(Outcome::Error);

    let second = bash("call_6", "cargo test");
    permission(&second, "bash", "cargo *", "allow", "project");
    work(30);
    let log = (1..=900).map(|n| format!("test pump::case_{n:03} ... ok\n"));
    second.record_result(&log.collect::<String>());
    second.set("exit_code", 0);
    second.finish(Outcome::Ok);
}

fn edit() {
    let edit = spans::tool_call("edit", "call_3")
        .args(json!({"path": "src/valve.rs", "text": "flow as f64"}))
        .start();
    let ask = spans::permission_evaluate("edit")
        .pattern("*")
        .child_of(&edit)
        .start();
    ask.set("action", "ask");
    ask.set("source", "session");
    events::hitl_request("int_1")
        .tool_id("edit")
        .tool_call_id("call_3")
        .on(&ask)
        .emit();
    work(60);
    events::hitl_response("int_1")
        .decision("allow_once")
        .decided_by("ada")
        .on(&ask)
        .emit();
    ask.finish(Outcome::Ok);
    work(5);
    edit.record_result(&json!({"changed": 1}));
    edit.finish(Outcome::Ok);
}

/// A subagent: a session of its own in the same trace.
fn review(id: &str) {
    let run = spans::session_run(format!("{id}-review"), "reviewer")
        .model(MODEL.0, "claude-haiku-4-5")
        .start();
    let _run = run.clone().entered();
    let turn = spans::session_turn().trigger("agent").start();
    let _turn = turn.clone().entered();
    events::message_user("Review the change to src/valve.rs.").emit();
    let call = spans::model_call(MODEL.0, "claude-haiku-4-5")
        .purpose("subagent")
        .start();
    work(20);
    call.record_usage(&usage(640, 0, 32, 0, 0.0004));
    call.finish(Outcome::Ok);
    events::message_assistant("The cast is sound: `f64` holds every `f32`.").emit();
    turn.finish(Outcome::Ok);
    run.finish(Outcome::Ok);
}

/// The context is compacted, a figure is made, an attempt is recorded.
fn plot() {
    let compaction = spans::compaction_run()
        .auto(true)
        .tail_start_id("msg_5")
        .start();
    work(15);
    compaction.set("summarized_message_count", 4);
    compaction.set("summary", "A type error in src/valve.rs: mended, tested.");
    compaction.set("input_tokens", 2_600);
    compaction.set("output_tokens", 60);
    compaction.finish(Outcome::Ok);
    model(20, &usage(980, 512, 74, 0, 0.0019), "tool_use");
    let plot = bash("call_7", "cargo run --example plot");
    permission(&plot, "bash", "cargo *", "allow", "project");
    work(25);
    events::artifact("flow.png")
        .mime("image/png")
        .caption("Flow over time")
        .tool_call_id("call_7")
        .on(&plot)
        .emit();
    plot.record_result("wrote flow.png");
    plot.finish(Outcome::Ok);
    events::attempt("att_1")
        .rationale("a smaller step")
        .metrics(json!({"rmse": 0.031}))
        .emit();
    events::message_assistant("Here is the plot: flow.png.")
        .message_id("msg_6")
        .emit();
}
