//! Where things are on disk.

use std::fs::DirEntry;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::hex::hex_digest;
use super::safe_open::is_own;

/// The directory that holds everything.
#[derive(Clone, Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// `$SPANLEDGER_DIR`, else `$XDG_STATE_HOME/spanledger`, else `~/.local/state/spanledger`.
    pub fn from_env() -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(dir) = set("SPANLEDGER_DIR") {
            return Some(dir.into());
        }
        if let Some(state) = set("XDG_STATE_HOME").map(PathBuf::from) {
            // The base directory specification: a relative path is to be ignored.
            if state.is_absolute() {
                return Some(state.join("spanledger"));
            }
        }
        Some(PathBuf::from(set("HOME")?).join(".local/state/spanledger"))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn writers(&self) -> PathBuf {
        self.0.join("writers")
    }

    pub fn sessions(&self) -> PathBuf {
        self.0.join("sessions")
    }

    pub fn session(&self, id: &str) -> PathBuf {
        self.sessions().join(session_dir_name(id))
    }

    pub fn redaction_key(&self) -> PathBuf {
        self.0.join("redaction.key")
    }
}

/// The name of a session's directory: the id where it is a safe name, else a safe prefix, `~`
/// and 32 hex digits of the id's SHA-256. No id climbs out of the root, and no two ids share a
/// directory where case is ignored.
pub(crate) fn session_dir_name(id: &str) -> String {
    let safe = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    let starts_well = |name: &str| name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if id.len() <= 100 && starts_well(id) && id.bytes().all(safe) && !is_reserved(id) {
        return id.to_owned();
    }
    let mut name: String = id
        .bytes()
        .map(|b| b.to_ascii_lowercase())
        .filter(|b| safe(*b))
        .take(40)
        .map(char::from)
        .collect();
    if !starts_well(&name) {
        name.insert_str(0, "id");
    }
    name.push('~');
    name.extend(hex_digest(id.as_bytes()).chars().take(32));
    name
}

/// Names that some systems give a meaning of their own.
fn is_reserved(name: &str) -> bool {
    matches!(name, "con" | "prn" | "aux" | "nul")
        || matches!(name.as_bytes(), [b'c', b'o', b'm', b'0'..=b'9'])
        || matches!(name.as_bytes(), [b'l', b'p', b't', b'0'..=b'9'])
}

/// Why other users can change a file or directory of ours, and what to do about it.
pub(crate) fn exposed(path: &Path) -> io::Result<Option<(String, String)>> {
    let meta = path.metadata()?;
    let (uid, mode, shown) = (meta.uid(), meta.mode() & 0o777, path.display());
    Ok(if !is_own(&meta) {
        let advice = format!("choose another root, or run `chown $(id -u) {shown}`");
        Some((format!("{shown} belongs to another user: {uid}"), advice))
    } else if mode & 0o022 != 0 {
        let found = format!("{shown} can be written by others: {mode:03o}");
        Some((found, format!("chmod go-w {shown}")))
    } else {
        None
    })
}

/// `None` where a file or directory does not exist.
pub(crate) fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The number in `trace.0001.jsonl`.
pub(crate) fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("trace.")?.strip_suffix(".jsonl")?;
    (digits.len() >= 4 && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
        .filter(|n| *n > 0)
}

pub(crate) fn segment_name(number: u32) -> String {
    format!("trace.{number:04}.jsonl")
}

/// The segments of a session, in the order of their numbers.
pub(crate) fn segments(session: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(session)? {
        let entry = entry?;
        if let Some(number) = entry.file_name().to_str().and_then(segment_number) {
            is_no_pipe(&entry)?;
            found.push((number, entry.path()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Fails for a pipe, a socket or a device: opening one may block or change it.
fn is_no_pipe(entry: &DirEntry) -> io::Result<()> {
    let kind = match entry.file_type()? {
        kind if kind.is_symlink() => match entry.path().metadata() {
            Ok(target) => target.file_type(),
            // Opening it reports the reason.
            Err(_) => kind,
        },
        kind => kind,
    };
    if kind.is_file() || kind.is_dir() || kind.is_symlink() {
        return Ok(());
    }
    let path = entry.path();
    let why = format!("{}: not a file", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

#[cfg(test)]
mod tests;
