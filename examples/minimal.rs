//! A minimal agent: one run, one turn, a model call and a tool.
//!
//! ```sh
//! cargo run --example minimal
//! ```

use std::path::PathBuf;

use serde_json::json;
use spanledger::{Outcome, SpanExt, Usage, events, new_session_id, spans};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Keep the guard until the end of `main`; `shutdown` fails if events are missing.
    let guard = spanledger::builder().root(root()).try_init()?;
    let id = new_session_id();

    agent(&id);

    if let Err(lost) = guard.shutdown() {
        eprintln!("{lost}");
    }
    let dir = spanledger::read::session_dir(root(), &id);
    println!("trace: {}", dir.display());
    for line in spanledger::read::lines(&dir)? {
        println!("{:>5} {}", line.address(), line.kind);
    }
    Ok(())
}

fn agent(id: &str) {
    let run = spans::session_run(id, "minimal")
        .model("anthropic", "claude-sonnet-4-5")
        .start();
    let _in_run = run.enter();
    events::system_prompt("You are a helpful assistant.").emit();

    let turn = spans::session_turn().trigger("user").start();
    let _in_turn = turn.enter();
    events::message_user("What is in this directory?").emit();

    let model = spans::model_call("anthropic", "claude-sonnet-4-5").start();
    // Unknown counts stay `None`: unknown is never 0.
    model.record_usage(&Usage {
        input_tokens: Some(812),
        output_tokens: Some(31),
        cost_usd: Some(0.0029),
        ..Usage::default()
    });
    model.finish(Outcome::Ok);

    let tool = spans::tool_call("list_files", "call_1")
        .args(json!({"path": "."}))
        .start();
    match std::fs::read_dir(".") {
        Ok(entries) => {
            tool.record_result(&json!({"files": entries.count()}));
            tool.finish(Outcome::Ok);
        }
        Err(error) => {
            tool.record_error(&error);
            tool.finish(Outcome::Error);
        }
    }

    events::message_assistant("A few files.").emit();
    // A span that is only dropped ends as `unset`; `finish` sets the outcome.
    turn.finish(Outcome::Ok);
    run.finish(Outcome::Ok);
}

fn root() -> PathBuf {
    std::env::var_os("SPANLEDGER_DIR").map_or_else(
        || std::env::temp_dir().join("spanledger-examples"),
        PathBuf::from,
    )
}
