//! The format of a trace: lines, kinds of spans and events, their fields, ids and usage; segments and where they are.
//!
//! Nothing here knows how a line is written (`ledger`) or where its values come from
//! (`record`). Adding a kind or a field is free; removing one never happens.

mod address;
mod buffer_pool;
mod clock;
mod error_chain;
mod failure;
mod fork;
mod header;
mod hex;
mod ids;
mod json;
mod kind;
mod layout;
mod line;
mod lock;
mod macros;
mod marker;
mod outcome;
mod raw_line;
mod refused;
mod remote;
mod safe_open;
mod schema;
mod segment_reader;
mod span;
mod tail;
mod time;
pub mod typed;
mod usage;

pub use address::{Address, ParseAddressError};
pub use failure::{AsFailure, Failure, ViaDeref, ViaError, ViaType};
pub use ids::new_session_id;
pub use kind::Kind;
pub use line::{Line, LineError, VERSION};
pub use marker::{Cut, Marker};
pub use outcome::Outcome;
pub use raw_line::{RawLine, RawValue};
pub use refused::Refused;
pub use remote::{RemoteContext, RemoteContextError};
pub use segment_reader::{Damage, ReadItem, SegmentReader};
pub use span::SpanKind;
pub use time::{parse_time, time_text};
pub use usage::{Marks, Totals, Usage};

pub(crate) use buffer_pool::{BufferPool, LARGEST as LARGEST_POOLED};
pub(crate) use clock::{APART_NS, Moment, steady_ns, wall_ns};
pub(crate) use error_chain::ErrorChain;
pub(crate) use failure::spelled;
pub(crate) use fork::fork_generation;
pub(crate) use header::{NewHeader, SessionHeader, first_line};
pub(crate) use hex::{hex, hex_digest, hex16, hex32};
pub(crate) use ids::{IdHasher, Ids, new_span_id, new_trace_id, random_bytes};
pub(crate) use json::{
    floor_char, has_backslash, is_json, opens_json, put, string_end, unescape_lossy, value_end,
    write_string,
};
pub(crate) use kind::event_kind;
pub(crate) use layout::{Root, exposed, if_exists, segment_name, segments};
pub(crate) use line::{LineMeta, SessionPart, finish_line, number};
pub(crate) use lock::{lock, try_lock};
pub(crate) use macros::{named_enum, setters};
pub(crate) use raw_line::{kind_of, ts_of, whole_lines};
pub(crate) use safe_open::{Dir, FILE, NEW_FILE, is_own, make_root, open_private, split};
pub(crate) use schema::{event_schema, line_schema, schema, span_schema};
pub(crate) use segment_reader::{FoundLine, about, line_start};
pub(crate) use span::{FieldRole, UsageField, is_json_field};
pub(crate) use tail::{TailReader, last_checkpoint};
pub(crate) use time::write_time;
pub(crate) use usage::UsageText;

/// Whether a span is an agent span, or an event one of ours.
pub(crate) fn is_ours(meta: &tracing::Metadata<'_>) -> bool {
    if meta.is_span() {
        SpanKind::from_name(meta.name()).is_some()
    } else {
        meta.target().starts_with("spanledger::")
    }
}
