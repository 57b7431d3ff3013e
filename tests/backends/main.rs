//! The real collector, Jaeger, Tempo, jq, DuckDB and secret scanners read what we record and send. They are started once
//! for this binary; a test whose program is not installed prints that it was skipped.

mod backlog;
mod context;
mod demo;
mod killed;
mod metrics;
mod recipes;
mod rig;
mod secret_scanners;
#[path = "../support/mod.rs"]
mod support;
mod verify;
