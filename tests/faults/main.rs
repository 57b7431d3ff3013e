//! When the trace can't be written: the agent goes on, and the trace says later what it lacks.

#[path = "../support/agent.rs"]
mod agent;
#[path = "../support/mount.rs"]
mod mount;
#[path = "../support/skipped.rs"]
mod skipped;
#[path = "../support/mod.rs"]
mod support;

mod limits;
mod places;
mod removed;
mod scene;
mod shutdown;
mod space;
