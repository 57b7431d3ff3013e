//! What the ledger asks a session while it writes: the lines to write again after a fault, the header, the
//! checkpoint.

use super::context_asset::ContextAsset;
use super::open_span::write_link;
use super::{Content, SessionLog};
use crate::ledger::{LineMeta, SessionHeader, SessionHooks};
use crate::record::process_state::ProcessState;
use crate::trace::{Ids, hex16, write_string, write_time};

/// Close lines that are kept to be written again; more are only counted.
const MOST_LOST_CLOSES: usize = 1024;

/// A span's close that could not be written: enough to say that it ended, and how.
#[derive(Debug)]
pub(super) struct LostClose {
    pub kind: &'static str,
    pub turn: Option<u32>,
    pub ids: Ids,
    pub start: u64,
    pub duration: u64,
    pub outcome: &'static str,
    /// What decides whether and how it is sent.
    pub sending: Vec<u8>,
}

impl Content {
    /// Whether a span is open, or its close still has to be written.
    pub fn leaves_open(&self) -> bool {
        self.opening || !self.spans.is_empty() || !self.lost_closes.is_empty()
    }

    pub fn keep_lost_close(&mut self, close: LostClose) {
        if self.lost_closes.len() < MOST_LOST_CLOSES {
            self.lost_closes.push_back(close);
        }
    }

    /// Marks the open line of a span as lost.
    fn lose_opens(&mut self, is_there: &dyn Fn(u32) -> bool) {
        let mut lost: Vec<_> = Vec::new();
        for span in self.spans.values_mut() {
            if span.lost || !is_there(span.opened_seg) {
                (span.lost, span.opened_seg) = (true, 0);
                lost.push((span.start.steady, span.ids.span));
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

impl SessionHooks for Hooks<'_> {
    fn header(&mut self, segment: u32) -> SessionHeader {
        self.log.read_past(self.process, self.content);
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
                return Some(LineMeta {
                    time: 0,
                    kind: span.open_kind,
                    turn: span.turn,
                    ids: Some(span.ids),
                });
            }
            content.lost_opens.pop_front();
        }
        let close = content.lost_closes.front()?;
        out.extend_from_slice(b"\"start\":\"");
        write_time(close.start, 9, out);
        let rest = format!(
            "\",\"duration_ns\":{},\"outcome\":\"{}\",\"late\":true,",
            close.duration, close.outcome
        );
        out.extend_from_slice(rest.as_bytes());
        out.extend_from_slice(&close.sending);
        Some(LineMeta {
            time: 0,
            kind: close.kind,
            turn: close.turn,
            ids: Some(close.ids),
        })
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
        if self.process.counters().has_marked() {
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
    }

    fn checkpoint(&mut self, out: &mut Vec<u8>) -> bool {
        let content = &*self.content;
        out.extend_from_slice(b"\"totals\":");
        content.totals.write(&content.marks, out);
        let members = format!(
            ",\"started\":{},\"next_turn\":{},\"open\":",
            content.started, content.next_turn
        );
        out.extend_from_slice(members.as_bytes());
        let mut open: Vec<_> = content.spans.values().collect();
        open.sort_unstable_by_key(|span| span.start.steady);
        write_list(b'[', open, b']', out, |span, out| {
            out.extend_from_slice(b"{\"kind\":\"");
            out.extend_from_slice(span.open_kind.as_bytes());
            out.extend_from_slice(b"\",\"span_id\":\"");
            out.extend_from_slice(&hex16(span.ids.span));
            out.extend_from_slice(b"\"}");
        });
        if let Some((trace, span)) = content.last_run {
            out.extend_from_slice(b",\"last_run\":");
            write_link(trace, span, out);
        }
        out.extend_from_slice(b",\"digests\":");
        let assets = ContextAsset::ALL.iter().zip(&content.current);
        let current = assets.filter_map(|(asset, digest)| Some((asset.stamp(), digest.as_ref()?)));
        write_list(b'{', current, b'}', out, |(stamp, digest), out| {
            write_string(stamp, out);
            out.push(b':');
            write_string(digest, out);
        });
        out.extend_from_slice(b",\"known_digests\":");
        write_list(b'[', &content.known, b']', out, |digest, out| {
            write_string(digest, out);
        });
        out.push(b',');
        true
    }
}

/// Writes items with commas between them.
fn write_list<T>(
    open: u8,
    items: impl IntoIterator<Item = T>,
    close: u8,
    out: &mut Vec<u8>,
    write: impl Fn(T, &mut Vec<u8>),
) {
    out.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(close);
}
