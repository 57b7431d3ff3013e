//! The text that the command prints. Tests and the command share this renderer.

pub mod text;

mod attempts;
mod describe;
mod described;
mod facts;
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
mod transcript;
mod verdict;

pub use attempts::attempts;
pub use describe::{Brief, Description, Detail, DetailKind, Liveness, brief, describe};
pub use facts::{facts, permissions, prompt, tools};
pub use header::{Related, header, named_span};
pub use list::SessionTable;
pub use live::LiveRows;
pub use status::{SessionCounts, checks, live_writer, root, running};
pub use style::{Style, Tone};
pub use text::Text;
pub use timeline::Timeline;
pub use transcript::{
    BundleError, Bundled, Transcript, TranscriptDetail, TranscriptFormat, Written, write_bundle,
};
pub use verdict::Verdict;
