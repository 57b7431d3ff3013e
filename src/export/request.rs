//! Which exports an agent keeps current.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::{Format, Live, UnknownFormat};

/// An export that an agent keeps current while it records: `FORMAT=PATH`, or `trace-sqlite` alone for a file
/// in each session's directory.
///
/// ```
/// use spanledger::export::{Export, Format};
/// let export: Export = "session-log=/var/log/sessions.jsonl".parse()?;
/// assert_eq!(export, Export::new(Format::SessionLog, "/var/log/sessions.jsonl"));
/// assert!("atif=run.json".parse::<Export>().is_err()); // it is written when a session is over
/// # Ok::<(), spanledger::export::ExportError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    format: Format,
    /// None for a file in each session's directory.
    path: Option<PathBuf>,
}

impl Export {
    /// Exports to a file, or to a directory for the formats that have several files. The format must be
    /// [live](Format::is_live). A relative path is relative to the directory that the process is in now.
    pub fn new(format: Format, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self {
            format,
            path: Some(std::path::absolute(&path).unwrap_or(path)),
        }
    }

    /// Exports to `trace.sqlite` in each session's directory.
    pub fn trace_sqlite() -> Self {
        Self {
            format: Format::TraceSqlite,
            path: None,
        }
    }

    /// Whether an agent can keep it current.
    pub(crate) fn check(&self) -> Result<(), ExportError> {
        match self.format.is_live() {
            true => Ok(()),
            false => Err(ExportError::NotLive(self.format)),
        }
    }

    pub(crate) fn live(&self) -> Live {
        match &self.path {
            Some(path) => Live::new(self.format, path),
            None => Live::in_sessions(self.format),
        }
    }
}

impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}={}", self.format, path.display()),
            None => self.format.fmt(f),
        }
    }
}

/// A text that names no export.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportError {
    /// There is no such format.
    Format(UnknownFormat),
    /// The format needs a path.
    NoPath(Format),
    /// The format can't be kept current.
    NotLive(Format),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(unknown) => unknown.fmt(f),
            Self::NotLive(format) => write!(
                f,
                "{format} is not kept current; use `spanledger export {format}` when the session is over"
            ),
            Self::NoPath(format) => write!(f, "{format} needs a path; write {format}=PATH"),
        }
    }
}

impl std::error::Error for ExportError {}

impl FromStr for Export {
    type Err = ExportError;

    fn from_str(text: &str) -> Result<Self, ExportError> {
        let (name, path) = text.split_once('=').unwrap_or((text, ""));
        let format: Format = name.trim().parse().map_err(ExportError::Format)?;
        let export = match path.trim() {
            "" => Self { format, path: None },
            path => Self::new(format, path),
        };
        export.check()?;
        match export.path.is_none() && format.file_in_session().is_none() {
            true => Err(ExportError::NoPath(format)),
            false => Ok(export),
        }
    }
}
