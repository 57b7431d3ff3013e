//! One pass over a root: what dead writers owe, sent from another process.

use std::fs::{OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::config::Resolved;
use super::cursor::Cursor;
use super::dead;
use super::send::{Sender, Sent};
use super::transport::Transport;
use crate::error::Error;
use crate::event::random_bytes;
use crate::ledger::{open_private, segments, writer_of};
use crate::redact::{MaskKey, Redaction, Redactor};
use crate::session::Store;

/// Sends what the segments of dead writers owe. Those of living ones are left to their processes.
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
    session: Option<PathBuf>,
    patience: Option<Duration>,
}

/// What a session still owes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owed {
    /// Bytes of its segments that no server has been sent.
    pub bytes: u64,
    /// Spans that servers accepted.
    pub sent: u64,
    /// What servers refused for good.
    pub dead_letters: u64,
    /// Segments whose writer lives.
    pub live: u64,
}

impl Pass {
    /// A pass over all sessions under a root.
    pub fn new(root: impl Into<PathBuf>, to: Resolved) -> Self {
        Self {
            store: Store::new(root),
            to,
            session: None,
            patience: None,
        }
    }

    /// Only this session, by its directory.
    pub fn session(mut self, dir: impl Into<PathBuf>) -> Self {
        self.session = Some(dir.into());
        self
    }

    /// How long a server that takes nothing is waited for. By default for ever.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Sends, and tells `tell` how it is going and what it waits for.
    pub fn run(&self, tell: &mut dyn FnMut(&Sent, Option<&str>)) -> Result<Sent, Error> {
        let root = self.store.root();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { path, source }
        };
        let lock_path = root.join("mirror.lock");
        let mut options = OpenOptions::new();
        let lock = open_private(&lock_path, options.create(true).truncate(false).write(true))
            .map_err(failed(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::MirrorBusy { lock: lock_path }),
            Err(TryLockError::Error(source)) => return Err(failed(&lock_path)(source)),
        }
        // Server texts are masked before they are kept; nobody compares those masks.
        let redactor = Redactor::new(&Redaction::new(), MaskKey::new(random_bytes()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed(root))?;
        let dirs = match &self.session {
            Some(dir) => vec![dir.clone()],
            None => {
                let mut dirs = self.store.dirs().map_err(failed(root))?;
                dirs.sort();
                dirs
            }
        };
        runtime.block_on(async {
            let transport = Transport::connect(&self.to)?;
            let mut sender = Sender::new(&transport, &redactor, self.patience, tell);
            for dir in &dirs {
                let dead = |_: u32, path: &Path| !self.lives(path);
                sender.session(dir, dead).await.map_err(failed(dir))?;
            }
            sender.finish().await.map_err(failed(root))
        })
    }

    fn lives(&self, segment: &Path) -> bool {
        is_live(&self.store, segment)
    }
}

fn is_live(store: &Store, segment: &Path) -> bool {
    match writer_of(segment) {
        Ok(Some(writer)) => store.is_alive(&writer),
        _ => false,
    }
}

/// What a session still owes.
pub fn owed(store: &Store, session: &Path) -> io::Result<Owed> {
    let mut owed = Owed::default();
    for (seg, path) in segments(session)? {
        let size = std::fs::metadata(&path)?.len();
        let cursor = Cursor::read(session, seg);
        owed.bytes += size.saturating_sub(cursor.offset);
        owed.sent += cursor.sent;
        owed.dead_letters += dead::read(session, seg)?.len() as u64;
        owed.live += u64::from(is_live(store, &path));
    }
    Ok(owed)
}
