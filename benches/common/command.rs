//! The command, measured.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a command takes, and how much memory, in MB.
pub fn run(root: &Path, args: &[&str]) -> (Duration, f64) {
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_spanledger"))
        .arg("--root")
        .arg(root)
        .args(args)
        .stdout(Stdio::null())
        .spawn()
        .expect("the command");
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0.0_f64;
    // Its peak, looked at until it ends.
    while child.try_wait().expect("it runs").is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok());
        most = most.max(kilobytes.unwrap_or(0.0) / 1e3);
        std::thread::sleep(Duration::from_millis(1));
    }
    (begun.elapsed(), most)
}
