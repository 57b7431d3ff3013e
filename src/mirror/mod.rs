//! The mirror: reads the local trace and sends its spans over OTLP.
//!
//! It reads close lines, never live spans. A span is a function of its close line and its segment's header line,
//! so a resend by any process has the same bytes. An agent with an endpoint sends its own trace, see
//! [`Builder::otlp`](crate::Builder::otlp); [`CatchUp`] sends everything under a root that was not sent yet.
//!
//! - [`Otlp`]: the settings, and [`Transport`]: one request and its answer;
//! - [`Origin`]: the resource, scope and policy in the header line of a segment;
//! - [`span`]: maps a close line to a span, and [`without_content`] makes it smaller for a server that refuses
//!   its size;
//! - [`Batch`]: the spans of one request, within a number of bytes and of spans;
//! - [`classify`]: what a server's answer means for the request.
//!
//! # Names of spans
//!
//! | span | name; kind | attributes of the conventions, `gen_ai.…` |
//! |---|---|---|
//! | `session.run` | `invoke_agent {agent}`; internal | `operation.name`, `agent.name`, `provider.name`, `request.model`, `request.temperature` |
//! | `session.turn` | `session.turn`; internal | |
//! | `model.call` | `chat {model}`; client | `operation.name`, `provider.name`, `request.{model,temperature,max_tokens,top_p,top_k,frequency_penalty,presence_penalty,seed,stop_sequences}`, `response.{id,model,finish_reasons}`, `usage.{input_tokens,output_tokens,cache_read.input_tokens,cache_creation.input_tokens,reasoning.output_tokens}`, `response.time_to_first_chunk` (seconds), `agent.name`, `conversation.compacted`; opt-in: `usage.cost`, and `usage.cache_write.input_tokens` in place of `cache_creation` |
//! | `tool.call` | `execute_tool {tool_id}`; internal | `operation.name`, `tool.name`, `tool.call.id`, `tool.type`, `agent.name`; content: `tool.call.arguments`, `tool.call.result` |
//! | `permission.evaluate` | `permission.evaluate`; internal | none: backends count a span with a `gen_ai.tool.…` as a tool call, so it has `agent.tool_id` and `agent.tool_call_id` |
//! | `compaction.run` | `compaction.run`; internal | |
//! | any other | its `otel.name` or own name; its `otel.kind` or `span_kind`, else internal | its fields under their own names |
//!
//! Each has `gen_ai.conversation.id`, the session's id.
//!
//! # Our own attributes
//!
//! | attribute | on | value |
//! |---|---|---|
//! | `agent.span` | all | the span's own name: `tool.call`, … |
//! | `agent.outcome` | all | ok, error, denied, cancelled, interrupted, unset |
//! | `agent.trace.address` | all | where the close line is: `session/seg:seq` |
//! | `agent.turn_index` | all inside a turn | the turn, from 1 |
//! | `agent.session_id` | run, compaction | the session |
//! | `agent.provider_id` | run, model call | the provider, beside the conventions' name |
//! | `agent.duration_ms` | turn, tool call | whole milliseconds |
//! | `agent.late` | close lines that were written after a fault | true; the line is short |
//! | `agent.tokens.{input,input_uncached,output,output_text,reasoning,cache_read,cache_write,total}` | run, turn; on a model call those without a conventional name | tokens |
//! | `agent.cost_usd`, `agent.usage.…` | run, turn, model call | cost; other data of the provider |
//! | `error.type` | outcome error, interrupted | the error's type, `_OTHER`, `interrupted` |
//! | `agent.error.{stack,source,guardrail,threshold,actual,…}` | with an error | its other fields; also `type` and `message` if the span's status has no error |
//! | `agent.{process,totals,rule,tags,external_ids,branched_from,params}.…` | where the line has them | members of objects that hold no content |
//! | any | if set through the OpenTelemetry API | `attributes` of a line, of its events and its links |
//! | `agent.<field>` | all | any other scalar field: `stop_reason`, `truncated`, `pattern`, `action`, `source`, `summarized_message_count`, `input_tokens`, … |
//! | `agent.<field>.{bytes,sha256,cut}` | where content isn't sent | its length, its digest, and the number of bytes that were not recorded |
//! | `agent.cut.<attribute>` | if a limit truncated it | the number of bytes that are missing |
//! | `agent.dropped` | if a limit dropped attributes | their names; such markers don't count towards the limit |
//! | `agent.content_removed` | after "too large" | `too_large` |
//! | `agent.custom.<field>` | if a field has the name of one of these | the field |
//!
//! Content is: `args`, `result`, `command`, `stdout`, `stderr`, `title`, `summary`, `content`, `prompt`,
//! `completion`, `messages`, `parts`, the conventions' names for these, and any object or list that is
//! not named above. It is sent as it is in the line, where a marker replaces a value that was moved out or
//! truncated.
//!
//! Events and links of the line are events and links of the span; their other members are `agent.<member>`.

mod catch_up;
mod io_errors;
mod map;
/// The OTLP messages, generated from `proto/otlp_trace.proto`.
#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, missing_docs)]
pub mod otlp;
mod otlp_json;
#[cfg(feature = "cli")]
mod probe;
mod progress;
mod send;
mod settings;
mod transport;
pub mod verify;

pub use catch_up::CatchUp;
#[cfg(feature = "cli")]
pub use catch_up::follow::{Changed, Follow};
pub use map::content::without_content;
pub use map::origin::{HeaderError, MAPPING, Origin};
pub use map::policy::{Limits, Policy};
pub use map::span;
#[cfg(feature = "cli")]
pub use probe::probe;
pub use progress::backlog::{Backlog, backlog, backlog_in, backlog_with_state};
pub use progress::dead_letters::DeadLetter;
pub use send::Sent;
pub use send::batch::{Batch, DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS, MAX_BATCH_BYTES, Pushed};
pub use send::classify::{self, Verdict};
pub use send::queue::MirrorHealth;
pub use settings::config::{Compression, Otlp, Pem, Protocol};
#[cfg(feature = "metrics")]
pub use settings::metrics_config::MetricsConfig;
pub use settings::resolve::Resolved;
pub use transport::{Answer, Encoding, MAX_ANSWER, Transport};

pub(crate) use send::queue::{Queue, QueueListener};
#[cfg(feature = "metrics")]
pub(crate) use send::shutdown::{Shutdown, lock};
pub(crate) use send::thread::start;
#[cfg(feature = "metrics")]
pub(crate) use send::thread::{muted, runtime};
pub(crate) use settings::resource::detected;
#[cfg(feature = "metrics")]
pub(crate) use settings::resource::sdk_resource;
