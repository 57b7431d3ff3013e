//! Sends everything under a root that no other process sends.

#[cfg(feature = "cli")]
pub(super) mod follow;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::ledger::FileLock;
use crate::mirror::progress::cursor::ProgressDir;
use crate::mirror::progress::ownership::{Ownership, lock_mirror, mirror_pid, unreadable};
use crate::mirror::send::classify::message_redactor;
use crate::mirror::send::other_writers::send_segments;
use crate::mirror::send::resend::resend_dead_letters;
use crate::mirror::send::thread::runtime;
use crate::mirror::send::{Sender, Sent};
use crate::mirror::settings::resolve::Resolved;
use crate::mirror::transport::Transport;
use crate::session::Store;
use crate::trace::{if_exists, segments, setters};

/// How often a waiting process checks the lock and whether it is to stop.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// Sends the segments of dead writers, and what live writers without an endpoint have written so far.
/// Live writers with an endpoint send their own segments.
///
/// ```no_run
/// use spanledger::mirror::{CatchUp, Otlp};
/// let to = Otlp::resolve(None, |name| std::env::var(name).ok())?.expect("an endpoint");
/// let sent = CatchUp::new("./traces", to).run(&mut |_, _| {})?;
/// println!("{} spans", sent.spans);
/// # Ok::<(), spanledger::Error>(())
/// ```
#[derive(Debug)]
pub struct CatchUp {
    store: Store,
    to: Resolved,
    /// Only these sessions; all if `None`.
    sessions: Option<Vec<PathBuf>>,
    state: ProgressDir,
    patience: Option<Duration>,
    any_endpoint: bool,
    /// Whether to end before everything was sent.
    stop: fn() -> bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    SendNew,
    ResendDeadLetters,
}

impl CatchUp {
    /// All sessions under a root.
    pub fn new(root: impl Into<PathBuf>, to: Resolved) -> Self {
        Self {
            store: Store::new(root),
            to,
            sessions: None,
            state: ProgressDir::default(),
            patience: None,
            any_endpoint: false,
            stop: || false,
        }
    }

    /// Only this session, by its directory.
    pub fn session(self, dir: impl Into<PathBuf>) -> Self {
        self.sessions(vec![dir.into()])
    }

    setters! {
        /// Only these sessions, by their directories.
        pub fn sessions(self, dirs: Vec<PathBuf>) { self.sessions = Some(dirs) }

        /// Stores progress in this directory instead of beside the trace, and writes nothing into the root:
        /// for a read-only root. Progress beside the trace counts too.
        ///
        /// Agents that write beside the trace don't know this directory: what they recorded for an endpoint
        /// stays unsent for them, and the agent's next start sends it again, with the same ids and bytes.
        ///
        /// ```no_run
        /// # use spanledger::mirror::{CatchUp, Otlp};
        /// # let to = Otlp::resolve(None, |name| std::env::var(name).ok())?.expect("an endpoint");
        /// let catch_up = CatchUp::new("/mnt/agent/traces", to).state("/var/lib/mirror");
        /// # Ok::<(), spanledger::Error>(())
        /// ```
        pub fn state(self, dir: impl Into<PathBuf>) { self.state = ProgressDir::in_dir(dir.into()) }

        /// How long to retry while the server accepts nothing, and to wait for another process that sends
        /// from here. By default for ever.
        pub fn patience(self, patience: Duration) { self.patience = Some(patience) }

        /// Also sends what was recorded for another endpoint. By default that is skipped.
        pub fn any_endpoint(self, any: bool) { self.any_endpoint = any }

        /// Ends when `stop`, which is called from time to time, returns true. A request in flight is
        /// dropped; the next process sends it again with the same bytes.
        pub fn until(self, stop: fn() -> bool) { self.stop = stop }
    }

    /// Sends what was recorded for this endpoint or for none, and reports progress and what it waits for.
    pub fn run(&self, progress: &mut dyn FnMut(&Sent, Option<&str>)) -> Result<Sent, Error> {
        self.perform(Task::SendNew, progress)
    }

    /// Sends dead letters again and marks those as resolved that the server accepts. Where a server had
    /// rejected some spans of a request without saying which, all of them are sent again.
    ///
    /// [`Sent::dead`] counts the spans that were refused again.
    pub fn resend(&self, progress: &mut dyn FnMut(&Sent, Option<&str>)) -> Result<Sent, Error> {
        self.perform(Task::ResendDeadLetters, progress)
    }

    /// Waits for other processes that send from here.
    fn lock(
        &self,
        path: &Path,
        progress: &mut dyn FnMut(&Sent, Option<&str>),
    ) -> io::Result<Option<FileLock>> {
        let started = Instant::now();
        loop {
            let lock = lock_mirror(path)?;
            let late = self.patience.is_some_and(|most| started.elapsed() >= most);
            if lock.is_some() || late || (self.stop)() {
                return Ok(lock);
            }
            let why = "another process is exporting this directory";
            progress(&Sent::default(), Some(why));
            std::thread::sleep(POLL_EVERY);
        }
    }

    fn perform(
        &self,
        task: Task,
        progress: &mut dyn FnMut(&Sent, Option<&str>),
    ) -> Result<Sent, Error> {
        let path = self.store.root();
        self.state.create(path)?;
        let lock_path = self.state.lock(path);
        let lock = self.lock(&lock_path, progress);
        let Some(_lock) = lock.map_err(Error::at(&lock_path))? else {
            return Err(Error::MirrorBusy {
                pid: mirror_pid(&lock_path),
                lock: lock_path,
            });
        };
        let redactor = message_redactor(&self.to)?;
        let runtime = runtime().map_err(Error::at(path))?;
        let sent = runtime.block_on(async {
            let transport = Transport::connect(&self.to)?;
            let mut sender = Sender::new(transport, &redactor, progress);
            sender.state = self.state.clone();
            sender.patience = self.patience;
            tokio::select! {
                done = self.all_sessions(task, &mut sender) => done?,
                () = self.until_stopped() => sender.sent.stopped = Some("interrupted".to_owned()),
            }
            Ok(sender.sent)
        });
        runtime.shutdown_background();
        sent
    }

    async fn until_stopped(&self) {
        while !(self.stop)() {
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    async fn all_sessions(&self, task: Task, sender: &mut Sender<'_>) -> Result<(), Error> {
        let path = self.store.root();
        let dirs = match &self.sessions {
            Some(dirs) => dirs.clone(),
            None => {
                let mut dirs = self.store.dirs().map_err(Error::at(path))?;
                dirs.sort();
                dirs
            }
        };
        let ownership = Ownership::new(&self.store, (!self.any_endpoint).then_some(&self.to));
        for dir in &dirs {
            let mut skipped = Vec::new();
            let sent = async {
                let (segs, skipped) = (segments(dir)?, &mut skipped);
                match task {
                    Task::ResendDeadLetters => {
                        resend_dead_letters(dir, &segs, &ownership, sender, skipped).await
                    }
                    Task::SendNew => send_segments(dir, &segs, &ownership, sender, skipped).await,
                }
            };
            let sent = sent.await;
            sender.sent.add_skipped(dir, skipped);
            // A session that can't be read doesn't stop the others. Any other error, such as a
            // cursor that can't be written, would happen to them too.
            if let Err(error) = if_exists(sent) {
                match unreadable(dir).filter(|_| !sender.is_broken()) {
                    Some(session) => sender.sent.unreadable.push(session),
                    None => return Err(Error::at(dir)(error)),
                }
            }
        }
        sender.flush().await.map_err(Error::at(path))
    }
}
