//! Markers: `exports/<targets>.<session>.<segment>` exists while the targets may lack lines of that segment.

use std::io;
use std::path::{Path, PathBuf};

use crate::export::Export;
use crate::ledger::{is_written, mark, unmark};
use crate::trace::{Root, hex_digest, if_exists, segment_name};

/// The markers of a process, and of others with the same targets.
#[derive(Clone, Debug)]
pub(super) struct Markers {
    root: Root,
    /// The targets, as the markers' names have them.
    targets: String,
}

/// A segment that has a marker.
#[derive(Debug)]
pub(super) struct Marked {
    pub session: PathBuf,
    marker: PathBuf,
}

impl Marked {
    /// Removes the marker, if it is there.
    pub fn unmark(&self) -> io::Result<()> {
        unmark(&self.marker)
    }
}

impl Markers {
    pub fn new(root: &Root, exports: &[Export]) -> Self {
        let mut names: Vec<_> = exports.iter().map(ToString::to_string).collect();
        names.sort();
        let mut targets = hex_digest(names.join("\n").as_bytes());
        targets.truncate(16);
        Self {
            root: root.clone(),
            targets,
        }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("exports")
    }

    pub fn of(&self, session: &Path, seg: u32) -> Marked {
        let name = session.file_name().unwrap_or_default().to_string_lossy();
        Marked {
            session: session.to_owned(),
            marker: self.dir().join(format!("{}.{name}.{seg:04}", self.targets)),
        }
    }

    pub fn add(&self, session: &Path, seg: u32) -> io::Result<()> {
        mark(&self.of(session, seg).marker)
    }

    /// The segments that dead processes have left with a marker.
    pub fn left(&self) -> io::Result<Vec<Marked>> {
        let Some(entries) = if_exists(std::fs::read_dir(self.dir()))? else {
            return Ok(Vec::new());
        };
        let mut left = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let Some((session, seg)) = name.to_str().and_then(|name| self.segment(name)) else {
                continue;
            };
            let session = self.root.sessions().join(session);
            let written = is_written(&self.root, &session.join(segment_name(seg)));
            // A segment that is not there was pruned.
            if if_exists(written)? != Some(true) {
                left.push(self.of(&session, seg));
            }
        }
        Ok(left)
    }

    /// The session and the segment of a marker of these targets. No session's directory has a dot in its name.
    fn segment<'a>(&self, marker: &'a str) -> Option<(&'a str, u32)> {
        let (targets, segment) = marker.split_once('.')?;
        let (session, seg) = segment.rsplit_once('.')?;
        let is_ours = targets == self.targets && !session.is_empty();
        is_ours.then_some((session, seg.parse().ok()?))
    }
}
