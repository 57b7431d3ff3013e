//! An async agent: parallel tools, a tool that times out, a streamed answer, a subagent.
//!
//! ```sh
//! cargo run --example async_agent
//! ```
//!
//! `future.recorded(span)` runs a future inside its span and closes the span with its result: `ok`
//! or `error` from the `Result`, `cancelled` when the future is dropped before it is done, and `timed_out` if that
//! was after the span's time limit.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde_json::json;
use spanledger::{FutureExt, Outcome, SpanExt, Usage, events, new_session_id, spans};
use tokio::sync::mpsc;
use tracing::Instrument;

#[tokio::main]
async fn main() -> Result<()> {
    let guard = spanledger::builder().root(root()).try_init()?;
    let id = new_session_id();

    let run = spans::session_run(&id, "async")
        .model("anthropic", "claude-sonnet-4-5")
        .start();
    agent(&id).recorded(run).await?;

    if let Err(lost) = guard.shutdown() {
        eprintln!("{lost}");
    }
    let dir = spanledger::read::session_dir(root(), &id);
    println!("trace: {}", dir.display());
    for line in spanledger::read::lines(&dir)? {
        if line.kind == "tool_result" {
            println!("{} {}", line.payload["tool_id"], line.payload["outcome"]);
        }
    }
    Ok(())
}

async fn agent(id: &str) -> Result<()> {
    let turn = spans::session_turn().trigger("user").start();
    // Never hold `turn.enter()` across an await: `recorded` enters the span each time the future is polled.
    async {
        events::message_user("Is the release ready?").emit();
        ask_model().await;
        tools().await;
        review(format!("{id}-review")).await?;
        answer().await
    }
    .recorded(turn)
    .await
}

async fn ask_model() {
    let call = spans::model_call("anthropic", "claude-sonnet-4-5").start();
    tokio::task::yield_now().await;
    call.record_usage(&Usage {
        input_tokens: Some(1_204),
        output_tokens: Some(66),
        ..Usage::default()
    });
    call.finish(Outcome::Ok);
}

/// Three tools at once: one succeeds, one fails, one takes too long and is dropped.
async fn tools() {
    let tool = |name: &str, call: &str| spans::tool_call(name, call).args(json!({}));
    let limit = Duration::from_millis(50);

    let tests = tool("run_tests", "call_1").start();
    let result = tests.clone();
    let passing = async move {
        tokio::task::yield_now().await;
        result.record_result("312 passed");
        anyhow::Ok(())
    };
    let failing = async { Err::<(), _>(anyhow!("CHANGELOG.md has no entry for 2.1.0")) };
    let endless = std::future::pending::<Result<()>>();

    // A real agent would send each result to the model.
    let _ = tokio::join!(
        passing.recorded(tests),
        failing.recorded(tool("check_changelog", "call_2").start()),
        tokio::time::timeout(
            limit,
            endless.recorded(tool("wait_for_mirror", "call_3").timeout(limit).start()),
        ),
    );
}

/// A run inside another session's span is a subagent: a session of its own in the same trace.
/// A spawned task keeps its session because it runs inside a span.
async fn review(id: String) -> Result<()> {
    let run = spans::session_run(&id, "reviewer").start();
    let work = async {
        let turn = spans::session_turn().trigger("agent").start();
        async { events::message_assistant("Only the changelog is missing.").emit() }
            .instrument(turn.clone())
            .await;
        turn.finish(Outcome::Ok);
        anyhow::Ok(())
    };
    tokio::spawn(work.recorded(run)).await?
}

/// An answer as it arrives from the model, chunk by chunk.
async fn answer() -> Result<()> {
    let call = spans::model_call("anthropic", "claude-sonnet-4-5")
        .stream(true)
        .start();
    let mut chunks = model_stream();
    let mut message = call.stream("msg_2");
    while let Some(chunk) = chunks.recv().await {
        message.push(chunk);
    }
    // Dropped without `end`, the message would be marked as incomplete.
    message.end();
    call.finish(Outcome::Ok);
    Ok(())
}

/// Stands in for a model.
fn model_stream() -> mpsc::Receiver<&'static str> {
    let (send, receive) = mpsc::channel(4);
    tokio::spawn(async move {
        for chunk in [
            "Almost: ",
            "the tests pass, ",
            "the changelog ",
            "needs an entry.",
        ] {
            if send.send(chunk).await.is_err() {
                return;
            }
        }
    });
    receive
}

fn root() -> PathBuf {
    std::env::var_os("SPANLEDGER_DIR").map_or_else(
        || std::env::temp_dir().join("spanledger-examples"),
        PathBuf::from,
    )
}
