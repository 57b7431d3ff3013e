//! An agent that names an endpoint sends what it records, by itself.

#[path = "../support/agent.rs"]
mod agent;
#[path = "../support/otlp_server/mod.rs"]
mod otlp_server;
mod scene;
#[path = "../support/mod.rs"]
mod support;

mod answers;
mod first_line;
mod outbox;
mod processes;
mod sending;
mod trouble;
