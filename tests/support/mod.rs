//! Shared by all tests: a ledger in a directory of its own, and its trace read back.
#![allow(dead_code)]

#[cfg(feature = "cli")]
pub mod aec_bench;
pub mod agent;
#[cfg(feature = "mirror")]
pub mod backends;
pub mod child;
pub mod chromium;
#[cfg(feature = "cli")]
pub mod cli;
pub mod every_event;
#[cfg(feature = "mirror")]
mod held;
pub mod investigation;
pub mod loops;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(target_os = "linux")]
pub mod mount;
#[cfg(not(target_os = "linux"))]
#[path = "no_mount.rs"]
pub mod mount;
#[cfg(feature = "mirror")]
pub mod otlp_server;
#[cfg(feature = "mirror")]
pub mod proxy;
/// The checks of the server in `examples/rig`.
#[path = "../../examples/rig/src/schema/mod.rs"]
pub mod request_schema;
pub mod rich_session;
pub mod rig;
pub mod rig_spans;
pub mod scripted;
pub mod secrets;
pub mod skipped;
pub mod targets;
pub mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use spanledger::trace::Line;
use spanledger::trace::{Damage, ReadItem, SegmentReader};
use spanledger::{Builder, Guard, Handle};
use tempfile::TempDir;
use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt;

/// How often a test kills its process: `SPANLEDGER_KILLS`, or so often.
pub fn kills(default: usize) -> usize {
    let given = std::env::var("SPANLEDGER_KILLS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(default)
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The files below a directory, with their lengths and times: it differs after a write.
pub fn file_states(path: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    match std::fs::read_dir(path) {
        Ok(entries) => entries
            .flat_map(|entry| file_states(&entry.unwrap().path()))
            .collect(),
        // A file may be renamed meanwhile.
        Err(_) => path
            .metadata()
            .and_then(|meta| Ok((path.to_owned(), meta.len(), meta.modified()?)))
            .into_iter()
            .collect(),
    }
}

/// A ledger in a new directory, and the subscriber that feeds it.
pub struct Recording {
    // Dropped in this order: the directory goes last.
    pub dispatch: Dispatch,
    pub guard: Guard,
    pub dir: TempDir,
}

impl Recording {
    pub fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub fn with(configure: impl FnOnce(Builder) -> Builder) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let builder = spanledger::builder().root(dir.path());
        let (layer, guard) = configure(builder).build().unwrap();
        let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
        Self {
            dir,
            guard,
            dispatch,
        }
    }

    /// Runs an agent on this thread.
    pub fn run<T>(&self, agent: impl FnOnce() -> T) -> T {
        tracing::dispatcher::with_default(&self.dispatch, agent)
    }

    pub fn handle(&self) -> Handle {
        self.guard.handle()
    }

    pub fn trace(&self) -> Trace {
        Trace::read(self.dir.path())
    }

    /// Ends the recording as the end of its process would, and keeps the directory.
    pub fn end(self) -> TempDir {
        drop(self.dispatch);
        drop(self.guard);
        self.dir
    }
}

/// Everything under a root.
#[derive(Debug)]
pub struct Trace {
    pub root: PathBuf,
    /// The lines of each session, by its id, segment after segment.
    pub sessions: BTreeMap<String, Vec<Line>>,
    /// Everything that was read and is not a line.
    pub damage: Vec<Damage>,
}

impl Trace {
    pub fn read(root: &Path) -> Self {
        let mut sessions: BTreeMap<String, Vec<Line>> = BTreeMap::new();
        let mut damage = Vec::new();
        let dirs = std::fs::read_dir(root.join("sessions"));
        for dir in dirs.into_iter().flatten() {
            let dir = dir.unwrap().path();
            let mut files: Vec<_> = std::fs::read_dir(&dir)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
                .collect();
            files.sort();
            for file in files {
                let mut seq = 0;
                let mut reader = SegmentReader::open(&file).unwrap();
                while let Some(item) = reader.next().unwrap() {
                    match item {
                        ReadItem::Line(line) => {
                            let line = line.to_line().unwrap();
                            seq += 1;
                            assert_eq!(line.seq, seq, "a hole in {}", file.display());
                            sessions
                                .entry(line.session_id.clone())
                                .or_default()
                                .push(line);
                        }
                        ReadItem::Damaged(found) => damage.push(found),
                        other => panic!("{other:?}"),
                    }
                }
                damage.extend(reader.torn_tail().unwrap());
            }
        }
        Self {
            root: root.to_owned(),
            sessions,
            damage,
        }
    }

    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.sessions.values().flatten()
    }

    pub fn session(&self, id: &str) -> &[Line] {
        self.sessions
            .get(id)
            .unwrap_or_else(|| panic!("no session {id:?} among {:?}", self.sessions.keys()))
    }

    /// The only line of a kind.
    pub fn one(&self, kind: &str) -> &Line {
        let found: Vec<_> = self.lines().filter(|line| line.kind == kind).collect();
        assert_eq!(found.len(), 1, "lines of kind {kind}: {found:#?}");
        found[0]
    }

    pub fn all(&self, kind: &str) -> Vec<&Line> {
        self.lines().filter(|line| line.kind == kind).collect()
    }

    /// The close line of the only span of a kind that has this field.
    pub fn find(&self, kind: &str, key: &str, value: impl Into<Value>) -> &Line {
        let value = value.into();
        let found: Vec<_> = self
            .lines()
            .filter(|line| line.kind == kind && line.payload.get(key) == Some(&value))
            .collect();
        assert_eq!(found.len(), 1, "{kind} with {key}={value}: {found:#?}");
        found[0]
    }

    /// The kinds of a session, in order.
    pub fn kinds(&self, id: &str) -> Vec<&str> {
        self.session(id)
            .iter()
            .map(|line| line.kind.as_str())
            .collect()
    }

    /// Every byte under the root, for what must not be there.
    pub fn bytes(&self) -> Vec<u8> {
        fn walk(dir: &Path, out: &mut Vec<u8>) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                out.extend_from_slice(path.to_string_lossy().as_bytes());
                if path.is_dir() {
                    walk(&path, out);
                } else {
                    out.extend(std::fs::read(&path).unwrap());
                }
            }
        }
        let mut out = Vec::new();
        walk(&self.root, &mut out);
        out
    }
}

pub trait LineExt {
    /// A member of the payload, by its path: `usage.input_tokens`.
    fn get(&self, path: &str) -> &Value;
    fn text(&self, path: &str) -> &str;
}

impl LineExt for Line {
    fn get(&self, path: &str) -> &Value {
        let mut parts = path.split('.');
        let mut value = self
            .payload
            .get(parts.next().unwrap())
            .unwrap_or(&Value::Null);
        for part in parts {
            value = value.get(part).unwrap_or(&Value::Null);
        }
        value
    }

    fn text(&self, path: &str) -> &str {
        match self.get(path) {
            Value::String(text) => text,
            other => panic!("{path} of {} is {other}", self.kind),
        }
    }
}

impl Recording {
    /// Continues in a directory that another one left, as the next process would.
    pub fn again(dir: TempDir) -> Self {
        let builder = spanledger::builder().root(dir.path());
        let (layer, guard) = builder.build().unwrap();
        let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
        Self {
            dir,
            guard,
            dispatch,
        }
    }

    /// A copy of the sessions, as this process would leave them if it died now. There is no lock under
    /// `writers`, so their writer counts as dead.
    pub fn copy_as_crashed(&self) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(
            &self.dir.path().join("sessions"),
            &copy.path().join("sessions"),
        );
        copy
    }
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_dir(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

impl Trace {
    /// Kind, turn and payload of every line, without what differs from run to run, and without the
    /// first lines of segments.
    pub fn without_run_details(&self) -> Vec<(String, Option<u32>, Value)> {
        let lines = self.lines().filter(|line| line.kind != "segment");
        lines
            .map(|line| {
                let mut payload = line.payload.clone();
                for measured in ["start", "duration_ns"] {
                    payload.shift_remove(measured);
                }
                let events = payload.get_mut("events").and_then(Value::as_array_mut);
                for event in events.into_iter().flatten() {
                    event["ts"].take();
                }
                (line.kind.clone(), line.turn, Value::Object(payload))
            })
            .collect()
    }
}

impl Trace {
    /// The known secrets that occur in a file under the root, each with its surroundings. A secret that
    /// contains another one is not searched for: it occurs only where the other does.
    pub fn leaked_secrets(&self) -> Vec<String> {
        let bytes = self.bytes();
        let all = secrets::secrets();
        let cores: BTreeSet<&str> = all
            .iter()
            .map(|(_, secret)| secrets::core(secret))
            .collect();
        let holds_another = |core: &str| cores.iter().any(|c| *c != core && core.contains(c));
        let leaked = cores
            .iter()
            .filter(|core| !holds_another(core))
            .filter_map(|core| {
                let at = memchr::memmem::find(&bytes, core.as_bytes())?;
                let around = &bytes[at.saturating_sub(200)..bytes.len().min(at + 200)];
                Some(format!("{core}: {}", String::from_utf8_lossy(around)))
            });
        leaked.collect()
    }
}

/// How many files under a directory this process has open.
pub fn open_files(under: &Path) -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let paths = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    paths.filter(|path| path.starts_with(under)).count()
}
