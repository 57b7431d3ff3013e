//! Spans of other libraries that are recorded as agent spans.

mod conversation;
mod sessions;
mod spans;
