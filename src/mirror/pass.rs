//! One pass over a root: what is owed there and nobody sends, sent from another process.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::config::Resolved;
use super::dead::{Letter, Letters};
use super::letters::letters;
use super::others::{MirrorLock, Sorter, Whose, found, unreadable};
use super::race::first;
use super::send::{Sender, Sent};
use super::state::State;
use super::transport::Transport;
use super::work::Of;
use crate::error::Error;
use crate::event::random_bytes;
use crate::ledger::{Root, left_open_in, marked, marker, parse_time, segments};
use crate::reader::{Address, Found, SegmentReader, about};
use crate::redact::{MaskKey, Redaction, Redactor};
use crate::session::Store;

/// How often it is asked whether it is our turn.
const TURN: Duration = Duration::from_millis(50);

/// Sends what the segments of dead writers owe, and those of living ones that were recorded for nobody,
/// as far as they are written. The others of living writers are left to their processes.
///
/// ```no_run
/// use spanledger::mirror::{Otlp, Pass};
/// let to = Otlp::resolve(None, |name| std::env::var(name).ok())?.expect("an endpoint");
/// let sent = Pass::new("./traces", to).run(&mut |_, _| {})?;
/// println!("{} spans", sent.spans);
/// # Ok::<(), spanledger::Error>(())
/// ```
#[derive(Debug)]
pub struct Pass {
    store: Store,
    to: Resolved,
    /// Only these; all where `None`.
    sessions: Option<Vec<PathBuf>>,
    state: State,
    patience: Option<Duration>,
    any_endpoint: bool,
    /// Whether it is to end before everything was sent.
    stop: Option<fn() -> bool>,
}

/// What a session still owes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owed {
    /// Bytes of its segments that no server has been sent.
    pub bytes: u64,
    /// How many of these were recorded for no endpoint: they are owed to nobody, and sent by whoever
    /// names an endpoint to a [`Pass`].
    pub for_nobody: u64,
    /// Spans that servers accepted, at once or when sent again.
    pub sent: u64,
    /// What servers refused for good.
    pub dead_letters: u64,
    /// The last of that: where it is, and what the server said.
    pub last_dead: Option<DeadLetter>,
    /// Segments whose writer lives.
    pub live: u64,
    /// Segments that were recorded for somebody and not sent whole, or with spans still open.
    pub marked: u64,
    /// When the first of the lines was written that nobody was sent, in nanoseconds since 1970; of
    /// those for somebody, where there are any.
    pub since: Option<u64>,
}

/// A span that a server refused for good.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Its close line; of a request that was refused in part, the first one's.
    pub address: Address,
    /// When that was, in nanoseconds since 1970; 0 where it isn't known.
    pub at: u64,
    /// What the server said, secrets masked.
    pub reason: String,
}

impl From<Letter> for DeadLetter {
    fn from(letter: Letter) -> Self {
        Self {
            address: letter.from,
            at: letter.ts,
            reason: letter.reason,
        }
    }
}

impl Pass {
    /// A pass over all sessions under a root.
    pub fn new(root: impl Into<PathBuf>, to: Resolved) -> Self {
        Self {
            store: Store::new(root),
            to,
            sessions: None,
            state: State::default(),
            patience: None,
            any_endpoint: false,
            stop: None,
        }
    }

    /// Only this session, by its directory.
    pub fn session(self, dir: impl Into<PathBuf>) -> Self {
        self.sessions(vec![dir.into()])
    }

    pub(crate) fn sessions(mut self, dirs: Vec<PathBuf>) -> Self {
        self.sessions = Some(dirs);
        self
    }

    /// Keeps how far it got in this directory instead of beside the trace, and writes nothing into
    /// the root: for a root that can only be read. What those got further who write beside the trace
    /// counts, too.
    ///
    /// Whoever sends from there doesn't know what is kept here: what was recorded for an endpoint
    /// stays owed as they see it, and the next start of its agent sends it again, with the same ids
    /// and bytes.
    ///
    /// ```no_run
    /// # use spanledger::mirror::{Otlp, Pass};
    /// # let to = Otlp::resolve(None, |name| std::env::var(name).ok())?.expect("an endpoint");
    /// let pass = Pass::new("/mnt/agent/traces", to).state("/var/lib/mirror");
    /// # Ok::<(), spanledger::Error>(())
    /// ```
    pub fn state(mut self, dir: impl Into<PathBuf>) -> Self {
        self.state = State::in_dir(dir.into());
        self
    }

    /// How long a server that takes nothing is waited for, and another process that is sending from
    /// here. By default for ever.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Also what was recorded for another endpoint. By default that is left alone.
    pub fn any_endpoint(mut self, any: bool) -> Self {
        self.any_endpoint = any;
        self
    }

    /// Ends when this says so, which is asked now and then. A request that is under way is dropped: it
    /// is sent again, with the same bytes, by whoever comes next.
    #[cfg(feature = "cli")]
    pub(crate) fn until(mut self, stop: fn() -> bool) -> Self {
        self.stop = Some(stop);
        self
    }

    fn stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop())
    }

    /// Sends, and tells `tell` how it is going and what it waits for.
    ///
    /// What was recorded for this endpoint, or for nobody, is sent: that somebody named an endpoint
    /// here makes it meant for somebody.
    pub fn run(&self, tell: &mut dyn FnMut(&Sent, Option<&str>)) -> Result<Sent, Error> {
        self.work(false, tell)
    }

    /// Sends once more what servers refused for good, and notes what they took as resolved. Where a
    /// server had refused some spans of many without saying which, all of those are sent again.
    ///
    /// [`Sent::dead`] counts the spans that were refused again.
    pub fn resend(&self, tell: &mut dyn FnMut(&Sent, Option<&str>)) -> Result<Sent, Error> {
        self.work(true, tell)
    }

    /// Waits for those who are sending from here, agents above all: they take turns.
    fn turn(&self, tell: &mut dyn FnMut(&Sent, Option<&str>)) -> io::Result<Option<MirrorLock>> {
        let started = Instant::now();
        loop {
            let lock = MirrorLock::take(&self.state.lock(self.store.root()))?;
            let waited = started.elapsed();
            let late = self.patience.is_some_and(|most| waited >= most);
            if lock.is_some() || late || self.stopped() {
                return Ok(lock);
            }
            tell(&Sent::default(), Some("another process sends from here"));
            std::thread::sleep(TURN);
        }
    }

    fn work(&self, again: bool, tell: &mut dyn FnMut(&Sent, Option<&str>)) -> Result<Sent, Error> {
        let path = self.store.root();
        self.state.make(path)?;
        let lock_path = self.state.lock(path);
        let Some(_lock) = self.turn(tell).map_err(failed(&lock_path))? else {
            return Err(Error::MirrorBusy { lock: lock_path });
        };
        // Server texts are masked before they are kept; nobody compares those masks.
        let redactor = Redactor::new(&Redaction::new(), MaskKey::new(random_bytes()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed(path))?;
        let dirs = match &self.sessions {
            Some(dirs) => dirs.clone(),
            None => {
                let mut dirs = self.store.dirs().map_err(failed(path))?;
                dirs.sort();
                dirs
            }
        };
        let root = Root::new(path.to_owned());
        let endpoint = self.to.shown();
        let endpoint = (!self.any_endpoint).then_some(endpoint.as_str());
        let mut sorter = Sorter::new(&root, endpoint);
        let sent = runtime.block_on(async {
            let transport = Transport::connect(&self.to)?;
            let sender = Sender::new(&transport, &redactor, tell);
            let sender = sender.state(self.state.clone());
            let mut sender = sender.patience(self.patience);
            let work = self.send_all(again, &dirs, &root, &mut sorter, &mut sender);
            let Some(done) = first(async { Some(work.await) }, self.until_stopped()).await else {
                sender.sent.stopped = Some("it was asked to end".to_owned());
                return Ok(sender.sent);
            };
            done.map(|()| sender.sent)
        });
        runtime.shutdown_background();
        sent
    }

    /// Ready when it is to end.
    async fn until_stopped<T>(&self) -> Option<T> {
        while !self.stopped() {
            tokio::time::sleep(TURN).await;
        }
        None
    }

    async fn send_all(
        &self,
        again: bool,
        dirs: &[PathBuf],
        root: &Root,
        sorter: &mut Sorter<'_>,
        sender: &mut Sender<'_>,
    ) -> Result<(), Error> {
        for dir in dirs {
            let sent = match again {
                true => letters(dir, sorter, sender).await,
                false => send(dir, root, sorter, sender).await,
            };
            // One that can't be read must not keep the others from being sent. Anything else that
            // fails, a cursor that can't be kept above all, would be so for them, too.
            if let Err(error) = found(sent) {
                match unreadable(dir).filter(|_| !sender.is_broken()) {
                    Some(session) => sender.sent.unreadable.push(session),
                    None => return Err(failed(dir)(error)),
                }
            }
        }
        sender.flush().await.map_err(failed(root.path()))
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

/// Sends what the segments of a session owe that nobody else sends.
async fn send(
    dir: &Path,
    root: &Root,
    sorter: &mut Sorter<'_>,
    sender: &mut Sender<'_>,
) -> io::Result<()> {
    let mut open = None;
    for (seg, path) in segments(dir)? {
        let marker = marker(root, dir, seg).filter(|marker| {
            // It is written beside the trace whether anything is owed.
            !sender.state.is_apart() && marker.exists()
        });
        let (cursor, size) = sender.state.cursor(dir, seg)?;
        if cursor.offset == size && marker.is_none() {
            continue;
        }
        match sorter.whose(&path)?.0 {
            Whose::Living | Whose::Nobodys => continue,
            Whose::Untended => {
                sender.segment(dir, seg, Of::Other(None)).await?;
                continue;
            }
            Whose::Elsewhere => {
                sender.sent.elsewhere += 1;
                continue;
            }
            Whose::Ours => {}
        }
        let open = match &open {
            Some(open) => open,
            None => open.insert(left_open_in(root, dir)?),
        };
        let marker = marker.filter(|_| !open.contains(&seg));
        sender.segment(dir, seg, Of::Other(marker)).await?;
    }
    Ok(())
}

/// What a session still owes.
pub fn owed(store: &Store, session: &Path) -> io::Result<Owed> {
    owed_by(&State::default(), store, session)
}

/// What a session still owes as one sees it who keeps how far it got in `state`, see [`Pass::state`].
pub fn owed_with_state(store: &Store, session: &Path, state: &Path) -> Result<Owed, Error> {
    let state = State::in_dir(state.to_owned());
    state.check(store.root())?;
    owed_by(&state, store, session).map_err(|source| Error::Io {
        path: session.to_owned(),
        source,
    })
}

fn owed_by(state: &State, store: &Store, session: &Path) -> io::Result<Owed> {
    let root = Root::new(store.root().to_owned());
    let mut sorter = Sorter::new(&root, None);
    let mut owed = Owed::default();
    let (mut since, mut for_nobody_since) = (None, None);
    for (seg, path) in segments(session)? {
        let (cursor, size) = state.cursor(session, seg)?;
        owed.bytes += size - cursor.offset;
        let Letters { unresolved, taken } = state.letters(session, seg)?;
        owed.sent += cursor.sent + taken;
        owed.dead_letters += unresolved.len() as u64;
        owed.last_dead = last(owed.last_dead, unresolved.into_iter().map(DeadLetter::from));
        let living = [Whose::Living, Whose::Untended];
        owed.live += u64::from(living.contains(&sorter.whose(&path)?.0));
        let marker = marker(&root, session, seg);
        let marked = marker.is_some_and(|marker| marker.exists());
        owed.marked += u64::from(marked);
        if !marked {
            owed.for_nobody += size - cursor.offset;
        }
        if cursor.offset < size {
            let first = match marked {
                true => &mut since,
                false => &mut for_nobody_since,
            };
            let written = written_at(&path, cursor.offset)?;
            *first = [*first, written].into_iter().flatten().min();
        }
    }
    owed.since = since.or(for_nobody_since);
    Ok(owed)
}

/// What all sessions under a root owe together: of those that were recorded for somebody, or have
/// dead letters. What was recorded for nobody is owed to nobody, and of a session that can't be read
/// nobody knows.
pub fn owed_in(store: &Store) -> io::Result<Owed> {
    let root = Root::new(store.root().to_owned());
    let marked = marked(&root).map_err(about(root.path()))?;
    let marked: HashSet<_> = marked.into_iter().map(|(name, _)| name).collect();
    let mut sum = Owed::default();
    for dir in store.dirs()? {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let owed = match has_letters(&dir) {
            Ok(letters) if letters || marked.contains(&*name) => owed(store, &dir).map(Some),
            nothing => nothing.map(|_| None),
        };
        let owed = match owed {
            Err(_) if unreadable(&dir).is_some() => None,
            owed => found(owed)?.flatten(),
        };
        if let Some(owed) = owed {
            let bytes = owed.bytes - owed.for_nobody;
            sum.bytes += bytes;
            sum.sent += owed.sent;
            sum.dead_letters += owed.dead_letters;
            sum.last_dead = last(sum.last_dead, owed.last_dead);
            sum.live += owed.live;
            sum.marked += owed.marked;
            sum.since = [sum.since, owed.since.filter(|_| bytes > 0)]
                .into_iter()
                .flatten()
                .min();
        }
    }
    Ok(sum)
}

/// The one that came last: neither segments nor sessions are in the order in which servers refuse.
fn last(
    one: Option<DeadLetter>,
    others: impl IntoIterator<Item = DeadLetter>,
) -> Option<DeadLetter> {
    one.into_iter().chain(others).max_by_key(|letter| letter.at)
}

fn has_letters(session: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(session)? {
        if entry?.file_name().to_string_lossy().starts_with("dead.") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// When the first line was written that begins at or after `offset`.
fn written_at(path: &Path, offset: u64) -> io::Result<Option<u64>> {
    let mut reader = SegmentReader::open(path)?;
    reader.seek(offset)?;
    while let Some(found) = reader.next()? {
        if let Found::Line(line) = found {
            return Ok(parse_time(line.ts));
        }
    }
    Ok(None)
}
