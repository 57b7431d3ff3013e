//! Which spans a file has, of which sessions, and in which order their lines are.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use crate::gen_ai::{OPERATION, kind_of};
use crate::import::lines::{JsonLines, file_time};
use crate::import::{Import, ImportError};
use crate::trace::{Ids, Kind, RawValue, SpanKind, hex32, parse_time};

/// No session is known.
const NONE: u32 = u32::MAX;

/// A span of the file. A file may have millions, so numbers are as small as they can be.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub id: u64,
    /// 0 if there is none.
    parent: u64,
    pub start: u64,
    pub end: u64,
    /// Where its text is in the file.
    pub offset: u64,
    pub length: u32,
    trace: u32,
    pub scope: u32,
    session: u32,
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
    /// The event with this place in the index.
    Event(u32),
    Close,
}

/// The next line to write.
#[derive(Debug)]
pub(super) struct Step {
    pub entry: u32,
    pub what: What,
}

/// An event that becomes a line.
struct EventOf {
    time: u64,
    entry: u32,
    /// Its place among the events of the span.
    at: u32,
}

#[derive(Default)]
pub(super) struct Index {
    pub entries: Vec<Entry>,
    pub scopes: Vec<Scope>,
    pub sessions: Vec<SessionOf>,
    events: Vec<EventOf>,
    traces: Vec<TraceOf>,
    /// Model calls that have messages.
    with_content: Vec<u32>,
    names: HashMap<String, u32>,
    /// The time of spans that have none.
    file_time: u64,
}

/// What is known about a trace.
struct TraceOf {
    id: u128,
    has_gen_ai: bool,
    session: u32,
}

/// The numbers of traces.
type Traces = HashMap<u128, u32>;

impl Index {
    pub fn read(import: &Import, path: &Path) -> Result<Self, ImportError> {
        let mut index = Self {
            file_time: file_time(path),
            ..Self::default()
        };
        let mut traces = Traces::new();
        let mut lines = JsonLines::open(import, path)?;
        while let Some((start, text)) = lines.next_text()? {
            if let Err(why) = index.request(text, start, &mut traces) {
                return Err(lines.error(why));
            }
        }
        index.assign();
        Ok(index)
    }

    fn request(&mut self, text: &str, offset: u64, traces: &mut Traces) -> Result<(), String> {
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
                let scope_of = Scope {
                    service: service.clone(),
                    library: library.map(String::from),
                };
                if self.scopes.last() != Some(&scope_of) {
                    self.scopes.push(scope_of);
                }
                let spans = scope.get("spans");
                for span in spans.into_iter().flat_map(|spans| spans.items()) {
                    self.span(span, place(span.json()), traces)?;
                }
            }
        }
        Ok(())
    }

    fn span(&mut self, span: RawValue<'_>, offset: u64, traces: &mut Traces) -> Result<(), String> {
        let head = SpanHead::of(span, self.file_time)?;
        let seen = Seen::of(&head);
        let session = seen.session.clone().filter(|id| !id.is_empty());
        let session = session.map_or(NONE, |id| self.name(id));
        let trace = *traces.entry(head.trace).or_insert_with(|| {
            self.traces.push(TraceOf {
                id: head.trace,
                has_gen_ai: false,
                session: NONE,
            });
            self.traces.len() as u32 - 1
        });
        let of_trace = &mut self.traces[trace as usize];
        of_trace.has_gen_ai |= seen.is_gen_ai;
        if of_trace.session == NONE {
            of_trace.session = session;
        }
        let entry = self.entries.len() as u32;
        if seen.has_content && seen.is_model {
            self.with_content.push(entry);
        }
        if seen.is_ours {
            self.events(&head, entry);
        }
        self.entries.push(Entry {
            id: head.id,
            parent: head.parent.unwrap_or(0),
            start: head.start,
            end: head.end,
            offset,
            length: span.json().len() as u32,
            trace,
            scope: self.scopes.len() as u32 - 1,
            session,
        });
        Ok(())
    }

    /// The events of a span of ours, which were lines. Its error is in its close line.
    fn events(&mut self, head: &SpanHead<'_>, entry: u32) {
        let events = head.events.into_iter().flat_map(|events| events.items());
        for (at, event) in events.enumerate() {
            let name = event.get("name").and_then(|name| name.text());
            let name = name.unwrap_or_default();
            // A span of another kind was noted by its closing line, if at all.
            if name == "exception" || name.is_empty() || Kind::parse(&name).is_own() {
                continue;
            }
            let time = member(event, "timeUnixNano", "time_unix_nano").and_then(nanoseconds);
            self.events.push(EventOf {
                time: time.unwrap_or(head.start).clamp(head.start, head.end),
                entry,
                at: at as u32,
            });
        }
    }

    /// The number of a session's id.
    fn name(&mut self, id: String) -> u32 {
        let next = self.names.len() as u32;
        *self.names.entry(id).or_insert(next)
    }

    /// The entries of spans that another entry has too: of those of one span, the one that ends last counts.
    fn repeated(&self) -> Vec<u32> {
        let span = |at: u32| {
            let entry = &self.entries[at as usize];
            (entry.trace, entry.id)
        };
        let end = |at: u32| self.entries[at as usize].end;
        let mut order: Vec<u32> = (0..self.entries.len() as u32).collect();
        order.sort_unstable_by_key(|at| (span(*at), Reverse(end(*at)), *at));
        let repeats = order
            .windows(2)
            .filter(|pair| span(pair[0]) == span(pair[1]));
        repeats.map(|pair| pair[1]).collect()
    }

    /// Decides the session of each span: its own, another one of its trace, or the trace itself. Traces without
    /// a GenAI span are left out, and so are spans that were read before.
    fn assign(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        for entry in &mut entries {
            let of_trace = &self.traces[entry.trace as usize];
            if !of_trace.has_gen_ai {
                entry.session = NONE;
            } else if entry.session == NONE {
                entry.session = match of_trace.session {
                    NONE => self.name(String::from_utf8_lossy(&hex32(of_trace.id)).into_owned()),
                    session => session,
                };
            }
        }
        self.entries = entries;
        for repeated in self.repeated() {
            self.entries[repeated as usize].session = NONE;
        }
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
        }
        for entry in std::mem::take(&mut self.with_content) {
            let session = self.entries[entry as usize].session;
            if let Some(session) = self.sessions.get_mut(session as usize) {
                session.calls_have_content = true;
            }
        }
    }

    /// The ids of a span.
    pub fn ids(&self, entry: &Entry) -> Ids {
        Ids {
            trace: self.traces[entry.trace as usize].id,
            span: entry.id,
            parent: Some(entry.parent).filter(|parent| *parent != 0),
        }
    }

    /// The place of an event among those of its span.
    pub fn event(&self, event: u32) -> usize {
        self.events[event as usize].at as usize
    }

    /// The lines of a session in their order.
    pub fn steps(&self, session: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        let is_of = |entry: u32| self.entries[entry as usize].session as usize == session;
        for entry in (0..self.entries.len() as u32).filter(|entry| is_of(*entry)) {
            let [open, close] = [What::Open, What::Close].map(|what| Step { entry, what });
            steps.extend([open, close]);
        }
        for (at, event) in self.events.iter().enumerate() {
            let (entry, what) = (event.entry, What::Event(at as u32));
            steps.extend(is_of(entry).then_some(Step { entry, what }));
        }
        steps.sort_unstable_by_key(|step| self.order(step));
        steps
    }

    /// Orders lines by their times. At one moment first come the events and ends of spans that began before, the
    /// inner ones first; then what begins, the outer ones first; then what begins and ends at that moment.
    fn order(&self, step: &Step) -> (u64, u8, u64, u32) {
        let entry = &self.entries[step.entry as usize];
        match step.what {
            What::Open => (entry.start, 2, u64::MAX - entry.end, u32::MAX - step.entry),
            What::Close => {
                let class = if entry.start == entry.end { 4 } else { 1 };
                (entry.end, class, u64::MAX - entry.start, step.entry)
            }
            What::Event(at) => {
                let event = &self.events[at as usize];
                let class = if entry.start < event.time { 0 } else { 3 };
                (event.time, class, 0, event.at)
            }
        }
    }
}

/// The members of a span that the index needs, found in one pass.
struct SpanHead<'a> {
    trace: u128,
    id: u64,
    parent: Option<u64>,
    start: u64,
    /// Not before the start.
    end: u64,
    name: Option<RawValue<'a>>,
    attributes: Option<RawValue<'a>>,
    events: Option<RawValue<'a>>,
}

impl<'a> SpanHead<'a> {
    fn of(span: RawValue<'a>, file_time: u64) -> Result<Self, String> {
        let (mut trace, mut id, mut parent) = (None, None, None);
        let (mut start, mut end) = (None, None);
        let (mut name, mut attributes, mut events) = (None, None, None);
        for (key, value) in span.members() {
            match key {
                "traceId" | "trace_id" => trace = hex_id(key, value, 32)?,
                "spanId" | "span_id" => id = hex_id(key, value, 16)?,
                "parentSpanId" | "parent_span_id" => parent = hex_id(key, value, 16)?,
                "startTimeUnixNano" | "start_time_unix_nano" => start = nanoseconds(value),
                "endTimeUnixNano" | "end_time_unix_nano" => end = nanoseconds(value),
                "name" => name = Some(value),
                "attributes" => attributes = Some(value),
                "events" => events = Some(value),
                _ => {}
            }
        }
        let (Some(trace), Some(id)) = (trace, id) else {
            return Err("a span has no `traceId` and `spanId`".to_owned());
        };
        let given = |time: Option<u64>| time.filter(|time| *time > 0);
        let start = given(start).or(given(end)).unwrap_or(file_time);
        Ok(Self {
            trace,
            id: id as u64,
            parent: parent.map(|parent| parent as u64),
            start,
            end: end.unwrap_or(start).max(start),
            name,
            attributes,
            events,
        })
    }
}

/// An id; none if it is empty or zero.
fn hex_id(name: &str, value: RawValue<'_>, digits: usize) -> Result<Option<u128>, String> {
    let Some(text) = value.text().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let is_hex = text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    match u128::from_str_radix(&text, 16) {
        Ok(id) if is_hex => Ok(Some(id).filter(|id| *id != 0)),
        _ => Err(format!("`{name}` is not {digits} hexadecimal digits")),
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
    fn of(span: &SpanHead<'_>) -> Self {
        let mut seen = Self::default();
        let name = span.name.and_then(|name| name.text());
        let name = name.unwrap_or_default();
        let by_name = kind_of(name.split(' ').next().unwrap_or_default());
        let mut kind = by_name;
        let attributes = span.attributes.into_iter();
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
