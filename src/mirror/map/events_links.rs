//! The events and the links of a span.

use super::attributes::{Attributes, member_name};
use super::id;
use super::names::{put_members, put_other};
use super::policy::Policy;
use super::wire::{put_bytes, put_count, put_fixed64, put_text};
use crate::trace::RawValue;
use crate::trace::parse_time;

/// The events of a close line, and how many more there were.
#[derive(Default)]
pub(crate) struct Events<'a> {
    pub list: Option<RawValue<'a>>,
    pub dropped: u32,
}

/// Writes the first items of a list, each as field `number`, and returns how many were dropped.
fn put_first<'a>(
    list: Option<RawValue<'a>>,
    most: Option<usize>,
    number: u8,
    out: &mut Vec<u8>,
    write: impl Fn(RawValue<'a>, &mut Vec<u8>) -> Option<()>,
) -> u32 {
    let (mut written, mut left_out) = (0, 0u32);
    let mut one = Vec::new();
    for item in list.into_iter().flat_map(|list| list.items()) {
        one.clear();
        if write(item, &mut one).is_none() {
            continue;
        }
        if written < most.unwrap_or(usize::MAX) {
            put_bytes(number, &one, out);
            written += 1;
        } else {
            left_out = left_out.saturating_add(1);
        }
    }
    left_out
}

pub(crate) fn put_events(
    events: &Events<'_>,
    policy: &Policy,
    number: u8,
    out: &mut Vec<u8>,
) -> u32 {
    let most = policy.limits.event_count;
    put_first(events.list, most, number, out, |event, out| {
        let (mut time, mut name) = (0, None);
        let mut attributes = Attributes::behind(Vec::new(), 3, policy);
        attributes.end_ours();
        for (member, value) in event.members() {
            match member {
                "ts" => time = value.text().and_then(|text| parse_time(&text)).unwrap_or(0),
                "name" => name = value.text(),
                "attributes" => put_members(value, &mut attributes),
                _ => put_other(member_name(member), value, &mut attributes),
            }
        }
        let (attributes, dropped) = attributes.finish();
        put_fixed64(1, time, out);
        put_text(2, &name.unwrap_or_default(), out);
        out.extend_from_slice(&attributes);
        put_count(4, dropped, out);
        Some(())
    })
}

/// A link has flags only if the line does.
pub(crate) fn put_links(
    links: Option<RawValue<'_>>,
    policy: &Policy,
    number: u8,
    out: &mut Vec<u8>,
) -> u32 {
    let most = policy.limits.link_count;
    put_first(links, most, number, out, |link, out| {
        let (mut trace, mut span, mut state, mut flags) = (None, None, None, 0u32);
        let mut attributes = Attributes::behind(Vec::new(), 4, policy);
        attributes.end_ours();
        for (member, value) in link.members() {
            match member {
                "trace_id" => trace = id::<16>(value.text().as_deref()),
                "span_id" => span = id::<8>(value.text().as_deref()),
                "tracestate" => state = value.text(),
                "sampled" if value.bool().is_some() => {
                    flags |= u32::from(value.bool() == Some(true));
                }
                "remote" if value.bool().is_some() => {
                    flags |= 0x100 | if value.bool() == Some(true) { 0x200 } else { 0 };
                }
                "attributes" => put_members(value, &mut attributes),
                _ => attributes.field(member_name(member), value),
            }
        }
        let (attributes, dropped) = attributes.finish();
        put_bytes(1, &trace?, out);
        put_bytes(2, &span?, out);
        put_text(3, &state.unwrap_or_default(), out);
        out.extend_from_slice(&attributes);
        put_count(5, dropped, out);
        if flags != 0 {
            out.push(6 << 3 | 5);
            out.extend_from_slice(&flags.to_le_bytes());
        }
        Some(())
    })
}
