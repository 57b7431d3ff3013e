//! The first lines of segments, each read once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::origin::Origin;
use crate::ledger::segment_name;
use crate::reader::RawLine;

/// How many are remembered.
const MOST: usize = 4096;

/// What is known of segments' first lines.
#[derive(Default)]
pub(super) struct Origins {
    known: HashMap<(PathBuf, u32), Option<Arc<Origin>>>,
    last: Option<Arc<Origin>>,
}

impl Origins {
    /// What the first line of a segment beside `path` fixes.
    pub fn of(&mut self, path: &Path, seg: u32) -> Option<Arc<Origin>> {
        let session = path.parent()?.to_owned();
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let known = self.known.entry((session, seg));
        let read = known.or_insert_with_key(|(session, seg)| {
            let read = Origin::of_segment(&session.join(segment_name(*seg)))?;
            // A process says the same at the top of each of its segments.
            match &self.last {
                Some(last) if **last == read => Some(Arc::clone(last)),
                _ => Some(Arc::clone(self.last.insert(Arc::new(read)))),
            }
        });
        read.clone()
    }
}

/// The segment that opened the span.
pub(super) fn opened_seg(line: &RawLine<'_>) -> u32 {
    let fields = line.fields();
    let said = fields.iter().find(|(name, _)| *name == "opened_seg");
    let another = said.and_then(|(_, seg)| u32::try_from(seg.u64()?).ok());
    another.unwrap_or(line.seg)
}
