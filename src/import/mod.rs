//! Sessions that other tools recorded, brought in: one file for each format, named as in
//! [`export`](crate::export).
//!
//! An import passes redaction and the ledger as recording does. It keeps the source's times and ids, and
//! derives ids that the source lacks from it, so that importing twice changes nothing. The raw source is kept
//! as a blob, redacted. A session becomes visible when it is complete.
//!
//! ```no_run
//! use spanledger::import::{Import, Source};
//! let mut import = Import::new("/var/lib/agent")?;
//! for session in import.read(Source::ClaudeCode, "session.jsonl")? {
//!     println!("{}: {} events", session.id, session.events);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agentdbg;
mod atif;
mod chat;
mod chat_sqlite;
mod chat_text;
mod claude_code;
mod codex;
#[cfg(feature = "sqlite")]
mod database;
#[cfg(not(feature = "sqlite"))]
#[path = "database_off.rs"]
mod database;
mod document;
mod history;
mod json;
mod lines;
mod messages;
mod open_calls;
mod otlp_json;
mod prime;
mod progress;
mod staging;
mod time;
mod trace_sqlite;
mod trajectory;
mod trial;
mod writer;

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;

use crate::error::Error;
use crate::trace::{floor_char, lock};
use history::History;
use progress::Progress;
use writer::Writer;

/// Longest text of an error, in bytes.
const LONGEST_ERROR: usize = 240;
/// A session of Claude Code may begin with so many lines that don't name it.
const FIRST_OBJECTS: usize = 50;

/// A format that sessions can be imported from.
///
/// ```
/// use spanledger::import::Source;
/// assert_eq!("claude-code".parse(), Ok(Source::ClaudeCode));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// A run directory of AgentDbg.
    AgentDbg,
    /// A trajectory of Harbor.
    Atif,
    /// Chat sessions as one JSON document.
    ChatJson,
    /// Chat sessions as lines of rows.
    ChatJsonl,
    /// A database of chat sessions. It needs the feature `sqlite`.
    ChatSqlite,
    /// A session file of Claude Code.
    ClaudeCode,
    /// A rollout file of Codex.
    Codex,
    /// A database of events. It needs the feature `sqlite`.
    TraceSqlite,
    /// GenAI spans in OTLP's JSON encoding.
    OtlpJson,
    /// Samples of a hosted evaluation of Prime.
    Prime,
    /// A trajectory or a conversation of aec-bench.
    Trajectory,
    /// A TrialRecord of aec-bench.
    Trial,
}

impl Source {
    /// Every format.
    pub const ALL: &[Self] = &[
        Self::AgentDbg,
        Self::Atif,
        Self::ChatJson,
        Self::ChatJsonl,
        Self::ChatSqlite,
        Self::ClaudeCode,
        Self::Codex,
        Self::TraceSqlite,
        Self::OtlpJson,
        Self::Prime,
        Self::Trajectory,
        Self::Trial,
    ];

    /// The name that commands take.
    pub fn name(self) -> &'static str {
        match self {
            Self::AgentDbg => "agentdbg",
            Self::Atif => "atif",
            Self::ChatJson => "chat-json",
            Self::ChatJsonl => "chat-jsonl",
            Self::ChatSqlite => "chat-sqlite",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::TraceSqlite => "trace-sqlite",
            Self::OtlpJson => "otlp-json",
            Self::Prime => "prime",
            Self::Trajectory => "trajectory",
            Self::Trial => "trial",
        }
    }

    /// What is read, in one line.
    pub fn about(self) -> &'static str {
        match self {
            Self::AgentDbg => "a run directory: run.json and events.jsonl",
            Self::Atif => "a trajectory in the format of Harbor, subagents included",
            Self::ChatJson => "one session: its row, and its messages with their parts",
            Self::ChatJsonl => "rows of sessions, messages and parts, one a line",
            Self::ChatSqlite => "a database of sessions, messages and parts",
            Self::ClaudeCode => "a session file as Claude Code writes it, subagents included",
            Self::Codex => "a rollout file of Codex",
            Self::TraceSqlite => "a trace.sqlite, as this program or jutul-agent writes it",
            Self::OtlpJson => {
                "spans with GenAI attributes, as the collector's file exporter writes them"
            }
            Self::Prime => "samples.json of a hosted evaluation, with evaluation.json beside it",
            Self::Trajectory => {
                "a trajectory.jsonl, with or without its header, or a conversation.jsonl"
            }
            Self::Trial => "a TrialRecord of schema 1 or 2, or a ledger of them",
        }
    }

    /// The format of a file or directory, as far as its beginning shows it.
    pub fn detect(path: &Path) -> Result<Self, ImportError> {
        lines::check(path)?;
        Self::recognize(path).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|source| source.name()).collect();
            let names = names.join(", ");
            let why = format!("it looks like none of {names}; name the format");
            ImportError::new(path, why)
        })
    }

    fn recognize(path: &Path) -> Option<Self> {
        if agentdbg::run_dir(path).join("events.jsonl").is_file() {
            return Some(Self::AgentDbg);
        }
        if lines::begins_with(path, database::MAGIC) {
            return database::detect(path);
        }
        if path.join("samples.json").is_file() {
            return Some(Self::Prime);
        }
        let mut objects = lines::first_objects(path).take(FIRST_OBJECTS);
        let Some(first) = objects.next() else {
            return Self::detect_document(path);
        };
        let has = |name: &str| first.get(name).is_some();
        match () {
            () if claude_code::is_entry(&first)
                || objects.any(|one| claude_code::is_entry(&one)) =>
            {
                Some(Self::ClaudeCode)
            }
            () if has("type") && first.get("data").is_some_and(|data| data.is_object()) => {
                Some(Self::ChatJsonl)
            }
            () if has("format") || (has("step") && has("role")) => Some(Self::Trajectory),
            () if first.get("type").is_some_and(|kind| kind == "session_meta") => Some(Self::Codex),
            () if has("resourceSpans") || has("resource_spans") => Some(Self::OtlpJson),
            () if trajectory::is_message(&first) => Some(Self::Trajectory),
            () => Self::detect_document(path),
        }
    }

    /// The format of a file that is one document, or has a very long line.
    fn detect_document(path: &Path) -> Option<Self> {
        let names = document::member_names(path)?;
        let has = |name: &str| names.iter().any(|known| known == name);
        match () {
            () if has("steps") && (has("schema_version") || has("agent")) => Some(Self::Atif),
            () if has("session") && has("messages") => Some(Self::ChatJson),
            () if has("trial_id") && (has("experiment_id") || has("schema_version")) => {
                Some(Self::Trial)
            }
            () if has("samples") || prime::is_evaluation(has) => Some(Self::Prime),
            () if has("resourceSpans") || has("resource_spans") => Some(Self::OtlpJson),
            () => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSource(String);

impl fmt::Display for UnknownSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Source::ALL.iter().map(|source| source.name()).collect();
        write!(
            f,
            "unknown format {:?}; use auto, {}",
            self.0,
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownSource {}

impl FromStr for Source {
    type Err = UnknownSource;

    fn from_str(name: &str) -> Result<Self, UnknownSource> {
        let mut all = Self::ALL.iter().copied();
        all.find(|source| source.name() == name)
            .ok_or_else(|| UnknownSource(name.to_owned()))
    }
}

/// Why something was not imported. Nothing of its sessions is visible.
#[derive(Debug)]
pub struct ImportError {
    path: PathBuf,
    line: Option<u64>,
    why: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.line {
            // The parser's own position is that in the line, or in a value.
            Some(line) => {
                let why = without_position(&self.why);
                write!(f, "can't import {path}, line {line}: {why}")
            }
            None => write!(f, "can't import {path}: {}", self.why),
        }
    }
}

impl std::error::Error for ImportError {}

impl ImportError {
    fn new(path: &Path, why: impl fmt::Display) -> Self {
        Self {
            path: path.to_owned(),
            line: None,
            why: shorten(&why.to_string()),
        }
    }
}

/// An error without the position that the parser of JSON adds to it.
fn without_position(why: &str) -> &str {
    let position = why.rfind(" at line ");
    let is_position = |at: &usize| {
        let mut words = why[*at..].split_whitespace().skip(2);
        let mut is_number = || words.next().is_some_and(|word| word.parse::<u64>().is_ok());
        is_number() && why[*at..].contains(" column ")
    };
    position.filter(is_position).map_or(why, |at| &why[..at])
}

/// An error that may repeat a long value of the source: its beginning and its end.
fn shorten(why: &str) -> String {
    if why.len() <= LONGEST_ERROR {
        return why.to_owned();
    }
    let beginning = floor_char(why, LONGEST_ERROR / 2);
    let end = floor_char(why, why.len() - LONGEST_ERROR / 4);
    format!("{}…{}", &why[..beginning], &why[end..])
}

/// The last line of a file, cut off: its writer was killed, or is still writing. It was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornLine {
    /// The file.
    pub path: PathBuf,
    /// The number of the line.
    pub line: u64,
}

/// A session of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportedSession {
    /// Its id.
    pub id: String,
    /// How many lines it has.
    pub events: u64,
    /// It is there already, and was left as it is.
    pub known: bool,
    /// Lines of the source that are cut off, and were left out.
    pub torn_lines: Vec<TornLine>,
    /// It is there already, from a source that was another then: the file has grown, for example.
    pub changed: bool,
}

/// Imports sessions into a root.
#[derive(Debug)]
pub struct Import {
    writer: Writer,
    dry_run: bool,
    torn_lines: Mutex<Vec<TornLine>>,
}

impl Import {
    /// Writes no session yet. Removes what imports that were killed have left in the root.
    pub fn new(root: impl Into<PathBuf>) -> Result<Self, Error> {
        Ok(Self {
            writer: Writer::new(root.into())?,
            dry_run: false,
            torn_lines: Mutex::default(),
        })
    }

    /// Reads and checks everything, and makes no session visible.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Calls `report` about once for each thousand lines that were written, with the number of all so far.
    pub fn on_progress(mut self, report: impl FnMut(u64) + Send + 'static) -> Self {
        self.writer.progress = Progress::new(report);
        self
    }

    /// Imports the sessions of a file or directory: all of them, or none if there is an error.
    pub fn read(
        &mut self,
        source: Source,
        path: impl AsRef<Path>,
    ) -> Result<Vec<ImportedSession>, ImportError> {
        let path = path.as_ref();
        lock(&self.torn_lines).clear();
        lines::check(path)?;
        let histories = match source {
            Source::AgentDbg => agentdbg::read(self, path),
            Source::Atif => atif::read(self, path),
            Source::ChatJson => chat_text::read_document(self, path),
            Source::ChatJsonl => chat_text::read_lines(self, path),
            Source::ChatSqlite => chat_sqlite::read(self, path),
            Source::ClaudeCode => claude_code::read(self, path),
            Source::Codex => codex::read(self, path),
            Source::TraceSqlite => trace_sqlite::read(self, path),
            Source::OtlpJson => otlp_json::read(self, path),
            Source::Prime => prime::read(self, path),
            Source::Trajectory => trajectory::read(self, path),
            Source::Trial => trial::read(self, path),
        }?;
        let mut places = HashSet::new();
        if let Some(second) = histories.iter().find(|one| !places.insert(one.place())) {
            let why = format!("two sessions in it have the id {:?}", second.id());
            return Err(ImportError::new(path, why));
        }
        let finished: Result<Vec<_>, _> = histories.into_iter().map(History::finish).collect();
        let finished = finished.map_err(|error| ImportError::new(path, error))?;
        let torn_lines = std::mem::take(&mut *lock(&self.torn_lines));
        let publish = |complete: history::Complete| complete.publish(self.dry_run, &torn_lines);
        let published: std::io::Result<_> = finished.into_iter().map(publish).collect();
        published.map_err(|error| ImportError::new(path, error))
    }

    /// A source may be read more than once.
    fn note_torn_line(&self, torn: TornLine) {
        let mut torn_lines = lock(&self.torn_lines);
        if !torn_lines.contains(&torn) {
            torn_lines.push(torn);
        }
    }
}
