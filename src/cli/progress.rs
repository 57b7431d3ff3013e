//! A line that shows how far a command is, on a terminal.

use std::io::{self, IsTerminal, Write};

use spanledger::view::text::thousands;

/// The line. It is removed when this is dropped.
pub(super) struct Progress {
    is_terminal: bool,
    is_shown: bool,
}

impl Progress {
    pub fn new() -> Self {
        Self {
            is_terminal: io::stderr().is_terminal(),
            is_shown: false,
        }
    }

    /// Shows a text in place of the one before.
    pub fn show(&mut self, text: &str) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r{text}\x1b[K");
            self.is_shown = true;
        }
    }

    /// Shows how many of several things are done. One thing needs no count.
    pub fn show_count(&mut self, done: u64, all: u64, what: &str) {
        if all > 1 {
            self.show(&format!("{} of {} {what}", thousands(done), thousands(all)));
        }
    }

    /// Removes the line: something else is printed.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
