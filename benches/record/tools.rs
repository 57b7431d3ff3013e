//! Clocks, memory, and a place for files.

use std::time::Instant;

use tempfile::TempDir;

/// What one span took, in nanoseconds: by the clock, and of this thread's processor time.
pub struct Cost {
    pub wall: f64,
    pub cpu: f64,
}

pub fn timed(count: usize, mut one: impl FnMut(usize)) -> Cost {
    let (start, cpu) = (Instant::now(), thread_cpu_ns());
    (0..count).for_each(&mut one);
    Cost {
        wall: start.elapsed().as_nanos() as f64 / count as f64,
        cpu: (thread_cpu_ns() - cpu) / count as f64,
    }
}

fn thread_cpu_ns() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Processor time of this thread, in nanoseconds. The kernel counts it by ticks: it means something
/// for a good part of a second.
#[derive(Clone, Copy, Default)]
pub struct Spent {
    pub user: f64,
    pub kernel: f64,
}

impl Spent {
    pub fn so_far() -> Self {
        // Where a thread's own isn't told, that of all is: here there is but one.
        #[cfg(target_os = "linux")]
        const WHOSE: libc::c_int = libc::RUSAGE_THREAD;
        #[cfg(not(target_os = "linux"))]
        const WHOSE: libc::c_int = libc::RUSAGE_SELF;
        // SAFETY: all of it are numbers, for which zeros will do; it is a valid place for the answer.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(WHOSE, &mut usage);
            usage
        };
        let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
        Self {
            user: ns(usage.ru_utime),
            kernel: ns(usage.ru_stime),
        }
    }

    pub fn add(&mut self, more: Self) {
        self.user += more.user;
        self.kernel += more.kernel;
    }
}

impl std::ops::Sub for Spent {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            user: self.user - before.user,
            kernel: self.kernel - before.kernel,
        }
    }
}

/// `VmRSS`, where there is a `/proc`.
pub fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kb| kb * 1024.0)
}

/// Where `$TMPDIR` says, else in the target directory.
pub fn temp_dir() -> TempDir {
    let base = std::env::var_os("TMPDIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    tempfile::Builder::new()
        .prefix("spanledger-bench-")
        .tempdir_in(base)
        .expect("a directory for the traces")
}
