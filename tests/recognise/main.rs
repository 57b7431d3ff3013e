//! Spans that other libraries make, taken for an agent's.

#[path = "../support/mod.rs"]
mod support;

mod conversation;
mod library;
mod sessions;
mod spans;
