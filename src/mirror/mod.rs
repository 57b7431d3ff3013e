//! The mirror: reads the trace and sends it over OTLP.

mod config;
mod endpoint;
mod environment;
mod transport;

pub use config::{Compression, Limits, Otlp, Pem, Protocol, Resolved};
pub use transport::{Answer, MAX_ANSWER, Transport};
