//! The text that the command prints. Tests and the command share this renderer.

pub mod csv;
pub mod text;

mod assertions;
mod attempts;
mod backtest;
mod context;
mod decisions;
mod describe;
mod describer;
mod diff;
mod header;
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
mod turn_facts;

pub use assertions::{checks_of, junit};
pub use attempts::attempts;
pub use backtest::{backtest, suggestion};
pub use context::ContextChart;
pub use decisions::{decision, flip, what_if};
pub use describe::{Brief, brief};
pub use diff::{diff_turn, diff_verdict};
pub use header::{Related, header, named_span};
pub use list::SessionTable;
pub use live::LiveRows;
pub use replay::replay_turn;
pub use stats::{stats, stats_csv};
pub use status::{
    SessionCounts, checks, live_writer, root, running, session_status, status_change,
};
pub use style::{Style, Tone};
pub use summary::outline;
pub use timeline::Timeline;
pub use transcript::{Transcript, TranscriptDetail, TranscriptFormat, Written, write_bundle};
pub use turn_facts::{facts, permissions, prompt, tools};
