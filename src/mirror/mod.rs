//! The mirror: what the local trace says, sent over OTLP.
//!
//! It reads close lines, never live spans. What a line maps to, how spans are put into requests, and
//! what an answer means are functions of their arguments alone, so that a span sent again, by
//! whomever, has the same bytes. Around these: [`Otlp`], where to and how; [`Transport`], one request
//! and its answer; [`CatchUp`], all that a root owes. An agent that names an endpoint sends what it
//! records by itself, see [`Builder::otlp`](crate::Builder::otlp).
//!
//! - [`Origin`]: what the first line of a segment fixes for the spans opened in it;
//! - [`span`]: the span that a close line tells of, and [`without_content`] for a server that
//!   calls it too large;
//! - [`Batch`]: spans in one request, below a number of bytes and of spans;
//! - [`classify`]: what a server's answer means for what was sent.
//!
//! # What a span is called
//!
//! | span | name; kind | of the conventions, `gen_ai.…` |
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
//! # Attributes of our own
//!
//! | attribute | on | says |
//! |---|---|---|
//! | `agent.span` | all | the span's own name: `tool.call`, … |
//! | `agent.outcome` | all | ok, error, denied, cancelled, interrupted, unset |
//! | `agent.trace.address` | all | where the close line is: `session/seg:seq` |
//! | `agent.turn_index` | all inside a turn | the turn, from 1 |
//! | `agent.session_id` | run, compaction | the session |
//! | `agent.provider_id` | run, model call | the provider, beside the conventions' name |
//! | `agent.duration_ms` | turn, tool call | whole milliseconds |
//! | `agent.late` | where so | written after a fault, and short |
//! | `agent.tokens.{input,input_uncached,output,output_text,reasoning,cache_read,cache_write,total}` | run, turn; on a model call those without a conventional name | tokens |
//! | `agent.cost_usd`, `agent.usage.…` | run, turn, model call | cost; what the provider said besides |
//! | `error.type` | outcome error, interrupted | the error's type, `_OTHER`, `interrupted` |
//! | `agent.error.{stack,source,guardrail,threshold,actual,…}` | with an error | the rest of it; also `type` and `message` where the status can't have them |
//! | `agent.{process,totals,rule,tags,external_ids,branched_from,params}.…` | where the line has them | members of objects that are known to hold no content |
//! | as given | where said through the OpenTelemetry API | `attributes` of a line, of its events and its links |
//! | `agent.<field>` | all | any other scalar field: `stop_reason`, `truncated`, `pattern`, `action`, `source`, `summarized_message_count`, `input_tokens`, … |
//! | `agent.<field>.{bytes,sha256,cut}` | where content isn't sent | its length, its digest, and what of it was never recorded |
//! | `agent.cut.<attribute>` | where a limit cut it | how many bytes went |
//! | `agent.dropped` | where a limit left attributes out | which; the markers of cuts come on top of the limit |
//! | `agent.content_removed` | after "too large" | `too_large` |
//! | `agent.custom.<field>` | where a field has the name of one of these | the field |
//!
//! Content is: `args`, `result`, `command`, `stdout`, `stderr`, `title`, `summary`, `content`, `prompt`,
//! `completion`, `messages`, `parts`, the conventions' names for these, and any object or list that is
//! not named above. It is sent as it stands in the line, where a value that was moved out or cut is
//! the marker that says so.
//!
//! An event of the line is an event of the span, its other members as `agent.<member>`; a link a link.

mod attributes;
mod backlog;
mod batch;
mod catch_up;
pub mod classify;
mod config;
mod content;
mod dead_letters;
mod endpoint;
mod environment;
mod events_links;
#[cfg(feature = "cli")]
mod follow;
mod headers;
mod in_flight;
mod map;
#[cfg(feature = "metrics")]
mod metrics_config;
mod names;
mod origin;
/// The OTLP messages, generated from `proto/otlp_trace.proto`.
#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, missing_docs)]
pub mod otlp;
mod otlp_json;
mod ownership;
mod policy;
#[cfg(feature = "cli")]
mod probe;
mod queue;
mod resend;
mod resolve;
mod resource;
mod send;
mod shutdown;
mod state;
mod thread;
mod transport;
pub mod verify;
#[cfg(feature = "cli")]
mod watcher;
mod wire;

pub use backlog::{Backlog, backlog, backlog_in, backlog_with_state};
pub use batch::{Batch, DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS, MAX_BATCH_BYTES, Pushed};
pub use catch_up::CatchUp;
pub use classify::Verdict;
pub use config::{Compression, Otlp, Pem, Protocol};
pub use content::without_content;
pub use dead_letters::DeadLetter;
#[cfg(feature = "cli")]
pub use follow::{Changed, Follow};
pub use map::span;
#[cfg(feature = "metrics")]
pub use metrics_config::MetricsConfig;
pub use origin::{HeaderError, MAPPING, Origin};
pub use policy::{Limits, Policy};
#[cfg(feature = "cli")]
pub use probe::probe;
pub use queue::MirrorHealth;
pub use resolve::Resolved;
pub use send::Sent;
pub use transport::{Answer, Encoding, MAX_ANSWER, Transport};

pub(crate) use queue::{Queue, QueueListener};
pub(crate) use resource::detected;
#[cfg(feature = "metrics")]
pub(crate) use resource::sdk_resource;
#[cfg(feature = "metrics")]
pub(crate) use shutdown::{Shutdown, lock};
pub(crate) use thread::start;
#[cfg(feature = "metrics")]
pub(crate) use thread::{muted, runtime};
