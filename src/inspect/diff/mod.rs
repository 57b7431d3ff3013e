//! What differs between two sessions, and why.
//!
//! Turns are aligned by what the user said, model calls by their order, and the tools between two model calls by
//! name and arguments in any order. Times, ids, tokens and the order of parallel tools are no differences. The
//! first model call whose inputs differ names the cause; if none differ, the first call whose answer differs does.
//! The subagents of two turns are compared in the same way, and a difference in them is one of the turn that started
//! them. Sessions are read turn by turn, so memory does not grow with them.
//!
//! ```no_run
//! use spanledger::inspect::diff::compare;
//! let verdict = compare("sessions/ses_a", "sessions/ses_b", |turn| {
//!     println!("turn {:?}: equal: {}", turn.index(), turn.is_equal());
//!     Ok::<(), std::io::Error>(())
//! })?;
//! if let Some(first) = verdict.first {
//!     println!("{}: {}", first.cause, first.detail);
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

mod align;
mod comparison;
mod content;
mod layers;
mod round_rows;
mod rows;
mod sketch;
mod subagents;
mod tool_pairs;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::session::Digests;
use crate::trace::{Address, Damage, named_enum};
use align::Aligned;
use comparison::Comparison;

pub use layers::{AssetChange, asset_change};
pub use rows::{Change, DiffRow, RowKind, Side, TurnDiff};

named_enum! {
    /// Why two sessions diverged.
    #[non_exhaustive]
    pub enum Cause {
        /// Another system prompt.
        SystemPrompt = "system_prompt",
        /// Another tool catalog.
        ToolCatalog = "tool_catalog",
        /// Other permission rules.
        PermissionRules = "permission_rules",
        /// The user said something else.
        UserInput = "user_input",
        /// A tool was called with other arguments, or its exit code or output differs.
        ToolResult = "tool_result",
        /// Another model, or another variant of it.
        Model = "model",
        /// Other parameters, such as the temperature.
        Parameters = "parameters",
        /// Nothing: the same request has another answer. Known only if the requests were recorded.
        None = "none",
        /// Everything that was recorded is the same, but not the requests.
        Unknown = "unknown",
    }
}

named_enum! {
    /// Where the inputs of the model calls come from.
    pub enum Inputs {
        /// Both sessions recorded the requests of all calls that were compared, those of subagents left aside.
        Recorded = "recorded",
        /// They follow from messages, prompts and results that were recorded.
        Reconstructed = "reconstructed",
    }
}

/// The first difference.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Divergence {
    /// The turn, by its index in the first session, or in the second if only that has it.
    pub turn: Option<u32>,
    /// The cause.
    pub cause: Cause,
    /// What differs, in words.
    pub detail: String,
    /// The line of the first session.
    pub a: Option<Address>,
    /// The line of the second session.
    pub b: Option<Address>,
    /// The digests in force there, in the first and in the second session.
    pub digests: Box<[Digests; 2]>,
    /// The sessions of the subagents that the lines are in; none: the sessions that were compared.
    pub sessions: Option<Box<[String; 2]>>,
}

impl Divergence {
    /// The line of the first or, with `at` 1, of the second session; that of a subagent with its session.
    fn address(&self, at: usize) -> Option<String> {
        let address = if at == 0 { self.a } else { self.b }?;
        Some(match &self.sessions {
            Some(sessions) => format!("{}/{address}", sessions[at]),
            None => address.to_string(),
        })
    }

    /// The lines of both sessions; those of subagents with their sessions, as `show` takes them.
    pub fn addresses(&self) -> [Option<String>; 2] {
        [0, 1].map(|at| self.address(at))
    }
}

/// The result of a comparison.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DiffVerdict {
    /// Where the inputs of the model calls come from.
    pub inputs: Inputs,
    /// The first difference; none if the sessions are equal.
    pub first: Option<Divergence>,
    /// How many turns were compared.
    pub turns: usize,
    /// What of the two sessions is damaged.
    pub damages: Vec<Damage>,
}

impl DiffVerdict {
    /// Whether there is no difference.
    pub fn is_equal(&self) -> bool {
        self.first.is_none()
    }

    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        json!({
            "equal": self.is_equal(),
            "inputs": self.inputs.to_string(),
            "first_divergence": self.first.as_ref().map(|first| json!({
                "turn": first.turn,
                "cause": first.cause.as_str(),
                "detail": first.detail,
                "a": first.address(0),
                "b": first.address(1),
            })),
        })
    }
}

/// Compares two sessions by their directories. Calls `each` with each pair of turns, in order.
pub fn compare<E: From<io::Error>>(
    a: impl AsRef<Path>,
    b: impl AsRef<Path>,
    mut each: impl FnMut(TurnDiff) -> Result<(), E>,
) -> Result<DiffVerdict, E> {
    let (a, b) = (a.as_ref(), b.as_ref());
    let mut known = HashSet::from([[a.to_owned(), b.to_owned()]]);
    compare_at(0, [a, b], &mut known, &mut each)
}

/// Compares two sessions at this depth of subagents. `known`: those that were compared. A subagent that is resumed is
/// named again, and a damaged session may name itself.
fn compare_at<E: From<io::Error>>(
    depth: usize,
    [a, b]: [&Path; 2],
    known: &mut HashSet<[PathBuf; 2]>,
    each: &mut dyn FnMut(TurnDiff) -> Result<(), E>,
) -> Result<DiffVerdict, E> {
    let mut aligned = Aligned::open(a, b)?;
    let mut comparison = Comparison::default();
    let mut turns = 0;
    let mut damages = Vec::new();
    while let Some(pair) = aligned.next()? {
        let subagents = subagents::pairs(&pair);
        let is_first = comparison.is_equal();
        let mut turn = comparison.turn(pair);
        for pair in subagents.iter().filter(|_| depth < subagents::DEEPEST) {
            let sessions = pair.sessions(a, b);
            if let Some(sessions) = sessions.filter(|sessions| known.insert(sessions.clone())) {
                let [a, b] = &sessions;
                let ignored = &mut |_| Ok::<(), io::Error>(());
                let verdict = compare_at(depth + 1, [a, b], known, ignored)?;
                comparison.subagents(&mut turn, pair, &verdict, is_first);
                damages.extend(verdict.damages);
            }
        }
        turns += 1;
        each(turn)?;
    }
    let (inputs, first) = comparison.finish();
    damages.extend(aligned.damages());
    Ok(DiffVerdict {
        inputs,
        first,
        turns,
        damages,
    })
}
