//! `otlp-json`: GenAI spans in OTLP's JSON encoding, a request on each line, as the collector's file exporter
//! and our own export write them.
//!
//! The file is read twice: first for the ids and times of all spans, which say in which session and in which
//! order they are; then each span when its lines are written. So memory holds the attributes of open spans only.
//!
//! A span is kept as it is, but for its attributes: they become an object, because a secret is known by its name.

mod attributes;
mod content;
mod index;
mod read_span;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use self::content::Conversation;
use self::index::{Entry, Index, What};
use self::read_span::OtlpSpan;
use super::history::{Fields, History, SourceBlob};
use super::{Import, ImportError};
use crate::trace::{FieldRole, Kind, RawValue, SpanKind, event_kind};

/// So many open spans are kept. More are read again when they end.
const MOST_OPEN: usize = 64;
/// What a span says of its place in its trace. Its open line has it too.
const PLACE: [&str; 4] = ["links", "tracestate", "parent_remote", "span_kind"];
/// So deep may attributes be nested.
const DEEPEST: usize = 32;

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    let index = Index::read(import, path)?;
    if index.sessions.is_empty() {
        let why = "no span with GenAI attributes is in it";
        return Err(ImportError::new(path, why));
    }
    let file = File::open(path).map_err(|error| ImportError::new(path, error))?;
    let mut histories = Vec::new();
    for session in 0..index.sessions.len() {
        let mut history = History::new(import, "otlp-json", &index.sessions[session].id);
        let source = history.begin_source();
        let mut writer = Session {
            file: &file,
            index: &index,
            session,
            source: source.map_err(|error| ImportError::new(path, error))?,
            history,
            conversation: Conversation::default(),
            open: HashMap::new(),
            current: None,
        };
        let written = writer.write();
        written.map_err(|error| ImportError {
            line: writer.current.and_then(|offset| line_at(path, offset)),
            ..ImportError::new(path, error)
        })?;
        let Session {
            mut history,
            source,
            ..
        } = writer;
        let ended = history.end_source(source);
        ended.map_err(|error| ImportError::new(path, error))?;
        histories.push(history);
    }
    Ok(histories)
}

/// The number of the line with this offset.
fn line_at(path: &Path, offset: u64) -> Option<u64> {
    let mut before = BufReader::new(File::open(path).ok()?).take(offset);
    let mut number = 1;
    while before.skip_until(b'\n').ok()? > 0 && before.limit() > 0 {
        number += 1;
    }
    Some(number)
}

/// Writes one session.
struct Session<'i, 'a> {
    file: &'i File,
    index: &'i Index,
    session: usize,
    history: History<'a>,
    source: SourceBlob,
    conversation: Conversation,
    /// Spans that have not ended, by their places in the index.
    open: HashMap<u32, OtlpSpan>,
    /// The offset of the span that is being written.
    current: Option<u64>,
}

impl Session<'_, '_> {
    fn write(&mut self) -> io::Result<()> {
        for step in self.index.steps(self.session) {
            let entry = &self.index.entries[step.entry as usize];
            self.current = Some(entry.offset);
            let span = match self.open.remove(&step.entry) {
                Some(known) => known,
                None => self.read(entry, step.what)?,
            };
            match step.what {
                What::Open => self.open(entry, &span)?,
                What::Event(at) => self.event(entry, &span, at)?,
                What::Close => {
                    self.close(entry, span)?;
                    continue;
                }
            }
            if self.open.len() < MOST_OPEN {
                self.open.insert(step.entry, span);
            }
        }
        self.current = None;
        Ok(())
    }

    /// Reads a span, and keeps it when it opens.
    fn read(&mut self, entry: &Entry, what: What) -> io::Result<OtlpSpan> {
        let mut bytes = vec![0; entry.length as usize];
        self.file.read_exact_at(&mut bytes, entry.offset)?;
        let span = std::str::from_utf8(&bytes).map_err(io::Error::other)?;
        let span = read_span::with_plain_attributes(RawValue::new(span), DEEPEST);
        let span = span.ok_or_else(|| io::Error::other("a span is nested too deeply"))?;
        if what == What::Open {
            self.history.add_row(&mut self.source, &span)?;
        }
        let scope = &self.index.scopes[entry.scope as usize];
        Ok(OtlpSpan::read(span, entry, scope))
    }

    fn open(&mut self, entry: &Entry, span: &OtlpSpan) -> io::Result<()> {
        let given = span.given(entry, self.index.ids(entry));
        let is_input = |name: &str| {
            name != "attributes" && given.kind.role(name) == FieldRole::Input
                || PLACE.contains(&name)
        };
        let inputs = span.fields.iter().filter(|(name, _)| is_input(name));
        let mut fields: Fields = inputs
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if given.kind == SpanKind::Run {
            let id = self.index.sessions[self.session].id.clone();
            fields.insert("session_id".into(), id.into());
        }
        self.history.open_given(&given, fields)?;
        if self.takes_content(&given.kind) {
            (self.conversation).request(&mut self.history, &given, &span.content)?;
        }
        Ok(())
    }

    /// Content is taken from the model calls, or from the runs if no call has any.
    fn takes_content(&self, kind: &SpanKind) -> bool {
        match kind {
            SpanKind::Model => true,
            SpanKind::Run => !self.index.sessions[self.session].calls_have_content,
            _ => false,
        }
    }

    fn event(&mut self, entry: &Entry, span: &OtlpSpan, at: u32) -> io::Result<()> {
        let Some(event) = span.events.get(self.index.event(at)) else {
            return Ok(());
        };
        let has_content = self.index.sessions[self.session].calls_have_content;
        let name = event["name"].as_str().unwrap_or_default();
        // The model calls have the messages with their text.
        if has_content && name.starts_with("message_") {
            return Ok(());
        }
        let mut fields = event["fields"].as_object().cloned().unwrap_or_default();
        if Kind::parse(name) == Kind::Log {
            let log = ["level", "target", "message"].into_iter();
            let log = log.filter_map(|name| Some((name.to_owned(), event.get(name)?.clone())));
            fields.extend(log);
        }
        let time = index::event_time(event).unwrap_or(entry.start);
        let given = span.given(entry, self.index.ids(entry));
        (self.history).event_given(&given, &event_kind(name), time, fields)
    }

    fn close(&mut self, entry: &Entry, span: OtlpSpan) -> io::Result<()> {
        let given = span.given(entry, self.index.ids(entry));
        if self.takes_content(&given.kind) {
            (self.conversation).answer(&mut self.history, &given, &span.content)?;
        }
        let mut fields = span.fields;
        if given.kind == SpanKind::Run {
            let id = self.index.sessions[self.session].id.clone();
            fields.insert("session_id".into(), id.into());
        }
        if !span.events.is_empty() {
            fields.insert("events".into(), span.events.into());
        }
        self.history.close_given(&given, fields)
    }
}
