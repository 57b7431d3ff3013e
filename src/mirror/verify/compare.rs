//! What was sent and what is held, span by span.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::finding::{Finding, What};
use super::held::Held;
use super::otlp::{AnyValue, Event, KeyValue, Link, Span, Value};
use crate::mirror::content::without_content;
use crate::mirror::origin::Origin;

/// What Jaeger thinks of a span (that it ends after its parent, say) it shows as an attribute of it.
const JAEGERS_REMARK: &str = "@jaeger@";

/// A span that the backend should have: what the mirror sends of a close line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Expected {
    /// Who recorded it.
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

/// Compares what the trace says of a session with what a backend holds of one trace.
///
/// `cut_at` is where the backend is known to cut texts. Spans of others in the same trace (subagents
/// are sessions of their own) are passed by. Neither the order of attributes, events and links counts,
/// nor the flags, which backends don't keep.
pub fn compare(
    session_id: &str,
    expected: &[Expected],
    held: &[Held],
    cut_at: Option<usize>,
) -> Vec<Finding> {
    let mut by_id: BTreeMap<&[u8], Vec<&Held>> = BTreeMap::new();
    for held in held {
        by_id.entry(&held.span.span_id).or_default().push(held);
    }
    let mut found = Vec::new();
    let mut told = HashSet::new();
    for expected in expected {
        let mut say = |what| {
            found.push(finding(
                &expected.span,
                Some(expected.address.clone()),
                what,
            ))
        };
        match by_id.remove(expected.span.span_id.as_slice()).as_deref() {
            None | Some([]) => say(What::Missing {
                why: expected.unsent.clone(),
            }),
            Some(copies) => {
                if copies.len() > 1 {
                    say(What::Copies {
                        copies: copies.len(),
                    });
                }
                let mut wrong: Vec<What> = Vec::new();
                for held in copies {
                    let mut pair = Pair::new(cut_at);
                    pair.span(&expected.span, &held.span);
                    // One resource has many spans: what is wrong with it is said once.
                    let mut origin = Pair::new(cut_at);
                    origin.origin(&expected.origin, held);
                    let of_origin = origin.found.into_iter();
                    let new = of_origin.filter(|what| told.insert(format!("{what:?}")));
                    wrong.extend(pair.found.into_iter().chain(new));
                }
                // What is wrong with two copies is wrong with the span.
                let mut said: Vec<&What> = Vec::new();
                for what in &wrong {
                    if !said.contains(&what) {
                        said.push(what);
                        say(what.clone());
                    }
                }
            }
        }
    }
    for held in by_id.into_values().flatten() {
        let address = address_of(&held.span);
        if address
            .and_then(|address| address.rsplit_once('/'))
            .map(|(of, _)| of)
            == Some(session_id)
        {
            found.push(finding(&held.span, address.map(str::to_owned), What::Extra));
        }
    }
    found
}

fn finding(span: &Span, address: Option<String>, what: What) -> Finding {
    Finding {
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        name: span.name.clone(),
        address,
        what,
    }
}

/// Where a span says that its line is.
fn address_of(span: &Span) -> Option<&str> {
    let attribute = span
        .attributes
        .iter()
        .find(|a| a.key == "agent.trace.address")?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(address) => Some(address),
        _ => None,
    }
}

pub(super) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A span that was sent beside the one that is held.
struct Pair {
    /// Texts longer than this many bytes are cut by the backend.
    cut_at: Option<usize>,
    found: Vec<What>,
}

impl Pair {
    const fn new(cut_at: Option<usize>) -> Self {
        Self {
            cut_at,
            found: Vec::new(),
        }
    }

    fn span(&mut self, sent: &Span, held: &Span) {
        let removed = held
            .attributes
            .iter()
            .any(|a| a.key == "agent.content_removed");
        let less;
        let sent = match removed {
            true => {
                self.found.push(What::ContentRemoved);
                less = without_content(sent.clone());
                &less
            }
            false => sent,
        };
        self.same("trace_id", &hex(&sent.trace_id), &hex(&held.trace_id));
        let parents = (hex(&sent.parent_span_id), hex(&held.parent_span_id));
        self.same("parent_span_id", &parents.0, &parents.1);
        self.same("name", &sent.name, &held.name);
        self.same("kind", &kind(sent.kind), &kind(held.kind));
        self.same(
            "start",
            &sent.start_time_unix_nano,
            &held.start_time_unix_nano,
        );
        self.end(sent, held);
        self.same("trace_state", &sent.trace_state, &held.trace_state);
        let (was, is) = (sent.status.clone(), held.status.clone());
        let (was, is) = (was.unwrap_or_default(), is.unwrap_or_default());
        self.same("status.code", &code(was.code), &code(is.code));
        self.same("status.message", &was.message, &is.message);
        self.attributes("attributes", &sent.attributes, &held.attributes);
        self.dropped(
            "attributes",
            sent.dropped_attributes_count,
            held.dropped_attributes_count,
        );
        self.events(&sent.events, &held.events);
        self.dropped(
            "events",
            sent.dropped_events_count,
            held.dropped_events_count,
        );
        self.links(&sent.links, &held.links);
        self.dropped("links", sent.dropped_links_count, held.dropped_links_count);
    }

    fn end(&mut self, sent: &Span, held: &Span) {
        let (start, end) = (sent.start_time_unix_nano, sent.end_time_unix_nano);
        if end <= start && held.end_time_unix_nano == start + 1 {
            self.found.push(What::Stretched);
        } else {
            self.same("end", &end, &held.end_time_unix_nano);
        }
    }

    fn origin(&mut self, sent: &Origin, held: &Held) {
        self.attributes(
            "resource",
            &sent.resource().attributes,
            &held.resource.attributes,
        );
        self.same("scope.name", &sent.scope().name, &held.scope.name);
        self.same("scope.version", &sent.scope().version, &held.scope.version);
    }

    fn events(&mut self, sent: &[Event], held: &[Event]) {
        let sorted = |events: &[Event]| {
            let mut events = events.to_vec();
            events.sort_by(|a, b| (a.time_unix_nano, &a.name).cmp(&(b.time_unix_nano, &b.name)));
            events
        };
        if !self.same("events", &sent.len(), &held.len()) {
            return;
        }
        for (at, (sent, held)) in sorted(sent).iter().zip(&sorted(held)).enumerate() {
            let field = |name: &str| format!("events.{at}.{name}");
            self.same(&field("time"), &sent.time_unix_nano, &held.time_unix_nano);
            self.same(&field("name"), &sent.name, &held.name);
            self.attributes(&field("attributes"), &sent.attributes, &held.attributes);
        }
    }

    fn links(&mut self, sent: &[Link], held: &[Link]) {
        let sorted = |links: &[Link]| {
            let mut links = links.to_vec();
            links.sort_by(|a, b| (&a.trace_id, &a.span_id).cmp(&(&b.trace_id, &b.span_id)));
            links
        };
        if !self.same("links", &sent.len(), &held.len()) {
            return;
        }
        for (at, (sent, held)) in sorted(sent).iter().zip(&sorted(held)).enumerate() {
            let field = |name: &str| format!("links.{at}.{name}");
            self.same(
                &field("trace_id"),
                &hex(&sent.trace_id),
                &hex(&held.trace_id),
            );
            self.same(&field("span_id"), &hex(&sent.span_id), &hex(&held.span_id));
            self.same(&field("trace_state"), &sent.trace_state, &held.trace_state);
            self.attributes(&field("attributes"), &sent.attributes, &held.attributes);
        }
    }

    fn attributes(&mut self, place: &str, sent: &[KeyValue], held: &[KeyValue]) {
        let find = |list: &'_ [KeyValue], key: &str| list.iter().position(|a| a.key == key);
        for attribute in sent {
            let field = format!("{place}.{}", attribute.key);
            let Some(at) = find(held, &attribute.key) else {
                let sent = Some(plain(attribute.value.as_ref()));
                self.differs(field, sent, None);
                continue;
            };
            let value =
                |attribute: &KeyValue| attribute.value.as_ref().and_then(|v| v.value.clone());
            match (value(attribute), value(&held[at])) {
                (was, is) if was == is => {}
                (Some(Value::StringValue(was)), Some(Value::StringValue(is))) => {
                    self.text(&field, &was, &is);
                }
                _ => {
                    let sent = Some(plain(attribute.value.as_ref()));
                    self.differs(field, sent, Some(plain(held[at].value.as_ref())));
                }
            }
        }
        for attribute in held {
            let remark = attribute.key.starts_with(JAEGERS_REMARK);
            if !remark && find(sent, &attribute.key).is_none() {
                let field = format!("{place}.{}", attribute.key);
                self.differs(field, None, Some(plain(attribute.value.as_ref())));
            }
        }
    }

    fn dropped(&mut self, what: &str, sent: u32, held: u32) {
        self.same(&format!("dropped_{what}_count"), &sent, &held);
    }

    fn same<T: PartialEq + serde::Serialize>(&mut self, field: &str, sent: &T, held: &T) -> bool {
        let same = sent == held;
        if !same {
            self.differs(field.to_owned(), Some(json!(sent)), Some(json!(held)));
        }
        same
    }

    /// A text may have been cut where the backend is known to cut.
    fn text(&mut self, field: &str, sent: &str, held: &str) {
        if sent == held {
            return;
        }
        // Cut in the middle of a character, the rest of that reads as one that nobody wrote.
        let whole = held.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let cut = self.cut_at.filter(|&at| {
            sent.len() > at
                && sent.starts_with(whole)
                && sent.floor_char_boundary(at) == whole.len()
        });
        match cut {
            Some(left) => self.found.push(What::Cut {
                field: field.to_owned(),
                left,
                of: sent.len(),
            }),
            None => {
                self.same(field, &sent, &held);
            }
        }
    }

    fn differs(&mut self, field: String, sent: Option<Json>, held: Option<Json>) {
        self.found.push(What::Differs { field, sent, held });
    }
}

fn kind(number: i32) -> String {
    let names = [
        "unspecified",
        "internal",
        "server",
        "client",
        "producer",
        "consumer",
    ];
    let name = usize::try_from(number).ok().and_then(|at| names.get(at));
    name.map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

fn code(number: i32) -> String {
    let names = ["unset", "ok", "error"];
    let name = usize::try_from(number).ok().and_then(|at| names.get(at));
    name.map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

/// A value for people and programs that read findings.
fn plain(value: Option<&AnyValue>) -> Json {
    match value.and_then(|any| any.value.as_ref()) {
        None => Json::Null,
        Some(Value::StringValue(text)) => json!(text),
        Some(Value::BoolValue(yes)) => json!(yes),
        Some(Value::IntValue(n)) => json!(n),
        Some(Value::DoubleValue(n)) => json!(n),
        Some(Value::ArrayValue(list)) => list.values.iter().map(|v| plain(Some(v))).collect(),
        Some(other) => json!(format!("{other:?}")),
    }
}
