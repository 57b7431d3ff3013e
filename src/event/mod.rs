//! What a line can say: kinds of spans and events, their fields, ids and usage.
//!
//! Nothing here knows how a line is stored (`ledger`) or where its values come from
//! (`layer`). Adding a kind or a field is free; removing one never happens.

mod failure;
mod fields;
mod ids;
mod outcome;
mod plain;
mod raw;
mod remote;
mod serialize;
mod span;
mod spare;
mod usage;

pub use failure::{AsFailure, Failure, ViaDeref, ViaError, ViaType};
pub use ids::new_session_id;
pub use outcome::Outcome;
pub use remote::{RemoteContext, RemoteContextError};
pub use usage::{Marks, Totals, Usage};

pub(crate) use failure::spelled;
pub(crate) use fields::{Cleaner, Fields};
pub(crate) use ids::{IdHasher, Ids, hex16, hex32, new_span_id, new_trace_id, random_bytes};
pub(crate) use plain::{Plain, give_plain};
pub(crate) use raw::{RawFields, Rewrite, is_short};
pub(crate) use serialize::{Digits, bool_text};
pub(crate) use span::{FieldRole, SpanKind, UsageField, is_json_field};
pub(crate) use spare::{LARGEST as LARGEST_SPARE, Spare};
pub(crate) use usage::UsageText;

/// Whether a span is an agent span, or an event one of ours.
pub(crate) fn is_ours(meta: &tracing::Metadata<'_>) -> bool {
    if meta.is_span() {
        SpanKind::from_name(meta.name()).is_some()
    } else {
        meta.target().starts_with("spanledger::")
    }
}
