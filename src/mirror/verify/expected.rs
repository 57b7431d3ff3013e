//! What a backend should hold of a session, by the session's own lines.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::compare::Expected;
use crate::event::SpanKind;
use crate::ledger::{parse_time, segments};
use crate::mirror::map;
use crate::mirror::origin::Origin;
use crate::mirror::state::State;
use crate::reader::{Damage, Found, RawLine, SegmentReader};

/// Where the close lines of a session are, trace by trace. The lines themselves are read again when
/// their trace's turn comes, so that one trace is held at a time.
pub(super) struct Index {
    pub session_id: String,
    /// The close lines of each trace, in the order of readers.
    pub traces: BTreeMap<String, Vec<Place>>,
    /// Spans without an end: nothing is sent of them.
    pub open: u64,
    pub damages: Vec<Damage>,
    segments: Vec<(u32, PathBuf)>,
    origins: HashMap<u32, Option<Arc<Origin>>>,
    unsent: HashMap<u32, Unsent>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// When it was written, and never before what stands above it.
    ts: u64,
    seg: u32,
    offset: u64,
    len: usize,
}

/// What of a segment no server has.
struct Unsent {
    /// From this byte on nothing was sent.
    from: u64,
    /// The lines whose spans a server refused, with its reason.
    refused: HashMap<u64, String>,
}

impl Index {
    pub fn read(session: &Path, state: &State) -> io::Result<Self> {
        let mut index = Self {
            session_id: String::new(),
            traces: BTreeMap::new(),
            open: 0,
            damages: Vec::new(),
            segments: segments(session)?,
            origins: HashMap::new(),
            unsent: HashMap::new(),
        };
        // The first close of a span wins, everywhere.
        let mut closed: HashMap<(String, String), Place> = HashMap::new();
        let mut opened = HashSet::new();
        for (seg, path) in index.segments.clone() {
            let mut reader = SegmentReader::open(path)?;
            let mut ts = 0;
            while let Some(found) = reader.next()? {
                let line = match found {
                    Found::Line(line) => line,
                    Found::Damaged(damage) => {
                        index.damages.push(damage);
                        continue;
                    }
                };
                if index.session_id.is_empty() {
                    index.session_id = line.session_id.to_string();
                }
                ts = ts.max(parse_time(line.ts).unwrap_or(0));
                let (Some(trace), Some(span)) = (line.trace_id, line.span_id) else {
                    continue;
                };
                let id = (trace.to_owned(), span.to_owned());
                if SpanKind::is_close_kind(&line.kind) {
                    let len = line.as_bytes().len();
                    let offset = reader.line_offset();
                    let place = Place {
                        ts,
                        seg,
                        offset,
                        len,
                    };
                    let first = closed.entry(id).or_insert(place);
                    *first = place.min(*first);
                } else if SpanKind::from_open_kind(&line.kind).is_some() {
                    opened.insert(id);
                }
            }
            index.unsent.insert(seg, Unsent::read(session, state, seg)?);
        }
        index.open = opened.iter().filter(|id| !closed.contains_key(*id)).count() as u64;
        for ((trace, _), place) in closed {
            index.traces.entry(trace).or_default().push(place);
        }
        index.traces.values_mut().for_each(|places| places.sort());
        Ok(index)
    }

    /// The spans of these lines, and how many of them are not sent at all: not sampled, or of a
    /// mapping that isn't known here.
    pub fn expected(&mut self, places: &[Place]) -> io::Result<(Vec<Expected>, u64)> {
        let mut expected = Vec::with_capacity(places.len());
        let mut left_out = 0;
        let mut files: HashMap<u32, File> = HashMap::new();
        let mut bytes = Vec::new();
        for place in places {
            let file = match files.entry(place.seg) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let found = self.segments.iter().find(|(seg, _)| *seg == place.seg);
                    let (_, path) = found.ok_or(io::ErrorKind::NotFound)?;
                    entry.insert(File::open(path)?)
                }
            };
            bytes.resize(place.len, 0);
            file.read_exact_at(&mut bytes, place.offset)?;
            let Ok(line) = RawLine::parse(&bytes) else {
                continue;
            };
            let opened = line.payload().get("opened_seg").and_then(|seg| seg.u64());
            let opened = opened.and_then(|seg| u32::try_from(seg).ok());
            let opened = opened.unwrap_or(place.seg);
            let origin = match self.origins.entry(opened) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let found = self.segments.iter().find(|(seg, _)| *seg == opened);
                    let read = found.map_or(Ok(None), |(_, path)| Origin::of_segment(path));
                    entry.insert(read?.map(Arc::new))
                }
            };
            let span = origin
                .as_ref()
                .and_then(|origin| Some((Arc::clone(origin), map::span(origin, &line)?)));
            let Some((origin, span)) = span else {
                left_out += u64::from(!map::closes_made_up(&line));
                continue;
            };
            let address = format!("{}/{}", line.session_id, line.address());
            let unsent = self.unsent.get(&place.seg);
            expected.push(Expected {
                unsent: unsent.and_then(|unsent| unsent.why(place, line.seq)),
                ..Expected::new(origin, span, address)
            });
        }
        Ok((expected, left_out))
    }
}

impl Unsent {
    fn read(session: &Path, state: &State, seg: u32) -> io::Result<Self> {
        let letters = state.letters(session, seg)?.unresolved;
        // Of a request that was refused in part nobody said which.
        let refused = letters
            .into_iter()
            .filter(|letter| letter.from == letter.to);
        let refused = refused.map(|letter| (letter.from.seq, letter.reason));
        Ok(Self {
            from: state.cursor(session, seg)?.0.offset,
            refused: refused.collect(),
        })
    }

    fn why(&self, place: &Place, seq: u64) -> Option<String> {
        if place.offset >= self.from {
            return Some("it was not sent yet".to_owned());
        }
        let reason = self.refused.get(&seq)?;
        Some(format!("a server refused it: {reason}"))
    }
}
