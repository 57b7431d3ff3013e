//! What the command prints, as values: tests and the tool share the same renderer.

pub mod text;

mod header;
mod list;
mod row;
mod style;
mod timeline;
mod turn;

pub use header::header;
pub use list::list;
pub use style::Style;
pub use timeline::Timeline;
pub use turn::{ModelUsed, TurnFacts};
