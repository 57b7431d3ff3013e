//! `summary`: how a session went, and how it ended.

use std::rc::Rc;

use clap::Args;

use super::context::{Context, Failed};
use spanledger::inspect::stats::Stats;
use spanledger::inspect::summary::Outline;
use spanledger::view;

/// Summarize a session: turns, calls, errors, and how it ended
///
/// The end is one of completed, limit, error, loop, denied and interrupted, or running. It follows from recorded
/// outcomes, stop reasons and guardrails, never from the text of a message. Tokens and cost include subagents.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger summary last\n  spanledger summary ses_0193 --json | jq -r .ending"
)]
pub(crate) struct Summary {
    /// The session: its id, a prefix of it, its directory, or `last`
    #[arg(default_value = "last")]
    session: String,
}

impl Summary {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let dir = context.resolve(&self.session)?;
        let store = Rc::clone(&context.store);
        let outline = Outline::read(&store, &dir)?;
        let mut stats = Stats::new(None);
        context.unreadable = stats.add_family(&store, &dir)?;
        let used = stats.finish().total;
        let document = || {
            let mut object = outline.to_json();
            object["cost"] = used.cost.to_json();
            object
        };
        context.show(document, |style| view::outline(&outline, &used, style))?;
        context.damages = outline.damages;
        Ok(())
    }
}
