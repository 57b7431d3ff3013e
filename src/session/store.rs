//! The sessions under a root, found and summarized without reading them whole.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};

use super::newest::Newest;
use super::peek::Peek;
use super::status::{Status, StatusReport};
use super::summary::Summary;
use crate::ledger::{dir_size, remove_leftovers, writer_is_alive};
use crate::read::SessionReader;
use crate::trace::{Damage, ReadItem, Root, about, first_line, if_exists, lock, segments};

/// How many writers the cache holds.
const MOST_WRITERS: usize = 4096;

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
    /// Whether a writer is alive, cached.
    writers: Mutex<HashMap<String, bool>>,
}

/// A session as `list` shows it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its directory.
    pub dir: PathBuf,
    /// What its first and last lines contain.
    pub summary: Summary,
    /// Its status.
    pub status: Status,
    /// The size of its segments.
    pub bytes: u64,
    /// Damage in the part that was read, torn tails of dead writers last. Adjacent damage of the same
    /// kind is reported once.
    pub damages: Vec<Damage>,
    /// Whether every line was read, and not just the first and last ones.
    pub whole: bool,
}

impl Entry {
    /// Its status, and why.
    pub fn report(&self) -> StatusReport {
        self.summary.report(self.status)
    }

    /// As JSON, with stable names: the summary, the directory and the size.
    pub fn to_json(&self) -> Value {
        let mut object = self.summary.to_json(self.status);
        object["dir"] = json!(self.dir.to_string_lossy());
        object["bytes"] = json!(self.bytes);
        object
    }
}

/// The sessions under a root, and those that can't be read at all.
#[derive(Debug, Default)]
pub struct Survey {
    /// The sessions, the most recently active first.
    pub entries: Vec<Entry>,
    /// Sessions that can't be read, by directory.
    pub unreadable: Vec<Unreadable>,
}

/// A session without a readable line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its directory.
    pub dir: PathBuf,
    /// The error.
    pub why: String,
}

impl Unreadable {
    /// From the error that reading it returned. The error may name the directory again.
    pub(crate) fn new(dir: &Path, error: &io::Error) -> Self {
        let why = error.to_string();
        let named = format!("{}: ", dir.display());
        Self {
            dir: dir.to_owned(),
            why: why.strip_prefix(&named).unwrap_or(&why).to_owned(),
        }
    }

    /// What was read of a session. One that was pruned in the meantime is passed over, one that can't be read is
    /// added to `unreadable`.
    pub(crate) fn or_gone<T>(
        read: io::Result<T>,
        dir: &Path,
        unreadable: &mut Vec<Self>,
    ) -> Option<T> {
        match read {
            Ok(read) => return Some(read),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => unreadable.push(Self::new(dir, &error)),
        }
        None
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} can't be read: {}", self.dir.display(), self.why)
    }
}

/// Why a name did not resolve to a session.
#[derive(Debug)]
#[non_exhaustive]
pub enum ResolveError {
    /// The root holds no session at all.
    Empty(PathBuf),
    /// No session matches.
    NotFound {
        /// The id, prefix or path that was given.
        name: String,
        /// The root that was searched.
        root: PathBuf,
    },
    /// More than one session matches.
    Ambiguous {
        /// The prefix that was given.
        prefix: String,
        /// The ids that start with it, at most ten.
        candidates: Vec<String>,
    },
    /// The root can't be read. The error names the path.
    Io(io::Error),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty(root) => write!(
                f,
                "no sessions in {}; set SPANLEDGER_DIR or give --root if the agent records elsewhere",
                root.display()
            ),
            Self::NotFound { name, root } => write!(
                f,
                "no session {name:?} in {}; `spanledger list` shows them",
                root.display()
            ),
            Self::Ambiguous { prefix, candidates } => {
                write!(f, "{prefix:?} could be any of {}", candidates.join(", "))
            }
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ResolveError {}

impl From<io::Error> for ResolveError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

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

    pub(crate) fn layout(&self) -> &Root {
        &self.root
    }

    /// The directories of all sessions, in no order. A missing root has none.
    pub fn dirs(&self) -> io::Result<Vec<PathBuf>> {
        let mut dirs = Vec::new();
        self.each_dir(|dir| dirs.push(dir))?;
        Ok(dirs)
    }

    /// Calls `take` with the directory of each session.
    pub(super) fn each_dir(&self, mut take: impl FnMut(PathBuf)) -> io::Result<()> {
        let sessions = self.sessions();
        let entries = if_exists(std::fs::read_dir(&sessions)).map_err(about(&sessions))?;
        for entry in entries.into_iter().flatten() {
            let entry = entry.map_err(about(&sessions))?;
            // A name with a leading dot is a session that is being removed.
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if !hidden && entry.file_type()?.is_dir() {
                take(entry.path());
            }
        }
        Ok(())
    }

    pub(super) fn sessions(&self) -> PathBuf {
        self.root.sessions()
    }

    /// The size of all sessions, with everything in their directories.
    pub fn bytes(&self) -> io::Result<u64> {
        let mut bytes = 0;
        self.each_dir(|dir| bytes += dir_size(&dir))?;
        Ok(bytes)
    }

    /// Removes what an interrupted removal left. Returns how many sessions and bytes.
    pub fn remove_leftovers(&self) -> io::Result<(usize, u64)> {
        remove_leftovers(self.root()).map_err(about(self.root()))
    }

    /// The size of all segments.
    pub fn segment_bytes(&self) -> io::Result<u64> {
        let mut bytes = 0;
        self.each_dir(|dir| {
            let found = segments(&dir).unwrap_or_default().into_iter();
            let sizes = found.filter_map(|(_, path)| path.metadata().ok());
            bytes += sizes.map(|meta| meta.len()).sum::<u64>();
        })?;
        Ok(bytes)
    }

    /// The directory of a session by its exact id.
    pub fn dir(&self, session_id: &str) -> PathBuf {
        self.root.session(session_id)
    }

    /// Whether the process of a writer is alive. Cached until [`forget_writers`](Self::forget_writers).
    pub fn is_alive(&self, writer: &str) -> bool {
        let known = lock(&self.writers).get(writer).copied();
        known.unwrap_or_else(|| {
            let alive = writer_is_alive(&self.root, writer);
            let mut writers = lock(&self.writers);
            if writers.len() >= MOST_WRITERS {
                writers.clear();
            }
            writers.insert(writer.to_owned(), alive);
            alive
        })
    }

    /// Whether the writer of a session's segment is alive.
    pub(super) fn is_written(&self, summary: &Summary, seg: u32) -> bool {
        let writer = summary.writers.get(&seg);
        writer.is_some_and(|writer| self.is_alive(&writer.id))
    }

    /// The writers that are alive now.
    pub fn live_writers(&self) -> io::Result<BTreeSet<String>> {
        self.forget_writers();
        let entries = if_exists(std::fs::read_dir(self.root.writers()))?;
        let mut alive = BTreeSet::new();
        for entry in entries.into_iter().flatten() {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') && self.is_alive(&name) {
                alive.insert(name);
            }
        }
        Ok(alive)
    }

    /// Clears the cache of [`is_alive`](Self::is_alive).
    pub fn forget_writers(&self) {
        lock(&self.writers).clear();
    }

    /// All sessions that can be read, the most recently active first. [`survey`](Self::survey) also
    /// reports the others.
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
        let mut newest = self.newest()?;
        let mut entries = newest.read_all();
        // Also where a clock was set back and the times of files are misleading.
        entries.sort_by_cached_key(|entry| {
            let summary = &entry.summary;
            (Reverse(summary.last), summary.session_id.clone())
        });
        Ok(Survey {
            entries,
            unreadable: newest.into_unreadable(),
        })
    }

    /// The sessions, the most recently active first, read as they are asked for.
    pub fn newest(&self) -> io::Result<Newest<'_>> {
        Newest::new(self)
    }

    /// One session, by its first and last lines.
    pub fn peek(&self, dir: &Path) -> io::Result<Entry> {
        let mut peek = Peek::default();
        let mut torn = Vec::new();
        for (number, path) in segments(dir).map_err(about(dir))? {
            let tail = peek.at(&path).map_err(about(&path))?;
            torn.extend(tail.map(|damage| (number, damage)));
        }
        let mut entry = self.entry(dir, peek.summary, peek.damages, torn);
        (entry.bytes, entry.whole) = (peek.bytes, !peek.skipped);
        Ok(entry)
    }

    /// One session, read whole.
    pub fn read(&self, dir: &Path) -> io::Result<Entry> {
        let mut summary = Summary::default();
        let mut damages = Vec::new();
        let mut reader = SessionReader::open(dir)?;
        while let Some(found) = reader.next()? {
            match found {
                ReadItem::Line(line) => summary.take(&line),
                ReadItem::Damaged(damage) => push_damage(damage, &mut damages),
            }
        }
        let (mut bytes, mut torn) = (0, Vec::new());
        for (number, segment) in reader.segments() {
            bytes += segment.offset();
            torn.extend(segment.torn_tail()?.map(|damage| (number, damage)));
        }
        let mut entry = self.entry(dir, summary, damages, torn);
        entry.bytes = bytes;
        Ok(entry)
    }

    /// A torn tail is damage if its writer is dead. A live writer may still complete the line.
    fn entry(
        &self,
        dir: &Path,
        summary: Summary,
        mut damages: Vec<Damage>,
        torn: Vec<(u32, Damage)>,
    ) -> Entry {
        let torn = torn.into_iter();
        let torn = torn.filter(|(seg, _)| !self.is_written(&summary, *seg));
        damages.extend(torn.map(|(_, damage)| damage));
        Entry {
            dir: dir.to_owned(),
            status: summary.status(|writer| self.is_alive(writer)),
            summary,
            bytes: 0,
            damages,
            whole: true,
        }
    }

    /// The directory of a session, by any of:
    /// - its id, or the name or path of its directory;
    /// - a prefix of its id or of that name. If several match and all start with one of them, that
    ///   one is meant: a subagent is often named after its parent;
    /// - `last`: the most recently active session that is no subagent.
    pub fn resolve(&self, name: &str) -> Result<PathBuf, ResolveError> {
        if name == "last" {
            return self.last();
        }
        let not_found = || ResolveError::NotFound {
            name: name.to_owned(),
            root: self.root().to_owned(),
        };
        // It would be the directory of all sessions, and a prefix of each.
        if name.is_empty() {
            return Err(not_found());
        }
        if let Some(dir) = self.by_name(name) {
            return Ok(dir);
        }
        let dirs = self.dirs()?;
        let none = dirs.is_empty();
        let mut found: Vec<(String, PathBuf)> = dirs
            .into_iter()
            .map(|dir| (id_of(&dir), dir))
            .filter(|(id, dir)| id.starts_with(name) || name_of(dir).starts_with(name))
            .collect();
        found.sort();
        let Some((shortest, dir)) = found.first() else {
            return by_path(name).ok_or_else(|| match none {
                true => ResolveError::Empty(self.root().to_owned()),
                false => not_found(),
            });
        };
        match found.iter().all(|(id, _)| id.starts_with(shortest)) {
            true => Ok(dir.clone()),
            false => Err(ResolveError::Ambiguous {
                prefix: name.to_owned(),
                candidates: found.into_iter().take(10).map(|(id, _)| id).collect(),
            }),
        }
    }

    /// The directory of a session, by its whole id, or by the name or path of its directory.
    pub fn find_dir(&self, name: &str) -> Option<PathBuf> {
        self.by_name(name).or_else(|| by_path(name))
    }

    fn by_name(&self, name: &str) -> Option<PathBuf> {
        let is_file_name = !name.starts_with('.') && !name.contains('/');
        let by_name = is_file_name.then(|| self.root.sessions().join(name));
        let dirs = [Some(self.dir(name)), by_name];
        dirs.into_iter().flatten().find(|dir| dir.is_dir())
    }

    fn last(&self) -> Result<PathBuf, ResolveError> {
        let mut newest = self.newest()?;
        let mut first = None;
        for entry in newest.by_ref() {
            if entry.summary.parent_session_id.is_none() {
                return Ok(entry.dir);
            }
            first.get_or_insert(entry.dir);
        }
        if let Some(first) = first {
            return Ok(first);
        }
        // An unreadable one, if there is one: opening it reports why.
        let unreadable = self.dirs()?.into_iter().max();
        unreadable.ok_or_else(|| ResolveError::Empty(self.root().to_owned()))
    }
}

/// A path that leads to a session's directory.
fn by_path(path: &str) -> Option<PathBuf> {
    let segments = segments(Path::new(path)).unwrap_or_default();
    (!segments.is_empty()).then(|| path.into())
}

/// The name of a session's directory.
pub(super) fn name_of(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The id of a session. Its directory has that name unless the id is no safe file name; then the
/// first line that can be read has the id.
fn id_of(dir: &Path) -> String {
    let name = name_of(dir);
    if !name.contains('~') {
        return name;
    }
    let first = segments(dir).unwrap_or_default().into_iter().next();
    let id = first.and_then(|(_, path)| first_line(&path, |line| line.session_id.to_string()).ok());
    id.flatten().unwrap_or(name)
}

/// Adds damage to a list. Adjacent damage of the same kind becomes one entry.
pub(super) fn push_damage(damage: Damage, damages: &mut Vec<Damage>) {
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
