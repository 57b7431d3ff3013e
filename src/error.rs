//! Errors before and after recording. Recording itself never fails: it counts lost lines.

use std::path::{Path, PathBuf};
use std::{fmt, io};

/// Why a ledger could not be built, or not be shut down cleanly.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// No root was given, and neither `SPANLEDGER_DIR`, `XDG_STATE_HOME` nor `HOME` is set.
    NoRoot,
    /// A redaction rule does not compile. Nothing was recorded.
    Pattern(PatternError),
    /// The crate feature `tracing/max_level_…` compiles agent spans out: the trace would be empty.
    LevelCompiledOut,
    /// An environment variable that can't be understood.
    Environment {
        /// Which.
        name: &'static str,
        /// Its value.
        value: String,
        /// The values that it may have.
        expected: &'static str,
    },
    /// A limit or an export that can't be used: see [`Builder::limits`](crate::Builder::limits) and
    /// [`Builder::export`](crate::Builder::export).
    Config {
        /// The file and line, the variable, or the setter.
        place: String,
        /// What is wrong there.
        why: String,
    },
    /// A setting of the mirror that can't be used. It never repeats a value that may be secret.
    Otlp {
        /// Which: a variable of the environment, or a setter of [`Otlp`](crate::mirror::Otlp).
        setting: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Another process is exporting this root.
    MirrorBusy {
        /// The lock that it holds.
        lock: PathBuf,
        /// Its process id.
        pid: Option<u32>,
    },
    /// A directory can't be used as the mirror's state.
    MirrorState {
        /// Which.
        dir: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// A backend can't be asked what it holds.
    Backend {
        /// Where, without credentials.
        url: String,
        /// Its answer, or the error on the way to it.
        why: String,
    },
    /// A file of the trace can't be read or written.
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The process has a global subscriber already.
    AlreadyInitialized,
    /// Spans of ours reach no ledger, or not this one.
    NotRecording {
        /// What was found.
        why: &'static str,
    },
    /// A `tracing-opentelemetry` layer beside ours sends agent spans too, under other ids.
    SentTwice,
    /// Events are missing from the trace, and the trace has no `gap` line about them.
    Lost {
        /// How many events no `gap` line counts yet.
        events: u64,
        /// The root they should be in.
        root: PathBuf,
        /// What went wrong last.
        cause: String,
    },
}

const NO_ROOT: &str =
    "no directory for the trace: set SPANLEDGER_DIR or HOME, or give the builder a root";
const LEVEL_COMPILED_OUT: &str = "agent spans are compiled out: a dependency turns on a \
    `max_level_*` feature of `tracing` below INFO";
const ALREADY_INITIALIZED: &str = "this process has a global subscriber already; add the layer of \
    `spanledger::builder().build()` to it instead";
const SENT_TWICE: &str = "a `tracing-opentelemetry` layer beside the ledger sends agent spans too: \
    give it the filter `spanledger::otel::not_agent_spans()`";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoot => f.write_str(NO_ROOT),
            Self::Pattern(error) => error.fmt(f),
            Self::LevelCompiledOut => f.write_str(LEVEL_COMPILED_OUT),
            Self::Environment {
                name,
                value,
                expected,
            } => write!(
                f,
                "{name}={value:?} can't be understood: expected {expected}"
            ),
            Self::Config { place, why } => write!(f, "{place}: {why}"),
            Self::MirrorBusy { lock, pid } => {
                let pid = pid.map_or(String::new(), |pid| format!(" (pid {pid})"));
                let lock = lock.display();
                write!(
                    f,
                    "another spanledger process{pid} is already exporting this directory: it holds {lock}"
                )
            }
            Self::MirrorState { dir, why } => {
                write!(f, "{} can't be used as --state: {why}", dir.display())
            }
            Self::Backend { url, why } => write!(f, "{url}: {why}"),
            // The message of an error below this path has the path already.
            Self::Io { path, source }
                if source.to_string().starts_with(&*path.to_string_lossy()) =>
            {
                source.fmt(f)
            }
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Otlp { setting, why } => write!(f, "{setting} can't be used: {why}"),
            Self::AlreadyInitialized => f.write_str(ALREADY_INITIALIZED),
            Self::SentTwice => f.write_str(SENT_TWICE),
            Self::NotRecording { why } => write!(f, "agent spans are not recorded: {why}"),
            Self::Lost {
                events,
                root,
                cause,
            } => {
                let root = root.display();
                write!(
                    f,
                    "{events} events could not be written to the trace in {root}: {cause}"
                )
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Pattern(error) => Some(error),
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Error {
    /// Names the path that an I/O error is about.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io {
            path: path.clone(),
            source,
        }
    }
}

impl From<PatternError> for Error {
    fn from(error: PatternError) -> Self {
        Self::Pattern(error)
    }
}

/// A pattern given to [`Redaction::rule`](crate::Redaction::rule) does not compile.
#[derive(Debug)]
pub struct PatternError {
    pub(crate) rule: String,
    pub(crate) pattern: String,
    pub(crate) source: regex::Error,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the pattern `{}` of the redaction rule `{}` does not compile: {}",
            self.pattern, self.rule, self.source
        )
    }
}

impl std::error::Error for PatternError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
