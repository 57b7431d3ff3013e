//! Reports how far an import is.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::trace::lock;

/// After so many lines there is a report.
const LINES: u64 = 1000;

type Report = Mutex<Box<dyn FnMut(u64) + Send>>;

/// Counts the lines that are written.
#[derive(Default)]
pub(super) struct Progress {
    lines: AtomicU64,
    report: Option<Report>,
}

impl Progress {
    pub fn new(report: impl FnMut(u64) + Send + 'static) -> Self {
        Self {
            lines: AtomicU64::new(0),
            report: Some(Mutex::new(Box::new(report))),
        }
    }

    pub fn count_line(&self) {
        let lines = self.lines.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(report) = self.report.as_ref().filter(|_| lines.is_multiple_of(LINES)) {
            lock(report)(lines);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("lines", &self.lines)
            .finish_non_exhaustive()
    }
}
