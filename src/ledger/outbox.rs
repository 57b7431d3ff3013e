//! What the mirror owes.
//!
//! On disk a marker for each segment that was recorded for somebody: `outbox/<session>.<segment>`,
//! made before the segment's first line and taken away when its spans are closed and all of it was
//! sent. In memory, where this process sends, the segments that it writes itself.
//!
//! A writer tells of a line with two atomic operations. Only a segment that the sender has seen the
//! end of is put in the queue again, and only a sender that sleeps is woken.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(feature = "mirror")]
use std::time::Duration;

use super::Core;
use super::log::SessionLog;
use super::root::{Root, make_dir, open_private};
use super::segment::Segment;

/// Longer than anybody waits, and no longer than a clock can tell.
#[cfg(feature = "mirror")]
const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The directory of the markers.
pub(crate) fn outbox_dir(root: &Root) -> PathBuf {
    root.path().join("outbox")
}

/// The marker of a segment. No session's directory has a dot in its name.
pub(crate) fn marker(root: &Root, session: &Path, seg: u32) -> Option<PathBuf> {
    let name = session.file_name()?.to_str()?;
    Some(outbox_dir(root).join(format!("{name}.{seg:04}")))
}

/// Which segments have a marker: the name of the session's directory, and the number.
pub(crate) fn marked(root: &Root) -> io::Result<Vec<(String, u32)>> {
    let entries = match std::fs::read_dir(outbox_dir(root)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let parts = name.to_str().and_then(|name| name.rsplit_once('.'));
        if let Some((session, seg)) = parts
            && let Ok(seg) = seg.parse()
            && !session.is_empty()
        {
            found.push((session.to_owned(), seg));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Makes a marker. One that is there is as good.
pub(super) fn mark(marker: &Path) -> io::Result<()> {
    let make = || open_private(marker, OpenOptions::new().create(true).append(true)).map(drop);
    match make() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            marker.parent().map_or(Ok(()), make_dir)?;
            make()
        }
        made => made,
    }
}

/// Takes a marker away. One that is gone is as good.
pub(crate) fn unmark(marker: &Path) -> io::Result<()> {
    match std::fs::remove_file(marker) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// That this process sends what it records.
#[derive(Clone)]
pub(crate) struct Mirroring {
    /// The `mirror` member of a segment's first line, as JSON.
    pub policy: Arc<str>,
    /// Starts the thread that sends; `None` where others send.
    #[cfg(feature = "mirror")]
    pub start: Option<Start>,
}

#[cfg(feature = "mirror")]
pub(crate) type Start = Arc<dyn Fn(Arc<Outbox>) -> io::Result<()> + Send + Sync>;

impl std::fmt::Debug for Mirroring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirroring")
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl Core {
    /// What the first lines of this process's segments say of sending.
    pub(super) fn policy(&self) -> Option<&Arc<str>> {
        self.mirroring.as_ref().map(|mirroring| &mirroring.policy)
    }

    /// Starts the thread that sends, once in each process: a forked child has none until it
    /// writes.
    #[cfg(feature = "mirror")]
    fn start_mirror(&self) {
        let start = self.mirroring.as_ref().and_then(|m| m.start.as_ref());
        let Some(start) = start else { return };
        self.mirror.get_or_init(|| {
            if let Err(error) = start(Arc::clone(&self.outbox)) {
                self.note_error(&format!("start the mirror's thread: {error}"));
            }
        });
    }

    /// The sender's view of a segment that this process begins.
    #[cfg(feature = "mirror")]
    pub(super) fn live(
        &self,
        log: &Arc<SessionLog>,
        segment: &Segment,
        marker: &Path,
    ) -> Option<Arc<Live>> {
        self.mirroring.as_ref()?.start.as_ref()?;
        self.start_mirror();
        let live = Live::new(&self.outbox, log, segment, marker.to_owned());
        Some(Arc::new(live))
    }

    #[cfg(not(feature = "mirror"))]
    pub(super) fn live(&self, _: &Arc<SessionLog>, _: &Segment, _: &Path) -> Option<Arc<Live>> {
        None
    }
}

#[cfg(feature = "mirror")]
impl super::Ledger {
    /// Starts to send, where what is recorded is sent or measured.
    pub fn start_sending(&self) {
        self.core().start_mirror();
        #[cfg(feature = "metrics")]
        self.core().meter();
    }

    /// Sends what is there, for so long at most, and no more after that.
    pub fn stop_sending(&self, within: Duration) {
        let now = std::time::Instant::now();
        let after = |time: Duration| now + time.min(FOR_EVER);
        let deadline = after(within);
        let core = self.core();
        core.outbox.stop(deadline);
        #[cfg(feature = "metrics")]
        if let Some(meter) = core.meter.get() {
            // So that the last they tell of the mirror is how it ended, unless that takes long.
            core.outbox.wait(after(within / 2));
            meter.stop(deadline);
            meter.wait(deadline);
        }
        core.outbox.wait(deadline);
    }
}

#[cfg(feature = "mirror")]
pub(crate) use live::{Live, Outbox};

/// Nobody sends here.
#[cfg(not(feature = "mirror"))]
#[derive(Debug)]
pub(crate) struct Live;

#[cfg(not(feature = "mirror"))]
impl Live {
    pub fn tell(self: &Arc<Self>, _: u64) {}
    pub fn remove(&self) {}
}

#[cfg(feature = "mirror")]
mod live;
