//! Appending: from one event to one line in a segment, whatever the disk does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::clock::{Moment, steady_ns, write_time};
use super::super::format::{Head, finish_line};
use super::super::health::Counters;
use super::super::outbox;
use super::super::root::segment_name;
use super::super::segment::Segment;
use super::super::{Core, Sync};
use super::checkpoint::CHECKPOINT_EVERY;
use super::{LAST_BACKOFF_NS, SessionLog, State};
use crate::event::{Ids, LARGEST_SPARE, Spare};

thread_local! {
    static LINES: Spare<Vec<u8>> = const { Spare::new() };
}

const FIRST_BACKOFF_NS: u64 = 1_000_000;

pub(super) struct Lost {
    pub(super) cause: String,
    /// The line is on disk but for its newline.
    pub(super) whole: bool,
    /// No segment can hold it, whatever else happens.
    pub(super) too_long: bool,
}

impl Lost {
    fn because(cause: String) -> Self {
        Self {
            cause,
            whole: false,
            too_long: false,
        }
    }

    fn io(what: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::because(format!("{what} {}: {error}", path.display()))
    }
}

/// What a line says beside its payload.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    /// When it is appended.
    pub now: u64,
    pub kind: &'a str,
    pub turn: Option<u32>,
    pub ids: Option<Ids>,
}

impl<'a> About<'a> {
    pub fn now(kind: &'a str, turn: Option<u32>, ids: Option<Ids>) -> Self {
        Self {
            now: Moment::now().wall,
            kind,
            turn,
            ids,
        }
    }

    /// A line about the segment it stands in.
    pub fn segment(kind: &'a str, now: u64) -> Self {
        Self {
            now,
            kind,
            turn: None,
            ids: None,
        }
    }
}

/// Writes the members of a line's payload, each with a comma behind it. It is told the segment that
/// the line goes to, and may be called more than once.
type Payload<'a> = &'a dyn Fn(&mut Vec<u8>, u32);

impl SessionLog {
    /// Appends one line. Whether the kernel has it, be it without its newline.
    pub(super) fn append(
        self: &Arc<Self>,
        core: &Core,
        state: &mut State,
        mut about: About<'_>,
        write: impl Fn(&mut Vec<u8>, u32),
    ) -> bool {
        about.now = state.in_order(about.now);
        let now = about.now;
        self.used.store(true, Ordering::Relaxed);
        let done = self
            .prepare(core, state, now, &write)
            .and_then(|()| self.put(core, state, about, &write));
        match done {
            Ok(size) => {
                Counters::add(&core.counters.written, 1);
                if self.implicit.is_some() {
                    Counters::add(&core.counters.orphaned, 1);
                }
                let seg = state.seg();
                if let Some(segment) = &mut state.segment {
                    segment.events += 1;
                    if segment.size >= state.checkpoint_at {
                        self.checkpoint(core, state, now);
                    }
                }
                if state.owes_recovery.is_some_and(|at| at <= steady_ns()) {
                    self.recover_locked(core, state);
                }
                (state.line_size, state.line_seg) = (size, seg);
                true
            }
            Err(lost) => {
                (state.line_size, state.line_seg) = (0, 0);
                if lost.whole {
                    // There but for its newline: no gap, and nothing to be said late.
                    if let Some(segment) = &mut state.segment {
                        segment.events += 1;
                        state.line_seg = segment.number;
                    }
                } else {
                    state.gap.add(about.kind, 1, now, &lost.cause);
                }
                Counters::add(&core.counters.failed, 1);
                core.note_error(&lost.cause);
                core.counters
                    .tell_once(&format!("can't write the trace: {}", lost.cause));
                lost.whole
            }
        }
    }

    /// Makes the segment ready for a line with what `write` writes: opens or creates it, and writes
    /// what has to come first.
    pub(super) fn prepare(
        self: &Arc<Self>,
        core: &Core,
        state: &mut State,
        now: u64,
        write: Payload<'_>,
    ) -> Result<(), Lost> {
        if let Some(segment) = &mut state.segment {
            if segment.file.is_some() {
                if segment.is_removed(now, false) {
                    self.segment_removed(core, state, now);
                }
            } else if state.retry_at <= steady_ns() {
                let mut reopened = segment.reopen();
                if reopened.as_ref().is_err_and(is_out_of_files) && core.files.close_some() {
                    reopened = segment.reopen();
                }
                match reopened {
                    Ok(true) => core.files.admit(self),
                    Ok(false) => self.segment_removed(core, state, now),
                    Err(error) => {
                        let lost = Lost::io("open", &segment.path, &error);
                        return Err(back_off(state, lost));
                    }
                }
            } else {
                return Err(Lost::because(state.waits_for.clone()));
            }
        }
        if state.segment.is_none() {
            self.create_segment(core, state, now)?;
            self.read_past(core, state);
        }
        self.write_head(core, state, now)?;
        if state.gap.count > 0 {
            let mut out = Vec::new();
            state.gap.write(&mut out);
            self.put_owed(core, state, About::segment("gap", now), &out)?;
            let told = std::mem::take(&mut state.gap);
            state.marks.gap(told.count);
            if let Some(segment) = &mut state.segment {
                segment.gaps += told.count;
            }
        }
        self.write_late(core, state, now)?;
        match &state.segment {
            Some(segment) if segment.is_limited() => {
                // How long it is nobody knows before it is written.
                let mut payload = Vec::new();
                write(&mut payload, segment.number);
                self.make_room(core, state, now, payload.len())
            }
            _ => Ok(()),
        }
    }

    fn write_head(self: &Arc<Self>, core: &Core, state: &mut State, now: u64) -> Result<(), Lost> {
        if state.segment.as_ref().is_some_and(|s| !s.has_head) {
            let policy = state.segment.as_ref().and_then(|s| s.policy.clone());
            let head = core.segment_head(self.implicit, policy.as_deref(), state.counts_from);
            self.put_owed(core, state, About::segment("segment", now), &head)?;
            if let Some(segment) = &mut state.segment {
                segment.has_head = true;
                segment.head_size = segment.size;
            }
        }
        Ok(())
    }

    /// Sees to it that a line with so much payload stays below the process's file size limit: in
    /// a new segment, if one can hold it.
    fn make_room(
        self: &Arc<Self>,
        core: &Core,
        state: &mut State,
        now: u64,
        payload: usize,
    ) -> Result<(), Lost> {
        // The rest of a line is at most this long, the session's id aside.
        let need = (payload + 400 + self.id_json.len()) as u64;
        let Some(segment) = &mut state.segment else {
            return Ok(());
        };
        if segment.has_room(need) {
            return Ok(());
        }
        if !segment.has_head || need + segment.head_size > segment.max_size() {
            let cause = format!("a line of {need} bytes is over the file size limit");
            return Err(Lost {
                too_long: true,
                ..Lost::because(cause)
            });
        }
        state.segment = None;
        self.create_segment(core, state, now)?;
        self.write_head(core, state, now)
    }

    /// The open lines that were lost of spans still open, and the closes that were lost.
    fn write_late(self: &Arc<Self>, core: &Core, state: &mut State, now: u64) -> Result<(), Lost> {
        if !state.lost_opens && state.lost_closes.is_empty() {
            return Ok(());
        }
        let mut lost: Vec<(u64, u64)> = state
            .spans
            .values()
            .filter(|span| span.lost)
            .map(|span| (span.start.steady, span.ids.span))
            .collect();
        lost.sort_unstable();
        for (_, id) in lost {
            let Some(span) = state.spans.get(&id) else {
                continue;
            };
            let about = About {
                now,
                kind: span.open_kind,
                turn: span.turn,
                ids: Some(span.ids),
            };
            let (mut out, mut short) = (Vec::new(), Vec::new());
            span.write_open(true, &mut out);
            span.write_start(true, &mut short);
            match self.put_owed(core, state, about, &out) {
                // It must not keep everything else from being written.
                Err(lost) if lost.too_long => match self.put_owed(core, state, about, &short) {
                    Err(lost) if lost.too_long => {}
                    other => other?,
                },
                other => other?,
            }
            let seg = state.seg();
            if let Some(span) = state.spans.get_mut(&id) {
                span.lost = false;
                span.opened_seg = seg;
            }
        }
        state.lost_opens = false;
        while let Some(close) = state.lost_closes.first() {
            let about = About {
                now,
                kind: close.kind,
                turn: close.turn,
                ids: Some(close.ids),
            };
            let mut out = b"\"start\":\"".to_vec();
            write_time(close.start, 9, &mut out);
            let rest = format!(
                "\",\"duration_ns\":{},\"outcome\":\"{}\",\"late\":true,",
                close.duration, close.outcome
            );
            out.extend_from_slice(rest.as_bytes());
            out.extend_from_slice(&close.sending);
            match self.put_owed(core, state, about, &out) {
                Err(lost) if lost.too_long => {}
                other => other?,
            }
            state.lost_closes.remove(0);
        }
        Ok(())
    }

    fn create_segment(
        self: &Arc<Self>,
        core: &Core,
        state: &mut State,
        now: u64,
    ) -> Result<(), Lost> {
        if state.retry_at > steady_ns() {
            return Err(Lost::because(state.waits_for.clone()));
        }
        let create = || {
            core.ensure_writer()?;
            Segment::create(&self.dir, now)
        };
        let mut created = create();
        if created.as_ref().is_err_and(is_out_of_files) && core.files.close_some() {
            created = create();
        }
        match created {
            Ok(mut segment) => {
                core.fresh_dir(&self.dir);
                let own = core.policy();
                segment.policy = match &state.recovering {
                    Some(policy) => policy.clone(),
                    None => own.cloned(),
                };
                if segment.policy.is_some() {
                    segment.marker = outbox::marker(&core.root, &self.dir, segment.number);
                }
                if let Some(marker) = &segment.marker
                    && segment.policy.as_ref() == own
                {
                    segment.live = core.live(self, &segment, marker);
                }
                if self.again {
                    state.counts_from.get_or_insert(segment.number);
                }
                state.segment = Some(segment);
                state.checkpoint_at = CHECKPOINT_EVERY;
                state.backoff = 0;
                core.files.admit(self);
                Ok(())
            }
            Err(error) => {
                let lost = Lost::io("create a segment in", &self.dir, &error);
                Err(back_off(state, lost))
            }
        }
    }

    /// The file is gone, and with it every line this process wrote to it.
    pub(super) fn segment_removed(&self, core: &Core, state: &mut State, now: u64) {
        let Some(segment) = state.segment.take() else {
            return;
        };
        if let Some(live) = &segment.live {
            live.remove();
        }
        let cause = format!("{} was removed", segment.path.display());
        // What its gap lines told of has to be told again, but is counted already.
        let missing = segment.events + segment.gaps;
        if missing > 0 {
            state.gap.add("unknown", missing, now, &cause);
            Counters::add(&core.counters.failed, segment.events);
        }
        core.note_error(&cause);
        core.counters.tell_once(&cause);
        let here = |seg: u32| seg != segment.number && self.dir.join(segment_name(seg)).exists();
        for span in state.spans.values_mut() {
            if span.lost || !here(span.opened_seg) {
                (span.lost, span.opened_seg) = (true, 0);
                state.lost_opens = true;
            }
        }
        // The texts behind the digests went with it.
        state.known.clear();
        state.retry_at = 0;
    }

    /// A line that has to come before others: there but for its newline is there.
    pub(super) fn put_owed(
        self: &Arc<Self>,
        core: &Core,
        state: &mut State,
        about: About<'_>,
        payload: &[u8],
    ) -> Result<(), Lost> {
        self.make_room(core, state, about.now, payload.len())?;
        match self.put(core, state, about, &|out, _| out.extend_from_slice(payload)) {
            Err(lost) if !lost.whole => Err(lost),
            _ => Ok(()),
        }
    }

    /// Writes a line to the segment, which has been made ready for it. How long it is.
    fn put(
        self: &Arc<Self>,
        core: &Core,
        state: &mut State,
        about: About<'_>,
        payload: Payload<'_>,
    ) -> Result<usize, Lost> {
        let Some(segment) = &mut state.segment else {
            return Err(Lost::because("no segment".into()));
        };
        if !segment.marked {
            match segment.mark() {
                Ok(()) if segment.policy.is_some() => {
                    core.fresh_dir(&outbox::outbox_dir(&core.root));
                }
                Ok(()) => {}
                // The trace goes first. The next line tries again.
                Err(error) => core.note_error(&format!("mark what is to be sent: {error}")),
            }
        }
        state.last_ts = about.now;
        // The thread's, not the session's: of a thousand sessions in turns none has a buffer that
        // the processor still knows.
        let mut line = Spare::take(&LINES).unwrap_or_else(|| Vec::with_capacity(1024));
        segment.start_line(&mut line);
        let head = Head {
            seg: segment.number,
            seq: segment.next_seq,
            ts: about.now,
            kind: about.kind,
            session: &self.id_json,
            turn: about.turn,
            ids: about.ids,
        };
        head.write(&mut state.common, &mut line);
        payload(&mut line, segment.number);
        finish_line(&mut line);
        let written = segment.write(&line);
        if written
            .as_ref()
            .map_or_else(|failed| failed.whole, |()| true)
            // Most processes never mask or cut anything: then there is nothing to look for.
            && core.counters.has_marked()
        {
            state.marks.count(&line);
        }
        let size = line.len();
        if line.capacity() <= LARGEST_SPARE {
            line.clear();
            Spare::give(&LINES, line);
        }
        written.map_err(|failed| Lost {
            whole: failed.whole,
            ..Lost::io("write to", &segment.path, &failed.error)
        })?;
        match core.sync {
            Sync::Os => segment.tell(),
            Sync::Interval(_) => core.mark_dirty(&segment.path, segment.live.as_ref()),
            Sync::Always => {
                let synced = segment
                    .file
                    .as_ref()
                    .map_or(Ok(()), |file| file.sync_data());
                match synced {
                    Ok(()) => segment.tell(),
                    Err(error) => {
                        core.note_error(&Lost::io("sync", &segment.path, &error).cause);
                    }
                }
            }
        }
        Ok(size)
    }
}

fn back_off(state: &mut State, lost: Lost) -> Lost {
    state.waits_for.clone_from(&lost.cause);
    state.backoff = (state.backoff * 2).clamp(FIRST_BACKOFF_NS, LAST_BACKOFF_NS);
    state.retry_at = steady_ns() + state.backoff;
    lost
}

pub(super) fn is_out_of_files(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}
