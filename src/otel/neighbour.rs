//! The whole neighbour, ready-made.

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::{LedgerProcessor, not_agent_spans};

/// A `tracing-opentelemetry` layer whose spans go into the trace, each with its fields and events, and
/// are sent from there: an agent's own `tracing` spans, without another exporter.
///
/// It is [`not_agent_spans`] around that layer, on a provider with a [`LedgerProcessor`]. What that
/// layer adds by itself (places in the source, threads, targets, how long a span waited) is off. It
/// needs [`Builder::context`](crate::Builder::context) to be on. Where the builder was told what to
/// recognise, put the same together yourself and tell the filter, too.
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt;
/// # let dir = tempfile::tempdir()?;
/// let (layer, guard) = spanledger::builder().root(dir.path()).context(true).build()?;
/// let subscriber = tracing_subscriber::registry()
///     .with(layer)
///     .with(spanledger::otel::neighbour());
/// # tracing::subscriber::with_default(subscriber, || {
/// spanledger::spans::session_run("ses_1", "planner").start().in_scope(|| {
///     tracing::info_span!("load_config", path = "agent.toml").in_scope(|| { /* … */ });
/// });
/// # });
/// # let lines = spanledger::reader::lines(spanledger::reader::session_dir(dir.path(), "ses_1"))?;
/// # let line = lines.iter().find(|line| line.kind == "span_end").unwrap();
/// # assert_eq!(line.payload["fields"]["path"], "agent.toml");
/// # guard.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn neighbour<S>() -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let provider = SdkTracerProvider::builder()
        .with_span_processor(LedgerProcessor::new())
        .build();
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("tracing"))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(not_agent_spans())
}
