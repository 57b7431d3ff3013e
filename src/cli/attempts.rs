//! `attempts`: the steps of an investigation as a tree.

use clap::Args;

use super::context::{Context, Failed};
use spanledger::inspect;
use spanledger::view;

/// Show the attempts of an investigation as a tree
///
/// Each attempt stands below the one that it continues, with its metrics, what was changed, its figure and the code
/// that made the figure. An agent records them with `events::attempt` and `events::artifact`. Attempts that a rewind
/// has hidden are shown, too.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  spanledger attempts last
  spanledger attempts last --full                the code in full
  spanledger attempts last --json | jq '.attempts[] | [.id, .parent_id, .metrics]'")]
pub(crate) struct Attempts {
    /// The session: its id, a prefix of it, its directory, or `last`
    #[arg(default_value = "last")]
    session: String,
    /// Truncate no code
    #[arg(long)]
    full: bool,
}

impl Attempts {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let dir = context.resolve(&self.session)?;
        let attempts = inspect::Attempts::read(&dir)?;
        context.style.full = self.full;
        let none = || vec!["No attempts were recorded in this session.".to_owned()];
        context.show(
            || attempts.to_json(),
            |style| match attempts.all.is_empty() {
                true => none(),
                false => view::attempts(&attempts, style),
            },
        )?;
        context.damages = attempts.damages;
        Ok(())
    }
}
