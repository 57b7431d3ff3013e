//! The messages that are compared, named in one place.

pub(super) use crate::mirror::otlp::Resource;
pub(super) use crate::mirror::otlp::any_value::Value;
pub(super) use crate::mirror::otlp::span::{Event, Link};
pub(super) use crate::mirror::otlp::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
pub(super) use crate::mirror::otlp::{Span, Status};
