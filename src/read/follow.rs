//! Sessions as they grow: one, or all under a root.

mod start;
mod watch;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::merge::SessionReader;
use crate::trace::{Address, ReadItem, Root, about, if_exists, segments};
use start::{last, line_start, moment_of, since};
use watch::{Dirty, Watch};

/// More files than this are not kept open. What is closed is opened again where it was.
const MAX_FILES: usize = 128;
/// Up to this many sessions are looked at again when a wait ends without news, in case the file system
/// reports nothing. Where it is known to report nothing, all are.
const FEW: usize = 256;
/// FSEvents reports what was appended to a file only when the file is closed; a segment is open while its writer lives.
const REPORTS_APPENDS: bool = cfg!(not(target_os = "macos"));

/// Where in a session a [`Follower`] starts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// With the first line.
    Beginning,
    /// With the lines that are written from now on.
    Now,
    /// With this line. Other segments start with the lines that were written no earlier; if the line does not exist
    /// yet, with those that are written from now on.
    At(Address),
    /// So that the last so many lines are among those that come; pieces of streamed text don't
    /// count, and lines of other kinds don't if kinds are given.
    Last {
        /// How many, of each segment.
        lines: usize,
        /// Of which kinds; of any, if empty.
        kinds: Vec<String>,
    },
}

/// What comes next, and from which session.
#[derive(Clone, Debug)]
pub struct Followed<'a> {
    /// The session's directory.
    pub session: &'a Path,
    /// A line, or damage.
    pub found: ReadItem<'a>,
}

/// Follows sessions as they grow, woken by the file system's notifications: new lines, new
/// segments (a writer that resumes, a second one that joins) and new sessions. Each line comes
/// once and each segment in order, also if its writer dies.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (layer, guard) = spanledger::builder().root(dir.path()).build::<tracing_subscriber::Registry>()?;
/// use spanledger::trace::ReadItem;
/// use spanledger::read::{Follower, Start};
/// use std::time::Duration;
///
/// let mut follower = Follower::root(dir.path(), Start::Now)?;
/// # guard.handle().session("ses_1").title("Fix the build");
/// while let Some(followed) = follower.next(Duration::from_millis(100))? {
///     if let ReadItem::Line(line) = followed.found {
///         println!("{} {} {}", line.session_id, line.address(), line.kind);
///     }
/// }
/// # drop(layer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Follower {
    watch: Watch,
    /// Where new sessions appear, if they are to be followed, and whether that is watched yet.
    sessions: Option<(PathBuf, bool)>,
    followed: Vec<Session>,
    /// By the directory's real path, which is what notifications name.
    known: HashMap<PathBuf, usize>,
    /// May have lines, not looked at yet.
    queue: VecDeque<usize>,
    /// Being read.
    active: Vec<usize>,
    open_files: usize,
    /// Errors of sessions that can't be followed any more, not returned yet.
    failed: VecDeque<io::Error>,
}

#[derive(Debug)]
struct Session {
    dir: PathBuf,
    real: PathBuf,
    /// Where to go on in its segments while they are closed; new ones begin at 0.
    offsets: BTreeMap<u32, u64>,
    reader: Option<SessionReader>,
    files: usize,
    /// In the queue or being read.
    busy: bool,
    gone: bool,
}

impl Follower {
    fn empty() -> Self {
        Self {
            watch: Watch::new(),
            sessions: None,
            followed: Vec::new(),
            known: HashMap::new(),
            queue: VecDeque::new(),
            active: Vec::new(),
            open_files: 0,
            failed: VecDeque::new(),
        }
    }

    /// Follows one session, by its directory.
    pub fn session(dir: impl AsRef<Path>, start: Start) -> io::Result<Self> {
        let mut follower = Self::empty();
        follower.add(dir, start)?;
        Ok(follower)
    }

    /// Follows the sessions that begin under a root from now on; [`add`](Self::add) adds others.
    /// The root need not be there yet.
    pub fn new_sessions(root: impl AsRef<Path>) -> io::Result<Self> {
        let mut follower = Self::empty();
        let sessions = Root::new(root.as_ref().to_owned()).sessions();
        let there = follower.watch.dir(&sessions);
        follower.sessions = Some((sessions, there));
        for dir in follower.dirs()? {
            // Known and not followed: it is not a new session.
            if let Ok(real) = dir.canonicalize() {
                follower.known.insert(real, usize::MAX);
            }
        }
        Ok(follower)
    }

    /// Follows all sessions under a root: those that are there from `start`, new ones from their
    /// beginning. An address means nothing here and is refused.
    pub fn root(root: impl AsRef<Path>, start: Start) -> io::Result<Self> {
        if let Start::At(address) = start {
            let why = format!("address {address} is one session's, not a root's");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut follower = Self::new_sessions(root)?;
        for dir in follower.dirs()? {
            let added = follower.add(&dir, start.clone());
            follower.unless_it_failed(&dir, added);
        }
        Ok(follower)
    }

    /// Follows one more session. One that is followed already goes on where it is.
    pub fn add(&mut self, dir: impl AsRef<Path>, start: Start) -> io::Result<()> {
        let dir = dir.as_ref();
        let real = dir.canonicalize()?;
        if self.known.get(&real).is_some_and(|at| *at != usize::MAX) {
            return Ok(());
        }
        // Before looking at its files: a change in between is seen twice, not missed.
        self.watch.dir(&real);
        let mut offsets = BTreeMap::new();
        let found = segments(dir)?;
        let moment = match &start {
            Start::At(address) => Some(moment_of(&found, *address)?),
            _ => None,
        };
        for (number, path) in &found {
            let offset = match &start {
                Start::Beginning => continue,
                Start::Now => path.metadata()?.len(),
                Start::Last { lines, kinds } => last(path, *lines, kinds)?,
                Start::At(address) => match &moment {
                    Some(Some((_, offset))) if *number == address.seg => *offset,
                    Some(Some((ts, _))) => since(path, ts)?,
                    _ => path.metadata()?.len(),
                },
            };
            offsets.insert(*number, offset);
        }
        let index = self.followed.len();
        self.known.insert(real.clone(), index);
        self.followed.push(Session {
            dir: dir.to_owned(),
            real,
            offsets,
            reader: None,
            files: 0,
            busy: start != Start::Now,
            gone: false,
        });
        if start != Start::Now {
            self.queue.push_back(index);
        }
        Ok(())
    }

    /// The next line of any of them, waiting for one for at most `timeout`. `None`: none came.
    ///
    /// What is there already comes in the order it was written in, as far as the writers' clocks
    /// agree.
    ///
    /// An error about a session's files is returned once, and that session is followed no more; the others
    /// are.
    pub fn next(&mut self, timeout: Duration) -> io::Result<Option<Followed<'_>>> {
        let deadline = Instant::now() + timeout;
        let mut looked = false;
        loop {
            if let Some(error) = self.failed.pop_front() {
                return Err(error);
            }
            if let Some(index) = self.ready() {
                let Session { dir, reader, .. } = &mut self.followed[index];
                let found = match reader {
                    Some(reader) => reader.next()?,
                    None => None,
                };
                return Ok(found.map(|found| Followed {
                    session: dir,
                    found,
                }));
            }
            if !self.failed.is_empty() {
                continue;
            }
            let root_is_missing = matches!(self.sessions, Some((_, false)));
            let blind = root_is_missing || !REPORTS_APPENDS;
            match self.watch.wait(deadline, blind) {
                Some(dirty) => self.take(dirty)?,
                None if looked || (self.followed.len() > FEW && !blind) => return Ok(None),
                None => {
                    looked = true;
                    self.look_everywhere()?;
                }
            }
        }
    }

    /// The session directories there are, if new ones are followed.
    fn dirs(&self) -> io::Result<Vec<PathBuf>> {
        let Some((sessions, _)) = &self.sessions else {
            return Ok(Vec::new());
        };
        let entries = if_exists(std::fs::read_dir(sessions)).map_err(about(sessions))?;
        let entries = entries.into_iter().flatten().flatten();
        let dirs = entries.map(|entry| entry.path());
        Ok(dirs.filter(|dir| is_session(dir)).collect())
    }

    /// The session with the oldest line that waits.
    fn ready(&mut self) -> Option<usize> {
        loop {
            while let Some(index) = self.queue.front().copied() {
                if !self.active.is_empty() && self.open_files >= MAX_FILES {
                    break;
                }
                self.queue.pop_front();
                if self.open(index) {
                    self.active.push(index);
                }
            }
            let mut first: Option<(Vec<u8>, usize)> = None;
            let mut at = 0;
            while let Some(index) = self.active.get(at).copied() {
                let Session { reader, busy, .. } = &mut self.followed[index];
                match reader.as_mut().map_or(Ok(None), SessionReader::peek) {
                    Ok(Some(_)) if self.active.len() == 1 => return Some(index),
                    Ok(Some(ts)) => {
                        if first.as_ref().is_none_or(|(best, _)| ts < best.as_slice()) {
                            first = Some((ts.to_owned(), index));
                        }
                        at += 1;
                    }
                    Ok(None) => {
                        *busy = false;
                        self.active.swap_remove(at);
                    }
                    Err(error) => {
                        self.active.swap_remove(at);
                        self.give_up(index, error);
                    }
                }
            }
            if let Some((_, index)) = first {
                return Some(index);
            }
            if self.queue.is_empty() {
                return None;
            }
        }
    }

    /// Opens a session's files where they were left, or looks for new ones. Whether it is there.
    fn open(&mut self, index: usize) -> bool {
        if self.followed[index].reader.is_none() && self.open_files >= MAX_FILES {
            for session in self.followed.iter_mut().filter(|session| !session.busy) {
                self.open_files -= session.close();
            }
        }
        let session = &mut self.followed[index];
        match session.open() {
            Ok(files) => {
                self.open_files += files;
                true
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Removed as a whole. Should its name come back, that is a new session.
                self.open_files -= session.close();
                session.gone = true;
                session.busy = false;
                let real = session.real.clone();
                self.known.remove(&real);
                self.watch.forget(&real);
                false
            }
            Err(error) => {
                self.give_up(index, error);
                false
            }
        }
    }

    fn take(&mut self, dirty: Dirty) -> io::Result<()> {
        if dirty.all {
            return self.look_everywhere();
        }
        for path in dirty.paths {
            let parent = path.parent().and_then(|dir| self.known.get(dir));
            match (self.known.get(&path), parent) {
                (Some(index), _) | (None, Some(index)) => self.changed(*index),
                (None, None) => self.appeared(&path),
            }
        }
        Ok(())
    }

    fn look_everywhere(&mut self) -> io::Result<()> {
        if let Some((sessions, watched @ false)) = &mut self.sessions {
            *watched = self.watch.dir(sessions);
        }
        for dir in self.dirs()? {
            self.appeared(&dir);
        }
        for index in 0..self.followed.len() {
            self.changed(index);
        }
        Ok(())
    }

    fn changed(&mut self, index: usize) {
        // Not one of those that are followed?
        let Some(session) = self.followed.get_mut(index).filter(|s| !s.gone) else {
            return;
        };
        if !std::mem::replace(&mut session.busy, true) {
            self.queue.push_back(index);
        } else if self.active.contains(&index) && !self.open(index) {
            self.active.retain(|active| *active != index);
        }
    }

    /// A directory that was not there before: a session, if new ones are followed.
    fn appeared(&mut self, path: &Path) {
        let Some((sessions, _)) = &self.sessions else {
            return;
        };
        let Some(name) = path.file_name() else {
            return;
        };
        let dir = sessions.join(name);
        let known = |real: PathBuf| self.known.contains_key(&real);
        if !is_session(&dir) || dir.canonicalize().is_ok_and(known) {
            return;
        }
        let added = self.add(&dir, Start::Beginning);
        self.unless_it_failed(&dir, added);
    }

    /// Whether a session is followed.
    pub fn follows(&self, dir: impl AsRef<Path>) -> bool {
        let mut followed = self.followed.iter();
        followed.any(|session| session.dir == dir.as_ref() && !session.gone)
    }

    /// A session that can't be followed does not stop the others.
    fn unless_it_failed(&mut self, dir: &Path, added: io::Result<()>) {
        match added {
            Ok(()) => {}
            // Removed in between.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                if let Ok(real) = dir.canonicalize() {
                    self.known.insert(real, usize::MAX);
                }
                self.failed.push_back(error);
            }
        }
    }

    /// Stops following a session whose files can't be read.
    fn give_up(&mut self, index: usize, error: io::Error) {
        let session = &mut self.followed[index];
        self.open_files -= session.close();
        session.gone = true;
        session.busy = false;
        self.failed.push_back(error);
    }
}

impl Session {
    /// How many files that opened.
    fn open(&mut self) -> io::Result<usize> {
        let mut opened = 0;
        match &mut self.reader {
            Some(reader) => opened = reader.refresh()?,
            None => {
                let mut reader = SessionReader::open(&self.dir)?;
                reader.each(|number, segment| {
                    if let Some(offset) = self.offsets.get(&number) {
                        segment.seek(line_start(segment.path(), *offset)?)?;
                    }
                    opened += 1;
                    Ok(())
                })?;
                self.reader = Some(reader);
            }
        }
        self.files += opened;
        Ok(opened)
    }

    /// Closes its files and keeps where they were. How many that were.
    fn close(&mut self) -> usize {
        if let Some(mut reader) = self.reader.take() {
            let at = reader.segments().map(|(n, segment)| (n, segment.offset()));
            self.offsets.extend(at);
        }
        std::mem::take(&mut self.files)
    }
}

/// A directory with a leading dot is being removed.
fn is_session(dir: &Path) -> bool {
    let name = dir.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| !name.starts_with('.')) && dir.is_dir()
}
