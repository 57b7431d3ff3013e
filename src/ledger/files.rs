//! A bounded set of open segment files. Which ones are open means nothing by itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::log::SessionLog;

#[derive(Debug)]
pub(crate) struct OpenFiles {
    max: usize,
    queue: Mutex<VecDeque<Weak<SessionLog>>>,
}

impl OpenFiles {
    /// Half of what the process may open stays the agent's.
    pub fn new() -> Self {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: `limit` is a valid place for the answer.
        let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0;
        let max = if known { limit.rlim_cur / 2 } else { 64 };
        Self {
            max: usize::try_from(max).unwrap_or(usize::MAX).clamp(8, 4096),
            queue: Mutex::new(VecDeque::new()),
        }
    }

    /// Notes that `log` opened its file, and closes others where there are too many. Only ever
    /// tries the other sessions' locks: the caller holds its own.
    pub fn admit(&self, log: &Arc<SessionLog>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Arc::downgrade(log);
        // A session that goes on in a new segment is in the queue already.
        if !queue.iter().any(|known| known.ptr_eq(&new)) {
            queue.push_back(new);
        }
        let mut looks = queue.len();
        while queue.len() > self.max && looks > 0 {
            looks -= 1;
            self.close_oldest(&mut queue, false);
        }
    }

    /// Closes a few, since the process has no descriptor left. Whether any was closed.
    pub fn close_some(&self) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let before = queue.len();
        for _ in 0..before.min(8) {
            self.close_oldest(&mut queue, true);
        }
        queue.len() < before
    }

    /// The oldest that was not used since it was last looked at.
    fn close_oldest(&self, queue: &mut VecDeque<Weak<SessionLog>>, used_too: bool) {
        let Some(oldest) = queue.pop_front() else {
            return;
        };
        let Some(log) = oldest.upgrade() else {
            return;
        };
        if (log.take_used() && !used_too) || !log.close_file() {
            queue.push_back(oldest);
        }
    }
}
