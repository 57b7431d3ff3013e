//! Exports that an agent keeps current, while it is killed at random moments.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use spanledger::export::{Export, Format};
use spanledger::read::session_dir;
use spanledger::{Builder, events, spans};
use tracing_subscriber::Registry;

use crate::support::mount::Tmpfs;
use crate::support::targets::{assert_complete, live_formats};
use crate::support::{Recording, agent, file_states, kills};

/// An agent that keeps exports current and reports each call. It waits while its reports are not read.
struct Agent {
    child: Child,
    reports: Lines<BufReader<ChildStdout>>,
}

impl Agent {
    fn start(root: &Path, exports: &str, life: usize, rounds: &str) -> Self {
        let mut child = Command::new(agent::executable())
            .args(["talk".as_ref(), root.as_os_str()])
            .args(["ses_1", &format!("life{life}"), rounds])
            .env("SPANLEDGER_EXPORT", exports)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        // It can't run far ahead: the session stays short.
        #[cfg(target_os = "linux")]
        // SAFETY: sets the size of a pipe that is open.
        assert!(unsafe { libc::fcntl(stdout.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) } > 0);
        let reports = BufReader::with_capacity(256, stdout).lines();
        Self { child, reports }
    }

    fn read_reports(&mut self, count: usize) {
        let reports = self.reports.by_ref().take(count);
        assert_eq!(reports.map(Result::unwrap).count(), count);
    }

    /// Lets it work for so many reports, which may be while it starts, or while it exports.
    fn kill_after(mut self, target: &Path, reports: usize) {
        let before = file_states(target);
        self.read_reports(reports / 2);
        if reports > 5 {
            let late = Instant::now() + Duration::from_secs(60);
            while file_states(target) == before && Instant::now() < late {
                std::thread::yield_now();
            }
            assert_ne!(file_states(target), before, "nothing is exported");
        }
        self.read_reports(reports - reports / 2);
        self.child.kill().unwrap();
        assert!(!self.child.wait().unwrap().success());
    }

    fn end(mut self) {
        self.reports
            .by_ref()
            .for_each(|report| drop(report.unwrap()));
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn every_row_is_there_once_after_kills() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let out = |name: &str| dir.path().join("live").join(name);
    let formats = live_formats();
    let exports = formats
        .iter()
        .map(|format| format!("{format}={}", out(format.name()).display()));
    let exports = exports.collect::<Vec<_>>().join(",");
    let kills = kills(50);
    let live = dir.path().join("live");
    for life in 0..kills {
        let agent = Agent::start(&root, &exports, life, "1000000");
        agent.kill_after(&live, fastrand::usize(..60));
    }
    Agent::start(&root, &exports, kills, "3").end();

    assert_all_complete(&root, &live);
}

/// The target of `ses_1` below a directory.
fn target(format: Format, out: &Path) -> PathBuf {
    let target = out.join(format.name());
    let file = target.join(format!("ses_1.{}", format.extension()));
    match file.exists() {
        true => file,
        false => target,
    }
}

#[track_caller]
fn assert_all_complete(root: &Path, out: &Path) {
    for format in live_formats() {
        assert_complete(format, &session_dir(root, "ses_1"), &target(format, out));
    }
}

fn with_exports(builder: Builder, out: &Path) -> Builder {
    let builder = builder.shutdown_timeout(Duration::from_secs(60));
    let exports = live_formats().into_iter();
    let exports = exports.map(|format| Export::new(format, out.join(format.name())));
    exports.fold(builder, Builder::export)
}

/// Another process with the same exports starts and ends.
fn next_process(root: &Path, out: &Path) {
    let builder = spanledger::builder().root(root);
    let (layer, guard) = with_exports(builder, out).build::<Registry>().unwrap();
    assert_eq!(guard.shutdown().unwrap().export_error, None);
    drop(layer);
}

/// Records with live exports of all formats below a directory.
fn exporting(out: &Path) -> Recording {
    Recording::with(|builder| with_exports(builder, out))
}

/// The kinds of the lines of the session.
fn kinds(recording: &Recording) -> Vec<String> {
    let lines = recording.trace().sessions.remove("ses_1").unwrap();
    lines.into_iter().map(|line| line.kind).collect()
}

/// Shuts down, and returns why exports are behind.
#[track_caller]
fn end(recording: Recording, expected: &[String]) -> (tempfile::TempDir, Option<String>) {
    let Recording {
        dispatch,
        guard,
        dir,
    } = recording;
    let health = guard.shutdown().unwrap();
    drop(dispatch);
    assert_eq!(health.failed, 0);
    let mut trace = crate::support::Trace::read(dir.path());
    let lines = trace.sessions.remove("ses_1").unwrap();
    let kinds: Vec<_> = lines.into_iter().map(|line| line.kind).collect();
    assert_eq!(kinds, expected, "the trace is the same");
    (dir, health.export_error)
}

/// The kinds of the lines that the session has if nothing is exported.
fn undisturbed(sessions: usize) -> Vec<String> {
    let recording = Recording::new();
    (0..sessions).for_each(|_| one_session(&recording));
    kinds(&recording)
}

#[test]
fn full_or_read_only_target_changes_nothing_for_the_agent() {
    for is_full in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        fs::create_dir(&out).unwrap();
        let Some(disk) = Tmpfs::mount(&out, 1 << 20) else {
            return;
        };
        let ballast = match is_full {
            true => Some(disk.fill()),
            false => {
                disk.set_read_only(true);
                None
            }
        };
        let recording = exporting(&out);
        one_session(&recording);
        let (root, error) = end(recording, &undisturbed(1));
        let error = error.expect("the health reports it");
        assert!(error.contains(out.to_str().unwrap()), "{error}");
        match ballast {
            Some(ballast) => fs::remove_file(ballast).unwrap(),
            None => disk.set_read_only(false),
        }
        next_process(root.path(), &out);
        assert_all_complete(root.path(), &out);
    }
}

#[test]
fn target_that_is_deleted_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let recording = exporting(&out);
    one_session(&recording);
    // Every target is there, so the exports are at work.
    let late = Instant::now() + Duration::from_secs(60);
    for format in live_formats() {
        while !out.join(format.name()).exists() && Instant::now() < late {
            std::thread::yield_now();
        }
    }
    // A file may be made meanwhile.
    while fs::remove_dir_all(&out).is_err() && Instant::now() < late {}
    one_session(&recording);
    let (root, error) = end(recording, &undisturbed(2));
    assert_eq!(error, None);
    assert_all_complete(root.path(), &out);
}

fn one_session(recording: &Recording) {
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        events::message_user("What is here?").emit();
        drop(spans::tool_call("bash", "c1").start());
    });
}

#[test]
fn agent_exports_what_it_records() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log/sessions.jsonl");
    let recording = Recording::with(|builder| {
        let builder = builder.shutdown_timeout(Duration::from_secs(60));
        builder.export(Export::new(Format::SessionLog, &log))
    });
    one_session(&recording);
    let root = recording.dir.path().to_owned();
    let health = recording.guard.shutdown().unwrap();
    assert_eq!(health.export_error, None);
    let text = fs::read_to_string(&log).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("What is here?"), "{text}");
    // Nothing is left for the next process.
    assert_eq!(fs::read_dir(root.join("exports")).unwrap().count(), 0);
}

/// A crash may come at any moment after a run, so the next process looks at the session again.
#[test]
fn marker_stays_while_its_process_may_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("sessions.jsonl");
    let recording = Recording::with(|builder| {
        let builder = builder.shutdown_timeout(Duration::from_secs(60));
        builder.export(Export::new(Format::SessionLog, &log))
    });
    let late = Instant::now() + Duration::from_secs(60);
    for runs in 1..=2 {
        one_session(&recording);
        let rows = || fs::read_to_string(&log).unwrap_or_default().lines().count();
        while rows() < runs && Instant::now() < late {
            std::thread::yield_now();
        }
        assert_eq!(rows(), runs);
    }
    let markers = recording.dir.path().join("exports");
    assert_eq!(fs::read_dir(&markers).unwrap().count(), 1);
    recording.guard.shutdown().unwrap();
    assert_eq!(fs::read_dir(markers).unwrap().count(), 0);
}

/// The file is in the session's directory, so no path is needed.
#[cfg(feature = "sqlite")]
#[test]
fn agent_writes_trace_sqlite_into_its_session() {
    let recording = Recording::with(|builder| {
        let builder = builder.shutdown_timeout(Duration::from_secs(60));
        builder.export("trace-sqlite".parse().unwrap())
    });
    one_session(&recording);
    let root = recording.dir.path().to_owned();
    let health = recording.guard.shutdown().unwrap();
    assert_eq!(health.export_error, None);
    let file = session_dir(&root, "ses_1").join("trace.sqlite");
    assert_eq!(crate::support::targets::database_rows(&file).len(), 5);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(
        fs::metadata(file).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn target_that_cannot_be_written_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("file");
    fs::write(&blocked, "").unwrap();
    let export = Export::new(Format::Trajectory, blocked.join("inside"));
    let recording = Recording::with(|builder| {
        let builder = builder.shutdown_timeout(Duration::from_secs(60));
        builder.export(export.clone())
    });
    one_session(&recording);
    let (root, error) = end(recording, &undisturbed(1));
    let error = error.expect("the health reports it");
    assert!(error.contains("file/inside"), "{error}");

    // The next process catches up.
    fs::remove_file(&blocked).unwrap();
    let (layer, guard) = spanledger::builder()
        .root(root.path())
        .shutdown_timeout(Duration::from_secs(60))
        .export(export)
        .build::<Registry>()
        .unwrap();
    assert_eq!(guard.shutdown().unwrap().export_error, None);
    drop(layer);
    let text = fs::read_to_string(blocked.join("inside/ses_1.jsonl")).unwrap();
    assert!(text.contains("tool_result"), "{text}");
}

/// A crash of the first one may come later, so what it records is still marked.
#[test]
fn process_leaves_the_markers_of_a_living_one() {
    let dir = tempfile::tempdir().unwrap();
    let recording = exporting(dir.path());
    one_session(&recording);
    let root = recording.dir.path().to_owned();
    let markers = || fs::read_dir(root.join("exports")).unwrap().count();
    assert_eq!(markers(), 1);
    next_process(&root, dir.path());
    assert_eq!(markers(), 1);
    recording.guard.shutdown().unwrap();
    assert_eq!(markers(), 0);
}

/// What a killed agent left open has ended, for the readers of its exports too.
#[test]
fn next_process_ends_the_runs_of_a_killed_agent() {
    let dir = tempfile::tempdir().unwrap();
    let (root, out) = (dir.path().join("root"), dir.path().join("live"));
    let exports = live_formats();
    let exports = exports
        .iter()
        .map(|format| format!("{format}={}", out.join(format.name()).display()));
    let exports = exports.collect::<Vec<_>>().join(",");
    Agent::start(&root, &exports, 0, "1000000").kill_after(&out, 40);
    next_process(&root, &out);
    assert_all_complete(&root, &out);
    let runs = fs::read_dir(out.join("agentdbg/runs")).unwrap();
    for run in runs {
        let run = fs::read(run.unwrap().path().join("run.json")).unwrap();
        let run: Value = serde_json::from_slice(&run).unwrap();
        assert_ne!(run["status"], "running", "{run}");
    }
    assert_eq!(fs::read_dir(root.join("exports")).unwrap().count(), 0);
}

/// The export waits for another one to the same file.
#[test]
fn shutdown_says_that_its_time_was_too_short() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("sessions.jsonl");
    let other = fs::File::create(&log).unwrap();
    other.lock().unwrap();
    let recording = Recording::with(|builder| {
        let builder = builder.shutdown_timeout(Duration::ZERO);
        builder.export(Export::new(Format::SessionLog, &log))
    });
    one_session(&recording);
    let error = recording.guard.shutdown().unwrap().export_error.unwrap();
    assert!(error.contains("process"), "{error}");
}

#[test]
fn export_that_cannot_be_kept_current_is_refused() {
    let export = Export::new(Format::Atif, "run.json");
    let refused = spanledger::builder().export(export).build::<Registry>();
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("atif is not kept current"), "{error}");
}

/// An agent may change its directory.
#[test]
fn relative_target_stays_where_it_was_named() {
    let export = Export::new(Format::SessionLog, "log.jsonl");
    let there = std::env::current_dir().unwrap().join("log.jsonl");
    assert_eq!(
        export.to_string(),
        format!("session-log={}", there.display())
    );
}
