//! Questions about sessions: what they cost, what filled their context, how they ended, whether they are as good as
//! an accepted one, how two differ, and what other rules would have allowed.
//!
//! Each question is a fold over lines or turns, so a session of any length is read in bounded memory. Nothing here
//! writes, and nothing prints: [`view`](crate::view) has the text.
//!
//! - [`stats`]: calls, tokens, cost, durations, errors and waiting over one session or many.
//! - [`Attempts`]: the tree of attempts, with the artifact and the code of each.
//! - [`context`]: what filled the context window at each model call.
//! - [`diff`]: the first difference of two sessions, and its cause.
//! - [`backtest`]: where limits would have stopped a session, and what that would have saved.
//! - [`replay`]: the inputs of a model call, and whether a turn can be run again.
//! - [`summary`]: counts, the first error and how a session ended.
//! - [`baseline`]: accepted sessions, and the checks of another session against them.
//! - [`permissions`]: each decision, and what other rules would have decided.

mod artifact;
mod attempts;
pub mod backtest;
pub mod baseline;
pub mod context;
pub mod diff;
pub mod permissions;
mod quantiles;
pub mod replay;
mod request_parts;
pub mod stats;
pub mod summary;
mod waits;

pub use artifact::{ArtifactError, ArtifactFile, ArtifactFiles};
#[cfg(feature = "cli")]
pub(crate) use artifact::{is_digest, open_regular};
pub use attempts::{Attempt, AttemptArtifact, Attempts};
pub use quantiles::Quantiles;
