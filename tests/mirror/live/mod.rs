//! An agent with an endpoint sends what it records.

mod setup;

mod answers;
mod outbox;
mod processes;
mod segment_header;
mod sending;
mod trouble;
mod warnings;
