//! Exports that an agent keeps current, while it is killed at random moments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Lines};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use spanledger::export::{Export, Format, Live, Target, export};
use spanledger::read::session_dir;
use spanledger::{events, spans};
use tracing_subscriber::Registry;

use crate::support::mount::Tmpfs;
use crate::support::{Recording, agent, file_states, kills};

/// An agent that keeps exports current and reports each call. It waits while its reports are not read.
struct Agent {
    child: Child,
    reports: Lines<BufReader<ChildStdout>>,
}

impl Agent {
    fn start(root: &Path, exports: &str, life: usize, rounds: &str) -> Self {
        let mut child = Command::new(agent::executable())
            .args(["churn".as_ref(), root.as_os_str()])
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

/// The rows of all tables of a database. The numbers of events and the cursor may differ.
#[cfg(feature = "sqlite")]
fn database_rows(path: &Path) -> Vec<String> {
    let database = rusqlite::Connection::open(path).unwrap();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table'
        AND name NOT LIKE 'sqlite%' AND name <> 'spanledger_cursor'";
    let mut tables = database.prepare(tables).unwrap();
    let tables = tables.query_map([], |row| row.get(0)).unwrap();
    let tables: Vec<String> = tables.map(Result::unwrap).collect();
    let mut all = Vec::new();
    for table in tables {
        let select = format!("SELECT * FROM {table}");
        let mut select = database.prepare(&select).unwrap();
        let names: Vec<String> = select.column_names().map(String::from).collect();
        let first = usize::from(table == "events");
        let mut rows = select.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let mut text = table.clone();
            for (at, name) in names.iter().enumerate().skip(first) {
                text += &format!(" {name}={:?}", row.get_ref(at).unwrap());
            }
            all.push(text);
        }
    }
    all
}

/// The rows of all files below a directory, or of one file.
fn rows(path: &Path, into: &mut BTreeMap<PathBuf, Vec<String>>, base: &Path) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            rows(&entry.unwrap().path(), into, base);
        }
        return;
    }
    let name = path.to_string_lossy();
    if name.ends_with("-wal") || name.ends_with("-shm") {
        return;
    }
    let bytes = fs::read(path).unwrap();
    let mut lines: Vec<String> = match bytes.starts_with(b"SQLite format 3") {
        #[cfg(feature = "sqlite")]
        true => database_rows(path),
        _ => String::from_utf8(bytes)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect(),
    };
    if lines
        .first()
        .is_some_and(|line| line.starts_with("{\"type\":\"session\""))
    {
        lines = newest_rows(&lines);
    }
    lines.sort();
    let twice: BTreeSet<_> = lines.iter().collect();
    assert_eq!(
        twice.len(),
        lines.len(),
        "{}: a row is there twice",
        path.display()
    );
    into.insert(path.strip_prefix(base).unwrap().to_owned(), lines);
}

/// The rows of `chat-jsonl`: of those with the same id the last counts.
fn newest_rows(rows: &[String]) -> Vec<String> {
    let key = |row: &str| {
        let row: Value = serde_json::from_str(row).unwrap();
        format!("{} {}", row["type"], row["data"]["id"])
    };
    let newest: BTreeMap<String, &String> = rows.iter().map(|row| (key(row), row)).collect();
    newest.into_values().cloned().collect()
}

fn all_rows(path: &Path) -> BTreeMap<PathBuf, Vec<String>> {
    let mut all = BTreeMap::new();
    rows(path, &mut all, path);
    all
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

    let session = session_dir(&root, "ses_1");
    for format in &formats {
        assert_complete(*format, &session, &out(format.name()));
    }
}

/// The formats that are kept current.
fn live_formats() -> Vec<Format> {
    let has =
        |format: &&Format| format.is_live() && (cfg!(feature = "sqlite") || !format.is_database());
    Format::ALL.iter().filter(has).copied().collect()
}

/// A live target has the rows of an export that is made now.
#[track_caller]
fn assert_complete(format: Format, session: &Path, target: &Path) {
    // The agent's shutdown does not wait for a slow machine. The next process goes on.
    Live::new(format, target).sync(session).unwrap();
    let file = format!("ses_1.{}", format.extension());
    let live = match target.join(file) {
        file if file.exists() => file,
        _ => target.to_owned(),
    };
    let dir = tempfile::tempdir().unwrap();
    let again = dir.path().join(format.name());
    let mut fresh = Target::file(&again);
    export(format, session, &mut fresh).unwrap();
    fresh.finish().unwrap();
    let (live, again) = (all_rows(&live), all_rows(&again));
    assert_eq!(
        live.keys().collect::<Vec<_>>(),
        again.keys().collect::<Vec<_>>()
    );
    for (file, rows) in &live {
        assert_eq!(rows, &again[file], "{format}: {}", file.display());
    }
}

/// Records with live exports of all formats below a directory.
fn exporting(out: &Path) -> Recording {
    Recording::with(|builder| {
        let builder = builder.shutdown_timeout(Duration::from_secs(60));
        let exports = live_formats().into_iter();
        let exports = exports.map(|format| Export::new(format, out.join(format.name())));
        exports.fold(builder, |builder, export| builder.export(export))
    })
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
        let session = session_dir(root.path(), "ses_1");
        for format in live_formats() {
            assert_complete(format, &session, &out.join(format.name()));
        }
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
    let (root, _) = end(recording, &undisturbed(2));
    let session = session_dir(root.path(), "ses_1");
    for format in live_formats() {
        assert_complete(format, &session, &out.join(format.name()));
    }
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
    assert_eq!(database_rows(&file).len(), 5);
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
    let root = recording.dir.path().to_owned();
    let health = recording.guard.shutdown().unwrap();
    assert_eq!(health.failed, 0);
    let error = health.export_error.unwrap();
    assert!(error.contains("file/inside"), "{error}");

    // The next process catches up.
    fs::remove_file(&blocked).unwrap();
    let (layer, guard) = spanledger::builder()
        .root(&root)
        .shutdown_timeout(Duration::from_secs(60))
        .export(export)
        .build::<Registry>()
        .unwrap();
    assert_eq!(guard.shutdown().unwrap().export_error, None);
    drop(layer);
    let text = fs::read_to_string(blocked.join("inside/ses_1.jsonl")).unwrap();
    assert!(text.contains("tool_result"), "{text}");
}
