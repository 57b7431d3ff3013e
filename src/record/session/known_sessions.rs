//! The sessions that a process has in memory.

use std::collections::HashMap;
use std::sync::Arc;

/// How many sessions stay in memory without another reference to them.
const IDLE: usize = 4096;

/// Sessions by id. Those without other references that are idle are dropped when there are many.
#[derive(Debug)]
pub(crate) struct KnownSessions<T> {
    known: HashMap<Arc<str>, Arc<T>>,
    /// The number of sessions at which idle ones are searched for. If it were fixed, a process with more live
    /// sessions would search all of them for each new one.
    look_at: usize,
    forgot: bool,
}

impl<T> KnownSessions<T> {
    pub fn new() -> Self {
        Self {
            known: HashMap::new(),
            look_at: IDLE,
            forgot: false,
        }
    }

    /// The session, made by `make` if it is new, whose argument is whether it may have been dropped before.
    pub fn get_or_make(
        &mut self,
        id: &str,
        is_idle: impl Fn(&T) -> bool,
        make: impl FnOnce(bool) -> T,
    ) -> Arc<T> {
        if let Some(one) = self.known.get(id) {
            return Arc::clone(one);
        }
        let before = self.known.len();
        if before >= self.look_at {
            self.known
                .retain(|_, one| Arc::strong_count(one) > 1 || !is_idle(one));
            self.look_at = IDLE.max(2 * self.known.len());
            self.forgot |= self.known.len() < before;
        }
        let made = Arc::new(make(self.forgot));
        self.known.insert(id.into(), Arc::clone(&made));
        made
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.known.values()
    }
}

#[cfg(test)]
mod tests;
