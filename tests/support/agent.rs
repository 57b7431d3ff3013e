//! Runs and controls the test agent in a process of its own.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// How long an answer may take before the agent counts as blocked.
const PATIENCE: Duration = Duration::from_secs(120);

/// The agent's executable; built where it is missing or older than the test.
pub fn executable() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.parent().and_then(Path::parent).unwrap();
        let agent = profile.join("examples/test-agent");
        let age = |path: &Path| path.metadata().and_then(|meta| meta.modified());
        if !age(&agent).is_ok_and(|built| built >= age(&test).unwrap()) {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args([
                "build",
                "--quiet",
                "--example",
                "test-agent",
                "--target-dir",
            ]);
            cargo.arg(profile.parent().unwrap());
            cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
            if cfg!(feature = "mirror") {
                cargo.arg("--all-features");
            }
            if profile.ends_with("release") {
                cargo.arg("--release");
            }
            assert!(cargo.status().unwrap().success(), "the test agent builds");
        }
        agent
    })
}

/// An agent that obeys orders. Killed when dropped.
pub struct Agent {
    stream: BufReader<UnixStream>,
    /// `None` for a forked one, which its parent waits for.
    child: Option<Child>,
    /// What came out of it so far.
    stderr: RefCell<(Option<ChildStderr>, String)>,
    _place: TempDir,
}

impl Agent {
    pub fn start(root: &Path) -> Self {
        Self::with(root, &[])
    }

    /// Settings: `sync=always`, `sync=MS`, `nofile=N`, `segment=N`, `service=NAME`, and with a mirror
    /// `otlp=URL`, `metrics=URL`.
    pub fn with(root: &Path, settings: &[&str]) -> Self {
        Self::with_stderr(root, settings, Stdio::piped())
    }

    pub fn with_stderr(root: &Path, settings: &[&str], stderr: Stdio) -> Self {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut command = Command::new(executable());
        command.arg("serve").arg(&socket).arg(root).args(settings);
        let mut child = command.stdin(Stdio::null()).stderr(stderr).spawn().unwrap();
        Self {
            stream: accept(&listener, Some(&mut child)),
            stderr: RefCell::new((child.stderr.take().map(non_blocking), String::new())),
            child: Some(child),
            _place: place,
        }
    }

    /// One with a long argument, which the first line of each of its segments repeats.
    pub fn named(root: &Path, name: &str) -> Self {
        Self::with(root, &[&format!("name={name}")])
    }

    /// Sends an order and returns the answer.
    pub fn ask(&mut self, order: &str) -> String {
        self.order(order);
        self.answer(order)
    }

    pub fn order(&mut self, order: &str) {
        self.stream
            .get_mut()
            .write_all(format!("{order}\n").as_bytes())
            .unwrap_or_else(|error| panic!("{order:?}: the agent is gone: {error}"));
    }

    pub fn answer(&mut self, order: &str) -> String {
        let mut answer = String::new();
        let n = self.stream.read_line(&mut answer).unwrap_or_else(|error| {
            panic!("{order:?}: the agent is blocked or gone: {error}");
        });
        assert_ne!(n, 0, "{order:?}: the agent is gone: {}", self.stderr());
        answer.trim_end().to_owned()
    }

    /// Sends orders that are answered with `ok`.
    pub fn send(&mut self, orders: &[&str]) {
        for order in orders {
            assert_eq!(self.ask(order), "ok", "{order}");
        }
    }

    pub fn health(&mut self) -> Health {
        let health: Value = serde_json::from_str(&self.ask("health")).unwrap();
        Health {
            written: health["written"].as_u64().unwrap(),
            failed: health["failed"].as_u64().unwrap(),
            last_error: health["last_error"].as_str().map(str::to_owned),
        }
    }

    pub fn stderr(&self) -> String {
        let (pipe, text) = &mut *self.stderr.borrow_mut();
        if let Some(pipe) = pipe {
            // What was written before the last answer is in the pipe by now.
            match pipe.read_to_string(text) {
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => panic!("{error}"),
                _ => {}
            }
        }
        text.clone()
    }

    /// The names of its threads, sorted.
    #[cfg(target_os = "linux")]
    pub fn threads(&self) -> Vec<String> {
        let pid = self.child.as_ref().unwrap().id();
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let name = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap()
        };
        let mut names: Vec<_> = tasks.map(|t| name(t).trim_end().to_owned()).collect();
        names.sort();
        names
    }

    /// Forks it in two that both obey.
    pub fn fork(&mut self) -> Self {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        self.ask(&format!("fork {}", socket.display()));
        Self {
            stream: accept(&listener, None),
            stderr: RefCell::default(),
            child: None,
            _place: place,
        }
    }

    /// Makes it exit normally.
    pub fn exit(mut self, how: &str) {
        self.order(how);
        // The end of its stream is the end of the process, or soon before it.
        let mut rest = String::new();
        assert_eq!(self.stream.read_line(&mut rest).unwrap(), 0, "{rest}");
        if let Some(mut child) = self.child.take() {
            assert!(child.wait().unwrap().success());
        }
    }

    pub fn kill(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

fn non_blocking(pipe: ChildStderr) -> ChildStderr {
    // SAFETY: sets a flag of a descriptor that is open.
    assert_eq!(
        unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) },
        0
    );
    pipe
}

/// Waits until the agent connects, or has died before that.
fn accept(listener: &UnixListener, mut child: Option<&mut Child>) -> BufReader<UnixStream> {
    let mut ready = libc::pollfd {
        fd: listener.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `ready` is one valid entry.
    while unsafe { libc::poll(&mut ready, 1, 200) } == 0 {
        let ended = child.as_mut().and_then(|child| child.try_wait().unwrap());
        assert_eq!(ended, None, "the agent ended before it began");
    }
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    BufReader::new(stream)
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[derive(Debug)]
pub struct Health {
    pub written: u64,
    pub failed: u64,
    pub last_error: Option<String>,
}
