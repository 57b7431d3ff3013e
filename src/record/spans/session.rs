//! A handle to a session, to record from anywhere.

use std::sync::Arc;

use serde::Serialize;

use crate::record::events::{self, Event};
use crate::record::layer::{Recorder, Target};
use crate::session::{StatusReport, Store};
use crate::trace::RemoteContext;

/// Records in a session from anywhere: another thread, another request, after the session ended.
///
/// From a span ([`SpanExt::session`](crate::SpanExt::session)) it also remembers the span; by id
/// ([`Handle::session`](crate::Handle::session)) it is the session alone.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (layer, guard) = spanledger::builder().root(dir.path()).build::<tracing_subscriber::Registry>()?;
/// let session = guard.handle().session("ses_1");
/// std::thread::spawn(move || session.hitl_response("int_1", "allow_once")).join().unwrap();
/// # drop(layer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) target: Arc<Target>,
}

impl Session {
    pub(crate) fn new(recorder: &Arc<Recorder>, target: Arc<Target>) -> Self {
        let recorder = Arc::clone(recorder);
        Self { recorder, target }
    }

    /// The session's id, as it was given.
    pub fn id(&self) -> &str {
        &self.target.log.id
    }

    /// Records an event here.
    pub fn record(&self, event: impl Into<Event>) {
        let (kind, fields) = event.into().into_parts();
        self.recorder.event(&self.target, &kind, fields);
    }

    /// A person's decision on a pending call.
    pub fn hitl_response(&self, interrupt_id: &str, decision: impl Serialize) {
        self.record(events::hitl_response(interrupt_id).decision(decision));
    }

    /// What the session is called from now on.
    pub fn title(&self, title: &str) {
        self.record(events::session_title(title));
    }

    /// What the session is doing: busy, idle, waiting, retrying, error. For the reason, the attempt and what it
    /// waits for, record [`events::session_status`].
    pub fn report_status(&self, status: &str) {
        self.record(events::session_status(status));
    }

    /// The status of the session, and why, as `spanledger status` has it: read from the first and last lines of its
    /// trace. `None`: nothing of it can be read.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let (layer, guard) = spanledger::builder().root(dir.path()).build()?;
    /// # use tracing_subscriber::layer::SubscriberExt;
    /// # let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    /// use spanledger::session::Status;
    /// use spanledger::{SpanExt, events, spans};
    /// let run = spans::session_run("ses_1", "planner").start();
    /// let session = run.session().expect("a ledger is recording");
    /// assert_eq!(session.status().unwrap().status, Status::Idle);
    /// session.record(events::session_status("retrying").attempt(2).message("rate limited"));
    /// assert_eq!(session.status().unwrap().attempt, Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn status(&self) -> Option<StatusReport> {
        let store = Store::new(self.recorder.process.root());
        let entry = store.peek(&self.target.log.dir).ok()?;
        (!entry.summary.session_id.is_empty()).then(|| entry.report())
    }

    /// The span that the handle came from, as other processes know it; none for a handle by id.
    pub fn remote_context(&self) -> Option<RemoteContext> {
        self.target.remote_context()
    }

    /// Closes the spans that dead processes left open in this session, and returns how many it closed.
    pub fn recover(&self) -> usize {
        let process = &self.recorder.process;
        if process.disabled || process.ledger.is_forked() {
            return 0;
        }
        self.target.log.lock(process).recover()
    }
}
