//! Questions about sessions, one file or folder each, over what `session` and `read` give.

pub mod diff;
pub mod replay;
