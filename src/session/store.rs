//! The sessions under a root, found and looked at without reading them whole.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::summary::{Status, Summary};
use crate::ledger::{Root, segments, writer_is_alive};
use crate::reader::{Damage, Found, RawLine, SessionReader};

/// A segment up to this size is read whole.
const WHOLE: u64 = 64 * 1024;
const HEAD: u64 = 16 * 1024;
const TAIL: u64 = 16 * 1024;

/// The sessions under a root.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use spanledger::session::Store;
/// let store = Store::new(dir.path());
/// for entry in store.list()? {
///     println!("{} {}", entry.summary.session_id, entry.status.as_str());
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Store {
    root: Root,
    /// Whether a writer lives, looked up once.
    writers: Mutex<HashMap<String, bool>>,
}

/// A session as a list shows it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its directory.
    pub dir: PathBuf,
    /// What its first and last lines say.
    pub summary: Summary,
    /// How it stands.
    pub status: Status,
    /// The size of its segments.
    pub bytes: u64,
}

/// Why no session was found by what somebody typed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Resolve {
    /// The root holds no session at all.
    Empty(PathBuf),
    /// No id begins like this.
    NotFound(String),
    /// More than one does.
    Ambiguous {
        /// What was typed.
        prefix: String,
        /// The ids that begin so, at most ten.
        candidates: Vec<String>,
    },
    /// The root can't be read.
    Io(PathBuf, io::Error),
}

impl fmt::Display for Resolve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty(root) => write!(f, "no sessions in {}", root.display()),
            Self::NotFound(id) => write!(f, "no session's id begins with {id:?}"),
            Self::Ambiguous { prefix, candidates } => {
                write!(f, "{prefix:?} could be any of {}", candidates.join(", "))
            }
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for Resolve {}

impl Store {
    /// The sessions under `root`. Nothing is read yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: Root::new(root.into()),
            writers: Mutex::new(HashMap::new()),
        }
    }

    /// Where traces are by default: see [`Builder`](crate::Builder).
    pub fn default_root() -> Option<PathBuf> {
        Root::from_env()
    }

    /// The root.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The directories of all sessions, in no order. A root that isn't there has none.
    pub fn dirs(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match std::fs::read_dir(self.root.sessions()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut dirs = Vec::new();
        for entry in entries {
            let entry = entry?;
            // What begins with a dot is on its way out.
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if !hidden && entry.file_type()?.is_dir() {
                dirs.push(entry.path());
            }
        }
        Ok(dirs)
    }

    /// The directory of a session by its exact id.
    pub fn dir(&self, session_id: &str) -> PathBuf {
        self.root.session(session_id)
    }

    /// Whether the process of a writer lives.
    pub fn is_alive(&self, writer: &str) -> bool {
        let known = self
            .writers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(writer)
            .copied();
        known.unwrap_or_else(|| {
            let alive = writer_is_alive(&self.root, writer);
            let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
            writers.insert(writer.to_owned(), alive);
            alive
        })
    }

    /// Forgets who was alive, for one who looks again and again.
    pub fn forget_writers(&self) {
        self.writers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// All sessions, the most recently active first. Ones that can't be read are left out of the
    /// list and returned by [`glance`](Self::glance).
    pub fn list(&self) -> io::Result<Vec<Entry>> {
        let dirs = self.dirs()?;
        let half = dirs.len().div_ceil(2);
        let look = |dirs: &[PathBuf]| -> Vec<Entry> {
            dirs.iter()
                .filter_map(|dir| self.glance(dir).ok())
                .collect()
        };
        let mut entries = if dirs.len() < 256 {
            look(&dirs)
        } else {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| look(&dirs[half..]));
                let mut entries = look(&dirs[..half]);
                entries.extend(other.join().unwrap_or_default());
                entries
            })
        };
        entries.retain(|entry| entry.summary.last > 0);
        entries.sort_by(|a, b| {
            let key = |e: &Entry| {
                (
                    std::cmp::Reverse(e.summary.last),
                    e.summary.session_id.clone(),
                )
            };
            key(a).cmp(&key(b))
        });
        Ok(entries)
    }

    /// One session, by its first and last lines.
    pub fn glance(&self, dir: &Path) -> io::Result<Entry> {
        let mut summary = Summary::default();
        let mut bytes = 0;
        for (_, path) in segments(dir)? {
            bytes += glance_at(&path, &mut summary)?;
        }
        let status = summary.status(|writer| self.is_alive(writer));
        Ok(Entry {
            dir: dir.to_owned(),
            summary,
            status,
            bytes,
        })
    }

    /// One session, read whole, and what in it is damaged; what lies side by side and is damaged
    /// in the same way is told once.
    pub fn read(&self, dir: &Path) -> io::Result<(Entry, Vec<Damage>)> {
        let mut summary = Summary::default();
        let mut damages = Vec::new();
        let mut reader = SessionReader::open(dir)?;
        while let Some(found) = reader.next()? {
            match found {
                Found::Line(line) => summary.take(&line),
                Found::Damaged(damage) => tell(damage, &mut damages),
            }
        }
        let bytes = reader.segments().map(|(_, segment)| segment.offset()).sum();
        let status = summary.status(|writer| self.is_alive(writer));
        let entry = Entry {
            dir: dir.to_owned(),
            summary,
            status,
            bytes,
        };
        Ok((entry, damages))
    }

    /// The directory of the session that somebody means: an id, the beginning of one, or `last`
    /// for the most recently active one that is nobody's subagent.
    pub fn resolve(&self, text: &str) -> Result<PathBuf, Resolve> {
        let io = |error| Resolve::Io(self.root().to_owned(), error);
        if text == "last" {
            let entries = self.list().map_err(io)?;
            let root = entries
                .iter()
                .find(|e| e.summary.parent_session_id.is_none());
            if let Some(last) = root.or(entries.first()) {
                return Ok(last.dir.clone());
            }
            // One that can't be read, if there is one: whoever asks is told why not.
            let unreadable = self.dirs().map_err(io)?.into_iter().max();
            return unreadable.ok_or_else(|| Resolve::Empty(self.root().to_owned()));
        }
        let exact = self.dir(text);
        if exact.is_dir() {
            return Ok(exact);
        }
        let dirs = self.dirs().map_err(io)?;
        if dirs.is_empty() {
            return Err(Resolve::Empty(self.root().to_owned()));
        }
        let mut found: Vec<(String, PathBuf)> = dirs
            .into_iter()
            .filter_map(|dir| Some((id_of(&dir)?, dir)))
            .filter(|(id, dir)| {
                let name = dir
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned());
                id.starts_with(text) || name.is_some_and(|name| name.starts_with(text))
            })
            .collect();
        match found.len() {
            0 => Err(Resolve::NotFound(text.to_owned())),
            1 => Ok(found.remove(0).1),
            _ => {
                found.sort();
                Err(Resolve::Ambiguous {
                    prefix: text.to_owned(),
                    candidates: found.into_iter().take(10).map(|(id, _)| id).collect(),
                })
            }
        }
    }
}

/// The id of a session: its directory's name, unless that stands for one that is no safe name.
fn id_of(dir: &Path) -> Option<String> {
    let name = dir.file_name()?.to_str()?;
    if !name.contains('~') {
        return Some(name.to_owned());
    }
    let (_, first) = segments(dir).ok()?.into_iter().next()?;
    let mut head = Vec::new();
    File::open(first)
        .ok()?
        .take(HEAD)
        .read_to_end(&mut head)
        .ok()?;
    let line = head.split_inclusive(|b| *b == b'\n').next()?;
    Some(RawLine::parse(line).ok()?.session_id.into_owned())
}

fn tell(damage: Damage, damages: &mut Vec<Damage>) {
    match damages.last_mut() {
        Some(last)
            if last.path == damage.path
                && last.why == damage.why
                && last.offset + last.bytes == damage.offset =>
        {
            last.bytes += damage.bytes;
        }
        _ => damages.push(damage),
    }
}

fn take_all(bytes: &[u8], summary: &mut Summary) {
    for line in crate::ledger::whole_lines(bytes) {
        if let Ok(line) = RawLine::parse(line) {
            summary.take(&line);
        }
    }
}

/// Takes a segment's first lines, and its last ones from where they add up: a checkpoint, or the
/// end of the session. The segment's size.
fn glance_at(path: &Path, summary: &mut Summary) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    if size <= WHOLE {
        file.read_to_end(&mut bytes)?;
        take_all(&bytes, summary);
        return Ok(size);
    }
    file.by_ref().take(HEAD).read_to_end(&mut bytes)?;
    let mut reach = TAIL;
    loop {
        let from = size.saturating_sub(reach).max(HEAD);
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.by_ref().take(size - from).read_to_end(&mut tail)?;
        if from == HEAD {
            // It reaches back to the head: nothing is left out.
            bytes.extend_from_slice(&tail);
            take_all(&bytes, summary);
            return Ok(size);
        }
        let first = memchr::memchr(b'\n', &tail).map_or(tail.len(), |at| at + 1);
        let tail = &tail[first..];
        if ends_session(tail) || has_checkpoint(tail) {
            take_all(&bytes, summary);
            summary.skip();
            take_all(tail, summary);
            return Ok(size);
        }
        reach *= 8;
    }
}

fn has_checkpoint(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b",\"kind\":\"checkpoint\",").is_some()
}

/// Whether the last line ends a run and tells its totals.
fn ends_session(bytes: &[u8]) -> bool {
    let last = crate::ledger::whole_lines(bytes).last();
    let line = last.and_then(|line| RawLine::parse(line).ok());
    line.is_some_and(|line| line.kind == "session_end" && line.payload().get("totals").is_some())
}
