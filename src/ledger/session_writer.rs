//! Appends the lines of one session, starts the next segment when one is full, and handles faults of the disk.
//!
//! - A line is one `write(2)`. `seq` is taken with it, and used up only when the line is whole.
//! - When [`append`](SessionWriter::append) returns a place, the kernel has the line.
//! - After a fault comes, in this order: the segment's header if it is missing, the `gap`, the lines that the
//!   caller has to write again. Only then the new line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Ledger;
use super::gap::Gap;
use super::recovery::Recovery;
use super::segment::Segment;
use crate::trace::{
    APART_NS, Address, BufferPool, Kind, LARGEST_POOLED, LineMeta, Moment, NewHeader,
    SessionHeader, SessionPart, finish_line, segment_name, steady_ns,
};

thread_local! {
    /// The thread's, not the session's: the processor's caches hold one buffer, not one for each of a
    /// thousand sessions.
    static LINES: BufferPool<Vec<u8>> = const { BufferPool::new() };
}

const FIRST_BACKOFF_NS: u64 = 1_000_000;
pub(super) const LAST_BACKOFF_NS: u64 = 1_000_000_000;
/// At least so many bytes lie between two checkpoints, and so many times the size of the first of the two: a
/// checkpoint lists every open span, and all checkpoints together stay a fraction of the trace.
const CHECKPOINT_EVERY: u64 = 1 << 20;
const CHECKPOINT_SPACING: u64 = 4;

/// Writes the members of a line's payload, each followed by a comma. Its argument is the segment that the
/// line goes to.
pub(crate) type Payload<'a> = &'a dyn Fn(&mut Vec<u8>, u32);

/// Where a line went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Appended {
    pub segment: u32,
    pub seq: u64,
    pub size: usize,
}

/// A result of writing. The error is the reason why a line could not be written.
pub(super) type Written<T = ()> = Result<T, String>;

fn failed(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("{what} {}: {error}", path.display())
}

/// What the owner of a writer knows of the session's lines and the ledger does not. An owner that has nothing
/// to add uses `()`.
pub(crate) trait SessionHooks {
    /// A segment was created. Returns the fields of its header about the session.
    fn header(&mut self, _segment: u32) -> SessionHeader {
        SessionHeader::default()
    }

    /// Whether a span is open, or closed by a line that was lost: a marker has to stay then.
    fn leaves_open(&self) -> bool {
        false
    }

    /// The next line that was lost and has to be written again, and its payload.
    fn next_lost(&mut self, _: &mut Vec<u8>) -> Option<LineMeta<'static>> {
        None
    }

    /// That line has been written.
    fn replayed(&mut self, _segment: u32) {}

    /// The kernel has this line, which may be of any kind.
    fn written(&mut self, _line: &[u8]) {}

    /// A `gap` line has been written that counts so many.
    fn gap_written(&mut self, _lost: u64) {}

    /// The file of a segment was removed, with its lines. The argument returns whether another segment is
    /// still there.
    fn segment_removed(&mut self, _: &dyn Fn(u32) -> bool) {}

    /// Writes the payload of a checkpoint: what a reader, a resuming process or a recovery would otherwise
    /// have to read the whole segment for. `false`: there is none.
    fn checkpoint(&mut self, _: &mut Vec<u8>) -> bool {
        false
    }
}

impl SessionHooks for () {}

/// What a writer needs for a call: the ledger, and the hooks of the writer's owner.
pub(crate) struct Context<'a> {
    pub ledger: &'a Ledger,
    pub hooks: &'a mut dyn SessionHooks,
}

impl<'a> Context<'a> {
    pub fn new(ledger: &'a Ledger, hooks: &'a mut dyn SessionHooks) -> Self {
        Self { ledger, hooks }
    }
}

/// The writer of a session's lines. Its owner serializes the calls, which orders lines and `seq`.
#[derive(Debug, Default)]
pub(crate) struct SessionWriter {
    session: SessionPart,
    dir: PathBuf,
    pub(super) segment: Option<Segment>,
    pub(super) gap: Gap,
    backoff: u64,
    pub(super) retry_at: u64,
    /// What went wrong before the wait until then.
    waits_for: String,
    pub(super) checkpoint_at: u64,
    /// The time of the line that was appended last.
    last_time: u64,
    /// When a recovery goes on, or one that failed is tried again.
    pub(super) recover_at: Option<u64>,
    /// A recovery that goes on when `recover_at` has come.
    pub(super) recovery: Option<Recovery>,
    /// The policy of the segment that the spans of a dead writer are closed in.
    pub(super) recovering: Option<Option<Arc<str>>>,
}

impl SessionWriter {
    /// A writer for the session of this id. It creates nothing before the first line.
    pub fn new(ledger: &Ledger, id: &str) -> Self {
        Self::at(id, ledger.root.session(id))
    }

    /// A writer for a session in another directory.
    pub fn at(id: &str, dir: PathBuf) -> Self {
        Self {
            session: SessionPart::new(id),
            dir,
            checkpoint_at: CHECKPOINT_EVERY,
            ..Self::default()
        }
    }

    /// The session's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Closes the file until the next line.
    pub fn close_file(&self) {
        if let Some(segment) = &self.segment {
            segment.shared.try_close();
        }
    }

    /// Whether nothing has to be written later.
    pub fn owes_nothing(&self) -> bool {
        self.gap.count == 0 && self.recover_at.is_none()
    }

    /// The time of the next line: `just_now` if it is known and after the last line, else the current time.
    pub fn time_of_line(&self, just_now: Option<u64>) -> u64 {
        let after_last = just_now.filter(|time| *time > self.last_time);
        after_last.unwrap_or_else(|| self.in_order(Moment::now().wall))
    }

    /// A time that is not before the last line's, where the clocks of two threads differ by a little. A clock
    /// that was set back stays so.
    fn in_order(&self, time: u64) -> u64 {
        match self.last_time.checked_sub(time) {
            Some(behind) if behind <= APART_NS => self.last_time,
            _ => time,
        }
    }

    pub(super) fn segment_number(&self) -> u32 {
        self.segment
            .as_ref()
            .map_or(0, |segment| segment.shared.number)
    }

    /// The number of the line that was written last.
    fn last_seq(&self) -> u64 {
        let next = self.segment.as_ref().map_or(1, |segment| segment.next_seq);
        next.saturating_sub(1)
    }

    /// Appends a line. `None`: it could not be written, and is counted as lost.
    pub fn append(
        &mut self,
        cx: &mut Context<'_>,
        mut meta: LineMeta<'_>,
        payload: Payload<'_>,
    ) -> Option<Appended> {
        meta.time = self.in_order(meta.time);
        let done = self
            .prepare(cx, meta.time)
            .and_then(|()| self.write_line(cx, meta, payload));
        match done {
            Ok(size) => {
                cx.ledger.counters().count_written();
                let segment = self.segment_number();
                let seq = self.last_seq();
                self.after_line(cx, meta.time);
                Some(Appended { segment, seq, size })
            }
            Err(cause) => {
                self.gap.add(meta.kind, 1, meta.time, &cause);
                let counters = cx.ledger.counters();
                counters.count_failed(1);
                counters.note_error(&cause);
                counters.warn_once(&format!("not recording: {cause}"));
                None
            }
        }
    }

    /// Writes a checkpoint or retries a recovery, where one is due.
    fn after_line(&mut self, cx: &mut Context<'_>, now: u64) {
        if let Some(segment) = &mut self.segment {
            segment.events += 1;
            if segment.size >= self.checkpoint_at {
                self.write_checkpoint(cx, now);
            }
        }
        if self.recover_at.is_some_and(|at| at <= steady_ns()) {
            self.recover_some(cx, false);
        }
    }

    /// Tries again to write the missing lines, back-off or not. Returns how many are still missing.
    pub fn flush(&mut self, cx: &mut Context<'_>) -> u64 {
        let now = self.time_of_line(None);
        if let Some(segment) = &mut self.segment
            && segment.is_removed(now, true)
        {
            self.segment_removed(cx, now);
        }
        if self.is_behind(cx) {
            self.retry_at = 0;
            if let Err(cause) = self.prepare(cx, now) {
                cx.ledger.note_error(&cause);
            }
        }
        if self.recover_at.is_some() {
            self.retry_at = 0;
            self.recover(cx);
        }
        self.gap.count
    }

    /// Whether something has to be written before a new line.
    pub(super) fn is_behind(&self, cx: &mut Context<'_>) -> bool {
        self.gap.count > 0 || cx.hooks.next_lost(&mut Vec::new()).is_some()
    }

    /// Makes the segment ready for a line: opens or creates it, and writes what has to come first.
    pub(super) fn prepare(&mut self, cx: &mut Context<'_>, now: u64) -> Written {
        self.ensure_open(cx, now)?;
        self.rotate_if_full(cx, now)?;
        if self.segment.is_none() {
            self.create_segment(cx.ledger, now)?;
        }
        self.write_header(cx, now)?;
        if self.gap.count > 0 {
            let mut out = Vec::new();
            self.gap.write(&mut out);
            self.write_pending(cx, LineMeta::of_segment(Kind::Gap, now), &out)?;
            let lost = std::mem::take(&mut self.gap).count;
            cx.hooks.gap_written(lost);
            if let Some(segment) = &mut self.segment {
                segment.gaps += lost;
            }
        }
        self.replay_lost(cx, now)
    }

    fn ensure_open(&mut self, cx: &mut Context<'_>, now: u64) -> Written {
        let Some(segment) = &mut self.segment else {
            return Ok(());
        };
        if segment.shared.is_open() {
            if segment.is_removed(now, false) {
                self.segment_removed(cx, now);
            }
            return Ok(());
        }
        if self.retry_at > steady_ns() {
            return Err(self.waits_for.clone());
        }
        match segment.shared.open_again(cx.ledger) {
            Ok(true) => {}
            Ok(false) => self.segment_removed(cx, now),
            Err(error) => {
                let error = failed("open", &segment.shared.path, &error);
                return Err(self.back_off(error));
            }
        }
        Ok(())
    }

    /// Goes on in another segment. Where none can be created, the full one is written to.
    fn rotate_if_full(&mut self, cx: &mut Context<'_>, now: u64) -> Written {
        let is_full = |segment: &mut Segment| segment.size >= cx.ledger.config.segment_size;
        let Some(full) = self.segment.take_if(is_full) else {
            return Ok(());
        };
        let checkpoint_in = self.checkpoint_at.saturating_sub(full.size);
        if self.create_segment(cx.ledger, now).is_err() {
            self.segment = Some(full);
            return Ok(());
        }
        self.checkpoint_at = checkpoint_in.max(CHECKPOINT_EVERY);
        let header = self.write_header(cx, now);
        if let Some(next) = &self.segment {
            full.seal(next);
        }
        header
    }

    fn create_segment(&mut self, ledger: &Ledger, now: u64) -> Written {
        if self.retry_at > steady_ns() {
            return Err(self.waits_for.clone());
        }
        let policy = self.recovering.as_ref().unwrap_or(&ledger.config.policy);
        let created = ledger.retry_open(|| {
            ledger.ensure_writer()?;
            Segment::create(ledger, &self.dir, policy.clone(), now)
        });
        match created {
            Ok(segment) => {
                ledger.sync_new_entry(&self.dir);
                ledger.fd_cache.admit(&segment.shared);
                self.segment = Some(segment);
                self.checkpoint_at = CHECKPOINT_EVERY;
                self.backoff = 0;
                Ok(())
            }
            Err(error) => {
                let error = failed("create a segment in", &self.dir, &error);
                Err(self.back_off(error))
            }
        }
    }

    fn write_header(&mut self, cx: &mut Context<'_>, now: u64) -> Written {
        let Some(segment) = self.segment.as_ref().filter(|s| !s.has_header) else {
            return Ok(());
        };
        let (number, policy) = (segment.shared.number, segment.shared.policy.clone());
        let header = NewHeader {
            writer: cx.ledger.writer_id(),
            process: &cx.ledger.config.process,
            resource: &cx.ledger.config.resource,
            mirror: policy.as_deref(),
            digest_salt: &cx.ledger.config.digest_salt,
            session: cx.hooks.header(number),
        };
        let meta = LineMeta::of_segment(Kind::Segment, now);
        self.write_pending(cx, meta, &header.members())?;
        if let Some(segment) = &mut self.segment {
            segment.has_header = true;
        }
        Ok(())
    }

    /// Writes again what was lost.
    fn replay_lost(&mut self, cx: &mut Context<'_>, now: u64) -> Written {
        let mut out = Vec::new();
        while let Some(meta) = cx.hooks.next_lost(&mut out) {
            let meta = LineMeta { time: now, ..meta };
            self.write_pending(cx, meta, &out)?;
            cx.hooks.replayed(self.segment_number());
            out.clear();
        }
        Ok(())
    }

    fn write_checkpoint(&mut self, cx: &mut Context<'_>, now: u64) {
        let mut out = Vec::new();
        if cx.hooks.checkpoint(&mut out) {
            let meta = LineMeta::of_segment(Kind::Checkpoint, now);
            if let Err(cause) = self.write_pending(cx, meta, &out) {
                // The next checkpoint has the same and more.
                cx.ledger.note_error(&cause);
            }
        }
        if let Some(segment) = &self.segment {
            let spacing = CHECKPOINT_SPACING * out.len() as u64;
            self.checkpoint_at = segment.size + spacing.max(CHECKPOINT_EVERY);
        }
    }

    /// The file is gone, and with it every line this process wrote to it.
    fn segment_removed(&mut self, cx: &mut Context<'_>, now: u64) {
        let Some(segment) = self.segment.take() else {
            return;
        };
        segment.shared.set_removed();
        let cause = format!("{} was removed", segment.shared.path.display());
        // What its gap lines counted is missing again, but was counted as failed before.
        let missing = segment.events + segment.gaps;
        if missing > 0 {
            self.gap.add("unknown", missing, now, &cause);
            cx.ledger.counters().count_failed(segment.events);
        }
        cx.ledger.note_error(&cause);
        cx.ledger.counters().warn_once(&cause);
        let (dir, gone) = (&self.dir, segment.shared.number);
        cx.hooks
            .segment_removed(&|number| number != gone && dir.join(segment_name(number)).exists());
        self.retry_at = 0;
    }

    /// Writes a line that has to come before others.
    fn write_pending(
        &mut self,
        cx: &mut Context<'_>,
        meta: LineMeta<'_>,
        payload: &[u8],
    ) -> Written {
        self.write_line(cx, meta, &|out, _| out.extend_from_slice(payload))
            .map(drop)
    }

    /// Writes a line to the segment, which has been made ready for it. Returns its size.
    fn write_line(
        &mut self,
        cx: &mut Context<'_>,
        meta: LineMeta<'_>,
        payload: Payload<'_>,
    ) -> Written<usize> {
        let Some(segment) = &mut self.segment else {
            return Err("no segment".into());
        };
        self.last_time = meta.time;
        let mut line = BufferPool::take(&LINES).unwrap_or_else(|| Vec::with_capacity(1024));
        segment.start_line(&mut line);
        let place = Address {
            seg: segment.shared.number,
            seq: segment.next_seq,
        };
        meta.write_head(place, &mut self.session, &mut line);
        payload(&mut line, segment.shared.number);
        finish_line(&mut line);
        let written = segment.write(cx.ledger, &line, cx.hooks.leaves_open());
        if written.is_ok() {
            cx.hooks.written(&line);
        }
        let size = line.len();
        if line.capacity() <= LARGEST_POOLED {
            line.clear();
            BufferPool::give(&LINES, line);
        }
        match written {
            Ok(()) => Ok(size),
            Err(error) => Err(failed("write to", &segment.shared.path, &error)),
        }
    }

    fn back_off(&mut self, error: String) -> String {
        self.waits_for.clone_from(&error);
        self.backoff = (self.backoff * 2).clamp(FIRST_BACKOFF_NS, LAST_BACKOFF_NS);
        self.retry_at = steady_ns() + self.backoff;
        error
    }
}
