//! Metrics: measured live and once, and sent without blocking the agent.

mod environment;
mod measurements;
mod processes;
mod sending;
