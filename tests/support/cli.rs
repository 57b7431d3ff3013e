//! Runs the command as a user does.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use serde_json::Value;
use tracing_subscriber::layer::SubscriberExt;

use super::child;

pub fn spanledger(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanledger"));
    command
        .env_remove("SPANLEDGER_DIR")
        .env_remove("NO_COLOR")
        .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
        .env_remove("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        .env_remove("OTEL_TRACES_EXPORTER")
        .env("COLUMNS", "200")
        .arg("--utc")
        .arg("--root")
        .arg(root);
    command
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    pub fn lines(&self) -> Vec<&str> {
        self.out.lines().collect()
    }

    /// The only document it printed.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The objects it printed, one a line.
    pub fn objects(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("not killed by a signal"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs a command to its end.
pub fn run(root: &Path, args: &[&str]) -> Done {
    spanledger(root).args(args).output().unwrap().into()
}

/// Runs a command whose stderr is a terminal to its end, and returns what it printed there.
pub fn stderr_on_terminal(command: &mut Command) -> String {
    let (mut ours, mut theirs) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: fills in two new descriptors, which are owned here only.
    let (ours, theirs) = unsafe {
        let opened = libc::openpty(&mut ours, &mut theirs, none, none.cast(), none.cast());
        assert_eq!(opened, 0);
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    };
    let mut child = command
        .stdout(Stdio::null())
        .stderr(theirs)
        .spawn()
        .unwrap();
    // It has the only other end: the terminal closes with it.
    command.stderr(Stdio::null());
    let mut printed = Vec::new();
    let ended = { ours }.read_to_end(&mut printed);
    // Linux reports the end as an error.
    assert!(ended.is_ok_and(|n| n > 0) || !printed.is_empty());
    child.wait().unwrap();
    String::from_utf8(printed).unwrap()
}

/// Sends all pending spans to an endpoint that is or will soon be available.
#[track_caller]
pub fn mirror(root: &Path, endpoint: &str, protocol: &str) {
    let done = spanledger(root)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        .args([
            "mirror",
            "--once",
            "--endpoint",
            endpoint,
            "--patience",
            "60s",
        ])
        .output();
    let done = Done::from(done.unwrap());
    assert_eq!(done.code, 0, "{done:?}");
}

/// A command that keeps running, read line by line. Killed when dropped.
pub struct Running {
    pub child: Child,
    lines: Option<Receiver<String>>,
}

/// Far longer than anything here takes: after this time, it never comes.
const LONG: Duration = Duration::from_secs(60);

impl Running {
    pub fn start(root: &Path, args: &[&str]) -> Self {
        let mut child = spanledger(root)
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        // Without a buffer, so that the reader stops as soon as the receiver is dropped.
        let (sender, lines) = sync_channel(0);
        std::thread::spawn(move || {
            for line in out.lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            lines: Some(lines),
        }
    }

    /// The next line; waits for it.
    pub fn line(&mut self) -> String {
        let lines = self.lines.as_ref().unwrap();
        lines.recv_timeout(LONG).expect("one more line")
    }

    /// Lines up to one that has this text, which is the last of them.
    pub fn until(&mut self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            lines.push(self.line());
            if lines.last().is_some_and(|line| line.contains(text)) {
                return lines;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that records and is killed: the calling test, started again. The test has to call
/// [`in_victim`] first.
pub struct Victim(Child);

const VICTIM: &str = "SPANLEDGER_TEST_VICTIM";

/// In a victim, records `agent`, which has to end with [`wait_to_be_killed`]. Elsewhere does nothing.
pub fn in_victim(agent: impl FnOnce()) {
    if let Some(root) = victim_root() {
        let (layer, _guard) = spanledger::builder().root(root).build().unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), agent);
    }
}

/// Where to record, if this process is a victim.
pub fn victim_root() -> Option<std::path::PathBuf> {
    std::env::var_os(VICTIM).map(Into::into)
}

/// Called by a victim that has recorded enough.
pub fn report_ready() {
    println!("\nready to be killed");
}

/// Called by a victim that has recorded enough: waits to be killed.
pub fn wait_to_be_killed() -> ! {
    report_ready();
    loop {
        std::thread::park();
    }
}

impl Victim {
    /// Starts it and waits until it has recorded enough.
    pub fn start(root: &Path) -> Self {
        Self::with(root, &[])
    }

    /// The same, with more in its environment.
    pub fn with(root: &Path, environment: &[(&str, &str)]) -> Self {
        let mut child = child::calling_test()
            .env(VICTIM, root)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line.trim() != "ready to be killed" {
            line.clear();
            assert_ne!(out.read_line(&mut line).unwrap(), 0, "the victim ended");
        }
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
