//! Shared setup.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use spanledger::{Outcome, SpanExt, spans};
use tempfile::TempDir;

use crate::support::Recording;
use crate::support::cli::{self, Done, Running};
use crate::support::is_root;
use crate::support::mount::ReadOnly;
use crate::support::otlp_server::OtlpServer;
use crate::support::skipped::skipped;

/// Records a run with one tool; both are closed.
pub fn record(recording: &Recording, session: &str) {
    recording.run(|| {
        let run = spans::session_run(session, "planner").start();
        let tool = spans::tool_call("bash", "call_1").child_of(&run).start();
        tool.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
}

/// A root of a process that is gone: two spans in each of these sessions.
pub fn recorded(sessions: &[&str]) -> TempDir {
    let recording = Recording::new();
    for session in sessions {
        record(&recording, session);
    }
    recording.end()
}

/// Runs `mirror` with these arguments.
pub fn mirror(root: &Path, args: &[&str]) -> Done {
    cli::run(root, &[&["mirror", "--json"], args].concat())
}

/// Sends pending spans once with the progress in `state`, and returns the report.
#[track_caller]
pub fn send(root: &Path, state: &Path, server: &OtlpServer) -> Value {
    let state = state.to_str().unwrap();
    let done = mirror(
        root,
        &["--once", "--endpoint", &server.url(), "--state", state],
    );
    let sent = done.objects().remove(0);
    assert_eq!(done.code, i32::from(sent["dead"] != 0), "{done:?}");
    sent
}

/// The `mirror --status` of the only session.
pub fn status(root: &Path, state: Option<&Path>) -> Value {
    let mut args = vec!["--status"];
    args.extend(
        state
            .iter()
            .flat_map(|state| ["--state", state.to_str().unwrap()]),
    );
    let done = mirror(root, &args);
    assert_eq!(done.code, 0, "{done:?}");
    let mut sessions = done.objects();
    assert_eq!(sessions.len(), 1);
    sessions.remove(0)
}

/// Waits until a running mirror has reported that many more spans as sent.
#[track_caller]
pub fn until_sent(mirror: &mut Running, spans: u64) {
    let mut sent = 0;
    while sent < spans {
        let report: Value = serde_json::from_str(&mirror.line()).unwrap();
        sent += report["spans"].as_u64().unwrap();
    }
    assert_eq!(sent, spans);
}

/// The names of the spans that were taken, in the order in which they came, each with its id.
pub fn spans_of(server: &OtlpServer) -> Vec<(String, Vec<u8>)> {
    let received = server.received();
    let requests = received.iter().filter_map(|one| one.request.as_ref());
    requests
        .flat_map(|request| &request.resource_spans)
        .flat_map(|resource| &resource.scope_spans)
        .flat_map(|scope| &scope.spans)
        .map(|span| (span.name.clone(), span.span_id.clone()))
        .collect()
}

/// The names alone; no span may have come twice.
#[track_caller]
pub fn each_once(server: &OtlpServer) -> Vec<String> {
    let spans = spans_of(server);
    let mut ids: Vec<_> = spans.iter().map(|(_, id)| id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), spans.len(), "{spans:?}");
    spans.into_iter().map(|(name, _)| name).collect()
}

/// Every file and directory under a path, with what it holds and when it was changed.
pub fn everything(path: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![path.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.metadata().unwrap();
            let bytes = match meta.is_dir() {
                true => {
                    dirs.push(path.clone());
                    Vec::new()
                }
                false => std::fs::read(&path).unwrap(),
            };
            found.insert(path, (bytes, meta.modified().unwrap()));
        }
    }
    found
}

/// A read-only view of a root.
pub enum View {
    Mounted(ReadOnly),
    /// Where nothing can be mounted, by permissions, which bind all but root.
    Forbidden(PathBuf),
}

impl View {
    /// Prints why and returns `None` if there is no way.
    pub fn of(root: &Path) -> Option<Self> {
        if let Some(mounted) = ReadOnly::of(root) {
            return Some(Self::Mounted(mounted));
        }
        if is_root() {
            skipped("root without mounts can't make a directory read-only");
            return None;
        }
        let view = Self::Forbidden(root.to_owned());
        view.allow(false);
        Some(view)
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Mounted(mounted) => mounted.path(),
            Self::Forbidden(root) => root,
        }
    }

    /// Lets the root be written where it is.
    pub fn allow(&self, write: bool) {
        let Self::Forbidden(root) = self else { return };
        let mode = |path: &Path| match (path.is_dir(), write) {
            (true, true) => 0o700,
            (true, false) => 0o500,
            (false, true) => 0o600,
            (false, false) => 0o400,
        };
        let all = everything(root).into_keys().chain([root.clone()]);
        for path in all {
            std::fs::set_permissions(&path, Permissions::from_mode(mode(&path))).unwrap();
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.allow(true);
    }
}
