//! The events and the links of a span.

use std::borrow::Cow;

use super::attributes::{Attributes, member_name};
use super::id;
use super::names::{put_given, put_other};
use super::policy::Policy;
use super::wire::{put_bytes, put_count, put_fixed64, put_text};
use crate::session::message_with_causes;
use crate::trace::typed::ErrorInfo;
use crate::trace::{Kind, RawValue, parse_time};

/// The events of a close line, and how many more there were.
#[derive(Default)]
pub(crate) struct Events<'a> {
    pub list: Option<RawValue<'a>>,
    pub dropped: u32,
}

/// Writes the first items of a list, each as field `number`, and returns how many were written and dropped.
fn put_first<'a>(
    list: Option<RawValue<'a>>,
    most: Option<usize>,
    number: u8,
    out: &mut Vec<u8>,
    mut write: impl FnMut(RawValue<'a>, &mut Vec<u8>) -> Option<()>,
) -> (usize, u32) {
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
    (written, left_out)
}

/// Writes the events of a span and, as the last one, the error that ended it.
pub(crate) fn put_events(
    events: &Events<'_>,
    exception: Option<(u64, RawValue<'_>)>,
    policy: &Policy,
    number: u8,
    out: &mut Vec<u8>,
) -> u32 {
    let most = policy.limits.event_count;
    let mut has_exception = false;
    let (written, left_out) = put_first(events.list, most, number, out, |event, out| {
        let name = event.get("name").and_then(|name| name.text());
        let name = name.unwrap_or_default();
        has_exception |= name == "exception";
        let time = event.get("ts").and_then(|ts| parse_time(&ts.text()?));
        put_event(time.unwrap_or(0), &name, policy, out, |attributes| {
            put_event_members(event, &name, attributes);
        });
        Some(())
    });
    let Some((time, error)) = exception.filter(|_| !has_exception) else {
        return left_out;
    };
    if written >= most.unwrap_or(usize::MAX) {
        return left_out.saturating_add(1);
    }
    let mut one = Vec::new();
    put_event(time, "exception", policy, &mut one, |attributes| {
        put_exception(error, attributes);
    });
    put_bytes(number, &one, out);
    left_out
}

fn put_event<'p>(
    time: u64,
    name: &str,
    policy: &'p Policy,
    out: &mut Vec<u8>,
    put: impl FnOnce(&mut Attributes<'p>),
) {
    let mut attributes = Attributes::behind(Vec::new(), 3, policy);
    attributes.end_ours();
    put(&mut attributes);
    let (attributes, dropped) = attributes.finish();
    put_fixed64(1, time, out);
    put_text(2, name, out);
    out.extend_from_slice(&attributes);
    put_count(4, dropped, out);
}

fn put_event_members(event: RawValue<'_>, name: &str, out: &mut Attributes<'_>) {
    let is_log = name == Kind::Log.as_str();
    for (member, value) in event.members() {
        match member {
            "ts" | "name" => {}
            "attributes" => put_given(value.members(), true, out),
            "message" if out.policy().texts.log_messages => out.field(member, value),
            "message" => {}
            "fields" => {
                for (member, value) in value.members() {
                    match member {
                        _ if is_log && !out.policy().texts.log_messages => {}
                        _ if is_log => {
                            let key = format!("agent.fields.{}", member_name(member));
                            out.put_plain(key, value);
                        }
                        "error" => put_exception(value, out),
                        _ => put_other(None, member_name(member), value, out),
                    }
                }
            }
            _ => put_other(None, member_name(member), value, out),
        }
    }
}

/// An error by the conventions.
fn put_exception(error: RawValue<'_>, out: &mut Attributes<'_>) {
    let info = ErrorInfo::from(error);
    out.text(
        "exception.type",
        info.error_type().unwrap_or("_OTHER".into()),
    );
    if !out.policy().texts.error_text {
        return;
    }
    if let Some(message) = error_message(error) {
        out.text("exception.message", message);
    }
    if let Some(stack) = info.stack() {
        let stack = stack.text().unwrap_or_else(|| stack.json().into());
        out.text("exception.stacktrace", stack);
    }
}

/// The message of an error, and after it those of its causes.
pub(crate) fn error_message(error: RawValue<'_>) -> Option<String> {
    let message = message_with_causes(&ErrorInfo::from(error));
    message.or_else(|| error.text().map(Cow::into_owned))
}

/// A link has flags only if the line does.
pub(crate) fn put_links(
    links: Option<RawValue<'_>>,
    policy: &Policy,
    number: u8,
    out: &mut Vec<u8>,
) -> u32 {
    let most = policy.limits.link_count;
    let (_, left_out) = put_first(links, most, number, out, |link, out| {
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
                "attributes" => put_given(value.members(), true, &mut attributes),
                _ => put_other(None, member_name(member), value, &mut attributes),
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
    });
    left_out
}
