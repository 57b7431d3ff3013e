//! Compares the spans that were sent with those that a backend has stored.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::finding::{Finding, What};
use super::stored::{KINDS, STATUS_CODES, StoredSpan};
use crate::mirror::content::without_content;
use crate::mirror::origin::Origin;
use crate::mirror::otlp::any_value::Value;
use crate::mirror::otlp::span::{Event, Link};
use crate::mirror::otlp::{KeyValue, Span};
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
    for stored in copies {
        let mut span = Comparison::new(cut_at);
        span.span(&expected.span, &stored.span);
        let mut origin = Comparison::new(cut_at);
        origin.origin(&expected.origin, stored);
        // Many spans have the same resource: its differences are reported once.
        let new = |what: &What| reported_origins.insert(format!("{what:?}"));
        let of_origin = origin.found.into_iter().filter(new);
        for what in span.found.into_iter().chain(of_origin) {
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
struct Comparison {
    cut_at: Option<usize>,
    found: Vec<What>,
}

impl Comparison {
    const fn new(cut_at: Option<usize>) -> Self {
        Self {
            cut_at,
            found: Vec::new(),
        }
    }

    fn span(&mut self, sent: &Span, stored: &Span) {
        let mut attributes = stored.attributes.iter();
        let reduced;
        let sent = match attributes.any(|a| a.key == "agent.content_removed") {
            true => {
                self.found.push(What::ContentRemoved);
                reduced = without_content(sent.clone());
                &reduced
            }
            false => sent,
        };
        self.same("trace_id", hex(&sent.trace_id), hex(&stored.trace_id));
        self.same(
            "parent_span_id",
            hex(&sent.parent_span_id),
            hex(&stored.parent_span_id),
        );
        self.same("name", &sent.name, &stored.name);
        let kind = |number| name_of(number, &KINDS);
        self.same("kind", kind(sent.kind), kind(stored.kind));
        self.times(sent, stored);
        self.same("trace_state", &sent.trace_state, &stored.trace_state);
        let status = |span: &Span| span.status.clone().unwrap_or_default();
        let (was, is) = (status(sent), status(stored));
        let code = |number| name_of(number, &STATUS_CODES);
        self.same("status.code", code(was.code), code(is.code));
        self.same("status.message", was.message, is.message);
        self.attributes("attributes", &sent.attributes, &stored.attributes);
        self.events(&sent.events, &stored.events);
        self.links(&sent.links, &stored.links);
        for (name, sent, stored) in [
            (
                "dropped_attributes_count",
                sent.dropped_attributes_count,
                stored.dropped_attributes_count,
            ),
            (
                "dropped_events_count",
                sent.dropped_events_count,
                stored.dropped_events_count,
            ),
            (
                "dropped_links_count",
                sent.dropped_links_count,
                stored.dropped_links_count,
            ),
        ] {
            self.same(name, sent, stored);
        }
    }

    fn times(&mut self, sent: &Span, stored: &Span) {
        let (start, end) = (sent.start_time_unix_nano, sent.end_time_unix_nano);
        self.same("start", start, stored.start_time_unix_nano);
        if end <= start && stored.end_time_unix_nano == start + 1 {
            self.found.push(What::Stretched);
        } else {
            self.same("end", end, stored.end_time_unix_nano);
        }
    }

    fn origin(&mut self, sent: &Origin, stored: &StoredSpan) {
        let resource = &sent.resource().attributes;
        self.attributes("resource", resource, &stored.resource.attributes);
        let (was, is) = (sent.scope(), &stored.scope);
        self.same("scope.name", &was.name, &is.name);
        self.same("scope.version", &was.version, &is.version);
    }

    fn events(&mut self, sent: &[Event], stored: &[Event]) {
        if !self.same("events", sent.len(), stored.len()) {
            return;
        }
        let key = |event: &Event| (event.time_unix_nano, event.name.clone());
        for (at, (sent, stored)) in pairs(sent, stored, key).enumerate() {
            let field = |name: &str| format!("events.{at}.{name}");
            self.same(&field("time"), sent.time_unix_nano, stored.time_unix_nano);
            self.same(&field("name"), &sent.name, &stored.name);
            self.attributes(&field("attributes"), &sent.attributes, &stored.attributes);
        }
    }

    fn links(&mut self, sent: &[Link], stored: &[Link]) {
        if !self.same("links", sent.len(), stored.len()) {
            return;
        }
        let key = |link: &Link| (link.trace_id.clone(), link.span_id.clone());
        for (at, (sent, stored)) in pairs(sent, stored, key).enumerate() {
            let field = |name: &str| format!("links.{at}.{name}");
            self.same(
                &field("trace_id"),
                hex(&sent.trace_id),
                hex(&stored.trace_id),
            );
            self.same(&field("span_id"), hex(&sent.span_id), hex(&stored.span_id));
            self.same(
                &field("trace_state"),
                &sent.trace_state,
                &stored.trace_state,
            );
            self.attributes(&field("attributes"), &sent.attributes, &stored.attributes);
        }
    }

    fn attributes(&mut self, place: &str, sent: &[KeyValue], stored: &[KeyValue]) {
        fn find<'a>(list: &'a [KeyValue], key: &str) -> Option<&'a KeyValue> {
            list.iter().find(|attribute| attribute.key == key)
        }
        fn value(attribute: &KeyValue) -> Option<&Value> {
            attribute.value.as_ref()?.value.as_ref()
        }
        let json = |attribute: &KeyValue| plain_json(attribute.value.as_ref());
        for attribute in sent {
            let field = format!("{place}.{}", attribute.key);
            let stored = find(stored, &attribute.key);
            match (value(attribute), stored.and_then(value)) {
                (was, is) if stored.is_some() && was == is => {}
                (Some(Value::StringValue(was)), Some(Value::StringValue(is))) => {
                    self.text(&field, was, is);
                }
                _ => self.differs(field, Some(json(attribute)), stored.map(json)),
            }
        }
        for attribute in stored {
            let is_comment = attribute.key.starts_with(JAEGER_COMMENT);
            if !is_comment && find(sent, &attribute.key).is_none() {
                let field = format!("{place}.{}", attribute.key);
                self.differs(field, None, Some(json(attribute)));
            }
        }
    }

    fn same<T: PartialEq + serde::Serialize>(&mut self, field: &str, sent: T, stored: T) -> bool {
        let same = sent == stored;
        if !same {
            self.differs(field.to_owned(), Some(json!(sent)), Some(json!(stored)));
        }
        same
    }

    /// Compares two texts, of which the stored one may be truncated.
    fn text(&mut self, field: &str, sent: &str, stored: &str) {
        // A character that was cut in two is read as replacement characters.
        let whole = stored.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let cut = self.cut_at.filter(|&at| {
            sent.len() > at && sent.starts_with(whole) && floor_char(sent, at) == whole.len()
        });
        match cut {
            Some(left) if sent != stored => self.found.push(What::Cut {
                field: field.to_owned(),
                left,
                of: sent.len(),
            }),
            _ => {
                self.same(field, sent, stored);
            }
        }
    }

    fn differs(&mut self, field: String, sent: Option<Json>, held: Option<Json>) {
        self.found.push(What::Differs { field, sent, held });
    }
}

/// Both lists in the order of a key.
fn pairs<'a, T, K: Ord>(
    sent: &'a [T],
    stored: &'a [T],
    key: fn(&T) -> K,
) -> impl Iterator<Item = (&'a T, &'a T)> {
    let sorted = |list: &'a [T]| {
        let mut list: Vec<&T> = list.iter().collect();
        list.sort_by_key(|item| key(item));
        list
    };
    sorted(sent).into_iter().zip(sorted(stored))
}

fn name_of(number: i32, names: &[&str]) -> String {
    let name = usize::try_from(number).ok().and_then(|at| names.get(at));
    name.map_or_else(|| number.to_string(), |name| name.to_ascii_lowercase())
}
