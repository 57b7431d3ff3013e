//! A ready-made `tracing-opentelemetry` layer.

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::{LedgerProcessor, not_agent_spans};

/// A `tracing-opentelemetry` layer that records an agent's own `tracing` spans in the trace, with their fields
/// and events, from where they are sent: no other exporter is needed.
///
/// It is that layer behind [`not_agent_spans`], on a provider with a [`LedgerProcessor`], and without the
/// attributes that it adds itself (source locations, threads, targets, idle times). It needs
/// [`Builder::context`](crate::Builder::context). Where the builder was given rules to recognize spans, build
/// the same layer yourself and give these rules to the filter.
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt;
/// # let dir = tempfile::tempdir()?;
/// let (layer, guard) = spanledger::builder().root(dir.path()).context(true).build()?;
/// let subscriber = tracing_subscriber::registry()
///     .with(layer)
///     .with(spanledger::otel::tracing_layer());
/// # tracing::subscriber::with_default(subscriber, || {
/// spanledger::spans::session_run("ses_1", "planner").start().in_scope(|| {
///     tracing::info_span!("load_config", path = "agent.toml").in_scope(|| { /* … */ });
/// });
/// # });
/// # let lines = spanledger::read::lines(spanledger::read::session_dir(dir.path(), "ses_1"))?;
/// # let line = lines.iter().find(|line| line.kind == "span_end").unwrap();
/// # assert_eq!(line.payload["fields"]["path"], "agent.toml");
/// # guard.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn tracing_layer<S>() -> impl Layer<S>
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
