//! The cache of open segment files. It bounds how many are open; a segment opens its file again when it
//! needs it.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

use super::segment::SharedSegment;
use crate::trace::lock;

#[derive(Debug)]
pub(crate) struct FdCache {
    max: usize,
    queue: Mutex<VecDeque<Weak<SharedSegment>>>,
    /// A descriptor to give up where none is left: to create a file takes that of its directory, too.
    reserve: Mutex<Option<OwnedFd>>,
}

impl FdCache {
    /// Half of the descriptors that the process may open are left to the agent.
    pub fn new() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let max = usize::try_from(limit / 2).unwrap_or(usize::MAX);
        Self {
            max: max.clamp(8, 4096),
            queue: Mutex::new(VecDeque::new()),
            reserve: Mutex::new(None),
        }
    }

    /// Adds a segment that has opened its file, and closes others if there are too many. Only tries to lock the
    /// others, because the caller may hold the lock of one.
    pub fn admit(&self, segment: &Arc<SharedSegment>) {
        let mut reserve = lock(&self.reserve);
        if reserve.is_none() {
            // Not the number of a standard stream that the agent has closed.
            let spare = File::open("/").map(|file| fcntl_dupfd_cloexec(&file, 3));
            *reserve = spare.ok().and_then(Result::ok);
        }
        drop(reserve);
        let mut queue = lock(&self.queue);
        let new = Arc::downgrade(segment);
        if !queue.iter().any(|known| known.ptr_eq(&new)) {
            queue.push_back(new);
        }
        for _ in self.max..queue.len() {
            close_oldest(&mut queue);
        }
    }

    /// Closes a few files because the process has no descriptor left. Whether any was closed.
    pub fn close_some(&self) -> bool {
        let reserve = lock(&self.reserve).take();
        let mut queue = lock(&self.queue);
        let before = queue.len();
        for _ in 0..before.min(8) {
            close_oldest(&mut queue);
        }
        reserve.is_some() || queue.len() < before
    }
}

/// Closes the oldest, unless it is being written.
fn close_oldest(queue: &mut VecDeque<Weak<SharedSegment>>) {
    let oldest = queue.pop_front();
    let segment = oldest.as_ref().and_then(Weak::upgrade);
    if segment.is_some_and(|segment| !segment.try_close()) {
        queue.extend(oldest);
    }
}
