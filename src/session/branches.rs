//! The sessions that were branched from a session.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use memchr::memmem;

use super::store::Store;
use super::summary::Summary;
use crate::trace::typed::Run;
use crate::trace::{RawLine, SpanKind, segment_name, whole_lines};

/// How much of a segment is read for the start of its first run.
const HEAD: u64 = 16 * 1024;

/// A session that was branched from another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Branch {
    /// The session.
    pub session_id: String,
    /// The message of the other session that it started from.
    pub message_id: Option<String>,
}

/// The branch that a segment starts, if its first run names this session.
fn started_in(segment: &Path, parent: &str) -> Option<Branch> {
    let mut head = Vec::new();
    let file = File::open(segment).ok()?;
    file.take(HEAD).read_to_end(&mut head).ok()?;
    memmem::find(&head, b"\"branched_from\":")?;
    whole_lines(&head).find_map(|line| {
        let line = RawLine::parse(line).ok()?;
        if line.kind().opens() != Some(SpanKind::Run) {
            return None;
        }
        let from = Run::from(line.payload()).branched_from()?;
        let part = |name: &str| Some(from.get(name)?.text()?.into_owned());
        (part("session_id")? == parent).then(|| Branch {
            session_id: line.session_id.clone().into_owned(),
            message_id: part("message_id"),
        })
    })
}

impl Store {
    /// The sessions that were active since a time, each with its first segment: of a root with many sessions, only
    /// these are read.
    pub(super) fn active_since(&self, time: u64) -> impl Iterator<Item = (PathBuf, PathBuf)> {
        // Times of files are a little behind.
        let since = UNIX_EPOCH + Duration::from_nanos(time.saturating_sub(1_000_000_000));
        let dirs = self.dirs().unwrap_or_default().into_iter();
        dirs.filter_map(move |dir| {
            let segment = dir.join(segment_name(1));
            let meta = segment.metadata().ok().filter(|meta| meta.is_file())?;
            (meta.modified().ok()? >= since).then_some((dir, segment))
        })
    }

    /// The sessions that were started with `branched_from` this one, by their ids.
    ///
    /// ```no_run
    /// use spanledger::session::Store;
    /// let store = Store::new("/var/lib/agent");
    /// let entry = store.read(&store.resolve("last")?)?;
    /// for branch in store.branches_of(&entry.summary) {
    ///     println!("{} continues from {:?}", branch.session_id, branch.message_id);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn branches_of(&self, parent: &Summary) -> Vec<Branch> {
        let active = self.active_since(parent.first);
        let started = active.filter_map(|(_, segment)| started_in(&segment, &parent.session_id));
        let mut branches: Vec<_> = started.collect();
        branches.sort();
        branches
    }
}
