//! The first lines of segments, each read once.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::origin::Origin;
use super::others::found;
use crate::ledger::segment_name;
use crate::reader::RawLine;

/// How many sessions are remembered.
const MOST: usize = 4096;

/// What is known of segments' first lines, by their sessions.
#[derive(Default)]
pub(super) struct Origins {
    known: HashMap<PathBuf, HashMap<u32, Option<Arc<Origin>>>>,
    last: Option<Arc<Origin>>,
}

impl Origins {
    /// What the first line of a segment beside `path` fixes. `None` where it says nothing that is
    /// known here, or is gone; one that can't be read may be there the next time.
    pub fn of(&mut self, path: &Path, seg: u32) -> io::Result<Option<Arc<Origin>>> {
        let session = path.parent().unwrap_or(path);
        let known = self.known.get(session);
        if let Some(known) = known.and_then(|segments| segments.get(&seg)) {
            return Ok(known.clone());
        }
        let read = found(Origin::of_segment(&session.join(segment_name(seg))))?.flatten();
        // A process says the same at the top of each of its segments.
        let read = read.map(|read| match &self.last {
            Some(last) if **last == read => Arc::clone(last),
            _ => Arc::clone(self.last.insert(Arc::new(read))),
        });
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let segments = self.known.entry(session.to_owned()).or_default();
        segments.insert(seg, read.clone());
        Ok(read)
    }

    /// Forgets a session: another may have its name by now.
    pub fn forget(&mut self, session: &Path) {
        self.known.remove(session);
    }
}

/// The segment that opened the span.
pub(super) fn opened_seg(line: &RawLine<'_>) -> u32 {
    let fields = line.fields();
    let said = fields.iter().find(|(name, _)| *name == "opened_seg");
    let another = said.and_then(|(_, seg)| u32::try_from(seg.u64()?).ok());
    another.unwrap_or(line.seg)
}
