//! How a session stands: its status, what is open in it, who writes it, what went wrong.

use serde_json::Value;

use crate::reader::Address;

/// How a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// Something is going on.
    Busy,
    /// A run is open, and nothing happens in it.
    Idle,
    /// It waits for a person.
    Waiting,
    /// It tries something again.
    Retrying,
    /// It ended with an error, or says that it is in one.
    Error,
    /// It ended.
    Ended,
    /// Its process died while something was open.
    Interrupted,
}

impl Status {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Waiting => "waiting",
            Self::Retrying => "retrying",
            Self::Error => "error",
            Self::Ended => "ended",
            Self::Interrupted => "interrupted",
        }
    }

    /// Reads the word for it.
    pub fn parse(text: &str) -> Option<Self> {
        let all = [
            Self::Busy,
            Self::Idle,
            Self::Waiting,
            Self::Retrying,
            Self::Error,
            Self::Ended,
            Self::Interrupted,
        ];
        all.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether somebody is still at it.
    pub const fn is_live(self) -> bool {
        matches!(
            self,
            Self::Busy | Self::Idle | Self::Waiting | Self::Retrying
        )
    }
}

/// Something that went wrong, and where it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mishap {
    /// The line that tells of it.
    pub address: Address,
    /// What it was about: a tool, a model, an event.
    pub what: String,
    /// What it said.
    pub message: String,
}

/// A span that no line has closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSpan {
    /// Its open line.
    pub address: Address,
    /// The kind of its open line.
    pub kind: String,
    /// A tool's name, a model's, an agent's.
    pub name: String,
    /// What it was called with, cut.
    pub input: Option<String>,
    /// When it began, in nanoseconds since 1970.
    pub since: u64,
    /// Who opened it.
    pub seg: u32,
    pub(super) parent: Option<String>,
}

/// A writer of the session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Writer {
    /// Its id, by which it can be told whether it lives.
    pub id: String,
    /// What its segment's first line says of the process, as JSON text.
    pub(super) process: Box<str>,
    /// The spanledger that wrote it.
    pub version: String,
    /// Why the session exists although no run named it.
    pub implicit: Option<String>,
    /// The first segment of those that it counted together, where it did not count all.
    pub(super) counts_from: Option<u64>,
}

impl Writer {
    /// What is known of its process: pid, host, exe, argv, cwd, git, ….
    pub fn process(&self) -> Value {
        serde_json::from_str(&self.process).unwrap_or_default()
    }
}
