//! The text that the command prints. Tests and the command share this renderer.

pub mod csv;
pub mod text;

mod attempts;
mod backtest;
mod context;
mod describe;
mod described;
mod diff;
mod facts;
mod header;
mod junit;
mod layout;
mod list;
mod live;
mod other_fields;
mod outcome;
mod permission_words;
mod replay;
mod stats;
mod status;
mod style;
mod summary;
mod timeline;
mod title;
mod transcript;

pub use attempts::attempts;
pub use backtest::{backtest, suggestion};
pub use context::ContextChart;
pub use describe::{Brief, Description, Detail, DetailKind, Liveness, brief, describe};
pub use diff::{diff_turn, diff_verdict};
pub use facts::{facts, permissions, prompt, tools};
pub use header::{Related, header, named_span};
pub use junit::junit;
pub use list::SessionTable;
pub use live::LiveRows;
pub use permission_words::PermissionWords;
pub use replay::replay_turn;
pub use stats::{cost_sum, stats, stats_csv};
pub use status::{
    SessionCounts, checks, live_writer, root, running, session_status, status_change,
};
pub use style::{Style, Tone};
pub use summary::{checks_of, decision, flip, outline, what_if};
pub use text::Text;
pub use timeline::Timeline;
pub use transcript::{Transcript, TranscriptDetail, TranscriptFormat, Written, write_bundle};
