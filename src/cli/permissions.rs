//! `permissions`: each decision, and what other rules would have decided.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;

use super::context::{Context, Failed};
use spanledger::inspect::permissions::{Rules, WhatIf, each};
use spanledger::view;
use spanledger::view::text::line;

/// List permission decisions, or evaluate them under other rules
///
/// A row has the decision, the tool and its command or file, the rule's pattern and source, the person who was asked,
/// the answer, and how long it took. With --all, the rows of each session come below its id.
///
/// --what-if reads rules as the agent records them, `[{"permission": "bash", "pattern": "cargo *", "action": "allow"}]`,
/// and shows the decisions that they would change. `*` stands for any text and `?` for one character; the last rule that
/// matches decides; what no rule matches is asked for. `permission` is matched with the tool's name and the permission,
/// `pattern` with the command, else the only file, else the argument `command`, `path`, `file_path` or `url`, else the
/// only argument.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger permissions last\n  spanledger permissions --all --what-if rules.json"
)]
pub(crate) struct Permissions {
    /// The session: its id, a prefix of it, its directory, or `last`
    #[arg(default_value = "last")]
    session: String,
    /// All sessions
    #[arg(long, conflicts_with = "session")]
    all: bool,
    /// Evaluate the recorded decisions under these rules
    #[arg(long, value_name = "RULES.json")]
    what_if: Option<PathBuf>,
}

impl Permissions {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let rules = self.what_if.as_deref().map(read_rules).transpose()?;
        let session = (!self.all).then_some(self.session.as_str());
        let dirs = context.dirs(session)?;
        let mut counts = WhatIf::default();
        let mut listed = 0_u64;
        let mut session_of_rows = None;
        // Oldest first, in the order of reading.
        for dir in dirs.into_iter().rev() {
            let found = each(&dir, |recorded| {
                let Some(rules) = &rules else {
                    listed += 1;
                    let id = &recorded.session_id;
                    if self.all && !context.json && session_of_rows.as_ref() != Some(id) {
                        context.line(&context.style.bold(&line(id)))?;
                        session_of_rows = Some(id.clone());
                    }
                    return context.print(
                        || recorded.to_json(),
                        |style| view::decision(&recorded, style),
                    );
                };
                match counts.evaluate(rules, recorded) {
                    Some(flip) => {
                        context.print(|| flip.to_json(), |style| view::flip(&flip, style))
                    }
                    None => Ok(()),
                }
            });
            match found {
                Ok(damages) => context.damages.extend(damages),
                // Removed in the meantime.
                Err(Failed::Io(error)) if self.all && error.kind() == ErrorKind::NotFound => {}
                Err(failed) => return Err(failed),
            }
        }
        if rules.is_some() {
            context.print(
                || {
                    let mut object = counts.to_json();
                    object["type"] = "what_if".into();
                    object
                },
                |style| view::what_if(&counts, style),
            )?;
        } else if listed == 0 && !context.json {
            context.line("No permission was decided.")?;
        }
        Ok(())
    }
}

fn read_rules(path: &Path) -> Result<Rules, Failed> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failed::Usage(format!("can't read the rules {name}: {error}")))?;
    Rules::parse(&text).map_err(|error| Failed::Usage(format!("{name} is {error}")))
}
