//! The `spanledger` command, run as a user runs it.

mod chat_formats;
mod common;
mod completions;
mod damaged_traces;
mod decisions;
mod demo;
mod doctor;
mod export;
mod failures;
mod find;
mod follow_killed;
mod formats;
mod full;
mod grep;
mod guard;
mod hostile_root;
mod implicit;
mod import;
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
mod trace_sqlite;
mod verify;
