//! Spans that a dead writer left open: found by reading, closed by appending.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::clock::{parse_time, time_text, wall_ns, write_time};
use super::fork::Lockable;
use super::format::Line;
use super::past::{kind_of, lines, tail};
#[cfg(feature = "mirror")]
use super::root::Root;
use super::root::{open_private, segments};
use super::{Core, writer};
use crate::event::{Ids, SpanKind};
use crate::redact::write_string;

/// What has to be closed; the session's lock is held for as long as this lives.
pub(crate) struct Found {
    pub spans: Vec<DeadSpan>,
    _lock: Option<Lockable>,
}

/// A span whose writer is gone.
pub(crate) struct DeadSpan {
    pub ids: Ids,
    pub turn: Option<u32>,
    kind: SpanKind,
    opened_seg: u32,
    /// What the segment that it was opened in says of sending.
    pub policy: Option<Arc<str>>,
    start: u64,
    last_seen: u64,
    payload: Map<String, Value>,
}

impl DeadSpan {
    /// Takes a `span_update` over as the writer itself did: what has parts is put together.
    fn update(&mut self, said: Map<String, Value>) {
        for (key, value) in said {
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

    /// A complete close line: everything the span had said, ending when its writer was last
    /// heard of.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut text = |name: &str, value: &str| {
            out.push(b'"');
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            write_string(value, out);
            out.push(b',');
        };
        text("closes", self.kind.close_kind());
        text("reason", "writer_gone");
        text("last_seen", &time_text(self.last_seen, 6));
        text("detected_at", &time_text(wall_ns(), 6));
        out.extend_from_slice(b"\"start\":\"");
        write_time(self.start, 9, out);
        let duration = self.last_seen.saturating_sub(self.start);
        let rest = format!(
            "\",\"duration_ns\":{duration},\"outcome\":\"interrupted\",\"opened_seg\":{},",
            self.opened_seg
        );
        out.extend_from_slice(rest.as_bytes());
        for (key, value) in &self.payload {
            match key.as_str() {
                // Ours above: the user's field goes by another name.
                "closes" | "reason" | "last_seen" | "detected_at" => {
                    write_string(&format!("custom.{key}"), out);
                }
                _ => write_string(key, out),
            }
            out.push(b':');
            // Writing to memory can't fail, and what was parsed can be written.
            let _ = serde_json::to_writer(&mut *out, value);
            out.push(b',');
        }
    }
}

/// Finds what dead writers left open. Looks at the ends of their segments first: a session that
/// ended well costs no more than that.
pub(crate) fn find(core: &Core, session: &Path, own: Option<u32>) -> io::Result<Found> {
    let nothing = || Found {
        spans: Vec::new(),
        _lock: None,
    };
    let alive = |id: &str| is_alive(core, id);
    if left_behind(&alive, session, own)?.dead.is_empty() {
        return Ok(nothing());
    }
    let lock = Lockable::new(lock_file(session)?);
    if lock.try_lock().is_err() {
        // Somebody else is at it.
        return Ok(nothing());
    }
    let LeftBehind { dead, closed } = left_behind(&alive, session, own)?;
    let mut spans = Vec::new();
    for (number, path) in &dead {
        spans.extend(left_open(*number, path)?);
    }
    spans.retain(|span| !closed.contains(&span.ids.span));
    Ok(Found {
        spans,
        _lock: Some(lock),
    })
}

/// What is held while a session is recovered: the first that recovery has to write.
pub(crate) fn lock_file(session: &Path) -> io::Result<File> {
    open_private(
        &session.join("lock"),
        OpenOptions::new().create(true).truncate(false).write(true),
    )
}

/// The segments of dead writers that leave a span open which no other segment closes.
#[cfg(feature = "mirror")]
pub(crate) fn left_open_in(root: &Root, session: &Path) -> io::Result<Vec<u32>> {
    let alive = |id: &str| writer::is_alive(root, id);
    let left = left_behind(&alive, session, None)?;
    Ok(left.dead.into_iter().map(|(number, _)| number).collect())
}

#[derive(Default)]
struct LeftBehind {
    /// The segments of dead writers that leave a span open which no other segment closes.
    dead: Vec<(u32, PathBuf)>,
    /// What was closed in another segment than the one that opened it.
    closed: HashSet<u64>,
}

/// What dead writers left open. A session that was recovered before costs a look at its segments' ends and one
/// pass over their bytes.
fn left_behind(
    alive: &dyn Fn(&str) -> bool,
    session: &Path,
    own: Option<u32>,
) -> io::Result<LeftBehind> {
    let mut dead = dead_with_open(alive, session, own)?;
    if dead.is_empty() {
        return Ok(LeftBehind::default());
    }
    let closed = closed_elsewhere(session)?;
    dead.retain(|(_, _, open)| !open.is_subset(&closed));
    let dead = dead.into_iter().map(|(number, path, _)| (number, path));
    Ok(LeftBehind {
        dead: dead.collect(),
        closed,
    })
}

/// The segments of dead writers, and which spans their ends leave open.
fn dead_with_open(
    alive: &dyn Fn(&str) -> bool,
    session: &Path,
    own: Option<u32>,
) -> io::Result<Vec<(u32, PathBuf, HashSet<u64>)>> {
    let found = match segments(session) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut dead = Vec::new();
    for (number, path) in found {
        if Some(number) == own || writer_of(&path)?.is_some_and(|id| alive(&id)) {
            continue;
        }
        let open = open_at_end(&tail(&path)?);
        if !open.is_empty() {
            dead.push((number, path, open));
        }
    }
    Ok(dead)
}

fn is_alive(core: &Core, id: &str) -> bool {
    core.writer_id().as_deref() == Some(id) || writer::is_alive(&core.root, id)
}

/// Who wrote a segment, by its first line: before it can stand only what is left of one that a
/// full disk tore. `None`: the writer died before that line was whole.
pub(crate) fn writer_of(path: &Path) -> io::Result<Option<String>> {
    let head = head_of(path)?;
    Ok(head.and_then(|head| Some(head.payload.get("writer")?.as_str()?.to_owned())))
}

/// What a segment's first line says of sending.
fn policy_of(path: &Path) -> io::Result<Option<String>> {
    let head = head_of(path)?;
    Ok(head.and_then(|head| Some(head.payload.get("mirror")?.to_string())))
}

fn head_of(path: &Path) -> io::Result<Option<Line>> {
    Ok(first(path)?.map(|(line, _)| line))
}

/// The bytes of a segment's first line, by which it can be told from any other segment.
#[cfg(feature = "mirror")]
pub(crate) fn first_line(path: &Path) -> io::Result<Option<Vec<u8>>> {
    Ok(first(path)?.map(|(_, bytes)| bytes))
}

fn first(path: &Path) -> io::Result<Option<(Line, Vec<u8>)>> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        reader.read_until(b'\n', &mut bytes)?;
        if bytes.last() != Some(&b'\n') {
            return Ok(None);
        }
        if let Ok(line) = Line::parse(&bytes) {
            return Ok(Some((line, bytes)));
        }
    }
}

/// The spans that the end of a segment leaves open.
fn open_at_end(tail: &[u8]) -> HashSet<u64> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut open = HashSet::new();
    for bytes in lines(tail) {
        let Some(kind) = kind_of(bytes).and_then(|kind| std::str::from_utf8(kind).ok()) else {
            continue;
        };
        let opens = SpanKind::from_open_kind(kind).is_some();
        if !opens && !SpanKind::is_close_kind(kind) && kind != "checkpoint" {
            continue;
        }
        let Ok(line) = Line::parse(bytes) else {
            continue;
        };
        if kind == "checkpoint" {
            let listed = line.payload.get("open").and_then(Value::as_array);
            let ids = listed
                .into_iter()
                .flatten()
                .filter_map(|v| hex(v.get("span_id")?.as_str()?));
            open = ids.collect();
        } else if let Some(span) = line.span_id.as_deref().and_then(hex) {
            if opens {
                open.insert(span);
            } else {
                open.remove(&span);
            }
        }
    }
    open
}

/// Calls `take` with every whole line of a segment that parses.
fn each_line(
    path: &Path,
    wanted: impl Fn(&str, &[u8]) -> bool,
    mut take: impl FnMut(Line),
) -> io::Result<Option<u64>> {
    let file = File::open(path)?;
    // Up to where it ends now: a living writer could keep ahead of us for ever.
    let size = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(1 << 18, file.take(size));
    let mut bytes = Vec::new();
    let mut last_seen = None;
    loop {
        bytes.clear();
        reader.read_until(b'\n', &mut bytes)?;
        if bytes.last() != Some(&b'\n') {
            return Ok(last_seen);
        }
        let Some(kind) = kind_of(&bytes).and_then(|kind| std::str::from_utf8(kind).ok()) else {
            continue;
        };
        if let Some(ts) = ts_of(&bytes) {
            last_seen = last_seen.max(Some(ts));
        }
        if wanted(kind, &bytes)
            && let Ok(line) = Line::parse(&bytes)
        {
            take(line);
        }
    }
}

fn ts_of(line: &[u8]) -> Option<u64> {
    let head = std::str::from_utf8(line.get(..100.min(line.len()))?).ok()?;
    let start = head.find("\"ts\":\"")? + 6;
    let len = head[start..].find('"')?;
    parse_time(&head[start..start + len])
}

fn left_open(number: u32, path: &Path) -> io::Result<Vec<DeadSpan>> {
    let mut open: HashMap<u64, DeadSpan> = HashMap::new();
    let mut order = Vec::new();
    let wanted = |kind: &str, _: &[u8]| {
        kind == "span_update"
            || SpanKind::from_open_kind(kind).is_some()
            || SpanKind::is_close_kind(kind)
    };
    let policy: Option<Arc<str>> = policy_of(path)?.map(Arc::from);
    let last_seen = each_line(path, wanted, |mut line| {
        let Some(ids) = line.ids() else { return };
        if let Some(kind) = SpanKind::from_open_kind(&line.kind) {
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
        } else if line.kind == "span_update" {
            if let Some(span) = open.get_mut(&ids.span) {
                span.update(line.payload);
            }
        } else {
            open.remove(&ids.span);
        }
    })?;
    let mut spans: Vec<_> = order.iter().filter_map(|id| open.remove(id)).collect();
    for span in &mut spans {
        span.last_seen = last_seen.unwrap_or(span.start);
    }
    // Children before their parents, as they would have ended.
    spans.reverse();
    Ok(spans)
}

/// The spans that were closed in another segment than the one that opened them. Such a line says
/// so, or that it is late; the words can also stand in a text, which does no harm.
fn closed_elsewhere(session: &Path) -> io::Result<HashSet<u64>> {
    let says = |bytes: &[u8], word: &str| memchr::memmem::find(bytes, word.as_bytes()).is_some();
    let wanted = |kind: &str, bytes: &[u8]| {
        SpanKind::is_close_kind(kind) && (says(bytes, "\"opened_seg\"") || says(bytes, "\"late\""))
    };
    let mut closed = HashSet::new();
    for (_, path) in segments(session)? {
        each_line(&path, wanted, |line| {
            closed.extend(line.ids().map(|ids| ids.span));
        })?;
    }
    Ok(closed)
}
