//! The `spanledger` command, run as a user runs it.

mod common;
mod completions;
mod damaged_traces;
mod decisions;
mod demo;
mod doctor;
mod failures;
mod find;
mod follow_killed;
mod full;
mod grep;
mod hostile_root;
mod implicit;
mod list;
mod mirror;
mod prune;
mod reading;
mod recover;
mod show;
mod snapshots;
mod status;
#[path = "../support/mod.rs"]
mod support;
mod tail;
mod verify;
