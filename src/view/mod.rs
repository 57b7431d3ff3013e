//! The text that the command prints. Tests and the command share this renderer.

pub mod text;

mod describe;
mod facts;
pub mod guard;
mod header;
mod layout;
mod list;
mod live;
mod other_fields;
mod outcome;
mod status;
mod style;
mod timeline;
mod title;
mod verdict;

pub use describe::{Brief, Description, Detail, DetailKind, Liveness, brief, describe};
pub use facts::{facts, permissions, prompt, tools};
pub use header::{header, named_span};
pub use list::SessionTable;
pub use live::LiveRows;
pub use status::{
    SessionCounts, checks, live_writer, root, running, session_status, status_change,
};
pub use style::{Style, Tone};
pub use text::Text;
pub use timeline::Timeline;
pub use verdict::Verdict;
