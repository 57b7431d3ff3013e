//! An agent that runs in circles: it is warned, then stopped by a limit that it asks about, and its trace says so.
//!
//! ```sh
//! cargo run --example guarded
//! ```
//!
//! The scripted model asks for `cargo test` again and again, although the result never changes. After the third time the trace
//! has a `loop_warning`, and the agent's next question, `allowed()`, is answered with `Refused::Stopped`. The agent
//! tells the user, and ends the turn as stopped. Nothing else stops it: recording never does.

use serde_json::json;
use spanledger::{
    Decision, FutureExt, Limits, LoopPolicy, Outcome, Refused, SpanExt, Usage, events,
    new_session_id, spans,
};
use tracing::Span;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let limits = Limits::new()
        .tool_calls(50)
        .cost_usd(2.0)
        .on_loop(LoopPolicy::Stop);
    let (layer, guard) = spanledger::builder()
        .limits(limits)
        .before_tool(|call| match call.tool_id() {
            "rm" => Decision::deny("nothing is removed here"),
            _ => Decision::Allow,
        })
        .build()?;
    tracing_subscriber::registry().with(layer).try_init()?;

    let session = new_session_id();
    let run = spans::session_run(&session, "guarded").start();
    if let Err(stopped) = turn().recorded(run).await {
        println!("the agent ended: {stopped:#}");
    }
    let root = guard.handle().root().to_owned();
    if let Err(lost) = guard.shutdown() {
        eprintln!("{lost}");
    }
    println!("session {session}, trace: {}", root.display());
    Ok(())
}

async fn turn() -> anyhow::Result<()> {
    let turn = spans::session_turn().trigger("user").start();
    agent().recorded(turn).await
}

/// Asks the model and runs the tool that it wants, until it has an answer or may not go on.
async fn agent() -> anyhow::Result<()> {
    events::message_user("Fix the failing test.").emit();
    for attempt in 1.. {
        let call = spans::model_call("anthropic", "claude-sonnet-4-5").start();
        call.allowed().inspect_err(apologize)?;
        let (tool, command) = ask_model(attempt).recorded(call).await?;

        let span = spans::tool_call(tool, format!("call_{attempt}"))
            .args(json!({"command": command}))
            .start();
        match span.allowed() {
            Ok(()) => run_tool(command).recorded(span).await?,
            // A hook denied it, and the model gets to know why. The span is closed.
            Err(denied @ Refused::Denied { .. }) => println!("{denied}"),
            // A limit is reached: this turn is over.
            Err(stopped) => {
                apologize(&stopped);
                return Err(stopped.into());
            }
        }
    }
    Ok(())
}

/// The user learns why the agent gives up.
fn apologize(stopped: &Refused) {
    let text = format!("I could not fix the test, and I was going in circles ({stopped}).");
    events::message_assistant(text).emit();
}

/// A model that does not learn: first it wants to remove the target directory, then it only runs the tests.
async fn ask_model(attempt: u32) -> anyhow::Result<(&'static str, &'static str)> {
    Span::current().record_usage(&Usage {
        input_tokens: Some(900 + 40 * u64::from(attempt)),
        output_tokens: Some(25),
        cost_usd: Some(0.004),
        ..Usage::default()
    });
    Ok(match attempt {
        1 => ("rm", "rm -rf target"),
        _ => ("bash", "cargo test"),
    })
}

/// The test fails every time.
async fn run_tool(_command: &str) -> anyhow::Result<()> {
    let span = Span::current();
    span.record_result("test parser::reads_dates ... FAILED");
    span.record_exit_code(101);
    span.finish(Outcome::Ok);
    Ok(())
}
