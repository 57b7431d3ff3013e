//! A library that makes spans of its own shapes, mapped by rules: no change to the library, none to
//! the agent.
//!
//! The spans here are made by hand, in the shapes that swiftide's agents give them: `agent.query`
//! around a question, and `tool` with the tool's name in `otel.name`, after `tool.`. (A library that
//! follows the GenAI conventions, as rig does, needs no rule.)
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
        // A question is a run: a session of its own, unless it is asked inside one.
        .recognize(Rule::run("agent.query").target("swiftide_agents"))
        // Inside it the loop of the agent: not a run again, and worth a line of its own.
        .record_spans(|meta| meta.name() == "agent.run")
        .recognize(
            Rule::tool_call("tool")
                .target("swiftide_agents")
                .declares("otel.name")
                .field_after("otel.name", "tool.", "tool_id"),
        )
        // Not the library's: what we wrap around its model ourselves.
        .recognize(
            Rule::model_call("complete")
                .field("model", "model_id")
                .field("tokens_in", "input_tokens")
                .field("tokens_out", "output_tokens"),
        )
        .build()?;
    tracing_subscriber::registry().with(layer).init();

    library::query("Which files are the largest?");

    guard.shutdown()?;
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

/// What stands for the library. It knows nothing of us.
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
