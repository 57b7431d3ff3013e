//! One file of lines, written by one process for its whole life.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::listener::SegmentListener;
use super::segment_io::Storage;
use super::{Ledger, SyncPolicy, marker};
use crate::trace::{Dir, if_exists, lock, open_private, segment_name, segments, try_lock};

/// A segment as its writer sees it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub shared: Arc<SharedSegment>,
    pub size: u64,
    pub next_seq: u64,
    /// Lines in it that are not about the segment itself.
    pub events: u64,
    /// Events that its `gap` lines count.
    pub gaps: u64,
    pub has_header: bool,
    listeners: Arc<[Box<dyn SegmentListener>]>,
    /// It ends with a part of a line that could not be truncated.
    torn: bool,
    checked_at: u64,
    unchecked: u32,
}

/// What a segment's writer shares with the descriptor cache and with listeners.
#[derive(Debug)]
pub(crate) struct SharedSegment {
    pub number: u32,
    pub path: PathBuf,
    /// The `mirror` member of its header, as JSON.
    pub policy: Option<Arc<str>>,
    inode: (u64, u64),
    /// The file that exists while something of the segment is left to send.
    marker: Option<PathBuf>,
    /// It was removed, and its inode may be another's.
    removed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` while the cache has closed it.
    file: Option<File>,
    size: u64,
    has_marker: bool,
    /// A span of the session is open: the marker has to stay, so that a crash is noticed.
    leaves_open: bool,
}

/// How much may happen between two looks at whether the file still has a name.
const CHECK_EVERY_LINES: u32 = 64;
const CHECK_EVERY_NS: u64 = 1_000_000_000;

impl Segment {
    /// Creates the next segment of a session, after those of any writer.
    pub fn create(
        ledger: &Ledger,
        session: &Path,
        policy: Option<Arc<str>>,
        now: u64,
    ) -> io::Result<Self> {
        let dir = Dir::make(session, 2)?;
        let mut last = segments(session)?.last().map_or(0, |(n, _)| *n);
        let (number, path, file) = loop {
            let next = last.checked_add(1);
            let number = next.ok_or_else(|| io::Error::other("no number is left for a segment"))?;
            let name = segment_name(number);
            match ledger.config.storage.create(&dir, &name) {
                Ok(file) => break (number, session.join(name), file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = number,
                Err(error) => return Err(error),
            }
        };
        let meta = file.metadata()?;
        let shared = Arc::new(SharedSegment {
            number,
            path,
            marker: policy
                .as_ref()
                .and_then(|_| marker::marker(&ledger.root, session, number)),
            policy,
            inode: (meta.dev(), meta.ino()),
            removed: AtomicBool::new(false),
            state: Mutex::new(State {
                file: Some(file),
                size: 0,
                has_marker: false,
                leaves_open: false,
            }),
        });
        let listeners = ledger.listeners().iter();
        let listeners = listeners.filter_map(|listener| listener.segment_opened(&shared));
        Ok(Self {
            listeners: listeners.collect(),
            shared,
            size: 0,
            next_seq: 1,
            events: 0,
            gaps: 0,
            has_header: false,
            torn: false,
            checked_at: now,
            unchecked: 0,
        })
    }

    /// Whether the file was removed, looked at now and then (or at once): a write to an unlinked file
    /// succeeds and is lost.
    pub fn is_removed(&mut self, now: u64, at_once: bool) -> bool {
        self.unchecked += 1;
        let due =
            self.unchecked >= CHECK_EVERY_LINES || now.abs_diff(self.checked_at) >= CHECK_EVERY_NS;
        if !due && !at_once {
            return false;
        }
        self.unchecked = 0;
        self.checked_at = now;
        let mut state = self.shared.lock();
        let Some(file) = &state.file else {
            return !self.shared.path.exists();
        };
        match file.metadata() {
            Ok(meta) if (meta.dev(), meta.ino()) == self.shared.inode => meta.nlink() == 0,
            // Other code closed our descriptor, and its number may be another file's now.
            _ => {
                std::mem::forget(state.file.take());
                !matches!(self.shared.reopen(&mut state), Ok(true))
            }
        }
    }

    /// The byte that has to come before the next line.
    pub fn start_line(&self, out: &mut Vec<u8>) {
        if self.torn {
            out.push(b'\n');
        }
    }

    /// Hands a whole line to the kernel: one write, and one more for the rest of a short one. Nothing stays in
    /// the file of a line that can't be written whole.
    pub fn write(&mut self, ledger: &Ledger, line: &[u8], leaves_open: bool) -> io::Result<()> {
        let mut state = self.shared.lock();
        let state = &mut *state;
        // The cache may have closed it since it was made ready.
        if state.file.is_none() && !self.shared.reopen(state)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        if !state.has_marker {
            self.shared.make_marker(ledger, state);
        }
        let Some(file) = &mut state.file else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let storage = &*ledger.config.storage;
        let (done, error) = append(storage, file, line);
        let Some(error) = error else {
            self.size += line.len() as u64;
            (state.size, state.leaves_open) = (self.size, leaves_open);
            self.torn = false;
            self.next_seq += 1;
            self.publish(ledger, storage, file);
            return Ok(());
        };
        if done > 0 && storage.truncate(file, self.size).is_err() {
            self.size += done as u64;
            state.size = self.size;
            self.torn = line[done - 1] != b'\n';
            // The next line begins with a newline, which makes this one whole.
            self.next_seq += u64::from(done + 1 == line.len());
        }
        if Errno::from_io_error(&error) == Some(Errno::BADF) {
            std::mem::forget(state.file.take());
        }
        Err(error)
    }

    /// Makes a line as durable as it has to be, and then calls the listeners.
    fn publish(&self, ledger: &Ledger, storage: &dyn Storage, file: &File) {
        match ledger.config.sync {
            SyncPolicy::Os => {}
            SyncPolicy::Interval(_) => {
                if let Some(syncer) = ledger.syncer() {
                    syncer.segment(&self.shared.path, &self.listeners);
                }
                return;
            }
            SyncPolicy::Always => {
                if let Err(error) = storage.sync(file) {
                    let path = self.shared.path.display();
                    return ledger.note_error(&format!("sync {path}: {error}"));
                }
            }
        }
        for listener in &*self.listeners {
            listener.appended(self.size);
        }
    }

    /// The session continues in `next`. The marker of `next` covers the spans that are open.
    pub fn seal(self, next: &Segment) {
        let next_has_marker = next.shared.lock().has_marker;
        let mut state = self.shared.lock();
        state.file = None;
        state.leaves_open &= !next_has_marker;
        drop(state);
        self.listeners.iter().for_each(|listener| listener.sealed());
    }
}

/// How much of a line was written, and what went wrong before its end.
fn append(storage: &dyn Storage, file: &mut File, line: &[u8]) -> (usize, Option<io::Error>) {
    let mut done = 0;
    let mut attempts = 0;
    while done < line.len() {
        match storage.append(file, &line[done..]) {
            Ok(n) => {
                done += n;
                attempts += 1;
                if done < line.len() && (n == 0 || attempts == 2) {
                    let short = format!("only {done} of {} bytes were written", line.len());
                    let error = io::Error::new(io::ErrorKind::WriteZero, short);
                    return (done, Some(error));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (done, Some(error)),
        }
    }
    (done, None)
}

impl SharedSegment {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Notes that its file was removed, before another one can be created.
    pub fn set_removed(&self) {
        self.removed.store(true, Ordering::SeqCst);
    }

    pub fn is_open(&self) -> bool {
        self.lock().file.is_some()
    }

    /// Opens the file again after it was closed. `Ok(false)`: it is gone.
    pub fn open_again(self: &Arc<Self>, ledger: &Ledger) -> io::Result<bool> {
        let opened = ledger.retry_open(|| self.reopen(&mut self.lock()));
        if matches!(opened, Ok(true)) {
            ledger.fd_cache.admit(self);
        }
        opened
    }

    fn reopen(&self, state: &mut State) -> io::Result<bool> {
        if state.file.is_some() {
            return Ok(true);
        }
        let opened = open_private(&self.path, OFlags::WRONLY | OFlags::APPEND);
        let Some(file) = if_exists(opened)? else {
            return Ok(false);
        };
        let meta = file.metadata()?;
        if (meta.dev(), meta.ino()) != self.inode {
            return Ok(false);
        }
        state.file = Some(file);
        Ok(true)
    }

    /// Closes the file unless it is being written. Whether it is closed.
    pub(super) fn try_close(&self) -> bool {
        let state = try_lock(&self.state);
        state.map(|mut state| state.file = None).is_some()
    }

    fn make_marker(&self, ledger: &Ledger, state: &mut State) {
        if let Some(marker) = &self.marker {
            if let Err(error) = marker::mark(marker) {
                // The line is written all the same; the next one tries again.
                return ledger.note_error(&format!("create {}: {error}", marker.display()));
            }
            ledger.sync_new_entry(&marker::outbox_dir(&ledger.root));
        }
        state.has_marker = true;
    }

    /// The length of its whole lines. `None` while a line is being written.
    pub fn size(&self) -> Option<u64> {
        try_lock(&self.state).map(|state| state.size)
    }

    /// The session's directory.
    pub fn session(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Whether this is its file: a session can be removed, and another one begun under its name.
    pub fn is(&self, file: &Metadata) -> bool {
        !self.removed.load(Ordering::SeqCst) && (file.dev(), file.ino()) == self.inode
    }

    /// Whether its name is still its own; one that can't be looked at may well be.
    pub fn is_there(&self) -> bool {
        match self.path.metadata() {
            Ok(file) => self.is(&file),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Removes the marker, if the first `sent` bytes are the whole segment and no span is open.
    pub fn release(&self, sent: u64) -> io::Result<()> {
        let mut state = self.lock();
        let removed = self.removed.load(Ordering::SeqCst);
        if !removed && (state.leaves_open || state.size != sent) {
            return Ok(());
        }
        if let Some(file) = if_exists(self.path.metadata())?
            && (!self.is(&file) || file.len() > sent)
        {
            // The marker may be another segment's by now.
            return Ok(());
        }
        if let Some(marker) = &self.marker {
            marker::unmark(marker)?;
        }
        state.has_marker = false;
        Ok(())
    }
}
