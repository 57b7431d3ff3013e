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
//! | span | name; kind |
//! |---|---|
//! | `session.run` | `invoke_agent {agent}`; internal |
//! | `session.turn` | `session.turn`; internal |
//! | `model.call` | `chat {model}`; client |
//! | `tool.call` | `execute_tool {tool_id}`; internal |
//! | `permission.evaluate` | `permission.evaluate`; internal. Without `gen_ai.tool.…`, because backends count every span with one as a tool call |
//! | `compaction.run` | `compaction.run`; internal |
//! | any other | its `otel.name` or own name; its `otel.kind` or `span_kind`, else internal |
//!
//! The page `docs/sending.md` has every attribute, and which setting lets it leave.

mod catch_up;
mod map;
/// The OTLP messages, generated from `proto/otlp_trace.proto`.
#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, missing_docs)]
#[path = "../../proto/otlp_trace.rs"]
pub mod otlp;
mod otlp_json;
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
pub(crate) use map::origin::opened_seg;
pub use map::origin::{HeaderError, MAPPING, Origin};
pub use map::policy::{Limits, Policy, Texts};
pub use map::span;
pub use probe::probe;
pub use progress::backlog::{Backlog, backlog, backlog_in};
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
pub(crate) use send::shutdown::Shutdown;
pub(crate) use send::thread::{muted, runtime, start};
#[cfg(feature = "metrics")]
pub(crate) use settings::metrics_config::sdk_resource;
pub(crate) use settings::resource::detected;
