//! The end of a background thread.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::trace::lock;

/// Whether a background thread is to end, until when, and whether it has ended.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: bool,
    deadline: Option<Instant>,
}

impl Shutdown {
    /// The thread has started.
    pub fn start(&self) {
        lock(&self.state).running = true;
    }

    /// Asks the thread to end until `deadline`. Returns whether it was asked before.
    pub fn stop(&self, deadline: Instant) -> bool {
        lock(&self.state).deadline.replace(deadline).is_some()
    }

    pub fn is_stopping(&self) -> bool {
        self.deadline().is_some()
    }

    pub fn deadline(&self) -> Option<Instant> {
        lock(&self.state).deadline
    }

    /// The thread has ended.
    pub fn end(&self) {
        lock(&self.state).running = false;
        self.ended.notify_all();
    }

    /// Waits for the thread's end, until `deadline`.
    pub fn wait(&self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let running = |state: &mut State| state.running;
        let _ = self
            .ended
            .wait_timeout_while(lock(&self.state), left, running);
    }
}
