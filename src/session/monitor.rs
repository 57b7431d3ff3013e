//! A live view of sessions: their lines as they are written, and whether their writers are alive.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::lookup;
use super::status::{OpenSpan, Status, Writer};
use super::store::{Entry, Store, Unreadable, name_of};
use super::summary::Summary;
use crate::read::{Followed, Follower, Start};
use crate::trace::typed::Run;
use crate::trace::{Address, Damage, Kind, RawLine, ReadItem, SpanKind, parse_time, wall_ns};

/// What a [`Monitor`] reports.
#[derive(Debug)]
#[non_exhaustive]
pub enum MonitorEvent {
    /// The bytes of a line, for [`RawLine::parse`].
    Line(Vec<u8>),
    /// A damaged place.
    Damaged(Damage),
    /// The process of a session died with a span open.
    WriterDied {
        /// The session.
        session_id: String,
        /// The writer, if its segment's first line can be read.
        writer: Option<Writer>,
        /// The deepest span that it left open.
        open: Option<OpenSpan>,
    },
    /// A session whose process died has a new run.
    Resumed {
        /// The session.
        session_id: String,
        /// The new writer.
        writer: Writer,
        /// The line that starts the run.
        address: Address,
    },
    /// A session can't be followed any more. The others are.
    Failed(io::Error),
}

/// Follows one session and its subagents, or all sessions.
///
/// ```no_run
/// use spanledger::read::Start;
/// use spanledger::session::{Monitor, MonitorEvent, Store};
/// use std::time::Duration;
/// let mut monitor = Monitor::all(Store::new("/var/lib/agent"), &Start::Now, true)?;
/// let print = |event| {
///     if let MonitorEvent::Line(bytes) = event {
///         print!("{}", String::from_utf8_lossy(&bytes));
///     }
/// };
/// while let Some(event) = monitor.next_past()? {
///     print(event);
/// }
/// loop {
///     match monitor.next(Duration::from_millis(400))? {
///         Some(event) => print(event),
///         None => monitor.check_writers(),
///     }
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Monitor {
    store: Store,
    follower: Follower,
    family: Option<FamilyFilter>,
    /// By the name of the session's directory.
    writers: HashMap<String, WriterMonitor>,
    /// The sessions that could not be read at the beginning.
    pub unreadable: Vec<Unreadable>,
    /// Events that were not returned yet.
    events: VecDeque<MonitorEvent>,
    /// When it began. None once the lines before that are reported.
    began: Option<u64>,
}

impl Monitor {
    fn new(store: Store) -> io::Result<Self> {
        Ok(Self {
            follower: Follower::new_sessions(store.root())?,
            store,
            family: None,
            writers: HashMap::new(),
            unreadable: Vec::new(),
            events: VecDeque::new(),
            began: Some(wall_ns()),
        })
    }

    /// Follows one session, by its directory, and its subagents, those to come included.
    pub fn session(store: Store, dir: &Path, start: &Start) -> io::Result<Self> {
        let mut monitor = Self::new(store)?;
        let entry = monitor.store.peek(dir)?;
        let id = entry.summary.session_id.clone();
        let mut not_before = None;
        let mut theirs = start;
        if let Start::At(address) = *start {
            theirs = &Start::Beginning;
            let line = lookup::line(dir, address)?.ok_or_else(|| {
                let segments = entry.summary.writers.len();
                let s = if segments == 1 { "" } else { "s" };
                let why =
                    format!("session {id:?} has no line {address}; it has {segments} segment{s}");
                io::Error::new(io::ErrorKind::InvalidInput, why)
            })?;
            not_before = Some(line.ts);
        }
        let mut family = FamilyFilter {
            main: id.clone(),
            dir: dir.to_owned(),
            ids: HashSet::from([id]),
            strangers: HashMap::new(),
            not_before,
        };
        let entries = monitor.store.list()?;
        let descendants = family.descendants(&entries);
        monitor.family = Some(family);
        monitor.add(entry, start.clone())?;
        for entry in descendants {
            monitor.add(entry.clone(), theirs.clone())?;
        }
        Ok(monitor)
    }

    /// Follows all sessions: the live ones from `start`, which is no address, and with `resumed` what is written
    /// to any other.
    pub fn all(store: Store, start: &Start, resumed: bool) -> io::Result<Self> {
        let mut monitor = Self::new(store)?;
        let survey = monitor.store.survey()?;
        monitor.unreadable = survey.unreadable;
        for entry in survey.entries.into_iter().filter(|e| e.status.is_live()) {
            monitor.add(entry, start.clone())?;
        }
        let others = match resumed {
            true => monitor.store.dirs()?,
            false => Vec::new(),
        };
        for dir in others {
            if monitor.unreadable.iter().any(|one| one.dir == dir) {
                continue;
            }
            match monitor.follower.add(&dir, Start::Now) {
                // Pruned in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                added => added?,
            }
        }
        Ok(monitor)
    }

    fn add(&mut self, entry: Entry, start: Start) -> io::Result<()> {
        self.follower.add(&entry.dir, start)?;
        // A writer's clock may have been ahead.
        self.began = self.began.max(Some(entry.summary.last));
        let name = name_of(&entry.dir);
        let writer = WriterMonitor::new(&self.store, entry);
        self.writers.insert(name, writer);
        Ok(())
    }

    /// The session that is followed with its subagents; none if all are followed.
    pub fn main(&self) -> Option<&str> {
        self.family.as_ref().map(|family| family.main.as_str())
    }

    /// Whether a process is alive that writes to any of the sessions.
    pub fn is_live(&self) -> bool {
        self.writers.values().any(|writer| !writer.alive.is_empty())
    }

    /// The next event of those that were there when it began. It ends at the first line that was
    /// written since then, so a fast writer does not keep it here.
    pub fn next_past(&mut self) -> io::Result<Option<MonitorEvent>> {
        loop {
            let event = self.events.pop_front();
            let Some(began) = self.began.filter(|_| event.is_none()) else {
                return Ok(event);
            };
            match self.follower.next(Duration::ZERO) {
                Ok(Some(followed)) => {
                    let time = activity(&followed.found);
                    self.began = time.is_none_or(|ns| ns <= began).then_some(began);
                    report(&mut self.family, followed, &mut self.events);
                }
                Ok(None) => self.began = None,
                Err(error) => self.failed(error)?,
            }
        }
    }

    /// The next event, waiting for one for at most `timeout`.
    pub fn next(&mut self, timeout: Duration) -> io::Result<Option<MonitorEvent>> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let followed = match self.follower.next(left.unwrap_or(timeout)) {
                Ok(Some(followed)) => followed,
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.failed(error)?;
                    continue;
                }
            };
            if let ReadItem::Line(line) = &followed.found {
                if line.kind() == Kind::Segment {
                    // The writers before it may be dead by now.
                    self.store.forget_writers();
                }
                // What an older session left open is not reported.
                let writer = self.writers.entry(name_of(followed.session)).or_default();
                writer.line(line, &self.store, self.family.as_ref(), &mut self.events);
            }
            report(&mut self.family, followed, &mut self.events);
        }
    }

    /// Reports the writers that were dead from the beginning.
    pub fn report_dead(&mut self) {
        for writer in self.writers.values().filter(|writer| writer.dead) {
            let seg = writer.summary.deepest().map_or(0, |open| open.seg);
            self.events.push_back(writer.died(seg));
        }
    }

    /// Reports the writers that have died.
    pub fn check_writers(&mut self) {
        self.store.forget_writers();
        for writer in self.writers.values_mut() {
            writer.check(&self.store, self.family.as_ref(), &mut self.events);
        }
    }

    /// Reports an error, unless it is the one session's that is followed.
    fn failed(&mut self, error: io::Error) -> io::Result<()> {
        match &self.family {
            Some(family) if !self.follower.follows(&family.dir) => Err(error),
            _ => {
                self.events.push_back(MonitorEvent::Failed(error));
                Ok(())
            }
        }
    }
}

/// When something happened in a session, in nanoseconds since 1970: lines of the recorder don't count.
fn activity(found: &ReadItem<'_>) -> Option<u64> {
    match found {
        ReadItem::Line(line)
            if !matches!(
                line.kind(),
                Kind::Segment | Kind::Checkpoint | Kind::Interrupted
            ) =>
        {
            parse_time(line.ts)
        }
        _ => None,
    }
}

/// Reports a line or a damage of a wanted session.
fn report(
    family: &mut Option<FamilyFilter>,
    followed: Followed<'_>,
    events: &mut VecDeque<MonitorEvent>,
) {
    match (followed.found, family) {
        (ReadItem::Line(line), family) => {
            let mut wanted = true;
            if let Some(family) = family {
                let held = family.admit(followed.session, &line);
                events.extend(held.into_iter().map(MonitorEvent::Line));
                wanted = family.wants(&line);
            }
            events.extend(wanted.then(|| MonitorEvent::Line(line.as_bytes().to_owned())));
        }
        (ReadItem::Damaged(_), Some(family)) if !family.has(followed.session) => {}
        (ReadItem::Damaged(damage), _) => events.push_back(MonitorEvent::Damaged(damage)),
    }
}

/// The writers of one session.
#[derive(Debug, Default)]
struct WriterMonitor {
    summary: Summary,
    /// The writers that were alive when last checked, by segment.
    alive: BTreeMap<u32, String>,
    /// A writer died with a span open, and no run has started since.
    dead: bool,
}

impl WriterMonitor {
    fn new(store: &Store, entry: Entry) -> Self {
        let writers = entry.summary.writers.iter();
        let alive = writers.filter(|(_, writer)| store.is_alive(&writer.id));
        Self {
            alive: alive.map(|(seg, w)| (*seg, w.id.clone())).collect(),
            dead: entry.status == Status::Interrupted && !entry.summary.open.is_empty(),
            summary: entry.summary,
        }
    }

    /// Takes a line before it is reported.
    fn line(
        &mut self,
        line: &RawLine<'_>,
        store: &Store,
        family: Option<&FamilyFilter>,
        events: &mut VecDeque<MonitorEvent>,
    ) {
        let begins = line.kind() == Kind::Segment;
        if begins {
            self.check(store, family, events);
        }
        self.summary.take(line);
        let Some(writer) = self.summary.writers.get(&line.seg) else {
            return;
        };
        if begins {
            self.alive.insert(line.seg, writer.id.clone());
        }
        // A segment alone may be a recovery's. A run resumes the session.
        let starts = line.kind().opens() == Some(SpanKind::Run);
        if starts && std::mem::take(&mut self.dead) {
            events.push_back(MonitorEvent::Resumed {
                session_id: self.summary.session_id.clone(),
                writer: writer.clone(),
                address: line.address(),
            });
        }
    }

    /// Reports the writers that died with a span open. One without an open span has just ended.
    fn check(
        &mut self,
        store: &Store,
        family: Option<&FamilyFilter>,
        events: &mut VecDeque<MonitorEvent>,
    ) {
        let writers = self.alive.iter();
        let died = writers.filter(|(_, writer)| !store.is_alive(writer));
        let died: Vec<u32> = died.map(|(seg, _)| *seg).collect();
        for seg in died {
            self.alive.remove(&seg);
            let left_open = self.summary.open.values().any(|span| span.seg == seg);
            let id = &self.summary.session_id;
            if left_open && family.is_none_or(|family| family.ids.contains(id)) {
                self.dead = true;
                events.push_back(self.died(seg));
            }
        }
    }

    fn died(&self, seg: u32) -> MonitorEvent {
        MonitorEvent::WriterDied {
            session_id: self.summary.session_id.clone(),
            writer: self.summary.writers.get(&seg).cloned(),
            open: self.summary.deepest().cloned(),
        }
    }
}

/// A session and its subagents, those to come included.
#[derive(Debug)]
struct FamilyFilter {
    main: String,
    dir: PathBuf,
    ids: HashSet<String>,
    /// Sessions that appeared later and are no members, by the name of their directory: the lines before the first
    /// run, which names the parent. `None` once it has named another one.
    strangers: HashMap<String, Option<Vec<Vec<u8>>>>,
    /// Earlier lines of subagents aren't wanted.
    not_before: Option<String>,
}

impl FamilyFilter {
    /// Adds the subagents among `entries`, at any depth.
    fn descendants<'a>(&mut self, entries: &'a [Entry]) -> Vec<&'a Entry> {
        let mut found = Vec::new();
        loop {
            let before = found.len();
            for entry in entries {
                let summary = &entry.summary;
                let parent = summary.parent_session_id.as_ref();
                if parent.is_some_and(|parent| self.ids.contains(parent))
                    && self.ids.insert(summary.session_id.clone())
                {
                    found.push(entry);
                }
            }
            if found.len() == before {
                return found;
            }
        }
    }

    /// Learns from a line which family its session belongs to. Returns the lines that were held back
    /// of a session that turns out to be a member.
    fn admit(&mut self, session: &Path, line: &RawLine<'_>) -> Vec<Vec<u8>> {
        if self.ids.contains(line.session_id.as_ref()) {
            return Vec::new();
        }
        let name = name_of(session);
        let stranger = self.strangers.entry(name.clone());
        let stranger = stranger.or_insert_with(|| Some(Vec::new()));
        let Some(held) = stranger else {
            return Vec::new();
        };
        if matches!(line.kind(), Kind::Segment | Kind::Gap) {
            held.push(line.as_bytes().to_owned());
            return Vec::new();
        }
        let is_start = line.kind().opens() == Some(SpanKind::Run);
        let parent = Run::from(line.payload()).parent_session_id();
        let parent = parent.filter(|_| is_start);
        if !parent.is_some_and(|parent| self.ids.contains(parent.as_ref())) {
            *stranger = None;
            return Vec::new();
        }
        self.ids.insert(line.session_id.to_string());
        self.strangers.remove(&name).flatten().unwrap_or_default()
    }

    fn wants(&self, line: &RawLine<'_>) -> bool {
        let early = self.not_before.as_deref().is_some_and(|ts| line.ts < ts);
        self.ids.contains(line.session_id.as_ref()) && !(early && line.session_id != self.main)
    }

    fn has(&self, session: &Path) -> bool {
        !self.strangers.contains_key(&name_of(session))
    }
}
