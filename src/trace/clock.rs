//! Two clocks: the wall clock for times, and one that counts sleep for durations.

use std::cell::Cell;

use rustix::time::{ClockId, clock_gettime};

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Nanoseconds since 1970, UTC.
    pub wall: u64,
    /// Nanoseconds on a clock that never steps and goes on while the machine sleeps.
    pub steady: u64,
}

thread_local! {
    /// When both clocks were last read, on the steady one, and how far the wall clock was ahead.
    static AHEAD: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// How soon a change of the wall clock is noticed. To read a clock takes as long as to write a short text.
const FRESH_NS: u64 = 1_000_000;
/// Two clocks that were read further apart than this were not read at one moment.
const TOGETHER_NS: u64 = 2_000;
/// How far apart the moments of two threads may be against their order: each is off by that much, and that of an
/// open line is a microsecond ahead.
pub(crate) const APART_NS: u64 = 2 * TOGETHER_NS;

impl Moment {
    /// Reads one clock if this thread has just read both. Otherwise reads them until both were read at one
    /// moment: otherwise a span could seem to end before the spans inside it.
    pub fn now() -> Self {
        let steady = steady_ns();
        let (looked, ahead) = AHEAD.get();
        let ahead = match steady.checked_sub(looked) {
            Some(since) if since < FRESH_NS => ahead,
            _ => look_at_both(),
        };
        Self {
            wall: steady.wrapping_add(ahead),
            steady,
        }
    }
}

#[cold]
fn look_at_both() -> u64 {
    let mut before = steady_ns();
    let (mut shortest, mut ahead) = (u64::MAX, 0);
    for _ in 0..4 {
        let wall = wall_ns();
        let after = steady_ns();
        let passed = after.saturating_sub(before);
        if passed < shortest {
            (shortest, ahead) = (passed, how_far_ahead(wall, before + passed / 2));
        }
        before = after;
        if passed <= TOGETHER_NS {
            break;
        }
    }
    AHEAD.set((before, ahead));
    ahead
}

/// How far the wall clock is ahead of the steady one. A clock before 1970 reads as one second after its start, so
/// that a moment shortly before it does not underflow.
fn how_far_ahead(wall: u64, steady: u64) -> u64 {
    wall.max(1_000_000_000).wrapping_sub(steady)
}

pub(crate) fn wall_ns() -> u64 {
    read(ClockId::Realtime)
}

pub(crate) fn steady_ns() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    // On Apple systems CLOCK_MONOTONIC counts sleep.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    read(CLOCK)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // A wall clock before 1970 reads as 1970.
    u64::try_from(time.tv_sec).map_or(0, |secs| {
        secs.saturating_mul(1_000_000_000)
            .saturating_add(time.tv_nsec as u64)
    })
}

#[cfg(test)]
mod tests;
