//! Finds the spans that dead writers left open, by reading their segments.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use memchr::memmem;
use serde_json::{Map, Value, json};

use super::writer_lock::is_alive;
use crate::trace::typed::{Checkpoint, SegmentHeader};
use crate::trace::{
    Ids, Kind, RawLine, RawValue, ReadItem, Root, SegmentReader, SpanKind, TailReader,
    last_checkpoint, parse_time, segments, time_text, wall_ns, whole_lines,
};

/// A segment without a header is taken for a dead writer's when it is this old.
const YOUNG: Duration = Duration::from_secs(60);

/// A span whose writer is gone.
#[derive(Debug)]
pub(super) struct DeadSpan {
    pub ids: Ids,
    pub turn: Option<u32>,
    kind: SpanKind,
    opened_seg: u32,
    /// The `mirror` member of the header of the segment with its open line.
    pub policy: Option<Arc<str>>,
    start: u64,
    last_seen: u64,
    payload: Map<String, Value>,
}

impl DeadSpan {
    /// Applies a `span_update` as the writer itself did: fields that have parts are merged.
    fn update(&mut self, fields: Map<String, Value>) {
        for (key, value) in fields {
            let parts = match key.as_str() {
                "links" | "attributes" => true,
                "usage" => matches!(self.kind, SpanKind::Run | SpanKind::Turn | SpanKind::Model),
                "fields" => self.kind == SpanKind::Other,
                _ => false,
            };
            match (self.payload.get_mut(&key), value) {
                (Some(Value::Object(old)), Value::Object(new)) if parts => old.extend(new),
                (Some(Value::Array(old)), Value::Array(new)) if parts => old.extend(new),
                (_, value) => {
                    self.payload.insert(key, value);
                }
            }
        }
    }

    /// The payload of a complete close line: everything that is known of the span. It ends with its writer's
    /// last line of the session.
    pub fn write(&self, out: &mut Vec<u8>) {
        let members = format!(
            "\"closes\":\"{}\",\"reason\":\"writer_gone\",\"last_seen\":\"{}\",\"detected_at\":\"{}\",\
             \"start\":\"{}\",\"duration_ns\":{},\"outcome\":\"interrupted\",\"opened_seg\":{},",
            self.kind.closing(),
            time_text(self.last_seen, 6),
            time_text(wall_ns(), 6),
            time_text(self.start, 9),
            self.last_seen.saturating_sub(self.start),
            self.opened_seg
        );
        out.extend_from_slice(members.as_bytes());
        for (key, value) in &self.payload {
            let member = match key.as_str() {
                // These were written above, so the user's field gets another name.
                "closes" | "reason" | "last_seen" | "detected_at" => {
                    format!("{}:{value},", json!(format!("custom.{key}")))
                }
                _ => format!("{}:{value},", json!(key)),
            };
            out.extend_from_slice(member.as_bytes());
        }
    }
}

#[derive(Default)]
pub(super) struct LeftBehind {
    /// The segments of dead writers that leave a span open which no other segment closes.
    pub dead: Vec<(u32, PathBuf)>,
    /// The spans that were closed in another segment than the one that opened them.
    pub closed: HashSet<u64>,
}

/// Finds those of `segments` in which dead writers left spans open. For a session that was recovered before this reads
/// the ends of its segments, and all their bytes once.
pub(super) fn left_behind(
    alive: &dyn Fn(&str) -> bool,
    session: &Path,
    segments: &[(u32, PathBuf)],
) -> io::Result<LeftBehind> {
    let mut dead = Vec::new();
    for (number, path) in segments {
        if writer_of(path)?.is_some_and(|id| alive(&id)) {
            continue;
        }
        let open = open_at_end(&segment_end(path, u64::MAX)?.bytes);
        if !open.is_empty() {
            dead.push((*number, path.clone(), open));
        }
    }
    if dead.is_empty() {
        return Ok(LeftBehind::default());
    }
    let closed = closed_elsewhere(session)?;
    dead.retain(|(.., open)| !open.is_subset(&closed));
    let dead = dead.into_iter().map(|(number, path, _)| (number, path));
    Ok(LeftBehind {
        dead: dead.collect(),
        closed,
    })
}

/// The id of a segment's writer. `None`: the writer died before the header was complete.
pub(crate) fn writer_of(path: &Path) -> io::Result<Option<String>> {
    SegmentHeader::in_file(path, |header| Some(header.writer()?.into_owned()))
}

/// Whether the writer of a segment is alive.
pub(crate) fn is_written(root: &Root, path: &Path) -> io::Result<bool> {
    match writer_of(path)? {
        Some(id) => Ok(is_alive(root, &id)),
        None => may_get_header(path),
    }
}

/// Whether the writer of a segment without a complete header line may be about to write it.
pub(crate) fn may_get_header(path: &Path) -> io::Result<bool> {
    let age = path.metadata()?.modified()?.elapsed();
    Ok(age.is_ok_and(|age| age < YOUNG))
}

/// The spans that the end of a segment leaves open.
fn open_at_end(tail: &[u8]) -> HashSet<u64> {
    let mut open = HashSet::new();
    for bytes in whole_lines(tail) {
        let kind = Kind::of_line(bytes);
        let opens = kind.opens().is_some();
        if !opens && !kind.is_close() && kind != Kind::Checkpoint {
            continue;
        }
        let Ok(line) = RawLine::parse(bytes) else {
            continue;
        };
        if let Some(checkpoint) = Checkpoint::of(&line) {
            let listed = checkpoint.open().into_iter().flat_map(|open| open.items());
            let id = |span: RawValue<'_>| span_number(&span.get("span_id")?.text()?);
            open = listed.filter_map(id).collect();
        } else if let Some(span) = line.span_id.and_then(span_number) {
            if opens {
                open.insert(span);
            } else {
                open.remove(&span);
            }
        }
    }
    open
}

fn span_number(id: &str) -> Option<u64> {
    u64::from_str_radix(id, 16).ok()
}

/// The spans that one of `segments` leaves open.
pub(super) fn left_open(
    number: u32,
    path: &Path,
    segments: &[(u32, PathBuf)],
) -> io::Result<Vec<DeadSpan>> {
    let mut spans = read_left_open(number, path)?;
    let later = segments.iter().rev().take_while(|(n, _)| *n > number);
    let last_written = last_written(writer_of(path)?, later)?.unwrap_or(0);
    for span in &mut spans {
        span.last_seen = span.last_seen.max(last_written);
    }
    Ok(spans)
}

/// The same; they end with the last line of this segment.
fn read_left_open(number: u32, path: &Path) -> io::Result<Vec<DeadSpan>> {
    let mut policy: Option<Arc<str>> = None;
    let mut open: HashMap<u64, DeadSpan> = HashMap::new();
    let mut order = Vec::new();
    let mut last_seen = None;
    let mut reader = SegmentReader::open(path)?;
    // A live writer could stay ahead of this reader.
    let size = reader.metadata()?.len();
    while reader.offset() < size
        && let Some(item) = reader.next()?
    {
        let ReadItem::Line(line) = item else { continue };
        last_seen = last_seen.max(parse_time(line.ts));
        if let Some(header) = SegmentHeader::of(&line) {
            policy = header.mirror().map(|mirror| mirror.json().into());
        }
        let kind = line.kind();
        if kind.opens().is_none() && !kind.is_close() && kind != Kind::SpanUpdate {
            continue;
        }
        let Ok(mut line) = line.to_line() else {
            continue;
        };
        let Some(ids) = line.ids() else { continue };
        if let Some(kind) = kind.opens() {
            let start = line.payload.shift_remove("start");
            let start = start.as_ref().and_then(Value::as_str).and_then(parse_time);
            line.payload.shift_remove("late");
            order.push(ids.span);
            open.insert(
                ids.span,
                DeadSpan {
                    ids,
                    turn: line.turn,
                    kind,
                    opened_seg: number,
                    policy: policy.clone(),
                    start: start.or_else(|| parse_time(&line.ts)).unwrap_or(0),
                    last_seen: 0,
                    payload: line.payload,
                },
            );
        } else if kind == Kind::SpanUpdate {
            if let Some(span) = open.get_mut(&ids.span) {
                span.update(line.payload);
            }
        } else {
            open.remove(&ids.span);
        }
    }
    let mut spans: Vec<_> = order.iter().filter_map(|id| open.remove(id)).collect();
    for span in &mut spans {
        span.last_seen = last_seen.unwrap_or(span.start);
    }
    // Children before their parents, as they would have ended.
    spans.reverse();
    Ok(spans)
}

/// When a writer wrote its last line, if that is in one of these segments, the newest first. A full segment
/// continues in another one.
fn last_written<'a>(
    writer: Option<String>,
    segments: impl Iterator<Item = &'a (u32, PathBuf)>,
) -> io::Result<Option<u64>> {
    for (_, path) in segments {
        if writer.is_some() && writer_of(path)? == writer {
            let end = segment_end(path, u64::MAX)?.bytes;
            let lines = whole_lines(&end).filter_map(|bytes| RawLine::parse(bytes).ok());
            return Ok(lines.filter_map(|line| parse_time(line.ts)).max());
        }
    }
    Ok(None)
}

/// The spans that were closed in another segment than the one that opened them. Such a close line has
/// `opened_seg` or `late`; a text can contain these words too, which does no harm.
fn closed_elsewhere(session: &Path) -> io::Result<HashSet<u64>> {
    let has = |bytes: &[u8], word: &str| memmem::find(bytes, word.as_bytes()).is_some();
    let wanted = |bytes: &[u8]| {
        Kind::of_line(bytes).is_close() && (has(bytes, "\"opened_seg\"") || has(bytes, "\"late\""))
    };
    let mut closed = HashSet::new();
    for (_, path) in segments(session)? {
        let mut reader = SegmentReader::open(path)?;
        let size = reader.metadata()?.len();
        while reader.offset() < size
            && let Some(item) = reader.next_where(wanted)?
        {
            if let ReadItem::Line(line) = item {
                closed.extend(line.ids().map(|ids| ids.span));
            }
        }
    }
    Ok(closed)
}

/// The end of a segment, with the state of its session if that is known.
pub(crate) struct SegmentEnd {
    pub bytes: Vec<u8>,
    /// It begins with a checkpoint, or is the whole segment.
    pub has_state: bool,
}

/// The end of a segment: from its last checkpoint, or all of it; the last `most` bytes, if that is longer.
pub(crate) fn segment_end(path: &Path, most: u64) -> io::Result<SegmentEnd> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let floor = size.saturating_sub(most);
    let mut reader = TailReader::new(&file, size, floor, 2 << 20);
    loop {
        let mut tail = reader.longer()?;
        let checkpoint = last_checkpoint(&tail.bytes);
        if checkpoint.is_none() && !tail.whole {
            continue;
        }
        // The first line may begin before the floor: then it can't be parsed.
        tail.bytes.drain(..checkpoint.unwrap_or(0));
        return Ok(SegmentEnd {
            bytes: tail.bytes,
            has_state: checkpoint.is_some() || floor == 0,
        });
    }
}
