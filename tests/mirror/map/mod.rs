//! Mapping of recorded sessions to spans and requests, and of answers to actions.

mod answers;
mod batches;
mod content;
mod conventions;
mod leaves;
mod limits;
mod outcomes;
mod recognized;
mod same_bytes;
pub mod setup;
mod spans;
