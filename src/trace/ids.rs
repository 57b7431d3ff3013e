//! Session ids, trace and span ids.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::trace::fork_generation;

/// The ids that a line carries for its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    pub trace: u128,
    pub span: u64,
    pub parent: Option<u64>,
}

impl Ids {
    /// From the hex digits of a line, if it has a span.
    pub fn parse(trace: Option<&str>, span: Option<&str>, parent: Option<&str>) -> Option<Self> {
        Some(Self {
            trace: u128::from_str_radix(trace?, 16).ok()?,
            span: u64::from_str_radix(span?, 16).ok()?,
            parent: parent.and_then(|parent| u64::from_str_radix(parent, 16).ok()),
        })
    }
}

/// The hasher of maps by span id. Ids are random already.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl std::hash::Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}

thread_local! {
    // A forked child has a copy of its parent's generator and would make the same ids. So it is seeded again
    // in another generation than the one it was seeded in.
    static RNG: RefCell<(u64, Option<fastrand::Rng>)> = const { RefCell::new((0, None)) };
}

/// Bytes from the kernel's generator. Falls back to clock and address entropy where the
/// system call is missing: there is always an id.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut out = [0u8; N];
    if getrandom::fill(&mut out).is_err() {
        fastrand::Rng::new().fill(&mut out);
    }
    out
}

fn with_rng<T>(f: impl Fn(&mut fastrand::Rng) -> T) -> T {
    let seeded = || fastrand::Rng::with_seed(u64::from_ne_bytes(random_bytes()));
    let fork = fork_generation();
    RNG.try_with(|cell| {
        let (seeded_in, rng) = &mut *cell.borrow_mut();
        if *seeded_in != fork {
            (*seeded_in, *rng) = (fork, None);
        }
        f(rng.get_or_insert_with(seeded))
    })
    // The thread's locals are already gone: seed for this one call.
    .unwrap_or_else(|_| f(&mut seeded()))
}

pub(crate) fn new_span_id() -> u64 {
    with_rng(|rng| rng.u64(1..))
}

pub(crate) fn new_trace_id() -> u128 {
    with_rng(|rng| rng.u128(1..))
}

/// Makes a session id: `ses_`, 12 hex digits of time and counter, 14 base36 characters, all in
/// lower case, so that the session's directory has the same name.
///
/// Ids made by one process sort by the moment they were made.
///
/// ```
/// let id = spanledger::new_session_id();
/// assert!(id.starts_with("ses_") && id.len() == 30);
/// assert_eq!(id, id.to_lowercase());
/// ```
pub fn new_session_id() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    const BASE36: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64);
    let now = ms.wrapping_mul(4096) & 0xffff_ffff_ffff;
    let next = |last: u64| now.max(last + 1);
    let update = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        Some(next(last))
    });
    let stamp = update.map_or(now, next) & 0xffff_ffff_ffff;
    let mut id = format!("ses_{stamp:012x}");
    let random: [usize; 14] = with_rng(|rng| std::array::from_fn(|_| rng.usize(..36)));
    id.extend(random.map(|index| BASE36[index] as char));
    id
}
