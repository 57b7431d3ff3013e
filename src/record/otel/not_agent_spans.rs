//! What a `tracing-opentelemetry` layer beside ours should not see.

use std::sync::Arc;

use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

use crate::record::layer::Choose;
use crate::record::recognize::{Recognizer, Rule};
use crate::trace::{is_ours, setters};

/// Keeps agent spans, and events of ours, out of another layer. See [`not_agent_spans`].
#[derive(Clone, Default)]
pub struct NotAgentSpans {
    recognizer: Recognizer,
    also: Option<Choose>,
}

impl std::fmt::Debug for NotAgentSpans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NotAgentSpans").finish_non_exhaustive()
    }
}

impl NotAgentSpans {
    setters! {
        /// Keeps the spans that this rule matches out too: give it the rules that
        /// [`Builder::recognize`](crate::Builder::recognize) was given.
        ///
        /// ```
        /// let filter = spanledger::otel::not_agent_spans()
        ///     .recognize(spanledger::Rule::run("agent.query").target("my_library"));
        /// ```
        pub fn recognize(self, rule: Rule) { self.recognizer.rules.push(Arc::new(rule)) }

        /// Whether spans that declare `gen_ai.operation.name` are kept out. By default they are, as they
        /// are recorded by default: pass the same value as to
        /// [`Builder::recognize_gen_ai`](crate::Builder::recognize_gen_ai).
        ///
        /// ```
        /// let filter = spanledger::otel::not_agent_spans().recognize_gen_ai(false);
        /// ```
        pub fn recognize_gen_ai(self, recognize: bool) { self.recognizer.gen_ai = recognize }

        /// Keeps these spans out too: those that [`record_spans`](crate::Builder::record_spans) chooses
        /// are sent from the trace as well.
        ///
        /// ```
        /// let filter = spanledger::otel::not_agent_spans()
        ///     .nor(|meta| meta.target().starts_with("my_agent"));
        /// ```
        pub fn nor(self, choose: impl Fn(&Metadata<'_>) -> bool + Send + Sync + 'static) {
            self.also = Some(Arc::new(choose));
        }
    }

    fn wants(&self, meta: &Metadata<'_>) -> bool {
        if is_ours(meta) {
            return false;
        }
        let also = || self.also.as_ref().is_some_and(|choose| choose(meta));
        !meta.is_span() || self.recognizer.mapping(meta).is_none() && !also()
    }
}

/// A filter for a `tracing-opentelemetry` layer beside ours.
///
/// Agent spans, and spans of other libraries that are recorded as such, reach the backend through the trace;
/// unfiltered, that layer would send them once more, under other ids. With this filter they are sent once, and that layer's own spans lie inside them.
/// What that layer can't see it can't take as an explicit parent: a span made with
/// `parent: &agent_span` begins a trace of its own there. Enter the agent span instead, or call
/// `span.set_parent(agent_span.otel_context())`.
///
/// ```
/// use opentelemetry::trace::TracerProvider;
/// use tracing_subscriber::layer::{Layer, SubscriberExt};
///
/// # let dir = tempfile::tempdir()?;
/// let (layer, guard) = spanledger::builder().root(dir.path()).context(true).build()?;
/// let provider = opentelemetry_sdk::trace::SdkTracerProvider::builder().build();
/// let otel_layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("agent"));
/// let subscriber = tracing_subscriber::registry()
///     .with(layer)
///     .with(otel_layer.with_filter(spanledger::otel::not_agent_spans()));
/// # drop((subscriber, guard));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn not_agent_spans() -> NotAgentSpans {
    NotAgentSpans::default()
}

impl<S: Subscriber> Filter<S> for NotAgentSpans {
    fn enabled(&self, meta: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.wants(meta)
    }

    fn callsite_enabled(&self, meta: &'static Metadata<'static>) -> Interest {
        if self.wants(meta) {
            Interest::always()
        } else {
            Interest::never()
        }
    }
}
