//! One file of lines, written by one process for its whole life.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file_size::{size_limit, survive};
use super::outbox::{self, Live};
use super::root::{make_dir, open_private, segment_name, segments};

/// How the file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    /// With a newline, or empty.
    Clean,
    /// With a part of a line whose event is counted as lost.
    Fragment,
    /// With a whole line that lacks only its newline. Its `seq` is used up.
    Unterminated,
}

/// A write that did not go through.
#[derive(Debug)]
pub(crate) struct WriteFailed {
    pub error: io::Error,
    /// The line is on disk but for its newline, which the next write brings.
    pub whole: bool,
}

#[derive(Debug)]
pub(crate) struct Segment {
    pub number: u32,
    pub path: PathBuf,
    /// Closed when too many are open; that means nothing.
    pub file: Option<File>,
    pub next_seq: u64,
    pub size: u64,
    /// Events in it, without the lines about the segment itself.
    pub events: u64,
    /// Events that its `gap` lines tell of.
    pub gaps: u64,
    pub has_head: bool,
    /// The size of its first line.
    pub head_size: u64,
    /// What its first line says of sending.
    pub policy: Option<Arc<str>>,
    /// The file that says that the mirror owes something of it, and whether it is there.
    pub marker: Option<PathBuf>,
    pub marked: bool,
    /// Its sender's view of it, where this process is its sender.
    pub live: Option<Arc<Live>>,
    tail: Tail,
    pub inode: (u64, u64),
    /// Beyond this size the kernel kills the process (`RLIMIT_FSIZE`).
    max_size: u64,
    checked_at: u64,
    unchecked: u32,
}

/// How much may happen between two looks at whether the file still has a name.
const CHECK_EVERY_LINES: u32 = 64;
const CHECK_EVERY_NS: u64 = 1_000_000_000;

impl Segment {
    /// Creates the next segment of a session, whoever wrote the ones before.
    pub fn create(session: &Path, now: u64) -> io::Result<Self> {
        make_dir(session)?;
        let mut last = segments(session)?.last().map_or(0, |(n, _)| *n);
        let (number, path, file) = loop {
            let next = last.checked_add(1);
            let number = next.ok_or_else(|| io::Error::other("no number is left for a segment"))?;
            let path = session.join(segment_name(number));
            let mut options = OpenOptions::new();
            match open_private(&path, options.append(true).create_new(true)) {
                Ok(file) => break (number, path, file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = number,
                Err(error) => return Err(error),
            }
        };
        let meta = file.metadata()?;
        Ok(Self {
            number,
            path,
            file: Some(file),
            next_seq: 1,
            size: 0,
            events: 0,
            gaps: 0,
            has_head: false,
            head_size: 0,
            policy: None,
            marker: None,
            marked: false,
            live: None,
            tail: Tail::Clean,
            inode: (meta.dev(), meta.ino()),
            max_size: size_limit(),
            checked_at: now,
            unchecked: 0,
        })
    }

    /// Opens the file again after the cache closed it. `Ok(false)`: it is gone.
    pub fn reopen(&mut self) -> io::Result<bool> {
        if self.file.is_some() {
            return Ok(true);
        }
        match open_private(&self.path, OpenOptions::new().append(true)) {
            Ok(file) => {
                let meta = file.metadata()?;
                if (meta.dev(), meta.ino()) != self.inode {
                    return Ok(false);
                }
                self.file = Some(file);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the file was removed underneath, looked at now and then (or at once): a write to
    /// an unlinked file succeeds and is lost.
    pub fn is_removed(&mut self, now: u64, at_once: bool) -> bool {
        self.unchecked += 1;
        let due =
            self.unchecked >= CHECK_EVERY_LINES || now.abs_diff(self.checked_at) >= CHECK_EVERY_NS;
        if !due && !at_once {
            return false;
        }
        self.unchecked = 0;
        self.checked_at = now;
        self.max_size = size_limit();
        let Some(file) = &self.file else {
            return !self.path.exists();
        };
        match file.metadata() {
            // Somebody closed our descriptor, and its number is another file's now.
            Ok(meta) if (meta.dev(), meta.ino()) != self.inode => {
                std::mem::forget(self.file.take());
                !matches!(self.reopen(), Ok(true))
            }
            Ok(meta) => meta.nlink() == 0,
            Err(_) => {
                std::mem::forget(self.file.take());
                !matches!(self.reopen(), Ok(true))
            }
        }
    }

    /// Whether a line fits below the limit, which may have been raised meanwhile.
    pub fn has_room(&mut self, line: u64) -> bool {
        let size = self.size.saturating_add(line);
        if size > self.max_size {
            self.max_size = size_limit();
        }
        size <= self.max_size
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.max_size != u64::MAX
    }

    pub fn max_size(&self) -> u64 {
        self.max_size
    }

    /// Sees to it that the mirror is known to owe it, before it has a line more.
    pub fn mark(&mut self) -> io::Result<()> {
        if !self.marked
            && let Some(marker) = &self.marker
        {
            survive(|| outbox::mark(marker))?;
        }
        self.marked = true;
        Ok(())
    }

    /// Tells its sender how much of it there is.
    pub fn tell(&self) {
        if let Some(live) = &self.live {
            live.tell(self.size);
        }
    }

    /// The byte that has to come before the next line.
    pub fn start_line(&self, out: &mut Vec<u8>) {
        if self.tail != Tail::Clean {
            out.push(b'\n');
        }
    }

    /// Whether the last line lacks its newline.
    pub fn is_unterminated(&self) -> bool {
        self.tail == Tail::Unterminated
    }

    /// Brings the newline that the last line lacks. Whether nothing is lacking any more.
    pub fn terminate(&mut self) -> bool {
        if !self.is_unterminated() {
            return true;
        }
        let written = self.file.as_mut().map(|file| survive(|| file.write(b"\n")));
        let done = matches!(written, Some(Ok(1)));
        if done {
            self.size += 1;
            self.tail = Tail::Clean;
        }
        done
    }

    /// Hands a whole line to the kernel: one write, and one more for the rest of a short one.
    pub fn write(&mut self, line: &[u8]) -> Result<(), WriteFailed> {
        let limited = self.is_limited();
        let Some(file) = &mut self.file else {
            return Err(WriteFailed {
                error: io::Error::from(io::ErrorKind::NotFound),
                whole: false,
            });
        };
        let mut done = 0;
        let mut attempts = 0;
        let error = loop {
            let written = if limited {
                survive(|| file.write(&line[done..]))
            } else {
                file.write(&line[done..])
            };
            match written {
                Ok(n) => {
                    done += n;
                    if done == line.len() {
                        break None;
                    }
                    attempts += 1;
                    if n == 0 || attempts == 2 {
                        break Some(io::Error::new(
                            io::ErrorKind::WriteZero,
                            format!("only {done} of {} bytes were written", line.len()),
                        ));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Some(error),
            }
        };
        self.size += done as u64;
        let Some(error) = error else {
            self.tail = Tail::Clean;
            self.next_seq += 1;
            return Ok(());
        };
        if error.raw_os_error() == Some(libc::EBADF) {
            std::mem::forget(self.file.take());
        }
        let whole = done + 1 == line.len();
        if whole {
            self.tail = Tail::Unterminated;
            self.next_seq += 1;
        } else if done > 0 {
            self.tail = match line[done - 1] {
                b'\n' => Tail::Clean,
                _ => Tail::Fragment,
            };
        }
        Err(WriteFailed { error, whole })
    }
}
