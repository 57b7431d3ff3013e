//! Metrics: durations and tokens of the agent's spans, and the state of recording and sending.
//!
//! Enabled by [`Builder::metrics`](crate::Builder::metrics) or `OTEL_METRICS_EXPORTER=otlp`, and sent by
//! `opentelemetry-otlp`. A span is measured once, when its close line has been written; resends and
//! recovery don't measure again. Measurements that were not sent when the process dies are lost; the trace
//! is not.
//!
//! | metric | unit | of | attributes |
//! |---|---|---|---|
//! | `gen_ai.client.operation.duration` | `s` | `model.call` | `gen_ai.operation.name`, `gen_ai.provider.name`, `gen_ai.request.model`, `gen_ai.response.model`, `error.type` |
//! | `gen_ai.client.token.usage` | `{token}` | `model.call` | the same without `error.type`; `gen_ai.token.type`: `input` or `output` |
//! | `gen_ai.execute_tool.duration` | `s` | `tool.call` | `gen_ai.tool.name`, `gen_ai.tool.type`, `gen_ai.agent.name`, `error.type` |
//! | `gen_ai.invoke_agent.duration` | `s` | `session.run` | `gen_ai.agent.name`, `gen_ai.request.model`, `error.type` |
//! | `spanledger.events.written` | `{event}` | | lines that the kernel has |
//! | `spanledger.events.failed` | `{event}` | | lines that could not be written; the trace has gaps |
//! | `spanledger.mirror.spans.sent` | `{span}` | | spans that a server accepted |
//! | `spanledger.mirror.dead_letters` | `{span}` | | spans that a server refused for good |
//! | `spanledger.mirror.lag` | `By` | | bytes of the trace that are not sent yet |
//!
//! The first four are histograms with the buckets of the GenAI conventions; those of the mirror exist only
//! if there is one. An unknown attribute is left out; a name longer than 256 bytes becomes `_OTHER`. Tokens
//! are those of model calls, because those of turns and runs would be counted twice. A denial or a
//! cancellation is not an error.
//!
//! Totals count from the start of the process, unless
//! `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE` is `delta`. Parallel processes of one service need
//! different values of `service.instance.id`, or a server merges them.

mod exporter;
mod instruments;
mod pipeline;

pub use pipeline::MetricsHealth;
pub(crate) use pipeline::Pipeline;
