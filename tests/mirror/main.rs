//! Sending traces and metrics to a scripted OTLP server, and the OpenTelemetry context around them.

mod catch_up;
mod config;
mod context;
mod export;
mod live;
mod map;
mod metrics;
mod proto;
mod separate_process;
#[path = "../support/mod.rs"]
mod support;
mod transport;
mod verify;
