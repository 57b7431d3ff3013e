//! When the trace can't be written, the agent continues, and the trace reports later what is
//! missing.

mod full_disk;
mod limits;
mod removed_root;
mod setup;
mod shutdown;
mod unwritable_root;
