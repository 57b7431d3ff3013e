//! The sessions under a root, found and looked at without reading them whole.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::glance::{Glance, HEAD};
use super::standing::Status;
use super::summary::Summary;
use crate::ledger::{Root, segments, writer_is_alive};
use crate::reader::{Damage, Found, RawLine, SessionReader, about};

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
    /// What of that which was read is damaged, the torn tails of dead writers last; what lies
    /// side by side and is damaged in the same way is told once.
    pub damages: Vec<Damage>,
    /// Whether every line was read, and not just the first and last ones.
    pub whole: bool,
}

/// The sessions under a root, and those that can't be read at all.
#[derive(Debug, Default)]
pub struct Survey {
    /// The sessions, the most recently active first.
    pub entries: Vec<Entry>,
    /// What is there and can't be read, by directory.
    pub unreadable: Vec<Unreadable>,
}

/// A session of which not one line can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its directory.
    pub dir: PathBuf,
    /// Why not.
    pub why: String,
}

impl Unreadable {
    /// By what reading it came to. A directory that the error names is named once.
    pub(crate) fn new(dir: &Path, error: &io::Error) -> Self {
        let why = error.to_string();
        let named = format!("{}: ", dir.display());
        Self {
            dir: dir.to_owned(),
            why: why.strip_prefix(&named).unwrap_or(&why).to_owned(),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} can't be read: {}", self.dir.display(), self.why)
    }
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
    /// The root can't be read. The error says what of it.
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
            Self::Io(_, error) => error.fmt(f),
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
        let sessions = self.root.sessions();
        let entries = match std::fs::read_dir(&sessions) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(about(&sessions)(error)),
        };
        let mut dirs = Vec::new();
        for entry in entries {
            let entry = entry.map_err(about(&sessions))?;
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

    /// All sessions that can be read, the most recently active first. [`survey`](Self::survey)
    /// also tells of the others.
    pub fn list(&self) -> io::Result<Vec<Entry>> {
        Ok(self.survey()?.entries)
    }

    /// All sessions, by their first and last lines, and those that can't be read.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let survey = spanledger::session::Store::new(dir.path()).survey()?;
    /// for unreadable in &survey.unreadable {
    ///     eprintln!("{unreadable}");
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn survey(&self) -> io::Result<Survey> {
        let dirs = self.dirs()?;
        let half = dirs.len().div_ceil(2);
        let look = |dirs: &[PathBuf]| -> Survey {
            let mut survey = Survey::default();
            for dir in dirs {
                self.look(dir, &mut survey);
            }
            survey
        };
        let mut survey = if dirs.len() < 256 {
            look(&dirs)
        } else {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| look(&dirs[half..]));
                let mut survey = look(&dirs[..half]);
                let other = other.join().unwrap_or_default();
                survey.entries.extend(other.entries);
                survey.unreadable.extend(other.unreadable);
                survey
            })
        };
        survey.entries.sort_by(|a, b| {
            let key = |e: &Entry| {
                (
                    std::cmp::Reverse(e.summary.last),
                    e.summary.session_id.clone(),
                )
            };
            key(a).cmp(&key(b))
        });
        survey.unreadable.sort_by(|a, b| a.dir.cmp(&b.dir));
        Ok(survey)
    }

    fn look(&self, dir: &Path, survey: &mut Survey) {
        let why = match self.glance(dir) {
            Ok(entry) if entry.summary.last > 0 => return survey.entries.push(entry),
            // Its writer has made the directory and is about to write.
            Ok(entry) if entry.bytes == 0 => return,
            Ok(entry) => match entry.damages.first() {
                Some(damage) => damage.to_string(),
                None => "no line has a time".into(),
            },
            // Pruned while we looked.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return survey.unreadable.push(Unreadable::new(dir, &error)),
        };
        let dir = dir.to_owned();
        survey.unreadable.push(Unreadable { dir, why });
    }

    /// One session, by its first and last lines.
    pub fn glance(&self, dir: &Path) -> io::Result<Entry> {
        let mut glance = Glance::default();
        let mut torn = Vec::new();
        for (number, path) in segments(dir).map_err(about(dir))? {
            let tail = glance.at(&path).map_err(about(&path))?;
            torn.extend(tail.map(|damage| (number, damage)));
        }
        let mut entry = self.entry(dir, glance.summary, glance.damages);
        self.add_torn(torn, &mut entry);
        (entry.bytes, entry.whole) = (glance.bytes, !glance.skipped);
        Ok(entry)
    }

    /// One session, read whole.
    pub fn read(&self, dir: &Path) -> io::Result<Entry> {
        let mut summary = Summary::default();
        let mut damages = Vec::new();
        let mut reader = SessionReader::open(dir)?;
        while let Some(found) = reader.next()? {
            match found {
                Found::Line(line) => summary.take(&line),
                Found::Damaged(damage) => tell(damage, &mut damages),
            }
        }
        let (mut bytes, mut torn) = (0, Vec::new());
        for (number, segment) in reader.segments() {
            bytes += segment.offset();
            torn.extend(segment.torn_tail()?.map(|damage| (number, damage)));
        }
        let mut entry = self.entry(dir, summary, damages);
        self.add_torn(torn, &mut entry);
        entry.bytes = bytes;
        Ok(entry)
    }

    fn entry(&self, dir: &Path, summary: Summary, damages: Vec<Damage>) -> Entry {
        Entry {
            dir: dir.to_owned(),
            status: summary.status(|writer| self.is_alive(writer)),
            summary,
            bytes: 0,
            damages,
            whole: true,
        }
    }

    /// What follows the last newline of a segment is damage if its writer is gone: else it may yet
    /// become a line.
    fn add_torn(&self, torn: Vec<(u32, Damage)>, entry: &mut Entry) {
        let gone = |seg: &u32| {
            let writer = entry.summary.writers.get(seg);
            !writer.is_some_and(|writer| self.is_alive(&writer.id))
        };
        let torn = torn.into_iter().filter(|(seg, _)| gone(seg));
        let torn: Vec<_> = torn.map(|(_, damage)| damage).collect();
        entry.damages.extend(torn);
    }

    /// The directory of the session that somebody means: an id, the beginning of one, or `last`
    /// for the most recently active one that is nobody's subagent. Where all ids that begin so go
    /// on from one of them, that one is meant.
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
                // A subagent is often named after its parent, which could not be meant otherwise.
                let (shortest, dir) = &found[0];
                if found
                    .iter()
                    .all(|(id, _)| id.starts_with(shortest.as_str()))
                {
                    return Ok(dir.clone());
                }
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

pub(super) fn tell(damage: Damage, damages: &mut Vec<Damage>) {
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
