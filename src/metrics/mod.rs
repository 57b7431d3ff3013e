//! Metrics: what the agent's spans took and used, and how recording and sending go.
//!
//! Asked for by [`Builder::metrics`](crate::Builder::metrics) or `OTEL_METRICS_EXPORTER=otlp`, and sent by
//! `opentelemetry-otlp`. They are taken once, live, when a span's close line has been written: what is
//! sent again, caught up with or closed for a dead process is not measured again. What was measured
//! and not sent when the process dies is lost; the trace is not.
//!
//! | metric | unit | of | attributes |
//! |---|---|---|---|
//! | `gen_ai.client.operation.duration` | `s` | `model.call` | `gen_ai.operation.name`, `gen_ai.provider.name`, `gen_ai.request.model`, `gen_ai.response.model`, `error.type` |
//! | `gen_ai.client.token.usage` | `{token}` | `model.call` | the same without `error.type`; `gen_ai.token.type`: `input` or `output` |
//! | `gen_ai.execute_tool.duration` | `s` | `tool.call` | `gen_ai.tool.name`, `gen_ai.tool.type`, `gen_ai.agent.name`, `error.type` |
//! | `gen_ai.invoke_agent.duration` | `s` | `session.run` | `gen_ai.agent.name`, `gen_ai.request.model`, `error.type` |
//! | `spanledger.events.written` | `{event}` | | lines that the kernel has |
//! | `spanledger.events.failed` | `{event}` | | lines that could not be written, told as gaps |
//! | `spanledger.mirror.spans.sent` | `{span}` | | spans that a server accepted |
//! | `spanledger.mirror.dead_letters` | `{span}` | | spans that a server refused for good |
//! | `spanledger.mirror.lag` | `By` | | bytes of the trace that are not sent yet |
//!
//! The first four are histograms with the buckets of the GenAI conventions; those of the mirror are
//! there where there is one. An attribute that isn't known is left out; a name longer than 256 bytes
//! is `_OTHER`. Tokens are those of model calls: a turn's or a run's would be counted twice. A denial or a
//! cancellation is no error.
//!
//! Totals are told since the start of the process, unless
//! `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE` says `delta`. Processes of one service that run side
//! by side need a `service.instance.id` each, or a server takes them for one.

mod exporter;
mod instruments;
mod pipeline;

pub(crate) use pipeline::Pipeline;
