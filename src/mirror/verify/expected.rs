//! The spans that a backend should have, read from a session's lines.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::compare::Expected;
use crate::mirror::map;
use crate::mirror::map::origin::{OriginCache, opened_seg};
use crate::mirror::progress::cursor::ProgressDir;
use crate::trace::{Damage, RawLine, ReadItem, SegmentReader, parse_time, segment_name, segments};

/// Where the close lines of a session are, per trace. The lines themselves are read when their trace is
/// compared, so that one trace is in memory at a time.
pub(super) struct Index {
    pub session_id: String,
    /// The close lines of each trace, in the order of time.
    pub traces: BTreeMap<String, Vec<LineRef>>,
    /// The number of spans that are still open.
    pub open: u64,
    pub damages: Vec<Damage>,
    session: PathBuf,
    origins: OriginCache,
    unsent: HashMap<u32, Unsent>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineRef {
    /// When it was written, and not before the lines above it.
    ts: u64,
    seg: u32,
    offset: u64,
    len: usize,
}

/// The part of a segment that was not sent.
struct Unsent {
    /// Nothing was sent from this offset on.
    from: u64,
    /// The server's reasons for spans that it refused, by line.
    refused: HashMap<u64, String>,
}

type SpanId = (String, String);

impl Index {
    pub fn read(session: &Path, state: &ProgressDir) -> io::Result<Self> {
        let mut index = Self {
            session_id: String::new(),
            traces: BTreeMap::new(),
            open: 0,
            damages: Vec::new(),
            session: session.to_owned(),
            origins: OriginCache::default(),
            unsent: HashMap::new(),
        };
        let mut closed: HashMap<SpanId, LineRef> = HashMap::new();
        let mut opened = HashSet::new();
        for (seg, path) in segments(session)? {
            index.read_segment(seg, &path, &mut opened, &mut closed)?;
            index.unsent.insert(seg, Unsent::read(session, state, seg)?);
        }
        index.open = opened.iter().filter(|id| !closed.contains_key(*id)).count() as u64;
        for ((trace, _), line) in closed {
            index.traces.entry(trace).or_default().push(line);
        }
        index.traces.values_mut().for_each(|lines| lines.sort());
        Ok(index)
    }

    fn read_segment(
        &mut self,
        seg: u32,
        path: &Path,
        opened: &mut HashSet<SpanId>,
        closed: &mut HashMap<SpanId, LineRef>,
    ) -> io::Result<()> {
        let mut reader = SegmentReader::open(path)?;
        let mut ts = 0;
        while let Some(found) = reader.next()? {
            let line = match found {
                ReadItem::Line(line) => line,
                ReadItem::Damaged(damage) => {
                    self.damages.push(damage);
                    continue;
                }
            };
            if self.session_id.is_empty() {
                self.session_id = line.session_id.to_string();
            }
            ts = ts.max(parse_time(line.ts).unwrap_or(0));
            let (Some(trace), Some(span)) = (line.trace_id, line.span_id) else {
                continue;
            };
            let id = (trace.to_owned(), span.to_owned());
            if line.kind().is_close() {
                let line = LineRef {
                    ts,
                    seg,
                    len: line.as_bytes().len(),
                    offset: reader.line_offset(),
                };
                // The first close line of a span counts.
                let first = closed.entry(id).or_insert(line);
                *first = line.min(*first);
            } else if line.kind().opens().is_some() {
                opened.insert(id);
            }
        }
        Ok(())
    }

    /// The spans of these lines, and how many lines make none: not sampled, or of an unknown mapping.
    pub fn expected(&mut self, lines: &[LineRef]) -> io::Result<(Vec<Expected>, u64)> {
        let mut expected = Vec::with_capacity(lines.len());
        let mut left_out = 0;
        let mut files: HashMap<u32, (File, PathBuf)> = HashMap::new();
        let mut bytes = Vec::new();
        for at in lines {
            let (file, path) = match files.entry(at.seg) {
                Entry::Occupied(open) => open.into_mut(),
                Entry::Vacant(entry) => {
                    let path = self.session.join(segment_name(at.seg));
                    entry.insert((File::open(&path)?, path))
                }
            };
            bytes.resize(at.len, 0);
            file.read_exact_at(&mut bytes, at.offset)?;
            let Ok(line) = RawLine::parse(&bytes) else {
                continue;
            };
            let origin = self.origins.get(path, opened_seg(&line))?;
            let span = origin.and_then(|origin| {
                let span = map::span(&origin, &line)?;
                Some((origin, span))
            });
            let Some((origin, span)) = span else {
                left_out += u64::from(!map::closes_synthetic_turn(&line));
                continue;
            };
            let endpoint = origin.policy().endpoint.as_deref();
            let unsent = self.unsent.get(&at.seg);
            let unsent = unsent.and_then(|unsent| unsent.why(at, line.seq, endpoint));
            let address = format!("{}/{}", line.session_id, line.address());
            expected.push(Expected {
                unsent,
                ..Expected::new(origin, span, address)
            });
        }
        Ok((expected, left_out))
    }
}

impl Unsent {
    fn read(session: &Path, state: &ProgressDir, seg: u32) -> io::Result<Self> {
        let letters = state.dead_letters(session, seg)?.unresolved;
        // Of a request that was rejected in part, the server doesn't say which spans.
        let single = letters
            .into_iter()
            .filter(|letter| letter.from == letter.to);
        let refused = single.map(|letter| (letter.from.seq, letter.reason));
        Ok(Self {
            from: state.cursor(session, seg)?.0.offset,
            refused: refused.collect(),
        })
    }

    fn why(&self, line: &LineRef, seq: u64, endpoint: Option<&str>) -> Option<String> {
        if line.offset >= self.from {
            let recorded = match endpoint {
                Some(endpoint) => format!("recorded for {endpoint}"),
                None => "recorded with no endpoint".to_owned(),
            };
            return Some(format!(
                "not exported yet ({recorded}; run `spanledger mirror --once`)"
            ));
        }
        let reason = self.refused.get(&seq)?;
        Some(format!("refused by the server: {reason}"))
    }
}
