//! The state that the sessions of a process share: the ledger, redaction, and the description of the process.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::builder::sending::Senders;
use super::exporting::Exporting;
use super::fields::Fields;
use super::health::{Health, RecordCounters};
use super::process::describe;
use super::raw_fields::RawFields;
use super::sanitize::{Sanitizer, SessionBlobs, redact_json};
use super::session::{KnownSessions, SessionLog};
use super::watching::Watching;
use crate::export::Export;
use crate::ledger::{
    Counters, Disk, FORKED, Ledger, LedgerConfig, ProcessJson, SyncPolicy, warn_once,
};
use crate::redact::{
    Limits, MaskKey, PatternError, Redaction, Redactor, Tally, load_or_create_key,
};
use crate::trace::{Root, exposed, lock, new_session_id, random_bytes};

/// Why the implicit session of the process exists.
pub(crate) const OF_PROCESS: &str = "process";

/// A shutdown waits no longer than this for exports.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// The settings of a ledger, resolved from code and environment.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Nothing is recorded, and nothing on the disk is touched.
    pub disabled: bool,
    pub root: PathBuf,
    pub sync: SyncPolicy,
    pub segment_size: u64,
    pub limits: Limits,
    pub redaction: Redaction,
    pub resource: Map<String, Value>,
    /// The `mirror` member of the segments' headers, as JSON: where the trace is sent.
    pub policy: Option<Arc<str>>,
    /// Whether the mirror sends messages, and those of log events: what it sends of a span has to be on the
    /// span's close line.
    pub sends_content: bool,
    pub sends_log_messages: bool,
    /// The exports that are kept current.
    pub exports: Vec<Export>,
    pub watching: Option<Watching>,
}

/// The state that all sessions of a process share.
pub(crate) struct ProcessState {
    pub ledger: Ledger,
    pub redactor: Arc<Redactor>,
    pub limits: Limits,
    pub counters: Arc<RecordCounters>,
    /// The description of this process, as JSON.
    pub description: Arc<ProcessJson>,
    pub disabled: bool,
    pub sends_content: bool,
    pub sends_log_messages: bool,
    /// Limits and hooks, if there are any.
    pub watching: Option<Watching>,
    sessions: Mutex<KnownSessions<SessionLog>>,
    implicit: OnceLock<Arc<SessionLog>>,
    senders: Senders,
    exporting: Option<Arc<Exporting>>,
}

impl std::fmt::Debug for ProcessState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessState")
            .field("ledger", &self.ledger)
            .finish_non_exhaustive()
    }
}

impl ProcessState {
    /// `send` makes what sends the trace and the metrics.
    pub fn new(
        settings: Settings,
        send: impl FnOnce(&LedgerConfig) -> Senders,
    ) -> Result<Self, PatternError> {
        let counters = Arc::new(Counters::default());
        let key = MaskKey::new(match settings.disabled {
            true => random_bytes(),
            false => load_key(&Root::new(settings.root.clone()), &counters),
        });
        let digest_salt = key.digest_salt().into();
        let redactor = Arc::new(Redactor::new(&settings.redaction, key)?);
        let mut tally = Tally::default();
        let limits = settings.limits;
        let resource = Value::Object(settings.resource).to_string();
        let resource = redact_json(&redactor, &limits, ("resource", &resource), &mut tally);
        let resource = serde_json::from_slice(&resource).unwrap_or_default();
        let record_counters = Arc::new(RecordCounters::default());
        record_counters.add(tally);
        let description = describe_later(&redactor, limits, &record_counters);
        let mut config = LedgerConfig {
            root: settings.root,
            sync: settings.sync,
            segment_size: settings.segment_size,
            process: Arc::clone(&description),
            resource: Arc::new(resource),
            policy: settings.policy,
            digest_salt,
            listeners: Vec::new(),
            storage: Arc::new(Disk),
            counters,
        };
        let senders = send(&config);
        config.listeners = senders.listeners();
        let exporting = start_exports(settings.exports, &config);
        if let Some(exporting) = &exporting {
            config.listeners.push(Arc::<Exporting>::clone(exporting));
        }
        let ledger = Ledger::new(config);
        if !settings.disabled {
            ledger.remove_dead_writers();
        }
        Ok(Self {
            ledger,
            redactor,
            limits,
            counters: record_counters,
            description,
            disabled: settings.disabled,
            sends_content: settings.sends_content,
            sends_log_messages: settings.sends_log_messages,
            watching: settings.watching,
            sessions: Mutex::new(KnownSessions::new()),
            implicit: OnceLock::new(),
            senders,
            exporting,
        })
    }

    /// Whether something that is about to be recorded is not. A forked child counts it as lost.
    pub fn refuses(&self) -> bool {
        self.disabled || self.ledger.refuses_fork()
    }

    /// Sends and exports what is left, for at most this long, and stops both.
    pub fn stop_sending(&self, timeout: Duration) {
        if self.ledger.is_forked() {
            return;
        }
        let deadline = Instant::now() + timeout.min(LONGEST_WAIT);
        let exporting = self.exporting.as_ref();
        exporting.inspect(|exporting| exporting.stop());
        self.senders.stop(timeout);
        exporting.inspect(|exporting| exporting.wait(deadline));
    }

    pub fn root(&self) -> &Path {
        self.ledger.root().path()
    }

    /// A session, by its id. An id that is a secret, or holds one, is masked: equal ids have equal masks, so
    /// they still name one session.
    pub fn session(&self, id: &str) -> Arc<SessionLog> {
        let mut tally = Tally::default();
        let id = &*self.redactor.text(id, &mut tally);
        self.counters.add(tally);
        if self.ledger.is_forked() {
            // The mutex of the map may never be unlocked here; nothing is recorded in this session.
            return Arc::new(SessionLog::new(&self.ledger, id, None, false));
        }
        self.known_session(id, None)
    }

    fn known_session(&self, id: &str, implicit: Option<&'static str>) -> Arc<SessionLog> {
        let mut sessions = lock(&self.sessions);
        let make = |again| SessionLog::new(&self.ledger, id, implicit, again);
        sessions.get_or_make(id, SessionLog::is_idle, make)
    }

    /// A session with a new id, for spans and events that belong together and name none.
    pub fn implicit_session(&self, why: &'static str) -> Arc<SessionLog> {
        self.known_session(&new_session_id(), Some(why))
    }

    /// The implicit session for spans and events outside all others.
    pub fn process_session(&self) -> Arc<SessionLog> {
        let session = self
            .implicit
            .get_or_init(|| self.implicit_session(OF_PROCESS));
        Arc::clone(session)
    }

    /// Redacts fields for a session: masks secrets, moves what is too large to blobs, and counts both.
    pub fn sanitize<T>(&self, log: &SessionLog, f: impl FnOnce(&mut Sanitizer<'_>) -> T) -> T {
        let mut sanitizer = Sanitizer {
            redactor: &self.redactor,
            limits: &self.limits,
            store: &mut SessionBlobs {
                ledger: &self.ledger,
                session: &log.dir,
            },
            tally: Tally::default(),
        };
        let result = f(&mut sanitizer);
        self.counters.add(sanitizer.tally);
        result
    }

    /// Redacts fields whose names have no meaning of their own.
    pub fn sanitize_fields(&self, log: &SessionLog, raw: &RawFields) -> Fields {
        self.sanitize(log, |sanitizer| Fields::clean(raw, None, sanitizer))
    }

    /// Redacts a text.
    pub fn sanitize_text(&self, text: &str) -> String {
        let mut tally = Tally::default();
        let clean = self.redactor.text(text, &mut tally).into_owned();
        self.counters.add(tally);
        clean
    }

    pub fn health(&self) -> Health {
        let forked = self.ledger.is_forked();
        let counters = self.ledger.counters();
        let mut health = Health {
            written: counters.written(),
            failed: counters.failed(),
            last_error: match forked {
                true => Some(FORKED.to_owned()),
                false => counters.last_error(),
            },
            ..Health::default()
        };
        self.counters.add_to(&mut health);
        let implicit = self.implicit.get().filter(|_| health.orphaned > 0);
        health.implicit_session = implicit.map(|log| log.id.to_string());
        if !forked {
            self.senders.add_to(&mut health);
            let exporting = self.exporting.as_ref();
            health.export_error = exporting.and_then(|exporting| exporting.error());
        }
        health
    }

    /// Tries once more to write what is missing, and syncs. How many events are still missing.
    pub fn flush(&self) -> (u64, std::io::Result<()>) {
        if self.ledger.is_forked() {
            return (0, Ok(()));
        }
        let logs: Vec<_> = lock(&self.sessions).iter().cloned().collect();
        let missing = logs.iter().map(|log| log.lock(self).flush()).sum();
        (missing, self.ledger.sync_now())
    }
}

impl Drop for ProcessState {
    fn drop(&mut self) {
        if self.ledger.is_forked() {
            return;
        }
        self.senders.abandon();
        // A session may be kept for longer, by a thread's cache of spans or by a context.
        let sessions = lock(&self.sessions);
        sessions.iter().for_each(|log| log.close_file());
    }
}

/// The root's key. A root that can't be written yet has none yet: masks then use one that is stored nowhere, and
/// recording starts all the same.
fn load_key(root: &Root, counters: &Counters) -> [u8; 32] {
    let key = load_or_create_key(root);
    let is_reported = report_exposed(root, counters);
    key.unwrap_or_else(|error| {
        let message = format!("redaction key: {error}");
        counters.note_error(&message);
        // A key that is there was refused. A root that can't be written is reported with the first event.
        if !is_reported && root.redaction_key().symlink_metadata().is_ok() {
            warn_once(&AtomicBool::new(false), &message);
        }
        random_bytes()
    })
}

/// Reports a root or key that other users can change, in health and on stderr. Whether there was one.
fn report_exposed(root: &Root, counters: &Counters) -> bool {
    for path in [root.path(), &root.redaction_key()] {
        if let Ok(Some((found, advice))) = exposed(path) {
            let message = format!("{found}; {advice}");
            counters.note_error(&message);
            warn_once(&AtomicBool::new(false), &message);
            return true;
        }
    }
    false
}

fn start_exports(exports: Vec<Export>, config: &LedgerConfig) -> Option<Arc<Exporting>> {
    if exports.is_empty() {
        return None;
    }
    let started = Exporting::start(exports, config);
    let note = |error: &std::io::Error| {
        config
            .counters
            .note_error(&format!("start the export thread: {error}"))
    };
    started.inspect_err(note).ok().map(Arc::new)
}

/// Describes the process when that is first needed, and counts what was masked in it.
fn describe_later(
    redactor: &Arc<Redactor>,
    limits: Limits,
    counters: &Arc<RecordCounters>,
) -> Arc<ProcessJson> {
    let (redactor, counters) = (Arc::clone(redactor), Arc::clone(counters));
    Arc::new(LazyLock::new(Box::new(move || {
        let mut tally = Tally::default();
        let process = describe(&redactor, &limits, &mut tally);
        counters.add(tally);
        process.to_string()
    })))
}
