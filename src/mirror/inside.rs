//! What lies inside a span or beside it: its short events and its links.

use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};

use super::attributes::{Attributes, member_name};
use super::map::id;
use super::names::{put_as_given, put_said};
use super::origin::Policy;
use crate::ledger::parse_time;
use crate::reader::RawValue;

/// The events of a close line, and how many more there were.
#[derive(Default)]
pub(super) struct Events<'a> {
    pub list: Option<RawValue<'a>>,
    pub dropped: u32,
}

/// Keeps the first ones. How many were left out.
fn first<T>(mut list: Vec<T>, most: Option<usize>) -> (Vec<T>, u32) {
    let left_out = list.len().saturating_sub(most.unwrap_or(usize::MAX));
    list.truncate(list.len() - left_out);
    (list, u32::try_from(left_out).unwrap_or(u32::MAX))
}

pub(super) fn events(events: &Events<'_>, policy: &Policy) -> (Vec<Event>, u32) {
    let list = events.list.into_iter().flat_map(|list| list.items());
    let list = list.map(|event| {
        let mut said = Event::default();
        let mut attributes = Attributes::new(policy.content, 2);
        for (name, value) in event.members() {
            match name {
                "ts" => {
                    let time = value.text().and_then(|text| parse_time(&text));
                    said.time_unix_nano = time.unwrap_or(0);
                }
                "name" => said.name = value.text().unwrap_or_default().into_owned(),
                "attributes" => put_as_given(value, &mut attributes),
                _ => put_said(&member_name(name), value, &mut attributes),
            }
        }
        (said.attributes, said.dropped_attributes_count) = attributes.finish(&policy.limits);
        said
    });
    first(list.collect(), policy.limits.event_count)
}

/// A link says nothing of whether its span was sampled, unless the line does.
pub(super) fn links(links: Option<RawValue<'_>>, policy: &Policy) -> (Vec<Link>, u32) {
    let list = links.into_iter().flat_map(|list| list.items());
    let list = list.filter_map(|link| {
        let mut said = Link::default();
        let mut attributes = Attributes::new(policy.content, 0);
        for (name, value) in link.members() {
            match name {
                "trace_id" => said.trace_id = id(value.text().as_deref(), 16)?,
                "span_id" => said.span_id = id(value.text().as_deref(), 8)?,
                "tracestate" => said.trace_state = value.text().unwrap_or_default().into_owned(),
                "sampled" if value.bool().is_some() => {
                    said.flags |= u32::from(value.bool() == Some(true));
                }
                "remote" if value.bool().is_some() => {
                    said.flags |= 0x100 | if value.bool() == Some(true) { 0x200 } else { 0 };
                }
                "attributes" => put_as_given(value, &mut attributes),
                _ => attributes.field(&member_name(name), value),
            }
        }
        (said.attributes, said.dropped_attributes_count) = attributes.finish(&policy.limits);
        (!said.trace_id.is_empty() && !said.span_id.is_empty()).then_some(said)
    });
    first(list.collect(), policy.limits.link_count)
}
