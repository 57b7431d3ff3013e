//! The programs under `examples/`, run as they are.

mod programs;
#[cfg(feature = "cli")]
mod rig;
#[path = "../support/mod.rs"]
mod support;
