//! Questions about sessions, one file each.

pub mod guard;
