//! A session of the past, written to a directory of its own until it is complete.

mod given;
mod source;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::staging::StagedDir;
use super::writer::Writer;
use super::{Import, ImportedSession, TornLine};
use crate::ledger::{Context, SessionWriter};
use crate::trace::{Dir, Ids, Kind, LineMeta, Outcome, SpanKind, Totals, Usage, split, time_text};

pub(super) use given::GivenSpan;
pub(super) use source::SourceBlob;

pub(super) type Fields = Map<String, Value>;

/// The members of an object, those that are null left out.
pub(super) fn fields(object: Value) -> Fields {
    match object {
        Value::Object(mut fields) => {
            fields.retain(|_, value| !value.is_null());
            fields
        }
        _ => Fields::new(),
    }
}

/// An open span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    kind: SpanKind,
    id: u64,
    parent: Option<u64>,
    start: u64,
}

impl Span {
    pub fn id(self) -> u64 {
        self.id
    }

    pub fn start(self) -> u64 {
        self.start
    }
}

/// Writes the lines of a session.
#[derive(Debug)]
pub(super) struct History<'a> {
    shared: &'a Writer,
    writer: SessionWriter,
    id: String,
    source: &'static str,
    /// The directory of the session once it is complete.
    place: PathBuf,
    staged: StagedDir,
    trace: u128,
    run: Option<Span>,
    /// How many runs have begun.
    runs: u32,
    turn: Option<(u32, Span)>,
    pub totals: Totals,
    run_fields: Fields,
    events: u64,
    last: u64,
    /// The digest of the source that is kept.
    raw_blob: Option<String>,
}

/// A session that is complete, and not visible yet.
#[derive(Debug)]
pub(super) struct Complete {
    staged: StagedDir,
    place: PathBuf,
    id: String,
    events: u64,
    raw_blob: Option<String>,
}

fn digest(parts: &[&str]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().into()
}

impl<'a> History<'a> {
    /// A session under its id in the source.
    pub fn new(import: &'a Import, source: &'static str, id: &str) -> Self {
        let shared = &import.writer;
        let id = &*shared.text(id);
        let root = shared.ledger.root();
        let place = root.session(id);
        let staged = shared.staging.new_dir();
        let trace = digest(&[source, id]);
        Self {
            shared,
            writer: SessionWriter::at(id, staged.path().to_owned()),
            id: id.to_owned(),
            source,
            place,
            staged,
            trace: u128::from_be_bytes(std::array::from_fn(|at| trace[at])),
            run: None,
            runs: 0,
            turn: None,
            totals: Totals::default(),
            run_fields: Fields::new(),
            events: 0,
            last: 0,
            raw_blob: None,
        }
    }

    /// The time of the line before, for an entry that has none.
    pub fn last(&self) -> u64 {
        self.last
    }

    fn span(&self, kind: SpanKind, key: &str, parent: Option<u64>, start: u64) -> Span {
        let digest = digest(&[self.source, &self.id, kind.closing().as_str(), key]);
        let id = u64::from_be_bytes(std::array::from_fn(|at| digest[at]));
        Span {
            kind,
            id: id.max(1),
            parent,
            start,
        }
    }

    /// The directory of the session once it is complete.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The run. Everything else lies in it. A second one resumes the session.
    pub fn start_run(&mut self, time: u64, run: Value) -> io::Result<()> {
        let mut fields = fields(run);
        fields.insert("session_id".into(), self.id.clone().into());
        let (key, kind) = match self.runs {
            0 => (String::new(), Kind::SessionStart),
            before => (before.to_string(), Kind::SessionResume),
        };
        self.runs += 1;
        let span = self.span(SpanKind::Run, &key, None, time);
        self.run = Some(span);
        self.run_fields = fields;
        self.open_line(kind, span, self.run_fields.clone())
    }

    /// The next turn. Ends the one before.
    pub fn start_turn(&mut self, time: u64, outcome: Outcome) -> io::Result<()> {
        self.start_turn_number(self.totals.turns as u32 + 1, time, outcome)
    }

    /// The turn with this number in the source. Ends the one before.
    pub fn start_turn_number(&mut self, index: u32, time: u64, outcome: Outcome) -> io::Result<()> {
        self.end_turn(time, outcome)?;
        self.totals.turns += 1;
        // Numbers may repeat.
        let key = format!("{index}#{}", self.totals.turns);
        let key = if u64::from(index) == self.totals.turns {
            index.to_string()
        } else {
            key
        };
        let run = self.run.map(|run| run.id);
        let span = self.span(SpanKind::Turn, &key, run, time);
        self.turn = Some((index, span));
        let with = fields(json!({"turn_index": index}));
        self.open_line(SpanKind::Turn.opening(), span, with)
    }

    /// The number of the turn that is open.
    pub fn turn(&self) -> Option<u32> {
        self.turn.map(|(index, _)| index)
    }

    /// Ends the turn that is open.
    pub fn end_turn(&mut self, time: u64, outcome: Outcome) -> io::Result<()> {
        let Some((index, span)) = self.turn else {
            return Ok(());
        };
        self.close(span, time, outcome, json!({"turn_index": index}))?;
        self.turn = None;
        Ok(())
    }

    /// Opens a span in the turn. `key` is its name among those of its kind in the source.
    pub fn open(&mut self, kind: SpanKind, key: &str, time: u64, with: Value) -> io::Result<Span> {
        let parent = self.turn.map(|(_, turn)| turn).or(self.run);
        let span = self.span(kind, key, parent.map(|span| span.id), time);
        self.open_line(kind.opening(), span, fields(with))?;
        Ok(span)
    }

    /// A span that has no line of its own when it opens.
    pub fn unopened(&self, kind: SpanKind, key: &str, time: u64) -> Span {
        let parent = self.turn.map(|(_, turn)| turn).or(self.run);
        self.span(kind, key, parent.map(|span| span.id), time)
    }

    /// Opens a span inside another one.
    pub fn open_in(
        &mut self,
        outer: Span,
        kind: SpanKind,
        key: &str,
        time: u64,
        with: Value,
    ) -> io::Result<Span> {
        let span = self.span(kind, key, Some(outer.id), time);
        self.open_line(kind.opening(), span, fields(with))?;
        Ok(span)
    }

    fn open_line(&mut self, kind: Kind, span: Span, with: Fields) -> io::Result<()> {
        let mut payload = Fields::from_iter([("start".into(), time_text(span.start, 9).into())]);
        payload.extend(with);
        self.line(kind.as_str(), span.start, Some(span), &payload)
    }

    /// Closes a span. `with` has all its fields, those of its open line too.
    pub fn close(
        &mut self,
        span: Span,
        time: u64,
        outcome: Outcome,
        with: Value,
    ) -> io::Result<()> {
        let mut payload = fields(json!({
            "start": time_text(span.start, 9),
            "duration_ns": time.saturating_sub(span.start),
            "outcome": outcome.as_str(),
        }));
        payload.extend(fields(with));
        match span.kind {
            SpanKind::Model => self.totals.model_calls += 1,
            SpanKind::Tool => self.totals.tool_calls += 1,
            _ => {}
        }
        self.totals.errors += u64::from(outcome.is_error());
        if let Some(Value::Object(usage)) = payload.get("usage") {
            self.totals.add_usage(&Usage::from_json(usage));
        }
        if matches!(span.kind, SpanKind::Turn | SpanKind::Run) {
            payload.insert("totals".into(), self.totals_json());
        }
        self.line(span.kind.closing().as_str(), time, Some(span), &payload)
    }

    pub fn totals_json(&self) -> Value {
        let mut totals = Vec::new();
        self.totals.write(&Default::default(), &mut totals);
        serde_json::from_slice(&totals).unwrap_or_default()
    }

    /// An event.
    pub fn event(&mut self, kind: Kind, time: u64, with: Value) -> io::Result<()> {
        self.event_in(None, kind, time, with)
    }

    /// An event inside a span.
    pub fn event_in(
        &mut self,
        span: Option<Span>,
        kind: Kind,
        time: u64,
        with: Value,
    ) -> io::Result<()> {
        let with = fields(with);
        match kind {
            Kind::Error => self.totals.errors += 1,
            Kind::ModelUsage => self.totals.add_usage(&Usage::from_json(&with)),
            _ => {}
        }
        self.line_in(span, kind.as_str(), time, &with)
    }

    /// A line by the name of its kind, with all its members, also those that are null.
    pub fn line_in(
        &mut self,
        span: Option<Span>,
        kind: &str,
        time: u64,
        with: &Fields,
    ) -> io::Result<()> {
        let within = span.or(self.turn.map(|(_, turn)| turn)).or(self.run);
        let within = within.map(|span| Span {
            parent: None,
            ..span
        });
        self.line(kind, time, within, with)
    }

    fn line(&mut self, kind: &str, time: u64, span: Option<Span>, with: &Fields) -> io::Result<()> {
        let meta = LineMeta {
            time,
            kind,
            turn: self.turn(),
            ids: span.map(|span| Ids {
                trace: self.trace,
                span: span.id,
                parent: span.parent,
            }),
        };
        self.write(meta, with)
    }

    /// A line with the ids and the turn that it has in the source.
    pub fn write(&mut self, meta: LineMeta<'_>, with: &Fields) -> io::Result<()> {
        let ledger = &self.shared.ledger;
        let members = self.shared.members(self.writer.dir(), with);
        let time = meta.time;
        let no_hooks = &mut ();
        let cx = &mut Context::new(ledger, no_hooks);
        let written = self
            .writer
            .append(cx, meta, &|out, _| out.extend_from_slice(&members));
        self.events += 1;
        self.shared.progress.count_line();
        self.last = self.last.max(time);
        let failed = || io::Error::other(ledger.counters().last_error().unwrap_or_default());
        written.map(drop).ok_or_else(failed)
    }

    /// Ends the run, unless the source does not say how it ended.
    pub fn end_run(&mut self, time: u64, outcome: Outcome, with: Value) -> io::Result<()> {
        self.end_turn(time, outcome)?;
        let Some(run) = self.run.take() else {
            return Ok(());
        };
        let mut all = std::mem::take(&mut self.run_fields);
        all.extend(fields(with));
        self.close(run, time, outcome, Value::Object(all))
    }

    /// Closes what is open.
    pub fn finish(mut self) -> io::Result<Complete> {
        self.end_run(self.last, Outcome::Unset, Value::Null)?;
        self.writer.close_file();
        Ok(Complete {
            staged: self.staged,
            place: self.place,
            id: self.id,
            events: self.events,
            raw_blob: self.raw_blob,
        })
    }
}

impl Complete {
    /// Makes the session visible, unless it is there or nothing is to be written.
    pub fn publish(self, dry_run: bool, torn_lines: &[TornLine]) -> io::Result<ImportedSession> {
        let known = match self.place.symlink_metadata() {
            Ok(_) => true,
            Err(_) if dry_run => false,
            Err(_) => !self.make_visible()?,
        };
        let blobs = self.place.join("blobs");
        Ok(ImportedSession {
            id: self.id,
            events: self.events,
            known,
            changed: known && self.raw_blob.is_some_and(|blob| !blobs.join(blob).exists()),
            torn_lines: torn_lines.to_owned(),
        })
    }

    /// Returns false if another import has made the session visible meanwhile.
    fn make_visible(&self) -> io::Result<bool> {
        let (sessions, name) = split(&self.place);
        let sessions = Dir::make(sessions, 1)?;
        let (importing, staged) = split(self.staged.path());
        let moved = Dir::open(importing, 1)?.rename(staged, &sessions, name);
        match moved.as_ref().map_err(io::Error::kind) {
            Err(io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty) => Ok(false),
            _ => moved.map(|()| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both see that the session is not there before one of them makes it visible.
    #[test]
    fn session_of_two_imports_at_once_is_imported_by_one() {
        let root = tempfile::tempdir().unwrap();
        let imports = [(); 2].map(|()| Import::new(root.path()).unwrap());
        let complete = imports.each_ref().map(|import| {
            let mut history = History::new(import, "codex", "s");
            history.start_run(1, json!({"agent": "a"})).unwrap();
            history.finish().unwrap()
        });
        let visible = complete.each_ref().map(|one| one.make_visible().unwrap());
        assert_eq!(visible, [true, false]);
        let [_, second] = complete;
        assert!(second.publish(false, &[]).unwrap().known);
        drop(imports);
        assert!(!root.path().join("importing").exists());
    }
}
