//! A library with span names of its own, mapped by rules. Neither the library nor the agent changes.
//!
//! The spans here are made by hand, with the names that swiftide's agents use: `agent.query` around a
//! question, and `tool` with the tool's name in `otel.name`, after `tool.`. A library that follows the
//! GenAI conventions, such as rig, needs no rules.
//!
//! ```sh
//! cargo run --example recognize
//! ```

use std::path::PathBuf;

use spanledger::Rule;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (layer, guard) = spanledger::builder()
        .root(root())
        // A question becomes a run, in a session of its own unless it is asked inside one.
        .recognize(Rule::run("agent.query").target("swiftide_agents"))
        // The agent's loop inside it is not another run. It is recorded under its own name.
        .record_spans(|meta| meta.name() == "agent.run")
        .recognize(
            Rule::tool_call("tool")
                .target("swiftide_agents")
                .declares("otel.name")
                .field_after("otel.name", "tool.", "tool_id"),
        )
        // A span that the user wraps around the model.
        .recognize(
            Rule::model_call("complete")
                .field("model", "model_id")
                .field("tokens_in", "input_tokens")
                .field("tokens_out", "output_tokens"),
        )
        .build()?;
    tracing_subscriber::registry().with(layer).init();

    library::query("Which files are the largest?");

    if let Err(lost) = guard.shutdown() {
        eprintln!("{lost}");
    }
    println!("trace: {}", root().display());
    for dir in std::fs::read_dir(root().join("sessions"))? {
        for line in spanledger::read::lines(dir?.path())? {
            let name = line.payload.get("tool_id").or(line.payload.get("model_id"));
            println!(
                "{:>5} {} {}",
                line.address(),
                line.kind,
                name.unwrap_or(&"".into())
            );
        }
    }
    Ok(())
}

/// Stands in for the library, which does not know spanledger.
mod library {
    use tracing::field::Empty;
    use tracing::info_span;

    pub fn query(_question: &str) {
        let query = info_span!(target: "swiftide_agents::agent", "agent.query");
        let _in_query = query.enter();
        let run = info_span!(target: "swiftide_agents::agent", "agent.run");
        let _in_run = run.enter();
        complete("gpt-4o", 212, 18);
        tool("shell_command");
        complete("gpt-4o", 260, 31);
    }

    fn complete(model: &str, tokens_in: u64, tokens_out: u64) {
        let call = info_span!("complete", model, tokens_in = Empty, tokens_out = Empty);
        call.record("tokens_in", tokens_in);
        call.record("tokens_out", tokens_out);
    }

    fn tool(name: &str) {
        let name = format!("tool.{name}");
        let tool = info_span!(target: "swiftide_agents::agent", "tool", otel.name = name);
        let _in_tool = tool.enter();
    }
}

fn root() -> PathBuf {
    std::env::var_os("SPANLEDGER_DIR").map_or_else(
        || std::env::temp_dir().join("spanledger-examples"),
        PathBuf::from,
    )
}
