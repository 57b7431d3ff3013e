//! The status of a session, its open spans, its writers and its errors.

use serde_json::{Value, json};

use crate::trace::typed::Process;
use crate::trace::{Address, Kind, RawValue, named_enum};

named_enum! {
    /// The status of a session.
    #[non_exhaustive]
    pub enum Status {
        /// A span inside a run is open.
        Busy = "busy",
        /// A run is open, and no span in it.
        Idle = "idle",
        /// It waits for a person.
        Waiting = "waiting",
        /// It retries something.
        Retrying = "retrying",
        /// It ended with an error, or reports one.
        Error = "error",
        /// It ended.
        Ended = "ended",
        /// Its process died while something was open.
        Interrupted = "interrupted",
    }
}

impl Status {
    /// Whether a run is open and its process is alive.
    pub const fn is_live(self) -> bool {
        matches!(
            self,
            Self::Busy | Self::Idle | Self::Waiting | Self::Retrying
        )
    }
}

named_enum! {
    /// What a waiting session needs from a person.
    #[non_exhaustive]
    pub enum WaitsFor {
        /// A decision about a call.
        Approval = "approval",
        /// An answer or the next message.
        UserInput = "user_input",
    }
}

/// A status as an agent reported it, with [`events::session_status`](crate::events::session_status).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reported {
    /// Its name.
    pub status: String,
    /// What it waits for.
    pub waiting_for: Option<String>,
    /// The number of the attempt.
    pub attempt: Option<u64>,
    /// When it continues, as the agent wrote it.
    pub next_at: Option<String>,
    /// The reason.
    pub message: Option<String>,
}

/// The status of a session, and why.
///
/// ```no_run
/// use spanledger::session::{Status, Store};
/// let store = Store::new("/var/lib/agent");
/// let entry = store.peek(&store.resolve("last")?)?;
/// let report = entry.report();
/// if report.status == Status::Retrying {
///     println!("attempt {:?}, next at {:?}", report.attempt, report.next_at);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatusReport {
    /// The status.
    pub status: Status,
    /// What a waiting session needs from a person.
    pub waits_for: Option<WaitsFor>,
    /// The number of the attempt of a retrying session.
    pub attempt: Option<u64>,
    /// When a retrying session continues, as the agent wrote it.
    pub next_at: Option<String>,
    /// The reason that the agent gave, or the message of the last error of a session that ended with one.
    pub message: Option<String>,
}

impl StatusReport {
    /// As JSON, with stable names. What isn't known is null.
    pub fn to_json(&self) -> Value {
        json!({
            "status": self.status.as_str(),
            "waits_for": self.waits_for.map(WaitsFor::as_str),
            "attempt": self.attempt,
            "next_at": self.next_at,
            "message": self.message,
        })
    }
}

/// An error, and the line that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorRef {
    /// The line.
    pub address: Address,
    /// What failed: a tool, a model, an event.
    pub what: String,
    /// The error's message.
    pub message: String,
    /// The spans that failed with the same error because it was passed on to them, from the inside out:
    /// their close lines and names.
    pub passed_to: Vec<(Address, String)>,
}

impl ErrorRef {
    pub(super) fn to_json(&self) -> Value {
        let passed_to = self.passed_to.iter();
        let passed_to =
            passed_to.map(|(at, what)| json!({"address": at.to_string(), "what": what}));
        json!({
            "address": self.address.to_string(),
            "what": self.what,
            "message": self.message,
            "passed_to": passed_to.collect::<Vec<_>>(),
        })
    }
}

/// A span that no line has closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSpan {
    /// Its id.
    pub span_id: String,
    /// Its open line.
    pub address: Address,
    /// The kind of its open line.
    pub kind: Kind,
    /// The name of the tool, model or agent.
    pub name: String,
    /// Its input, truncated.
    pub input: Option<String>,
    /// When it began, in nanoseconds since 1970.
    pub since: u64,
    /// The segment that opened it.
    pub seg: u32,
    pub(super) parent: Option<String>,
}

/// A writer of the session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Writer {
    /// Its id, for [`Store::is_alive`](super::Store::is_alive).
    pub id: String,
    /// The process, from the segment's first line, as JSON.
    pub(super) process: Box<str>,
    /// The version of spanledger.
    pub version: String,
    /// Why the session exists although no run named it.
    pub implicit: Option<String>,
    /// The segment from which its totals count, if that is not its first one.
    pub(super) counts_from: Option<u32>,
}

impl Writer {
    /// Its process: pid, host, exe, argv, cwd, git, ….
    pub fn process(&self) -> Process<'_> {
        RawValue::new(&self.process).into()
    }

    /// The id of its process.
    pub fn pid(&self) -> Option<u64> {
        self.process().pid()
    }

    /// The process as JSON.
    pub fn process_json(&self) -> Value {
        serde_json::from_str(&self.process).unwrap_or_default()
    }
}
