//! Metrics: taken live, once, and sent without the agent waiting for it.

#[path = "../support/agent.rs"]
mod agent;
#[path = "../support/backends.rs"]
mod backends;
#[path = "../support/otlp_server/mod.rs"]
mod otlp_server;
mod scene;
#[path = "../support/mod.rs"]
mod support;

mod collector;
mod environment;
mod measured;
mod processes;
mod sending;
