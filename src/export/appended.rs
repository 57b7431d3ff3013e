//! A file that rows are added to while sessions grow.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::Format;
use super::target::{create_parent, replaced};
use crate::trace::{Address, about, if_exists, open_private};

/// So much is written at once.
const CHUNK: usize = 256 * 1024;
/// How long to wait for another process that exports to the file.
const MOST_WAIT: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(10);

/// A file that rows are added to. It is open, and locked, while a session is exported.
pub(super) struct Appended {
    path: PathBuf,
    file: Option<File>,
    /// The file's device and inode, once it was opened.
    identity: Option<(u64, u64)>,
    /// The length of the rows that were read or written here.
    len: u64,
    /// The last line of each segment that has a row, and how many rows it has.
    reached: BTreeMap<u32, (u64, u64)>,
    /// Hashes of the rows without an address.
    others: HashSet<u64>,
    waiting: Vec<u8>,
}

impl Appended {
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            identity: None,
            len: 0,
            reached: BTreeMap::new(),
            others: HashSet::new(),
            waiting: Vec::new(),
        }
    }

    /// Opens and locks the file, unless it is open, and reads the rows that others have added. A row that a crash has
    /// cut is removed.
    pub fn open(&mut self, format: Format) -> io::Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        // A link is not followed: it could lead to a file that the export must not change. Nor is a pipe opened,
        // which would wait for a reader.
        let flags = OFlags::RDWR | OFlags::APPEND;
        let opened = match self.identity {
            Some(_) => if_exists(open_private(&self.path, flags)),
            None => {
                create_parent(&self.path)?;
                open_private(&self.path, flags | OFlags::CREATE).map(Some)
            }
        };
        let file = opened.map_err(about(&self.path))?;
        let file = file.ok_or_else(|| replaced(&self.path))?;
        lock(&file).map_err(about(&self.path))?;
        // Another process may have replaced it before it was locked.
        let there = self.path.symlink_metadata().map_err(about(&self.path))?;
        let identity = (there.dev(), there.ino());
        let ours = file.metadata().map_err(about(&self.path))?;
        if identity != (ours.dev(), ours.ino())
            || identity != *self.identity.get_or_insert(identity)
            || ours.len() < self.len
        {
            return Err(replaced(&self.path));
        }
        self.read_rows(&file, format).map_err(about(&self.path))?;
        self.file = Some(file);
        Ok(())
    }

    fn read_rows(&mut self, mut file: &File, format: Format) -> io::Result<()> {
        file.seek(SeekFrom::Start(self.len))?;
        let mut reader = BufReader::new(file);
        let mut row = Vec::new();
        loop {
            row.clear();
            let read = reader.read_until(b'\n', &mut row)?;
            if row.pop() != Some(b'\n') {
                break;
            }
            self.len += read as u64;
            let text = str::from_utf8(&row).unwrap_or_default();
            match format.address(text) {
                Some(at) => {
                    let reached = self.reached.entry(at.seg).or_default();
                    *reached = match reached.0 == at.seq {
                        true => (at.seq, reached.1 + 1),
                        false => (at.seq, 1),
                    };
                }
                None => {
                    self.others.insert(hash(&row));
                }
            }
        }
        match file.metadata()?.len() == self.len {
            true => Ok(()),
            false => file.set_len(self.len),
        }
    }

    /// Adds a row to the open file, unless it is there.
    pub fn append(&mut self, row: &str, at: Option<Address>) -> io::Result<()> {
        let known = match at {
            Some(at) => self.has(at),
            None => !self.others.insert(hash(row.as_bytes())),
        };
        if known {
            return Ok(());
        }
        self.waiting.extend_from_slice(row.as_bytes());
        self.waiting.push(b'\n');
        match self.waiting.len() >= CHUNK {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Whether the file has the next row of a line.
    fn has(&mut self, at: Address) -> bool {
        match self.reached.get_mut(&at.seg) {
            Some((seq, _)) if at.seq < *seq => true,
            // As many of its rows are there as were counted.
            Some((seq, rows)) if at.seq == *seq && *rows > 0 => {
                *rows -= 1;
                true
            }
            _ => false,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(mut file) = self.file.as_ref() else {
            return Ok(());
        };
        let written = file.write_all(&self.waiting);
        if written.is_err() {
            // No row stays cut in the middle.
            let _ = file.set_len(self.len);
        }
        written.map_err(about(&self.path))?;
        self.len += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Writes what waits, and closes the file.
    pub fn close(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file = None;
        Ok(())
    }
}

/// Locks a file. The lock goes when the file is closed.
fn lock(file: &File) -> io::Result<()> {
    let until = Instant::now() + MOST_WAIT;
    while file.try_lock().is_err() {
        if Instant::now() >= until {
            let why = "another process exports to it";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
        }
        std::thread::sleep(STEP);
    }
    Ok(())
}

fn hash(row: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    row.hash(&mut hasher);
    hasher.finish()
}
