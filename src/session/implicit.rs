//! What a process recorded outside every run while it wrote to a session.

use std::path::Path;

use super::store::Store;
use super::summary::Summary;
use crate::trace::typed::SegmentHeader;

impl Summary {
    /// Whether this is an implicit session of a process that wrote to `run` at the same time. What it holds
    /// may belong to `run`: a task that is spawned without a span loses its session.
    pub fn is_implicit_beside(&self, run: &Self) -> bool {
        let writes_too = |id: &str| run.writers.values().any(|writer| writer.id == id);
        let end = |one: &Self| match one.open.is_empty() {
            true => one.last,
            false => u64::MAX,
        };
        run.runs > 0
            && self.implicit().is_some()
            && self.writer().is_some_and(|writer| writes_too(&writer.id))
            && self.first <= end(run)
            && run.first <= end(self)
    }
}

fn is_implicit(segment: &Path) -> bool {
    let header = |header: &SegmentHeader<'_>| header.implicit().map(|_| ());
    matches!(SegmentHeader::in_file(segment, header), Ok(Some(())))
}

impl Store {
    /// The implicit sessions of a session's processes, from the same time. One that can't be read is left
    /// out.
    ///
    /// ```no_run
    /// use spanledger::session::Store;
    /// let store = Store::new("/var/lib/agent");
    /// let entry = store.read(&store.resolve("last")?)?;
    /// for id in store.implicit_beside(&entry.summary) {
    ///     println!("{id} may hold spans of this session");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn implicit_beside(&self, run: &Summary) -> Vec<String> {
        let active = self.active_since(run.first);
        let implicit = active.filter(|(_, segment)| is_implicit(segment));
        let summaries = implicit.filter_map(|(dir, _)| Some(self.peek(&dir).ok()?.summary));
        let beside = summaries.filter(|one| one.is_implicit_beside(run));
        let mut ids: Vec<_> = beside.map(|one| one.session_id).collect();
        ids.sort();
        ids
    }
}
