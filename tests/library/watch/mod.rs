//! Limits, loops and the hooks before a tool, while an agent runs.

mod hooks;
mod limits;
mod loops;
