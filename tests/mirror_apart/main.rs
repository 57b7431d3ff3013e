//! A mirror beside agents: of roots that it may only read, and of agents that live and send nothing.
#![cfg(feature = "cli")]

#[path = "../support/cli.rs"]
mod cli;
#[path = "../support/mount.rs"]
mod mount;
#[path = "../support/otlp_server/mod.rs"]
mod otlp_server;
#[path = "../support/skipped.rs"]
mod skipped;
#[path = "../support/mod.rs"]
mod support;

mod living;
mod places;
mod read_only;
mod scene;
mod state;
