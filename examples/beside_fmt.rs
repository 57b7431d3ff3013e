//! Beside `fmt` and `EnvFilter`: the log is filtered as before, the trace is complete.
//!
//! ```sh
//! cargo run --example beside_fmt
//! RUST_LOG=off cargo run --example beside_fmt      # nothing is logged, everything is recorded
//! ```

use std::path::PathBuf;

use serde_json::json;
use spanledger::{Outcome, SpanExt, events, new_session_id, spans};
use tracing::{debug, info, warn};
use tracing_subscriber::{EnvFilter, Layer, fmt, layer::SubscriberExt, util::SubscriberInitExt};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (layer, guard) = spanledger::builder().root(root()).build()?;
    // The filter belongs to the `fmt` layer. As a layer of its own it would be global, and
    // `RUST_LOG=warn` would turn agent spans off for every layer.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::registry()
        .with(layer)
        .with(
            fmt::layer()
                .with_writer(std::io::stderr)
                .with_filter(filter),
        )
        .init();
    // Fails, with the reason, if spans made here would not reach the trace.
    guard.check()?;

    let id = new_session_id();
    agent(&id);

    if let Err(lost) = guard.shutdown() {
        eprintln!("{lost}");
    }
    let dir = spanledger::read::session_dir(root(), &id);
    println!("trace: {}", dir.display());
    for line in spanledger::read::lines(&dir)? {
        if matches!(line.kind.as_str(), "tool_result" | "log") {
            println!("{:>5} {}", line.address(), line.kind);
        }
    }
    Ok(())
}

fn agent(id: &str) {
    info!("outside of every session: logged, not recorded");
    let run = spans::session_run(id, "beside").start();
    let _in_run = run.enter();
    let turn = spans::session_turn().start();
    let _in_turn = turn.enter();
    // Content given to these functions never becomes a `tracing` field, so `fmt` can't print it.
    events::message_user("What does the contract say?").emit();

    let tool = spans::tool_call("read", "call_1")
        .args(json!({"path": "contract.txt"}))
        .start();
    tool.in_scope(|| {
        debug!("logged only with RUST_LOG=debug, never recorded");
        // Warnings and errors inside a session are recorded.
        warn!(path = "contract.txt", "read only in part");
    });
    tool.record_result("§ 1 …");
    tool.finish(Outcome::Ok);
    turn.finish(Outcome::Ok);
    run.finish(Outcome::Ok);
}

fn root() -> PathBuf {
    std::env::var_os("SPANLEDGER_DIR").map_or_else(
        || std::env::temp_dir().join("spanledger-examples"),
        PathBuf::from,
    )
}
