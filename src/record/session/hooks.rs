//! What the ledger asks of a session while it writes: the header, the lines to write again after a fault, the
//! checkpoint.

use std::io::Write;

use serde_json::{Map, Value, json};

use super::context_asset::ContextAsset;
use super::resume::ResumeState;
use super::{Content, SessionLog};
use crate::ledger::{LineMeta, SessionHeader, SessionHooks, is_out_of_files};
use crate::record::process_state::ProcessState;
use crate::trace::{Kind, SpanKind, hex};

/// How many lost close lines are kept to be written again; more are only counted.
pub(super) const MOST_LOST_CLOSES: usize = 1024;

/// A short close line that replaces one that could not be written.
#[derive(Debug)]
pub(super) struct LostClose {
    pub meta: LineMeta<'static>,
    pub payload: Vec<u8>,
}

impl Content {
    /// Whether a span is open, or its close line still has to be written.
    pub fn leaves_open(&self) -> bool {
        self.opening || !self.spans.is_empty() || !self.lost_closes.is_empty()
    }

    /// Marks the open lines as lost that were in segments which are gone.
    fn lose_opens(&mut self, is_there: &dyn Fn(u32) -> bool) {
        let mut lost: Vec<_> = Vec::new();
        for span in self.spans.values_mut() {
            if span.lost || !is_there(span.opened_seg) {
                (span.lost, span.opened_seg) = (true, 0);
                lost.push((span.start.steady, span.at.ids.span));
            }
        }
        lost.sort_unstable();
        self.lost_opens = lost.into_iter().map(|(_, id)| id).collect();
    }
}

/// A session while a line of it is written.
pub(super) struct Hooks<'a> {
    pub log: &'a SessionLog,
    pub process: &'a ProcessState,
    pub content: &'a mut Content,
}

impl Hooks<'_> {
    /// Reads the state that earlier segments hold, once; again where that failed before anything was read.
    pub fn read_past(&mut self) {
        if std::mem::replace(&mut self.content.past_read, true) {
            return;
        }
        let (ledger, dir) = (&self.process.ledger, &self.log.dir);
        let mut past = ResumeState::read(dir);
        if let Some((_, error)) = &past.error
            && ledger.free_descriptors(error)
        {
            past = ResumeState::read(dir);
        }
        if let Some((path, error)) = &past.error {
            let message = format!("read {}: {error}", path.display());
            ledger.counters().note_error(&message);
            self.content.past_read = path != dir && !is_out_of_files(error);
        }
        self.log.history().recall(&past.messages);
        self.content.resume(past);
    }
}

impl Content {
    fn resume(&mut self, past: ResumeState) {
        self.next_turn = self.next_turn.max(past.next_turn);
        self.last_run = self.last_run.or(past.last_run);
        for (current, before) in self.current.iter_mut().zip(past.current) {
            *current = current.take().or(before);
        }
        self.known.extend(past.known);
        self.parts.extend(past.parts);
        self.compacted |= past.compacted;
        if !past.started {
            return;
        }
        self.started = true;
        // A run whose open line waits for the disk was opened as if the session were new.
        let unwritten = self.spans.values_mut().filter(|span| span.lost);
        for run in unwritten.filter(|span| span.at.kind == SpanKind::Run) {
            run.open_kind = Kind::SessionResume;
            if let Some(last_run) = past.last_run {
                run.link(last_run);
            }
        }
    }
}

impl SessionHooks for Hooks<'_> {
    fn header(&mut self, segment: u32) -> SessionHeader {
        self.read_past();
        if self.log.again {
            self.content.counts_from.get_or_insert(segment);
        }
        SessionHeader {
            implicit: self.log.implicit,
            counts_from: self.content.counts_from,
        }
    }

    fn leaves_open(&self) -> bool {
        self.content.leaves_open()
    }

    fn next_lost(&mut self, out: &mut Vec<u8>) -> Option<LineMeta<'static>> {
        let content = &mut *self.content;
        while let Some(id) = content.lost_opens.front() {
            if let Some(span) = content.spans.get(id).filter(|span| span.lost) {
                span.write_open(true, out);
                return Some(span.open_meta(0));
            }
            content.lost_opens.pop_front();
        }
        let close = content.lost_closes.front()?;
        out.extend_from_slice(&close.payload);
        Some(close.meta)
    }

    fn replayed(&mut self, segment: u32) {
        let content = &mut *self.content;
        match content.lost_opens.pop_front() {
            Some(id) => {
                if let Some(span) = content.spans.get_mut(&id) {
                    (span.lost, span.opened_seg) = (false, segment);
                }
            }
            None => drop(content.lost_closes.pop_front()),
        }
    }

    fn written(&mut self, line: &[u8]) {
        // Most processes never mask or cut anything: then there is nothing to look for.
        if self.process.counters.has_marked() {
            self.content.marks.count(line);
        }
    }

    fn gap_written(&mut self, lost: u64) {
        self.content.marks.gap(lost);
    }

    fn segment_removed(&mut self, is_there: &dyn Fn(u32) -> bool) {
        self.content.lose_opens(is_there);
        // The texts behind the digests were in it.
        self.content.known.clear();
        self.content.parts.clear();
    }

    fn checkpoint(&mut self, out: &mut Vec<u8>) -> bool {
        let content = &*self.content;
        out.extend_from_slice(b"\"totals\":");
        content.totals.write(&content.marks, out);
        let mut open: Vec<_> = content.spans.values().collect();
        open.sort_unstable_by_key(|span| span.start.steady);
        // Straight to `out`: there may be a million of them. Writing to a vector does not fail.
        let _ = write!(out, ",\"{}\":[", field!(Checkpoint.open));
        for (at, span) in open.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let (kind, id) = (span.open_kind.as_str(), span.at.ids.span);
            let _ = write!(
                out,
                "{comma}{{\"kind\":\"{kind}\",\"span_id\":\"{id:016x}\"}}"
            );
        }
        out.push(b']');
        let assets = ContextAsset::ALL.iter().zip(&content.current);
        let digests = assets.filter_map(|(asset, digest)| {
            let digest = digest.as_deref()?;
            Some((asset.stamp().to_owned(), digest.into()))
        });
        let mut members = Map::new();
        let mut insert = |name: &str, value| drop(members.insert(name.to_owned(), value));
        insert(field!(Checkpoint.started), content.started.into());
        insert(field!(Checkpoint.next_turn), content.next_turn.into());
        if let Some((trace, span)) = content.last_run {
            let (trace, span) = (hex(&trace.to_be_bytes()), hex(&span.to_be_bytes()));
            let last_run = json!({"trace_id": trace, "span_id": span});
            insert(field!(Checkpoint.last_run), last_run);
        }
        insert(field!(Checkpoint.digests), Value::Object(digests.collect()));
        let known = content.known.iter().map(String::as_str);
        insert(field!(Checkpoint.known_digests), known.collect());
        if content.compacted {
            insert(field!(Checkpoint.compacted), true.into());
        }
        let history = self.log.history().newest();
        if !history.is_empty() {
            let tips = history.into_iter().map(|(tip, answered)| {
                let tip = hex(&tip.0.to_be_bytes());
                json!({"tip": tip, "answered": answered})
            });
            insert(field!(Checkpoint.history), tips.collect());
        }
        let members = Value::Object(members).to_string();
        out.push(b',');
        out.extend_from_slice(&members.as_bytes()[1..members.len() - 1]);
        out.push(b',');
        true
    }
}
