//! Which spans a file has, of which sessions, and in which order their lines are.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use crate::gen_ai::{OPERATION, kind_of};
use crate::import::ImportError;
use crate::import::lines::JsonLines;
use crate::trace::{Kind, RawValue, SpanKind, hex32, parse_time};

/// No session is known.
const NONE: u32 = u32::MAX;

/// A span of the file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub trace: u128,
    pub id: u64,
    pub parent: Option<u64>,
    pub start: u64,
    pub end: u64,
    /// Where its text is in the file.
    pub offset: u64,
    pub length: u32,
    pub line: u32,
    pub scope: u32,
    session: u32,
    has_content: bool,
}

/// The program and the library that made spans.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scope {
    pub service: Option<String>,
    pub library: Option<String>,
}

/// A session of the file.
#[derive(Debug)]
pub(super) struct SessionOf {
    pub id: String,
    /// Whether a model call has messages.
    pub calls_have_content: bool,
}

/// What a span is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Open,
    /// The event with this index.
    Event(u32),
    Close,
}

/// The next line to write.
#[derive(Debug)]
pub(super) struct Step {
    time: u64,
    /// What comes first at one moment: see [`Index::steps`].
    class: u8,
    tie: u64,
    order: u32,
    pub entry: u32,
    pub what: What,
}

#[derive(Default)]
pub(super) struct Index {
    pub entries: Vec<Entry>,
    pub scopes: Vec<Scope>,
    pub sessions: Vec<SessionOf>,
    /// The events that become lines: their time, span and index.
    events: Vec<(u64, u32, u32)>,
    names: HashMap<String, u32>,
}

/// What is known about a trace.
struct TraceOf {
    has_gen_ai: bool,
    session: u32,
}

impl Index {
    pub fn read(path: &Path) -> Result<Self, ImportError> {
        let mut index = Self::default();
        let mut traces = HashMap::new();
        let mut lines = JsonLines::open(path)?;
        loop {
            let number = lines.number() + 1;
            let Some((start, text)) = lines.next_text()? else {
                break;
            };
            if let Err(why) = index.request(text, start, number, &mut traces) {
                return Err(lines.error(why));
            }
        }
        index.assign(&traces);
        Ok(index)
    }

    fn request(
        &mut self,
        text: &str,
        offset: u64,
        line: u64,
        traces: &mut HashMap<u128, TraceOf>,
    ) -> Result<(), String> {
        let request = RawValue::new(text.trim());
        let Some(resources) = member(request, "resourceSpans", "resource_spans") else {
            return Err("no `resourceSpans`".to_owned());
        };
        let place = |json: &str| offset + (json.as_ptr() as usize - text.as_ptr() as usize) as u64;
        for resource in resources.items() {
            let attributes = resource.get("resource").and_then(|of| of.get("attributes"));
            let service = attributes.and_then(|of| text_of(of, "service.name"));
            let scopes = member(resource, "scopeSpans", "scope_spans");
            for scope in scopes.into_iter().flat_map(|scopes| scopes.items()) {
                let library = scope
                    .get("scope")
                    .and_then(|scope| scope.get("name")?.text());
                self.scopes.push(Scope {
                    service: service.clone(),
                    library: library.map(String::from),
                });
                let spans = scope.get("spans");
                for span in spans.into_iter().flat_map(|spans| spans.items()) {
                    self.span(span, place(span.json()), line, traces)?;
                }
            }
        }
        Ok(())
    }

    fn span(
        &mut self,
        span: RawValue<'_>,
        offset: u64,
        line: u64,
        traces: &mut HashMap<u128, TraceOf>,
    ) -> Result<(), String> {
        let id = |camel: &str, snake: &str, digits: usize| -> Result<Option<u128>, String> {
            let text = member(span, camel, snake).and_then(|id| id.text());
            let Some(text) = text.filter(|text| !text.is_empty()) else {
                return Ok(None);
            };
            let is_hex = text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
            match u128::from_str_radix(&text, 16) {
                Ok(id) if is_hex => Ok(Some(id).filter(|id| *id != 0)),
                _ => Err(format!("`{camel}` is not {digits} hexadecimal digits")),
            }
        };
        let trace = id("traceId", "trace_id", 32)?;
        let own = id("spanId", "span_id", 16)?;
        let (Some(trace), Some(own)) = (trace, own) else {
            return Err("a span has no `traceId` and `spanId`".to_owned());
        };
        let time = |camel, snake| member(span, camel, snake).and_then(nanoseconds);
        let start = time("startTimeUnixNano", "start_time_unix_nano").unwrap_or(0);
        let end = time("endTimeUnixNano", "end_time_unix_nano").unwrap_or(start);
        let seen = Seen::of(span);
        let session = seen.session.clone().filter(|id| !id.is_empty());
        let session = session.map_or(NONE, |id| self.name(id));
        let entry = self.entries.len() as u32;
        self.entries.push(Entry {
            trace,
            id: own as u64,
            parent: id("parentSpanId", "parent_span_id", 16)?.map(|id| id as u64),
            start,
            end: end.max(start),
            offset,
            length: span.json().len() as u32,
            line: u32::try_from(line).unwrap_or(u32::MAX),
            scope: self.scopes.len() as u32 - 1,
            session,
            has_content: seen.has_content && seen.is_model,
        });
        let of_trace = traces.entry(trace).or_insert(TraceOf {
            has_gen_ai: false,
            session: NONE,
        });
        of_trace.has_gen_ai |= seen.is_gen_ai;
        if of_trace.session == NONE {
            of_trace.session = session;
        }
        if seen.is_ours {
            self.events(span, entry, end.max(start), start);
        }
        Ok(())
    }

    /// The events of a span of ours, which were lines. Its error is in its close line.
    fn events(&mut self, span: RawValue<'_>, entry: u32, end: u64, start: u64) {
        let events = span
            .get("events")
            .into_iter()
            .flat_map(|events| events.items());
        for (at, event) in events.enumerate() {
            let name = event.get("name").and_then(|name| name.text());
            let name = name.unwrap_or_default();
            // A span of another kind was noted by its closing line, if at all.
            if name == "exception" || name.is_empty() || Kind::parse(&name).is_own() {
                continue;
            }
            let time = member(event, "timeUnixNano", "time_unix_nano").and_then(nanoseconds);
            let time = time.unwrap_or(start).clamp(start, end);
            self.events.push((time, entry, at as u32));
        }
    }

    /// The number of a session's id.
    fn name(&mut self, id: String) -> u32 {
        let next = self.names.len() as u32;
        *self.names.entry(id).or_insert(next)
    }

    /// Decides the session of each span: its own, another one of its trace, or the trace itself. Traces without
    /// a GenAI span are left out.
    fn assign(&mut self, traces: &HashMap<u128, TraceOf>) {
        let mut entries = std::mem::take(&mut self.entries);
        for entry in &mut entries {
            let Some(of_trace) = traces.get(&entry.trace) else {
                continue;
            };
            if !of_trace.has_gen_ai {
                entry.session = NONE;
            } else if entry.session == NONE {
                entry.session = match of_trace.session {
                    NONE => self.name(String::from_utf8_lossy(&hex32(entry.trace)).into_owned()),
                    session => session,
                };
            }
        }
        self.entries = entries;
        let mut ids: Vec<_> = std::mem::take(&mut self.names).into_iter().collect();
        ids.sort_by_key(|(_, number)| *number);
        let used: std::collections::HashSet<u32> =
            self.entries.iter().map(|entry| entry.session).collect();
        let mut numbers = HashMap::new();
        for (id, number) in ids.into_iter().filter(|(_, number)| used.contains(number)) {
            numbers.insert(number, self.sessions.len() as u32);
            self.sessions.push(SessionOf {
                id,
                calls_have_content: false,
            });
        }
        for entry in &mut self.entries {
            entry.session = numbers.get(&entry.session).copied().unwrap_or(NONE);
            if let Some(session) = self.sessions.get_mut(entry.session as usize) {
                session.calls_have_content |= entry.has_content;
            }
        }
    }

    /// The spans of a session, in the order of the file.
    pub fn of_session(&self, session: usize) -> impl Iterator<Item = &Entry> {
        let is_of = move |entry: &&Entry| entry.session as usize == session;
        self.entries.iter().filter(is_of)
    }

    /// The lines of a session in their order. At one moment first come the events and ends of spans that began
    /// before, the inner ones first; then what begins, the outer ones first; then what begins and ends at
    /// that moment.
    pub fn steps(&self, session: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        for (n, entry) in self.entries.iter().enumerate() {
            if entry.session as usize != session {
                continue;
            }
            let n = n as u32;
            let is_point = entry.start == entry.end;
            steps.push(Step {
                time: entry.start,
                class: 2,
                tie: u64::MAX - entry.end,
                // Exporters write spans as they end: the outer ones later.
                order: u32::MAX - n,
                entry: n,
                what: What::Open,
            });
            steps.push(Step {
                time: entry.end,
                class: if is_point { 4 } else { 1 },
                tie: u64::MAX - entry.start,
                order: n,
                entry: n,
                what: What::Close,
            });
        }
        for (time, n, at) in &self.events {
            let entry = &self.entries[*n as usize];
            if entry.session as usize == session {
                steps.push(Step {
                    time: *time,
                    class: if entry.start < *time { 0 } else { 3 },
                    tie: 0,
                    order: *at,
                    entry: *n,
                    what: What::Event(*at),
                });
            }
        }
        steps.sort_unstable_by_key(|step| (step.time, step.class, step.tie, step.order));
        steps
    }
}

/// A member by either of its spellings.
fn member<'a>(of: RawValue<'a>, camel: &str, snake: &str) -> Option<RawValue<'a>> {
    of.get(camel).or_else(|| of.get(snake))
}

/// A time: a number, or a text with one.
fn nanoseconds(value: RawValue<'_>) -> Option<u64> {
    value.u64().or_else(|| value.text()?.parse().ok())
}

/// The text of an attribute.
fn text_of(attributes: RawValue<'_>, key: &str) -> Option<String> {
    let mut all = attributes.items();
    let found =
        all.find(|one| one.get("key").and_then(|key| key.text()).as_deref() == Some(key))?;
    let value = member(found.get("value")?, "stringValue", "string_value")?;
    value.text().map(String::from)
}

/// What the attributes of a span say at a glance.
#[derive(Default)]
struct Seen {
    session: Option<String>,
    is_ours: bool,
    is_gen_ai: bool,
    is_model: bool,
    has_content: bool,
}

impl Seen {
    fn of(span: RawValue<'_>) -> Self {
        let mut seen = Self::default();
        let name = span.get("name").and_then(|name| name.text());
        let name = name.unwrap_or_default();
        let by_name = kind_of(name.split(' ').next().unwrap_or_default());
        let mut kind = by_name;
        let attributes = span.get("attributes").into_iter();
        for attribute in attributes.flat_map(|attributes| attributes.items()) {
            let Some(key) = attribute.get("key").and_then(|key| key.text()) else {
                continue;
            };
            let text = || {
                let value = member(attribute.get("value")?, "stringValue", "string_value")?;
                value.text().map(String::from)
            };
            seen.is_gen_ai |= key.starts_with("gen_ai.");
            match &*key {
                "agent.span" => seen.is_ours = true,
                "gen_ai.conversation.id" => seen.session = text(),
                "session.id" if seen.session.is_none() => seen.session = text(),
                OPERATION => kind = text().map_or(by_name, |operation| kind_of(&operation)),
                "gen_ai.input.messages" | "gen_ai.output.messages" => seen.has_content = true,
                _ => {}
            }
        }
        seen.is_gen_ai |= seen.is_ours;
        seen.is_model = kind == SpanKind::Model;
        seen
    }
}

/// When an event of a close line happened.
pub(super) fn event_time(event: &Value) -> Option<u64> {
    event["ts"].as_str().and_then(parse_time)
}
