//! Recording: what an agent calls, the `tracing` layer, recognition of other libraries' spans and the
//! OpenTelemetry bridge.

/// The name of a field, checked against the schema: `field!(ToolCall.tool_id)`.
macro_rules! field {
    ($line:ident.$name:ident) => {{
        let _ = $crate::trace::typed::$line::$name;
        stringify!($name)
    }};
}

mod builder;
pub mod events;
mod exporting;
pub(crate) mod fields;
mod guard;
mod health;
mod layer;
#[cfg_attr(not(feature = "mirror"), path = "otel_off.rs")]
pub mod otel;
mod panics;
mod process;
pub(crate) mod process_state;
pub(crate) mod raw_fields;
mod recognize;
mod recover;
pub(crate) mod sanitize;
pub(crate) mod session;
mod setters;
pub mod spans;
mod text_or_json;
mod watching;

pub use builder::{
    Builder, DEFAULT_INLINE_LIMIT, DEFAULT_SEGMENT_SIZE, DEFAULT_TRACE_BYTES, DEFAULT_TRACE_TIME,
};
pub use guard::{Guard, Handle};
pub use health::Health;
pub use layer::{LedgerFilter, LedgerLayer, RecordingLayer};
pub use recognize::Rule;
pub use recover::Recovery;
pub use spans::{FutureExt, Session, SpanExt, Stream};
pub use watching::{BeforeTool, Decision};
