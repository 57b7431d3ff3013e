//! The formats, and what each of them is.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::chat_text::{ChatText, Form};
#[cfg(feature = "mirror")]
use super::otlp_json;
use super::{
    Exporter, Schema, acp, agentdbg, atif, chat_sqlite, chrome_trace, maida, messages, session_log,
    trace_sqlite, trajectory, trial,
};
use crate::trace::{Address, RawValue};

/// A format that sessions can be exported to.
///
/// ```
/// use spanledger::export::Format;
/// let format: Format = "agentdbg".parse()?;
/// assert!(format.about().contains("AgentDbg"));
/// # Ok::<(), spanledger::export::UnknownFormat>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Steps of a trajectory.
    Trajectory,
    /// A record of a trial.
    Trial,
    /// Messages of the Agent Client Protocol.
    Acp,
    /// One row for each run that ended.
    SessionLog,
    /// Run directories of AgentDbg.
    AgentDbg,
    /// A SQLite database of events for each session.
    TraceSqlite,
    /// A SQLite database of conversations.
    ChatSqlite,
    /// A conversation as one JSON document.
    ChatJson,
    /// A conversation as JSON lines.
    ChatJsonl,
    /// Conversations as a table of parts.
    ChatCsv,
    /// Run directories of Maida.
    Maida,
    /// Harbor's trajectory format.
    Atif,
    /// The body of a request to OpenAI.
    OpenAiMessages,
    /// The body of a request to Anthropic.
    AnthropicMessages,
    /// Events for Perfetto.
    ChromeTrace,
    /// The requests that the mirror would send.
    #[cfg(feature = "mirror")]
    OtlpJson,
}

/// What a format leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// `trajectory`: leave the header line out, as newer readers want it.
    pub no_header: bool,
    /// `trial`: write a complete record, or none if something is missing.
    pub complete: bool,
    /// `trial`: the schema of the record.
    pub trial_schema: TrialSchema,
}

/// The schema of a `trial`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrialSchema {
    /// A record that is complete by itself.
    #[default]
    V1,
    /// A record and a manifest of its run, since August 2026.
    V2,
}

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// One file for each session.
    FileOfSession,
    /// One file for all sessions.
    File,
    /// A directory for all sessions.
    Directory,
}

impl Format {
    /// Every format.
    pub const ALL: &[Self] = &[
        Self::Trajectory,
        Self::Trial,
        Self::Acp,
        Self::SessionLog,
        Self::AgentDbg,
        Self::TraceSqlite,
        Self::ChatSqlite,
        Self::ChatJson,
        Self::ChatJsonl,
        Self::ChatCsv,
        Self::Maida,
        Self::Atif,
        Self::OpenAiMessages,
        Self::AnthropicMessages,
        Self::ChromeTrace,
        #[cfg(feature = "mirror")]
        Self::OtlpJson,
    ];

    /// The name that commands take.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trajectory => "trajectory",
            Self::Trial => "trial",
            Self::Acp => "acp",
            Self::SessionLog => "session-log",
            Self::AgentDbg => "agentdbg",
            Self::TraceSqlite => "trace-sqlite",
            Self::ChatSqlite => "chat-sqlite",
            Self::ChatJson => "chat-json",
            Self::ChatJsonl => "chat-jsonl",
            Self::ChatCsv => "chat-csv",
            Self::Maida => "maida",
            Self::Atif => "atif",
            Self::OpenAiMessages => "openai-messages",
            Self::AnthropicMessages => "anthropic-messages",
            Self::ChromeTrace => "chrome-trace",
            #[cfg(feature = "mirror")]
            Self::OtlpJson => "otlp-json",
        }
    }

    /// What is written, in one line.
    pub fn about(self) -> &'static str {
        match self {
            Self::Trajectory => {
                "JSON lines: a step for each model call, with its tool calls and results"
            }
            Self::Trial => "<experiment>/<trial>.json: a TrialRecord of aec-bench, written once",
            Self::Acp => {
                "JSON lines: messages of the Agent Client Protocol, as a client would have seen them"
            }
            Self::SessionLog => "JSON lines: one session.iterate.v1 row for each run that ended",
            Self::AgentDbg => {
                "runs/<run>/run.json and events.jsonl, as AgentDbg and its viewer read them"
            }
            Self::TraceSqlite => {
                "trace.sqlite in each session's directory, as jutul-agent reads it"
            }
            Self::ChatSqlite => {
                "one database of conversations: sessions, messages and AI SDK parts"
            }
            Self::ChatJson => "JSON: a session with its messages and AI SDK parts",
            Self::ChatJsonl => "JSON lines: a session, its messages and AI SDK parts, a row each",
            Self::ChatCsv => "CSV: a row for each part of a message, with tokens and cost",
            Self::Maida => "runs/<trace>/meta.json and spans.jsonl, as Maida reads them",
            Self::Atif => "JSON: Harbor's ATIF-v1.7, with the trajectories of subagents inside",
            Self::OpenAiMessages => {
                "JSON: the conversation as the body of a chat completion request"
            }
            Self::AnthropicMessages => "JSON: the conversation as the body of a messages request",
            Self::ChromeTrace => "JSON: spans and events for Perfetto and chrome://tracing",
            #[cfg(feature = "mirror")]
            Self::OtlpJson => "JSON lines: the OTLP requests that the mirror would send",
        }
    }

    /// The extension of a file.
    pub fn extension(self) -> &'static str {
        match self {
            Self::TraceSqlite => "sqlite",
            Self::ChatSqlite => "db",
            Self::ChatJson
            | Self::Atif
            | Self::OpenAiMessages
            | Self::AnthropicMessages
            | Self::ChromeTrace => "json",
            Self::ChatCsv => "csv",
            _ => "jsonl",
        }
    }

    /// The file in a session's directory that is written if no path is given.
    pub fn file_in_session(self) -> Option<&'static str> {
        (self == Self::TraceSqlite).then_some("trace.sqlite")
    }

    /// Whether an export can be kept current while its session grows.
    pub fn is_live(self) -> bool {
        matches!(
            self,
            Self::Trajectory
                | Self::Acp
                | Self::SessionLog
                | Self::AgentDbg
                | Self::TraceSqlite
                | Self::ChatSqlite
                | Self::ChatJsonl
        )
    }

    /// Whether the target is a database, which can't be a stream.
    pub fn is_database(self) -> bool {
        self.schema().is_some()
    }

    pub(super) fn schema(self) -> Option<Schema> {
        match self {
            Self::TraceSqlite => Some(trace_sqlite::SCHEMA),
            Self::ChatSqlite => Some(chat_sqlite::SCHEMA),
            _ => None,
        }
    }

    /// What the target is.
    pub fn shape(self) -> Shape {
        match self {
            Self::SessionLog | Self::ChatSqlite | Self::ChatCsv => Shape::File,
            Self::AgentDbg | Self::Maida | Self::Trial => Shape::Directory,
            _ => Shape::FileOfSession,
        }
    }

    /// `is_live`: the target is kept current.
    pub(super) fn exporter(
        self,
        session: &Path,
        options: Options,
        is_live: bool,
    ) -> Box<dyn Exporter> {
        match self {
            Self::Trajectory => Box::new(trajectory::Trajectory::new(options)),
            Self::Trial => Box::new(trial::Trial::new(options)),
            Self::Acp => Box::new(acp::Acp::default()),
            Self::SessionLog => Box::new(session_log::SessionLog::default()),
            Self::AgentDbg => Box::new(agentdbg::AgentDbg::default()),
            Self::TraceSqlite => Box::new(trace_sqlite::TraceSqlite::default()),
            Self::ChatSqlite => Box::new(chat_sqlite::ChatSqlite::default()),
            Self::ChatJson => Box::new(ChatText::new(Form::Json, is_live)),
            Self::ChatJsonl => Box::new(ChatText::new(Form::Lines, is_live)),
            Self::ChatCsv => Box::new(ChatText::new(Form::Csv, is_live)),
            Self::Maida => Box::new(maida::Maida::default()),
            Self::Atif => Box::new(atif::Atif::new(session)),
            Self::OpenAiMessages => Box::new(messages::Messages::openai()),
            Self::AnthropicMessages => Box::new(messages::Messages::anthropic()),
            Self::ChromeTrace => Box::new(chrome_trace::ChromeTrace::default()),
            #[cfg(feature = "mirror")]
            Self::OtlpJson => Box::new(otlp_json::OtlpJson::default()),
        }
    }

    /// The address of the line that a row was made from.
    pub(super) fn address(self, row: &str) -> Option<Address> {
        let row = RawValue::new(row);
        let place = match self {
            Self::Trajectory => row.get("metadata")?,
            Self::AgentDbg => row.get("meta")?,
            Self::Acp => acp::place(row)?,
            _ => return None,
        };
        Some(Address {
            seg: u32::try_from(place.get("seg")?.u64()?).ok()?,
            seq: place.get("seq")?.u64()?,
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        write!(
            f,
            "unknown format {:?}; use one of {}",
            self.0,
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let mut all = Self::ALL.iter().copied();
        all.find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}
