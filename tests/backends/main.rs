//! The real collector, Jaeger, Tempo, jq, DuckDB and secret scanners read what we record and send. They are started once
//! for this binary; a test whose program is not installed prints that it was skipped.

mod backlog;
mod context;
mod demo;
mod exports;
mod gitleaks_rules;
mod imports;
mod killed;
mod metrics;
mod prices;
mod recipes;
mod request_schemas;
mod rig;
mod run_directories;
mod secret_scanners;
mod sqlite_formats;
#[path = "../support/mod.rs"]
mod support;
mod transcript;
mod verify;
mod wrong_protocol;
