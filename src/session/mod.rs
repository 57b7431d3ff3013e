//! The session model: what the lines of a session add up to.
//!
//! Everything here is a fold over [`RawLine`](crate::trace::RawLine)s: feed it lines as they
//! come, whole sessions or parts, finished or not. Sessions that stopped in the middle fold just
//! as well and are shown frozen where they stopped.
//!
//! - [`Summary`]: who, what, how much, and how it stands; a few hundred bytes whatever the trace.
//! - [`Turns`]: what happened, turn by turn; holds one turn at a time.
//! - [`Store`]: the sessions under a root.
//! - [`FindId`], [`texts`]: what bears an id, what says a word.
//! - [`families`]: which sessions belong together; [`Retention`]: which to let go.
//! - [`turn`], [`line()`], [`body`], [`blob`]: one thing out of a long session.

mod check;
mod doctor;
mod facts;
mod family;
mod filter;
mod find;
mod item;
mod lookup;
mod message;
#[cfg(feature = "cli")]
mod monitor;
mod node;
mod peek;
mod recover;
mod retention;
mod search;
mod status;
mod step;
mod store;
mod streamed;
mod summary;
mod turns;

pub use check::Checks;
pub use doctor::{Diagnosis, Health, diagnose_environment, diagnose_root};
pub use facts::{InForce, ModelUsed, TurnFacts};
pub use family::{Family, families, tree};
pub use filter::{SessionFilter, TurnFilter};
pub use find::{FindId, IdFound, IdHits, IdKind, IdSearch};
pub use item::Item;
pub use lookup::{Excerpt, blob, body, line, turn, whole};
pub use message::{Part, Role};
#[cfg(feature = "cli")]
pub use monitor::{Monitor, MonitorEvent, MonitorStart};
pub use node::{Node, NodeState};
pub use recover::Recovery;
pub use retention::{Pruned, Retention};
pub use search::{SearchText, Unsearched, texts};
pub use status::{ErrorRef, OpenSpan, Status, Writer};
pub use step::{Action, Decision, Step};
pub use store::{Entry, ResolveError, Store, Survey, Unreadable};
pub use streamed::{StreamKey, Streamed, Streams, is_delta};
pub use summary::Summary;
pub use turns::{Digests, Turn, Turns, each_turn};
