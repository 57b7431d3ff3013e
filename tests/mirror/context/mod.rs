//! Where traces begin and continue, and how their context enters and leaves the process.

mod bridge;
mod late_contexts;
mod long_traces;
mod otel_beside;
mod otel_recorded;
mod parents;
mod propagation;
mod recognized;
mod sampler;
mod traces;
