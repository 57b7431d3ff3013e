//! `claude-code`: a session file as Claude Code writes it, and the files of its subagents.
//!
//! Each line names its session. Lines of subagents are marked as a sidechain. They are in the same file, in files
//! `agent-*.jsonl` beside it, or in `<session>/subagents/`.

mod answer;
mod files;
mod session;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;

use serde_json::Value;

use super::history::{Fields, History};
use super::lines::JsonLines;
use super::{Import, ImportError};
use crate::trace::parse_time;
use session::{Session, Title};

/// So many summaries are kept until the line that they summarize is read.
const MOST_SUMMARIES: usize = 1000;
/// A longer summary is no title.
const LONGEST_TITLE: usize = 4096;

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    let mut sessions = Sessions::new(import);
    sessions.read_file(path)?;
    for file in files::of_subagents(path, &sessions.main_ids())? {
        sessions.read_file(&file)?;
    }
    sessions.finish(path)
}

/// Whether a line is one that Claude Code writes.
pub(super) fn is_entry(entry: &Fields) -> bool {
    let has_text = |name: &str| text(entry, name).is_some();
    let is_snapshot = text(entry, "type") == Some("file-history-snapshot");
    is_snapshot || has_text("sessionId") || has_text("leafUuid")
}

fn text<'e>(entry: &'e Fields, name: &str) -> Option<&'e str> {
    entry.get(name).and_then(Value::as_str)
}

fn is_true(entry: &Fields, name: &str) -> bool {
    entry.get(name).and_then(Value::as_bool) == Some(true)
}

/// Stands for an id, which is longer.
fn digest(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// The sessions of the files that are read.
struct Sessions<'a> {
    import: &'a Import,
    all: Vec<Session<'a>>,
    by_id: HashMap<String, u32>,
    /// The session of each line, by the digest of the line's uuid. A tree grows without being copied.
    lines: BTreeMap<u64, u32>,
    /// Summaries of lines that were not read yet.
    summaries: Vec<(u64, String)>,
}

impl<'a> Sessions<'a> {
    fn new(import: &'a Import) -> Self {
        Self {
            import,
            all: Vec::new(),
            by_id: HashMap::new(),
            lines: BTreeMap::new(),
            summaries: Vec::new(),
        }
    }

    fn read_file(&mut self, path: &Path) -> Result<(), ImportError> {
        let mut lines = JsonLines::open(self.import, path)?;
        while let Some(entry) = lines.next()? {
            let added = self.add(entry, path);
            added.map_err(|error| lines.error(error))?;
        }
        Ok(())
    }

    fn add(&mut self, entry: Fields, path: &Path) -> io::Result<()> {
        if text(&entry, "type") == Some("summary") {
            self.add_summary(&entry);
            return Ok(());
        }
        let Some(id) = text(&entry, "sessionId") else {
            // Such as snapshots of files.
            return Ok(());
        };
        let line = text(&entry, "uuid").map(digest);
        // A session that was resumed may have its history again.
        if line.is_some_and(|line| self.lines.contains_key(&line)) {
            return Ok(());
        }
        let at = self.session_of(&entry, id);
        if let Some(line) = line {
            self.lines.insert(line, at);
        }
        let session = &mut self.all[at as usize];
        match text(&entry, "type") {
            Some("custom-title") => session.set_title(Title::Custom, text(&entry, "customTitle")),
            Some("ai-title") => session.set_title(Title::Generated, text(&entry, "aiTitle")),
            _ => {}
        }
        match text(&entry, "timestamp").and_then(parse_time) {
            Some(time) => session.add(entry, time, path),
            None => Ok(()),
        }
    }

    /// Old files begin with summaries of other sessions: a summary belongs to the session of its line.
    fn add_summary(&mut self, entry: &Fields) {
        let summary = text(entry, "summary").filter(|text| text.len() <= LONGEST_TITLE);
        let (Some(summary), Some(leaf)) = (summary, text(entry, "leafUuid").map(digest)) else {
            return;
        };
        match self.lines.get(&leaf) {
            Some(at) => self.all[*at as usize].set_title(Title::Summary, Some(summary)),
            None if self.summaries.len() < MOST_SUMMARIES => {
                self.summaries.push((leaf, summary.to_owned()));
            }
            None => {}
        }
    }

    /// The session that a line belongs to. A sidechain without the id of its agent is named by its first line.
    fn session_of(&mut self, entry: &Fields, id: &str) -> u32 {
        if !is_true(entry, "isSidechain") {
            return self.session(id, None);
        }
        let parent = text(entry, "parentUuid");
        let before = parent.and_then(|parent| self.lines.get(&digest(parent)).copied());
        let root = match (text(entry, "agentId"), before) {
            (Some(agent), _) => Some(agent),
            (None, Some(at)) if self.all[at as usize].parent.as_deref() == Some(id) => return at,
            // The line before is in no file.
            (None, None) => parent.or(text(entry, "uuid")),
            (None, Some(_)) => text(entry, "uuid"),
        };
        let key = format!("{id}-{}", root.unwrap_or("sidechain"));
        self.session(&key, Some(id))
    }

    fn session(&mut self, id: &str, parent: Option<&str>) -> u32 {
        if let Some(at) = self.by_id.get(id) {
            return *at;
        }
        let at = self.all.len() as u32;
        let history = History::new(self.import, "claude-code", id);
        self.all.push(Session::new(id, parent, history));
        self.by_id.insert(id.to_owned(), at);
        at
    }

    /// The ids of the sessions that are no subagents.
    fn main_ids(&self) -> Vec<&str> {
        let main = self.all.iter().filter(|session| session.parent.is_none());
        main.map(|session| &*session.id).collect()
    }

    fn finish(mut self, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
        for (leaf, summary) in std::mem::take(&mut self.summaries).into_iter().rev() {
            if let Some(at) = self.lines.get(&leaf) {
                self.all[*at as usize].set_title_if_none(summary);
            }
        }
        self.all.retain(|session| session.has_begun());
        if self.all.is_empty() {
            return Err(ImportError::new(path, "no entry of a session is in it"));
        }
        self.leave_to_other_files(path);
        let finished = self.finish_all();
        finished.map_err(|error| ImportError::new(path, error))
    }

    fn finish_all(mut self) -> io::Result<Vec<History<'a>>> {
        let mut named = HashSet::new();
        for session in &mut self.all {
            session.end_answer()?;
            named.extend(session.subagents.iter().cloned());
        }
        // The subagents that no tool call names.
        let mut children: HashMap<String, Vec<String>> = HashMap::new();
        for session in &self.all {
            if let (Some(parent), false) = (&session.parent, named.contains(&session.id)) {
                let of_parent = children.entry(parent.clone()).or_default();
                of_parent.push(session.id.clone());
            }
        }
        let finished = self.all.into_iter().map(|session| {
            let children = children.remove(&session.id).unwrap_or_default();
            session.finish(children)
        });
        finished.collect()
    }

    /// A file may begin with the lines of the session that it resumes. If that one has a file of its own, it is
    /// imported from there, where it is whole.
    fn leave_to_other_files(&mut self, path: &Path) {
        let name = path.file_stem().and_then(|name| name.to_str());
        let Some(own) = name.filter(|name| self.all.iter().any(|one| one.id == **name)) else {
            return;
        };
        self.all.retain(|session| {
            let id = session.parent.as_ref().unwrap_or(&session.id);
            let is_name = !id.contains(std::path::is_separator);
            id == own || !is_name || !path.with_file_name(format!("{id}.jsonl")).is_file()
        });
    }
}
