//! Session directories: safe names for any id, private files, many at once.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use spanledger::session::Store;
use spanledger::{events, read, spans};
use tracing_subscriber::Registry;

use crate::support::{LineExt, Recording, Trace};

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        }
        found.push(path);
    }
}

#[test]
fn odd_ids_stay_under_the_root() {
    let long = "x".repeat(10_000);
    let ids = [
        "../x", "a/b", "", &long, "a\0b", "CON", "con", "A", "a", "/etc", "..", ".", "a b", "é",
        "a\nb",
    ];
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("root");
    let recording = Recording::with(|b| b.root(&root));
    recording.run(|| {
        for id in ids {
            let _run = spans::session_run(id, "planner").start().entered();
            drop(spans::tool_call("bash", "c1").start());
        }
    });
    assert_eq!(recording.guard.health().failed, 0);
    let trace = Trace::read(&root);
    let mut directories = HashSet::new();
    for id in ids {
        let kinds = [
            "segment",
            "session_start",
            "tool_call",
            "tool_result",
            "session_end",
        ];
        assert_eq!(trace.kinds(id), kinds, "{id:?}");
        let dir = read::session_dir(&root, id);
        assert_eq!(dir.parent().unwrap(), root.join("sessions"));
        let name = dir.file_name().unwrap().to_str().unwrap().to_lowercase();
        assert!(directories.insert(name), "{id:?} shares a directory");
        assert_eq!(read::lines(&dir).unwrap().len(), 5);
    }
    let beside: Vec<_> = std::fs::read_dir(parent.path()).unwrap().collect();
    assert_eq!(beside.len(), 1, "something was made outside the root");
}

#[test]
fn odd_ids_are_resumed() {
    let recording = Recording::new();
    let ids = ["../x", "A", "a", ""];
    recording.run(|| ids.map(|id| drop(spans::session_run(id, "planner").start())));
    let recording = Recording::again(recording.end());
    recording.run(|| ids.map(|id| drop(spans::session_run(id, "planner").start())));
    let trace = recording.trace();
    for id in ids {
        let resumed = trace
            .session(id)
            .iter()
            .filter(|l| l.kind == "session_resume");
        assert_eq!(resumed.count(), 1, "{id:?}");
    }
}

#[test]
fn files_and_directories_are_private() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("root");
    let recording = Recording::with(|b| b.root(&root).inline_limit(64));
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::message_user("x".repeat(1000)).emit();
    });
    let mut found = vec![root.clone()];
    walk(&root, &mut found);
    let mode = |path: &PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for path in &found {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(path), expected, "{}", path.display());
    }
    for made in [
        "writers",
        "sessions/s/blobs",
        "sessions/s/trace.0001.jsonl",
        "redaction.key",
    ] {
        assert!(found.contains(&root.join(made)), "{made}");
    }
}

#[test]
fn concurrent_ledgers_get_separate_segments() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let start = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let builder = spanledger::builder().root(dir.path());
                    let (_layer, guard) = builder.build::<Registry>().unwrap();
                    let session = guard.handle().session("s");
                    start.wait();
                    session.title("all at once");
                    guard.shutdown().unwrap();
                });
            }
        });
        let trace = Trace::read(dir.path());
        assert_eq!(trace.damage, []);
        let writers = trace.all("segment");
        let writers: HashSet<_> = writers.iter().map(|l| (l.seg, l.text("writer"))).collect();
        assert_eq!(writers.len(), 8);
        assert_eq!(trace.all("session_title").len(), 8);
    }
}

#[test]
fn thousand_sessions_are_open_at_once() {
    let recording = Recording::new();
    recording.run(|| {
        let runs: Vec<_> = (0..1000)
            .map(|n| spans::session_run(format!("ses_{n}"), "planner").start())
            .collect();
        for run in &runs {
            run.in_scope(|| {
                let _turn = spans::session_turn().start().entered();
                drop(spans::tool_call("bash", "c1").start());
            });
        }
    });
    assert_eq!(recording.guard.health().failed, 0);
    let trace = recording.trace();
    assert!(trace.damage.is_empty());
    for n in 0..1000 {
        assert_eq!(
            trace.kinds(&format!("ses_{n}")),
            [
                "segment",
                "session_start",
                "turn_start",
                "tool_call",
                "tool_result",
                "turn_end",
                "session_end"
            ]
        );
    }
}

#[test]
fn exhausted_segment_numbers_affect_one_session() {
    let recording = Recording::new();
    let session = read::session_dir(recording.dir.path(), "full");
    std::fs::create_dir_all(&session).unwrap();
    std::fs::write(session.join("trace.4294967295.jsonl"), "").unwrap();
    recording.run(|| {
        drop(spans::session_run("full", "planner").start());
        drop(spans::session_run("other", "planner").start());
    });
    let health = recording.guard.health();
    assert_eq!((health.written, health.failed), (2, 2));
    assert!(health.last_error.unwrap().contains("no number is left"));
    let trace = recording.trace();
    assert_eq!(trace.one("session_end").session_id, "other");
}

#[test]
fn evicted_session_continues_with_full_totals() {
    let recording = Recording::new();
    let work = || {
        let _run = spans::session_run("s", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        drop(spans::tool_call("bash", "c1").start());
    };
    recording.run(work);
    for n in 0..5000 {
        recording.handle().session(&format!("other_{n}"));
    }
    recording.run(work);
    let trace = recording.trace();
    let turns: Vec<_> = trace.all("turn_start").iter().map(|l| l.turn).collect();
    assert_eq!(turns, [Some(1), Some(2)]);
    assert!(trace.all("interrupted").is_empty());
    let list = Store::new(recording.dir.path()).list().unwrap();
    let totals = list[0].summary.totals();
    assert_eq!((totals.turns, totals.tool_calls), (2, 2));
}

#[test]
fn checkpoints_of_many_open_spans_stay_a_fraction() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        let open = (0..30_000).map(|_| spans::tool_call("bash", "c1").child_of(&run).start());
        drop(open.collect::<Vec<_>>());
    });
    let dir = read::session_dir(recording.dir.path(), "s");
    let trace = std::fs::read_to_string(dir.join("trace.0001.jsonl")).unwrap();
    let (checkpoints, others): (Vec<_>, Vec<_>) = trace
        .lines()
        .partition(|line| line.contains(r#""kind":"checkpoint""#));
    let bytes = |lines: &[&str]| lines.iter().map(|line| line.len()).sum::<usize>();
    let (checkpoints, others) = (bytes(&checkpoints), bytes(&others));
    assert!(checkpoints > 0);
    assert!(checkpoints * 4 < others, "{checkpoints} of {others}");
    let entry = Store::new(recording.dir.path()).peek(&dir).unwrap();
    assert_eq!(entry.summary.totals().tool_calls, 30_000);
    assert!(entry.summary.open.is_empty());
}
