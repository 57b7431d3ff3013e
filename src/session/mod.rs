//! The session model: what the lines of a session add up to.
//!
//! Everything here is a fold over [`RawLine`](crate::reader::RawLine)s: feed it lines as they
//! come, whole sessions or parts, finished or not. Sessions that stopped in the middle fold just
//! as well and are shown frozen where they stopped.
//!
//! - [`Summary`]: who, what, how much, and how it stands; a few hundred bytes whatever the trace.
//! - [`Chapters`]: what happened, turn by turn; holds one turn at a time.
//! - [`Store`]: the sessions under a root.
//! - [`FindId`], [`texts`]: what bears an id, what says a word.
//! - [`families`]: which sessions belong together; [`Retention`]: which to let go.
//! - [`turn`], [`line()`], [`body`], [`blob`]: one thing out of a long session.

mod chapters;
mod family;
mod find;
mod glance;
mod grep;
mod node;
mod pieces;
mod retention;
mod seek;
mod standing;
mod store;
mod summary;

pub use chapters::{Chapter, Chapters, Digests};
pub use family::{Family, families};
pub use find::{FindId, IdOf};
pub use grep::{Text, Unsearched, texts};
#[cfg(feature = "view")]
pub(crate) use node::error_text;
pub use node::{Node, NodeState};
pub use retention::Retention;
pub use seek::{Excerpt, blob, body, line, turn, whole};
pub use standing::{Mishap, OpenSpan, Status, Writer};
pub use store::{Entry, Resolve, Store, Survey, Unreadable};
pub use summary::Summary;
