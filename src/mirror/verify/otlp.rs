//! The messages that are compared, named in one place.

pub(super) use opentelemetry_proto::tonic::common::v1::any_value::Value;
pub(super) use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
pub(super) use opentelemetry_proto::tonic::resource::v1::Resource;
pub(super) use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
pub(super) use opentelemetry_proto::tonic::trace::v1::{Span, Status};
