//! Compares the spans that were sent with those that a backend has stored.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::Value as Json;

use super::finding::{Finding, What};
use super::stored::StoredSpan;
use crate::mirror::map::content::without_content;
use crate::mirror::map::origin::Origin;
use crate::mirror::otlp::any_value::Value;
use crate::mirror::otlp::span::{Event, Link, SpanKind};
use crate::mirror::otlp::status::StatusCode;
use crate::mirror::otlp::{InstrumentationScope, KeyValue, Resource, Span};
use crate::mirror::otlp_json::plain_json;
use crate::trace::{floor_char, hex};

/// The prefix of attributes in which Jaeger comments on a span, such as that it ends after its parent.
const JAEGER_COMMENT: &str = "@jaeger@";

/// A span that the backend should have: what the mirror sends for a close line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Expected {
    /// Its resource and scope.
    pub origin: Arc<Origin>,
    /// The span.
    pub span: Span,
    /// Where its close line is: `session/seg:seq`.
    pub address: String,
    /// Why the backend may not have it yet.
    pub unsent: Option<String>,
}

impl Expected {
    /// A span that was sent.
    pub fn new(origin: Arc<Origin>, span: Span, address: impl Into<String>) -> Self {
        Self {
            origin,
            span,
            address: address.into(),
            unsent: None,
        }
    }
}

/// Compares the spans of a session in one trace with what a backend has of that trace.
///
/// `cut_at` is the length at which the backend truncates texts. Spans of other sessions in the same trace
/// (subagents) are ignored, and so are the order of attributes, events and links, and the flags, which
/// backends don't store.
pub fn compare(
    session_id: &str,
    expected: &[Expected],
    stored: &[StoredSpan],
    cut_at: Option<usize>,
) -> Vec<Finding> {
    let mut by_id: BTreeMap<&[u8], Vec<&StoredSpan>> = BTreeMap::new();
    for stored in stored {
        by_id.entry(&stored.span.span_id).or_default().push(stored);
    }
    let mut findings = Vec::new();
    let mut reported_origins = HashSet::new();
    for expected in expected {
        let copies = by_id.remove(expected.span.span_id.as_slice());
        let found = compare_span(
            expected,
            &copies.unwrap_or_default(),
            cut_at,
            &mut reported_origins,
        );
        let address = Some(expected.address.as_str());
        findings.extend(
            found
                .into_iter()
                .map(|what| finding(&expected.span, address, what)),
        );
    }
    for stored in by_id.into_values().flatten() {
        let address = address_of(&stored.span);
        let session = address.and_then(|address| Some(address.rsplit_once('/')?.0));
        if session == Some(session_id) {
            findings.push(finding(&stored.span, address, What::Extra));
        }
    }
    findings
}

/// The findings about one span and its copies, each once.
fn compare_span(
    expected: &Expected,
    copies: &[&StoredSpan],
    cut_at: Option<usize>,
    reported_origins: &mut HashSet<String>,
) -> Vec<What> {
    if copies.is_empty() {
        let why = expected.unsent.clone();
        return vec![What::Missing { why }];
    }
    let mut found = Vec::new();
    if copies.len() > 1 {
        found.push(What::Copies {
            copies: copies.len(),
        });
    }
    let origin = &expected.origin;
    let origin = origin_fields(origin.resource(), origin.scope());
    for stored in copies {
        let of_span = compare_spans(&expected.span, &stored.span, cut_at);
        let stored_origin = origin_fields(&stored.resource, &stored.scope);
        // Many spans have the same resource: its differences are reported once.
        let new = |what: &What| reported_origins.insert(format!("{what:?}"));
        let of_origin = compare_fields(&origin, &stored_origin, cut_at);
        let of_origin = of_origin.into_iter().filter(new);
        for what in of_span.into_iter().chain(of_origin) {
            if !found.contains(&what) {
                found.push(what);
            }
        }
    }
    found
}

fn finding(span: &Span, address: Option<&str>, what: What) -> Finding {
    Finding {
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        name: span.name.clone(),
        address: address.map(str::to_owned),
        what,
    }
}

/// The address of the close line in a span's attributes.
fn address_of(span: &Span) -> Option<&str> {
    let mut attributes = span.attributes.iter();
    let attribute = attributes.find(|a| a.key == "agent.trace.address")?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(address) => Some(address),
        _ => None,
    }
}

/// The differences between a span that was sent and one that is stored.
fn compare_spans(sent: &Span, stored: &Span, cut_at: Option<usize>) -> Vec<What> {
    let mut found = Vec::new();
    let mut attributes = stored.attributes.iter();
    let reduced;
    let sent = match attributes.any(|a| a.key == "agent.content_removed") {
        true => {
            found.push(What::ContentRemoved);
            reduced = without_content(sent.clone());
            &reduced
        }
        false => sent,
    };
    let (mut was, is) = (fields_of(sent), fields_of(stored));
    let start = sent.start_time_unix_nano;
    if sent.end_time_unix_nano <= start && stored.end_time_unix_nano == start + 1 {
        found.push(What::Stretched);
        was.insert("end".to_owned(), (start + 1).into());
    }
    found.extend(compare_fields(&was, &is, cut_at));
    found
}

/// The parts of a span or of its origin by name, such as `events.0.name`, as plain JSON.
type Fields = BTreeMap<String, Json>;

fn fields_of(span: &Span) -> Fields {
    let status = span.status.clone().unwrap_or_default();
    let kind = SpanKind::try_from(span.kind).ok().map(|k| k.as_str_name());
    let code = StatusCode::try_from(status.code).ok();
    let code = short_name(code.map(|c| c.as_str_name()), "STATUS_CODE_", status.code);
    let dropped = span.dropped_attributes_count;
    let mut fields = named([
        ("trace_id", hex(&span.trace_id).into()),
        ("parent_span_id", hex(&span.parent_span_id).into()),
        ("name", span.name.as_str().into()),
        ("kind", short_name(kind, "SPAN_KIND_", span.kind).into()),
        ("start", span.start_time_unix_nano.into()),
        ("end", span.end_time_unix_nano.into()),
        ("trace_state", span.trace_state.as_str().into()),
        ("status.code", code.into()),
        ("status.message", status.message.into()),
        ("events", span.events.len().into()),
        ("links", span.links.len().into()),
        ("dropped_attributes_count", dropped.into()),
        ("dropped_events_count", span.dropped_events_count.into()),
        ("dropped_links_count", span.dropped_links_count.into()),
    ]);
    add_attributes(&mut fields, "attributes", &span.attributes);
    let key = |event: &Event| (event.time_unix_nano, event.name.clone());
    for (at, event) in sorted(&span.events, key).enumerate() {
        fields.insert(format!("events.{at}.time"), event.time_unix_nano.into());
        fields.insert(format!("events.{at}.name"), event.name.as_str().into());
        let place = format!("events.{at}.attributes");
        add_attributes(&mut fields, &place, &event.attributes);
    }
    let key = |link: &Link| (link.trace_id.clone(), link.span_id.clone());
    for (at, link) in sorted(&span.links, key).enumerate() {
        fields.insert(format!("links.{at}.trace_id"), hex(&link.trace_id).into());
        fields.insert(format!("links.{at}.span_id"), hex(&link.span_id).into());
        let state = link.trace_state.as_str().into();
        fields.insert(format!("links.{at}.trace_state"), state);
        let place = format!("links.{at}.attributes");
        add_attributes(&mut fields, &place, &link.attributes);
    }
    fields
}

fn origin_fields(resource: &Resource, scope: &InstrumentationScope) -> Fields {
    let mut fields = named([
        ("scope.name", scope.name.as_str().into()),
        ("scope.version", scope.version.as_str().into()),
    ]);
    add_attributes(&mut fields, "resource", &resource.attributes);
    fields
}

fn named<const N: usize>(fields: [(&str, Json); N]) -> Fields {
    Fields::from(fields.map(|(name, value)| (name.to_owned(), value)))
}

/// Adds attributes, the first one of a name.
fn add_attributes(fields: &mut Fields, place: &str, attributes: &[KeyValue]) {
    let own = attributes.iter();
    for attribute in own.filter(|a| !a.key.starts_with(JAEGER_COMMENT)) {
        let name = format!("{place}.{}", attribute.key);
        let field = fields.entry(name);
        field.or_insert_with(|| plain_json(attribute.value.as_ref()));
    }
}

/// The differences, by the names of the fields.
fn compare_fields(sent: &Fields, stored: &Fields, cut_at: Option<usize>) -> Vec<What> {
    let names: BTreeSet<&String> = sent.keys().chain(stored.keys()).collect();
    let is_counted = |name: &str| {
        // The items of lists of different lengths can't be compared.
        let list = ["events", "links"].into_iter().find(|list| {
            let item = name.strip_prefix(list);
            item.is_some_and(|item| item.starts_with('.'))
        });
        list.is_none_or(|list| sent.get(list) == stored.get(list))
    };
    let mut found = Vec::new();
    for name in names.into_iter().filter(|name| is_counted(name)) {
        let (was, is) = (sent.get(name), stored.get(name));
        if was == is {
            continue;
        }
        let field = name.clone();
        let is_attribute = name.starts_with("resource.") || name.contains("attributes.");
        found.push(match (was, is, cut_at) {
            (Some(Json::String(was)), Some(Json::String(is)), Some(at))
                if is_attribute && is_cut(was, is, at) =>
            {
                What::Cut {
                    field,
                    left: at,
                    of: was.len(),
                }
            }
            _ => What::Differs {
                field,
                sent: was.cloned(),
                held: is.cloned(),
            },
        });
    }
    found
}

/// Whether a stored text is the one that was sent, truncated at a length.
fn is_cut(sent: &str, stored: &str, at: usize) -> bool {
    // A character that was cut in two is read as replacement characters.
    let whole = stored.trim_end_matches(char::REPLACEMENT_CHARACTER);
    sent.len() > at && sent.starts_with(whole) && floor_char(sent, at) == whole.len()
}

/// A list in the order of a key, because backends don't keep the order.
fn sorted<T, K: Ord>(list: &[T], key: fn(&T) -> K) -> impl Iterator<Item = &T> {
    let mut list: Vec<&T> = list.iter().collect();
    list.sort_by_key(|item| key(item));
    list.into_iter()
}

/// The short name of an enum's value, or its number.
fn short_name(name: Option<&str>, prefix: &str, number: i32) -> String {
    let name = name.and_then(|name| name.strip_prefix(prefix));
    name.map_or_else(|| number.to_string(), str::to_ascii_lowercase)
}
