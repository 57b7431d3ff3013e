//! `context`: what filled the context window at each model call.

use clap::Args;

use super::context::{Context, Failed};
use spanledger::inspect::context;
use spanledger::view::ContextChart;

/// Show what filled the context window at each model call
///
/// A chart of the input of each model call: system prompt, tools, messages and tool results, how much came from a
/// cache, and compactions. Below it, the tool results that cost most: each later call sends a result again, until a
/// compaction or a rewind removes it.
///
/// Providers report the whole input only. Its parts are estimated from the recorded texts, and add up to what was
/// reported; `other` is what no recorded text explains. Subagents have contexts of their own.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger context last\n  spanledger context last --json | jq 'select(.type == \"tool_result\")'"
)]
pub(crate) struct ContextWindow {
    /// The session: its id, a prefix of it, its directory, or `last`
    #[arg(default_value = "last")]
    session: String,
}

impl ContextWindow {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let dir = context.resolve(&self.session)?;
        if context.json {
            context.damages = context::each(&dir, |item| context.object(&item.to_json()))?;
            return Ok(());
        }
        let mut chart = ContextChart::default();
        context.damages = context::each(&dir, |item| {
            chart.take(item);
            Ok::<(), Failed>(())
        })?;
        let lines = chart.lines(&context.style);
        context.lines(&lines)
    }
}
