//! What the command prints, as values: tests and the tool share the same renderer.

pub mod text;

mod event;
mod header;
mod list;
mod row;
mod status;
mod style;
mod timeline;
mod title;
mod turn;

pub use event::{Brief, Tone, brief};
pub use header::header;
#[cfg(feature = "cli")]
pub(crate) use header::named_span;
pub use list::list;
pub use status::{live_writer, root, running};
pub use style::Style;
pub use timeline::Timeline;
pub use turn::{ModelUsed, TurnFacts};
