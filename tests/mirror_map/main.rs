//! What reaches a backend: the spans that recorded sessions map to, in which requests, and what
//! the answers mean.
#![cfg(feature = "mirror")]

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod batches;
mod content;
mod ends;
mod limits;
mod recognised;
mod same_bytes;
mod scene;
mod spans;
