//! Limits and loops: what decides whether an agent may go on.
//!
//! Decisions depend on counts, calls and results only, never on a clock or a span, so the same code decides while an agent runs ([`SpanExt::allowed`](crate::SpanExt::allowed)) and when
//! limits are tried on recorded sessions (`spanledger guard`).
//!
//! - [`Limits`]: what is allowed, set in code, by the environment or by a file.
//! - [`Counts`]: what a session and its subagents did so far.
//! - [`Loops`]: the last tool calls of a session, and whether they repeat.
//! - [`Replay`]: the same from the lines of a trace.

mod config;
mod counts;
mod identity;
mod limits;
mod loops;
mod replay;

pub use config::ConfigError;
pub use counts::Counts;
pub use limits::{Limits, LoopPolicy};
pub use loops::{LoopKind, LoopWarning, Loops};
pub use replay::{Replay, Stop};

pub(crate) use counts::{RunClock, Unpriced, Used};
pub(crate) use identity::ToolStep;
