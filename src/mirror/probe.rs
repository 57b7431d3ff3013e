//! Asks an endpoint whether it accepts exports.

use bytes::Bytes;

use super::send::classify::{self, Verdict, message_redactor};
use super::send::thread::runtime;
use super::settings::environment::invalid;
use super::settings::resolve::Resolved;
use super::transport::{Encoding, Transport};
use crate::error::Error;

/// Sends one request without spans, and returns what the answer means.
///
/// ```no_run
/// use spanledger::mirror::{Otlp, Verdict, probe};
/// let to = Otlp::resolve(None, |name| std::env::var(name).ok())?.expect("an endpoint");
/// assert!(matches!(probe(&to)?, Verdict::Accepted { .. }));
/// # Ok::<(), spanledger::Error>(())
/// ```
pub fn probe(to: &Resolved) -> Result<Verdict, Error> {
    let redactor = message_redactor(to)?;
    let runtime = runtime().map_err(|error| invalid("Otlp::endpoint", error))?;
    runtime.block_on(async {
        let transport = Transport::connect(to)?;
        // An empty message has no bytes.
        let request = match transport.encoding() {
            Encoding::Json => Bytes::from_static(b"{}"),
            Encoding::Protobuf => Bytes::new(),
        };
        let answer = transport.send(request).await;
        Ok(classify::answer(&answer, transport.is_grpc(), &redactor))
    })
}
