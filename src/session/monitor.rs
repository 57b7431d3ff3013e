//! A live view of sessions: their lines as they are written, and whether their writers are alive.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::lookup;
use super::status::{OpenSpan, Status};
use super::store::{Entry, Store, Unreadable, name_of};
use super::summary::Summary;
use crate::read::{Followed, Follower, Start};
use crate::trace::typed::Run;
use crate::trace::{Address, Damage, Kind, RawLine, ReadItem, SpanKind, parse_time};

/// What a [`Monitor`] reports.
#[derive(Debug)]
#[non_exhaustive]
pub enum MonitorEvent<'a> {
    /// A line.
    Line(&'a RawLine<'a>),
    /// A damaged place.
    Damaged(&'a Damage),
    /// The process of a session died with a span open.
    WriterDied {
        /// The session.
        session_id: &'a str,
        /// The writer, if its segment's first line can be read.
        writer: Option<&'a str>,
        /// The process id.
        pid: Option<u64>,
        /// The deepest span that it left open.
        open: Option<&'a OpenSpan>,
    },
    /// A session whose process died has a new run.
    Resumed {
        /// The session.
        session_id: &'a str,
        /// The new writer.
        writer: &'a str,
        /// The process id.
        pid: Option<u64>,
        /// The line that starts the run.
        address: Address,
    },
    /// A session can't be followed any more. The others are.
    Failed(io::Error),
}

/// Where a [`Monitor`] begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonitorStart {
    /// With the line at this address. Only for one session.
    pub from: Option<Address>,
    /// With so many of the last lines of each segment.
    pub lines: usize,
    /// Which kinds of lines count; all, if empty.
    pub kinds: Vec<String>,
}

impl MonitorStart {
    fn last(&self) -> Start {
        Start::Last {
            lines: self.lines,
            kinds: self.kinds.clone(),
        }
    }
}

/// Follows one session and its subagents, or all sessions.
///
/// ```no_run
/// use spanledger::session::{Monitor, MonitorEvent, MonitorStart, Store};
/// use std::time::Duration;
/// let mut monitor = Monitor::all(Store::new("/var/lib/agent"), &MonitorStart::default(), true)?;
/// let mut print = |event: MonitorEvent<'_>| -> std::io::Result<()> {
///     if let MonitorEvent::Line(line) = event {
///         println!("{} {} {}", line.session_id, line.address(), line.kind);
///     }
///     Ok(())
/// };
/// monitor.past(|| false, &mut print)?;
/// loop {
///     if !monitor.next(Duration::from_millis(400), &mut print)? {
///         monitor.check_writers(&mut print)?;
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
}

impl Monitor {
    /// Follows one session, by its directory, and its subagents, those to come included.
    pub fn session(store: Store, dir: &Path, start: &MonitorStart) -> io::Result<Self> {
        let follower = Follower::new_sessions(store.root())?;
        let entry = store.peek(dir)?;
        let id = entry.summary.session_id.clone();
        let mut not_before = None;
        if let Some(address) = start.from {
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
            known: HashMap::new(),
            not_before,
        };
        let entries = store.list()?;
        let descendants = family.descendants(&entries);
        let mut monitor = Self {
            store,
            follower,
            family: Some(family),
            writers: HashMap::new(),
            unreadable: Vec::new(),
        };
        let at = start.from.map_or_else(|| start.last(), Start::At);
        monitor.add(entry, at)?;
        for entry in descendants {
            let at = start
                .from
                .map_or_else(|| start.last(), |_| Start::Beginning);
            monitor.add(entry.clone(), at)?;
        }
        Ok(monitor)
    }

    /// Follows all sessions: the last lines of the live ones, and with `resumed` what is written to
    /// any other.
    pub fn all(store: Store, start: &MonitorStart, resumed: bool) -> io::Result<Self> {
        let follower = Follower::new_sessions(store.root())?;
        let survey = store.survey()?;
        let mut monitor = Self {
            store,
            follower,
            family: None,
            writers: HashMap::new(),
            unreadable: survey.unreadable,
        };
        for entry in survey.entries.into_iter().filter(|e| e.status.is_live()) {
            monitor.add(entry, start.last())?;
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

    /// Reports the lines that are there, until `stop` returns true. It stops at lines that were
    /// written since it began, so a fast writer does not keep it here.
    pub fn past<E: From<io::Error>>(
        &mut self,
        stop: impl Fn() -> bool,
        take: &mut impl FnMut(MonitorEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // A writer's clock may have been ahead.
        let newest = self.writers.values().map(|writer| writer.summary.last);
        let began = newest.max().unwrap_or(0).max(crate::trace::wall_ns());
        loop {
            let followed = match self.follower.next(Duration::ZERO) {
                Ok(Some(followed)) => followed,
                Ok(None) => return Ok(()),
                Err(error) => {
                    failed(&self.follower, self.family.as_ref(), error, take)?;
                    continue;
                }
            };
            let happened = report(&mut self.family, followed, take)?;
            if happened.is_some_and(|ns| ns > began) || stop() {
                return Ok(());
            }
        }
    }

    /// Reports the writers that were dead from the beginning.
    pub fn report_dead<E>(
        &self,
        take: &mut impl FnMut(MonitorEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for writer in self.writers.values().filter(|writer| writer.dead) {
            let seg = writer.summary.deepest().map_or(0, |open| open.seg);
            take(writer.died(seg))?;
        }
        Ok(())
    }

    /// Reports the next line, waiting for one for at most `timeout`. Returns whether one came.
    pub fn next<E: From<io::Error>>(
        &mut self,
        timeout: Duration,
        take: &mut impl FnMut(MonitorEvent<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let followed = match self.follower.next(timeout) {
            Ok(Some(followed)) => followed,
            Ok(None) => return Ok(false),
            Err(error) => {
                failed(&self.follower, self.family.as_ref(), error, take)?;
                return Ok(true);
            }
        };
        if let ReadItem::Line(line) = &followed.found {
            if line.kind() == Kind::Segment {
                // The writers before it may be dead by now.
                self.store.forget_writers();
            }
            let name = name_of(followed.session);
            // What an older session left open is no news.
            let writer = self.writers.entry(name).or_default();
            writer.line(line, &self.store, self.family.as_ref(), take)?;
        }
        report(&mut self.family, followed, take)?;
        Ok(true)
    }

    /// Reports the writers that have died.
    pub fn check_writers<E>(
        &mut self,
        take: &mut impl FnMut(MonitorEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.store.forget_writers();
        for writer in self.writers.values_mut() {
            writer.check(&self.store, self.family.as_ref(), take)?;
        }
        Ok(())
    }
}

/// Reports an error, unless it is the one session's that is followed.
fn failed<E: From<io::Error>>(
    follower: &Follower,
    family: Option<&FamilyFilter>,
    error: io::Error,
    take: &mut impl FnMut(MonitorEvent<'_>) -> Result<(), E>,
) -> Result<(), E> {
    match family {
        Some(family) if !follower.follows(&family.dir) => Err(error.into()),
        _ => take(MonitorEvent::Failed(error)),
    }
}

/// Reports a line or a damage of a wanted session. Returns when something happened, in nanoseconds
/// since 1970.
fn report<E>(
    family: &mut Option<FamilyFilter>,
    followed: Followed<'_>,
    take: &mut impl FnMut(MonitorEvent<'_>) -> Result<(), E>,
) -> Result<Option<u64>, E> {
    match followed.found {
        ReadItem::Line(line) => {
            let held = family
                .as_mut()
                .map(|family| family.admit(followed.session, &line));
            for bytes in held.into_iter().flatten() {
                if let Ok(held) = RawLine::parse(&bytes) {
                    take(MonitorEvent::Line(&held))?;
                }
            }
            if family.as_ref().is_none_or(|family| family.wants(&line)) {
                take(MonitorEvent::Line(&line))?;
            }
            let recorder = [Kind::Segment, Kind::Checkpoint, Kind::Interrupted];
            let happened = !recorder.contains(&line.kind());
            Ok(parse_time(line.ts).filter(|_| happened))
        }
        ReadItem::Damaged(damage) => {
            let has = |family: &FamilyFilter| family.has(followed.session);
            if family.as_ref().is_none_or(has) {
                take(MonitorEvent::Damaged(&damage))?;
            }
            Ok(None)
        }
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
    fn line<E>(
        &mut self,
        line: &RawLine<'_>,
        store: &Store,
        family: Option<&FamilyFilter>,
        take: &mut impl FnMut(MonitorEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let begins = line.kind() == Kind::Segment;
        if begins {
            self.check(store, family, take)?;
        }
        self.summary.take(line);
        let Some(writer) = self.summary.writers.get(&line.seg) else {
            return Ok(());
        };
        if begins {
            self.alive.insert(line.seg, writer.id.clone());
        }
        // A segment alone may be a recovery's. A run resumes the session.
        let starts = line.kind().opens() == Some(SpanKind::Run);
        if starts && std::mem::take(&mut self.dead) {
            take(MonitorEvent::Resumed {
                session_id: &self.summary.session_id,
                writer: &writer.id,
                pid: writer.pid(),
                address: line.address(),
            })?;
        }
        Ok(())
    }

    /// Reports the writers that died with a span open. One without an open span has just ended.
    fn check<E>(
        &mut self,
        store: &Store,
        family: Option<&FamilyFilter>,
        take: &mut impl FnMut(MonitorEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let writers = self.alive.iter();
        let died = writers.filter(|(_, writer)| !store.is_alive(writer));
        let died: Vec<u32> = died.map(|(seg, _)| *seg).collect();
        for seg in died {
            self.alive.remove(&seg);
            let left_open = self.summary.open.values().any(|span| span.seg == seg);
            let id = &self.summary.session_id;
            if left_open && family.is_none_or(|family| family.ids.contains(id)) {
                self.dead = true;
                take(self.died(seg))?;
            }
        }
        Ok(())
    }

    fn died(&self, seg: u32) -> MonitorEvent<'_> {
        let writer = self.summary.writers.get(&seg);
        MonitorEvent::WriterDied {
            session_id: &self.summary.session_id,
            writer: writer.map(|writer| writer.id.as_str()),
            pid: writer.and_then(|writer| writer.pid()),
            open: self.summary.deepest(),
        }
    }
}

/// A session and its subagents, those to come included.
#[derive(Debug)]
struct FamilyFilter {
    main: String,
    dir: PathBuf,
    ids: HashSet<String>,
    /// Sessions that appeared later, by the name of their directory.
    known: HashMap<String, Membership>,
    /// Earlier lines of subagents aren't wanted.
    not_before: Option<String>,
}

#[derive(Debug)]
enum Membership {
    Member,
    Stranger,
    /// Its first run, which names the parent, has not come yet: the lines before it.
    Unknown(Vec<Vec<u8>>),
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
        let known = self.known.entry(name_of(session));
        let known = known.or_insert_with(|| Membership::Unknown(Vec::new()));
        let Membership::Unknown(held) = known else {
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
            *known = Membership::Stranger;
            return Vec::new();
        }
        self.ids.insert(line.session_id.to_string());
        let held = std::mem::take(held);
        *known = Membership::Member;
        held
    }

    fn wants(&self, line: &RawLine<'_>) -> bool {
        let early = self.not_before.as_deref().is_some_and(|ts| line.ts < ts);
        self.ids.contains(line.session_id.as_ref()) && !(early && line.session_id != self.main)
    }

    fn has(&self, session: &Path) -> bool {
        let known = self.known.get(&name_of(session));
        !matches!(known, Some(Membership::Stranger | Membership::Unknown(_)))
    }
}
