//! What a session and its subagents did together, where limits are set.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use crate::ledger::Ledger;
use crate::trace::typed::{SegmentHeader, Subagent};
use crate::trace::{ReadItem, Refused, SegmentReader, SpanKind, lock, segments};
use crate::watch::{Counts, Limits, LoopPolicy, Replay, RunClock, Unpriced, Used};

/// A session and the subagents that this process runs in it.
#[derive(Debug)]
pub(crate) struct Family {
    /// The session that the others are subagents of.
    pub top: Arc<str>,
    /// The last segment that an earlier state of the top session wrote in this process.
    before: Option<u32>,
    /// What was counted before this process, read when it is first needed.
    past: OnceLock<Counts>,
    now: Mutex<Now>,
}

/// What this process counted.
#[derive(Debug, Default)]
struct Now {
    counts: Counts,
    clock: RunClock,
    unpriced: Unpriced,
}

/// What was counted when a span started.
#[derive(Debug)]
pub(crate) struct AtStart {
    pub counts: Counts,
    /// The session was in a loop.
    pub in_loop: Option<Box<Refused>>,
}

impl Family {
    pub fn new(top: Arc<str>, before: Option<u32>) -> Self {
        Self {
            top,
            before,
            past: OnceLock::new(),
            now: Mutex::default(),
        }
    }

    /// Counts a span that starts at this time of the steady clock. `is_top_run`: it is a run of the top session.
    pub fn start(&self, kind: SpanKind, is_top_run: bool, time: u64) -> Counts {
        let mut now = lock(&self.now);
        if is_top_run {
            now.clock.start(time);
        }
        now.counts.start(kind);
        Counts::at(&now.counts, now.clock.active(time))
    }

    /// A run of the top session ended.
    pub fn end_run(&self, time: u64) {
        lock(&self.now).clock.end(time);
    }

    /// Counts what was used. Returns `true` once for each model whose price is not known.
    pub fn add_used(&self, used: Used<'_>, priced: bool) -> bool {
        let mut now = lock(&self.now);
        let known = now.counts.add_used(used, priced);
        !known && now.unpriced.add(used.model.unwrap_or("unknown"))
    }

    /// What was counted up to the start of a span, also before this process.
    pub fn total(&self, counts: &Counts, limits: &Limits, ledger: &Ledger) -> Counts {
        let past = self.past.get_or_init(|| self.read_past(limits, ledger));
        let mut total = counts.clone();
        total.add(past);
        total
    }

    /// Counts what other processes recorded in the session and its subagents.
    fn read_past(&self, limits: &Limits, ledger: &Ledger) -> Counts {
        // Loops are looked for inside a run, so those of other processes don't matter.
        let limits = limits.clone().on_loop(LoopPolicy::Off);
        let mut replay = Replay::new(&limits, &self.top);
        let mut known = HashSet::from([self.top.to_string()]);
        let mut next = vec![self.top.to_string()];
        while let Some(id) = next.pop() {
            let own_until = self.before.filter(|_| *id == *self.top).unwrap_or(0);
            for (number, path) in segments(&ledger.root().session(&id)).unwrap_or_default() {
                if number > own_until && is_own(&path, ledger) {
                    continue;
                }
                let read = read_segment(&path, &mut replay, |child| {
                    if known.insert(child.clone()) {
                        next.push(child);
                    }
                });
                if let Err(error) = read {
                    let message = format!("read {}: {error}", path.display());
                    ledger.counters().note_error(&message);
                }
            }
        }
        replay.counts()
    }
}

/// Whether this process writes the segment.
fn is_own(path: &Path, ledger: &Ledger) -> bool {
    let writer = SegmentHeader::in_file(path, |header| Some(header.writer()?.into_owned()));
    let writer = writer.ok().flatten();
    writer.is_some() && writer.as_deref() == ledger.writer_id()
}

fn read_segment(
    path: &Path,
    replay: &mut Replay,
    mut subagent: impl FnMut(String),
) -> std::io::Result<()> {
    let mut reader = SegmentReader::open(path)?;
    while let Some(item) = reader.next()? {
        if let ReadItem::Line(line) = item {
            replay.take(&line);
            let child = Subagent::of(&line).and_then(|child| child.child_session_id());
            if let Some(child) = child {
                subagent(child.into_owned());
            }
        }
    }
    Ok(())
}
