//! The files of a session's subagents.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::ImportError;
use super::super::lines::first_objects;
use super::text;

/// The files of the subagents of sessions, in the order of their names: those in `<session>/subagents/`, and those
/// beside the file of the session that name one of these sessions.
pub(super) fn of_subagents(path: &Path, sessions: &[&str]) -> Result<Vec<PathBuf>, ImportError> {
    if is_of_agent(path) {
        return Ok(Vec::new());
    }
    let inside = path.with_extension("").join("subagents");
    let beside = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let beside = beside.unwrap_or(Path::new("."));
    let is_ours = |file: &PathBuf| {
        let first = first_objects(file).next().unwrap_or_default();
        text(&first, "sessionId").is_some_and(|id| sessions.contains(&id))
    };
    let list = |dir: &Path| agent_files(dir).map_err(|error| ImportError::new(dir, error));
    let mut files = list(&inside)?;
    files.extend(list(beside)?.into_iter().filter(is_ours));
    Ok(files)
}

fn agent_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if !dir.is_dir() {
        return Ok(files);
    }
    for entry in fs::read_dir(dir)? {
        files.push(entry?.path());
    }
    files.retain(|file| is_of_agent(file) && file.is_file());
    files.sort();
    Ok(files)
}

fn is_of_agent(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("agent-") && name.ends_with(".jsonl"))
}
