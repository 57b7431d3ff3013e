//! What filled the context window at each model call, and what it cost to carry tool results along.
//!
//! # How sizes are estimated
//!
//! Providers report one number for the whole input. The parts are estimated from the recorded texts:
//!
//! 1. The history is followed line by line: the system prompt and tool catalog in force, messages, arguments and
//!    results of tools. A compaction replaces the messages before its tail by its summary; a rewind removes the messages
//!    after its target. Where a call recorded its request, the prompt, tools and messages of that are measured instead,
//!    as they were sent; else its `input_messages`, where it has these.
//! 2. A text of `n` bytes, as JSON spells it, is taken for `n / 4` tokens. A value in a blob, and a value that was cut,
//!    count with their whole size.
//! 3. If the provider reported the input, the parts are scaled so that they add up to it, but never to more than one
//!    token for 3 bytes. What remains is [`Parts::other`]: a prompt or catalog that was not recorded, images, framing.
//!    Without a report the sum of the parts is the estimate.
//!
//! A call with a purpose other than `main`, such as a title, has a context of its own: it has parts only if it recorded
//! its request. Reasoning is not counted as history, because most providers drop it.
//!
//! A tool result is carried by every later call until a compaction or a rewind removes it. It costs its part of the
//! input of each, at the average price of that call's input, cached or not.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::read::SessionReader;
use crate::trace::{Address, Damage, time_text};

mod fold;
mod history;
mod sizes;

use fold::ContextFold;

/// The parts of a context, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parts {
    /// The system prompt, and messages from the system.
    pub system: u64,
    /// The tool catalog.
    pub tools: u64,
    /// Messages from the user.
    pub user: u64,
    /// Messages from the model, and the arguments of its tool calls.
    pub assistant: u64,
    /// Results of tools.
    pub tool_results: u64,
    /// Summaries of compactions.
    pub summary: u64,
    /// What no recorded text explains.
    pub other: u64,
}

impl Parts {
    /// The names and values, in order.
    pub fn all(&self) -> [(&'static str, u64); 7] {
        [
            ("system", self.system),
            ("tools", self.tools),
            ("user", self.user),
            ("assistant", self.assistant),
            ("tool_results", self.tool_results),
            ("summary", self.summary),
            ("other", self.other),
        ]
    }

    /// All of it.
    pub fn sum(&self) -> u64 {
        self.all().iter().map(|(_, tokens)| tokens).sum()
    }

    fn to_json(self) -> Value {
        self.all().into_iter().collect()
    }
}

/// One thing that the fold found, in order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContextItem {
    /// A model call ended.
    Call(Box<ContextCall>),
    /// A compaction ended.
    Compaction(Compaction),
    /// A tool result left the context, or the session is over.
    Carried(Carried),
}

/// A model call and its context.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ContextCall {
    /// Its close line.
    pub address: Address,
    /// Its turn.
    pub turn: Option<u32>,
    /// When it began, in nanoseconds since 1970.
    pub start: u64,
    /// The model.
    pub model: Option<String>,
    /// What the call was for, if recorded.
    pub purpose: Option<String>,
    /// The input: as reported, else estimated; see `estimated`.
    pub input_tokens: Option<u64>,
    /// The provider did not report the input.
    pub estimated: bool,
    /// The part of the input that came from a cache.
    pub cached_tokens: Option<u64>,
    /// The size of the model's context window, if recorded.
    pub window: Option<u64>,
    /// The parts, estimated; none for a call whose context is not known.
    pub parts: Option<Parts>,
    /// The parts were measured on the request or the messages that the call recorded, not on the history.
    pub recorded: bool,
    /// The context was compacted after the call before this one.
    pub compacted: bool,
}

/// A compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compaction {
    /// Its close line.
    pub address: Address,
    /// Its turn.
    pub turn: Option<u32>,
    /// What started it.
    pub trigger: Option<String>,
    /// The estimated size of the history before it, in tokens.
    pub before: u64,
    /// The estimated size after it.
    pub after: u64,
}

/// A tool result, and what carrying it cost.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Carried {
    /// Its line.
    pub address: Address,
    /// Its turn.
    pub turn: Option<u32>,
    /// The tool.
    pub tool: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many model calls had it in their input.
    pub calls: u64,
    /// Its share of the input of all these calls, in tokens.
    pub tokens: u64,
    /// What that share cost, as far as the calls have a price; `None` if none has.
    pub usd: Option<f64>,
    /// Calls without a price are missing from `usd`.
    pub partial: bool,
}

impl ContextItem {
    /// As JSON, with stable names and the member `type`.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Call(call) => json!({
                "type": "call",
                "address": call.address.to_string(),
                "turn": call.turn,
                "start": time_text(call.start, 6),
                "model_id": call.model,
                "purpose": call.purpose,
                "input_tokens": call.input_tokens,
                "estimated": call.estimated,
                "cached_tokens": call.cached_tokens,
                "context_window": call.window,
                "parts": call.parts.map(Parts::to_json),
                "inputs": if call.recorded { "recorded" } else { "history" },
                "compacted": call.compacted,
            }),
            Self::Compaction(compaction) => json!({
                "type": "compaction",
                "address": compaction.address.to_string(),
                "turn": compaction.turn,
                "trigger": compaction.trigger,
                "tokens_before": compaction.before,
                "tokens_after": compaction.after,
            }),
            Self::Carried(result) => json!({
                "type": "tool_result",
                "address": result.address.to_string(),
                "turn": result.turn,
                "tool_id": result.tool,
                "bytes": result.bytes,
                "carried_calls": result.calls,
                "carried_tokens": result.tokens,
                "carried_usd": result.usd,
                "partial": result.partial,
            }),
        }
    }
}

/// Calls `take` with what a session's lines show, in order. Returns what is damaged. Its memory depends on the history
/// that is in the context, up to a bound, not on the session's length.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (layer, guard) = spanledger::builder().root(dir.path()).build()?;
/// # use tracing_subscriber::prelude::*;
/// # tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
/// #     let _run = spanledger::spans::session_run("ses_1", "builder").start().entered();
/// #     spanledger::events::message_user("Remove the old files.").emit();
/// #     drop(spanledger::spans::model_call("anthropic", "claude-sonnet-4-5").start());
/// # });
/// # guard.shutdown()?;
/// use spanledger::inspect::context::{ContextItem, each};
/// let session = spanledger::read::session_dir(dir.path(), "ses_1");
/// let mut user = 0;
/// each(&session, |item| {
///     if let ContextItem::Call(call) = item {
///         user = call.parts.unwrap().user;
///     }
///     Ok::<(), std::io::Error>(())
/// })?;
/// assert_eq!(user, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn each<E: From<io::Error>>(
    session: &Path,
    mut take: impl FnMut(ContextItem) -> Result<(), E>,
) -> Result<Vec<Damage>, E> {
    let reader = SessionReader::open(session)?.with_all_fields();
    let mut fold = ContextFold::new(session.to_owned());
    let damages = reader.each_line(|line| {
        fold.add_line(line);
        fold.history.found.drain(..).try_for_each(&mut take)
    })?;
    fold.finish();
    fold.history.found.drain(..).try_for_each(&mut take)?;
    Ok(damages)
}

#[cfg(test)]
mod tests;
