//! `spanledger prune`, and the removal behind it.

use std::fs::File;
use std::path::{Path, PathBuf};

use spanledger::ledger::{Removal, remove_leftovers, remove_session, remove_sessions};
use spanledger::session::{Store, families};
use spanledger::{Outcome, SpanExt, spans};
use tempfile::TempDir;

use crate::support::Recording;
use crate::support::cli::run;

/// Sessions whose process is gone, each older than the one before; `s0` the newest.
fn sessions(count: usize) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..count {
        let session = dir.path().join("sessions").join(format!("s{n}"));
        std::fs::create_dir_all(session.join("blobs")).unwrap();
        let ts = format!("20{:02}-11-16T00:31:05.123456Z", 25 - n);
        let line = |seq: usize, kind: &str, payload: &str| {
            format!(
                "{{\"v\":1,\"seg\":1,\"seq\":{seq},\"ts\":\"{ts}\",\"kind\":\"{kind}\",\
                 \"session_id\":\"s{n}\",\"payload\":{payload}}}\n"
            )
        };
        let text = line(1, "segment", "{\"writer\":\"gone\"}") + &line(2, "session_title", "{}");
        std::fs::write(session.join("trace.0001.jsonl"), text).unwrap();
        std::fs::write(session.join("blobs/aa"), vec![b'x'; 10_000]).unwrap();
    }
    dir
}

/// A session whose process is gone, last active in a year, with a run under each of `parents`.
fn session(root: &Path, id: &str, year: u32, parents: &[&str]) {
    let runs = parents.iter().map(|parent| ("session_start", *parent));
    write_session(root, id, year, &runs.collect::<Vec<_>>(), 0);
}

/// The same, one segment of `(kind, parent)` lines, padded with so many other lines.
fn write_session(root: &Path, id: &str, year: u32, runs: &[(&str, &str)], filler: usize) {
    let dir = root.join("sessions").join(id);
    std::fs::create_dir_all(dir.join("blobs")).unwrap();
    let mut seq = 0;
    let mut line = |kind: &str, payload: &str| {
        seq += 1;
        format!(
            "{{\"v\":1,\"seg\":1,\"seq\":{seq},\"ts\":\"{year}-11-16T00:31:05.123456Z\",\
             \"kind\":\"{kind}\",\"session_id\":\"{id}\",\"payload\":{payload}}}\n"
        )
    };
    let mut text = line("segment", "{\"writer\":\"gone\"}");
    let of = |parent: &str| format!("{{\"parent_session_id\":\"{parent}\"}}");
    for (kind, parent) in runs {
        if *kind == "session_end" {
            for _ in 0..filler {
                text += &line("note", "{}");
            }
            let totals = format!("{{\"parent_session_id\":\"{parent}\",\"totals\":{{}}}}");
            text += &line(kind, &totals);
        } else {
            text += &line(kind, &of(parent));
        }
    }
    std::fs::write(dir.join("trace.0001.jsonl"), text).unwrap();
    std::fs::write(dir.join("blobs/aa"), vec![b'x'; 10_000]).unwrap();
}

fn left(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root.join("sessions")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn owe(root: &Path, marker: &str) -> PathBuf {
    std::fs::create_dir_all(root.join("outbox")).unwrap();
    let path = root.join("outbox").join(marker);
    File::create(&path).unwrap();
    path
}

#[test]
fn removes_all_but_the_newest() {
    let dir = sessions(4);
    let done = run(dir.path(), &["prune", "--keep", "2"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(left(dir.path()), ["s0", "s1"]);
    let lines = done.lines();
    assert!(lines[0].starts_with("removed s3  10."), "{done:?}");
    assert!(
        lines[0].ends_with("last active 2022-11-16 00:31:05"),
        "{done:?}"
    );
    assert!(lines[2].starts_with("2 sessions removed, 20."), "{done:?}");
}

#[test]
fn dry_run_removes_nothing() {
    let dir = sessions(3);
    let done = run(
        dir.path(),
        &["prune", "--older-than", "1d", "--dry-run", "--json"],
    );
    assert_eq!(left(dir.path()), ["s0", "s1", "s2"]);
    let document = done.json();
    assert_eq!(document["dry_run"], true);
    assert_eq!(document["removed"].as_array().unwrap().len(), 3);
    assert_eq!(document["removed"][0]["session_id"], "s2");
}

#[test]
fn max_size_removes_the_oldest_first() {
    let dir = sessions(4);
    let done = run(dir.path(), &["prune", "--max-size", "25KB"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(left(dir.path()), ["s0", "s1"]);
}

#[test]
fn missing_or_invalid_limit_exits_2() {
    let dir = sessions(1);
    assert_eq!(run(dir.path(), &["prune"]).code, 2);
    for wrong in [
        ["--max-size", "1 potato"],
        ["--older-than", "30"],
        ["--keep", "-1"],
    ] {
        let done = run(dir.path(), &["prune", wrong[0], wrong[1]]);
        assert_eq!(done.code, 2, "{done:?}");
    }
    assert_eq!(left(dir.path()), ["s0"]);
}

#[test]
fn live_session_stays_with_nothing_open() {
    let recording = Recording::new();
    recording.handle().session("ses_1").title("one");
    let root = recording.dir.path().to_owned();
    let done = run(&root, &["prune", "--keep", "0", "--force"]);
    assert!(done.out.contains("kept ses_1"), "{done:?}");
    assert!(done.out.contains("still running"), "{done:?}");
    assert_eq!(left(&root), ["ses_1"]);
    let dir = recording.end();
    let done = run(&root, &["prune", "--keep", "0"]);
    assert!(done.out.starts_with("removed ses_1"), "{done:?}");
    assert!(left(dir.path()).is_empty());
}

#[test]
fn unsent_session_stays_unless_forced() {
    let dir = sessions(2);
    let marker = owe(dir.path(), "s1.0001");
    // Another session's, whose name begins alike.
    let others = owe(dir.path(), "s10.0001");
    let done = run(dir.path(), &["prune", "--keep", "0"]);
    assert!(done.out.contains("kept s1 "), "{done:?}");
    assert!(
        done.out
            .contains(": not exported yet (--force removes it anyway)")
    );
    assert_eq!(left(dir.path()), ["s1"]);
    let done = run(dir.path(), &["prune", "--keep", "0", "--force"]);
    assert!(done.out.starts_with("removed s1"), "{done:?}");
    assert!(left(dir.path()).is_empty());
    assert!(!marker.exists() && others.exists());
}

#[test]
fn interrupted_prune_is_completed_by_the_next() {
    let dir = sessions(2);
    let sessions = dir.path().join("sessions");
    std::fs::rename(sessions.join("s1"), sessions.join(".gone-s1-1")).unwrap();
    let done = run(dir.path(), &["list"]);
    assert!(!done.out.contains("s1"), "{done:?}");
    let done = run(dir.path(), &["prune", "--keep", "5"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.lines()[0].contains("left of 1 session,"), "{done:?}");
    assert_eq!(left(dir.path()), ["s0"]);
}

#[test]
fn locked_session_stays() {
    let dir = sessions(1);
    let lock = File::create(dir.path().join("sessions/s0/lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(
        remove_session(dir.path(), "s0", false).unwrap(),
        Removal::Locked
    );
    drop(lock);
    let removed = remove_session(dir.path(), "s0", false).unwrap();
    assert!(matches!(removed, Removal::Removed { bytes } if bytes > 10_000));
    assert_eq!(
        remove_session(dir.path(), "s0", false).unwrap(),
        Removal::NotFound
    );
}

#[test]
fn concurrent_removal_is_skipped() {
    let dir = sessions(1);
    let sessions = dir.path().join("sessions");
    let gone = sessions.join(".gone-s0-1");
    std::fs::rename(sessions.join("s0"), &gone).unwrap();
    let lock = File::create(gone.join("lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(remove_leftovers(dir.path()).unwrap(), (0, 0));
    drop(lock);
    assert_eq!(remove_leftovers(dir.path()).unwrap().0, 1);
}

#[test]
fn new_empty_segment_keeps_its_session() {
    let dir = sessions(1);
    File::create(dir.path().join("sessions/s0/trace.0002.jsonl")).unwrap();
    assert_eq!(
        remove_session(dir.path(), "s0", true).unwrap(),
        Removal::Live
    );
    assert_eq!(left(dir.path()), ["s0"]);
}

#[test]
fn path_outside_the_root_removes_nothing() {
    let dir = sessions(1);
    let outside = dir.path().join("elsewhere");
    std::fs::create_dir(&outside).unwrap();
    for path in ["../elsewhere", "..", "/", ""] {
        assert_eq!(
            remove_session(dir.path(), path, true).unwrap(),
            Removal::NotFound
        );
    }
    assert!(outside.exists());
}

#[test]
fn newest_sessions_keep_their_subagents() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), "main", 2025, &[]);
    session(dir.path(), "sub", 2012, &["main"]);
    session(dir.path(), "subsub", 2011, &["sub"]);
    session(dir.path(), "second", 2024, &[]);
    session(dir.path(), "third", 2023, &[]);
    let done = run(dir.path(), &["prune", "--keep", "2"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(left(dir.path()), ["main", "second", "sub", "subsub"]);
    assert!(done.out.contains("1 session removed"), "{done:?}");
}

#[test]
fn subagents_are_removed_with_their_parent() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), "new", 2025, &[]);
    session(dir.path(), "old", 2023, &[]);
    session(dir.path(), "sub", 2022, &["old"]);
    let done = run(dir.path(), &["prune", "--keep", "1"]);
    assert_eq!(left(dir.path()), ["new"]);
    let lines = done.lines();
    assert!(lines[0].starts_with("removed old  9.9 KiB, "), "{done:?}");
    assert!(lines[1].starts_with("removed sub  10.0 KiB, "), "{done:?}");
    assert!(lines[1].ends_with(", subagent of old"), "{done:?}");
    assert!(
        lines[2].starts_with("2 sessions of 1 family removed, 19.9 KiB"),
        "{done:?}"
    );
}

#[test]
fn dry_run_reports_families() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), "old", 2023, &[]);
    session(dir.path(), "sub", 2022, &["old"]);
    session(dir.path(), "older", 2021, &[]);
    let done = run(dir.path(), &["prune", "--keep", "0", "--dry-run", "--json"]);
    assert_eq!(left(dir.path()), ["old", "older", "sub"]);
    let document = done.json();
    let removed: Vec<_> = document["removed"].as_array().unwrap().iter().collect();
    let ids: Vec<_> = removed.iter().map(|object| &object["session_id"]).collect();
    assert_eq!(ids, ["older", "old", "sub"]);
    assert_eq!(removed[2]["family"], "old");
    assert_eq!(removed[2]["parent_session_id"], "old");
    assert_eq!(document["families"], 2);
    assert_eq!(document["kept_families"], 0);
    let done = run(dir.path(), &["prune", "--keep", "0", "--dry-run"]);
    let sum = "3 sessions of 2 families to remove, ";
    assert!(done.lines()[3].starts_with(sum), "{done:?}");
}

#[test]
fn recent_subagent_keeps_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), "main", 1971, &[]);
    session(dir.path(), "sub", 2025, &["main"]);
    session(dir.path(), "other", 1972, &[]);
    let done = run(dir.path(), &["prune", "--older-than", "10000d"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(left(dir.path()), ["main", "sub"]);
}

#[test]
fn max_size_removes_whole_families() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), "new", 2025, &[]);
    session(dir.path(), "old", 2023, &[]);
    session(dir.path(), "sub", 2022, &["old"]);
    session(dir.path(), "sub2", 2021, &["old"]);
    let done = run(dir.path(), &["prune", "--max-size", "35KB"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(left(dir.path()), ["new"]);
}

#[test]
fn orphaned_subagent_is_a_family_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), "main", 2025, &[]);
    session(dir.path(), "orphan", 2024, &["nobody"]);
    session(dir.path(), "orphan2", 2023, &["nobody"]);
    let done = run(dir.path(), &["prune", "--keep", "2"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(left(dir.path()), ["main", "orphan"]);
}

#[test]
fn subagent_of_an_unreadable_session_stays() {
    let root = tempfile::tempdir().unwrap();
    session(root.path(), "main", 2020, &[]);
    session(root.path(), "sub", 2020, &["main"]);
    session(root.path(), "other", 2020, &[]);
    std::fs::write(root.path().join("sessions/main/trace.0001.jsonl"), "?\n").unwrap();
    let done = run(root.path(), &["prune", "--older-than", "30d", "--json"]);
    assert_eq!(left(root.path()), ["main", "sub"]);
    assert_eq!(done.json()["kept"][0]["session_id"], "sub");
    assert_eq!(done.json()["kept"][0]["reason"], "family");
    assert_ne!(done.code, 0, "what can't be read is told");
}

#[test]
fn cyclic_parents_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), "new", 2025, &[]);
    session(dir.path(), "a", 2023, &["b"]);
    session(dir.path(), "b", 2022, &["a"]);
    session(dir.path(), "below", 2021, &["b"]);
    session(dir.path(), "self", 2020, &["self"]);
    let done = run(dir.path(), &["prune", "--keep", "1", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.json()["families"], 2);
    assert_eq!(left(dir.path()), ["new"]);
}

#[test]
fn session_stays_while_its_subagent_is_written() {
    let recording = Recording::new();
    let root = recording.dir.path().to_owned();
    session(&root, "main", 2023, &[]);
    session(&root, "sub", 2022, &["main"]);
    session(&root, "sub2", 2021, &["main"]);
    recording.handle().session("sub").title("again");
    let done = run(&root, &["prune", "--keep", "0", "--force"]);
    assert_eq!(left(&root), ["main", "sub", "sub2"]);
    let lines = done.lines();
    assert!(lines[0].starts_with("kept main "), "{done:?}");
    assert!(
        lines[0].ends_with(": belongs to a session that is kept"),
        "{done:?}"
    );
    assert!(lines[1].contains(": still running"), "{done:?}");
    assert_eq!(lines[3], "0 sessions removed, 0 B; 3 of 1 family kept");
    let document = run(&root, &["prune", "--keep", "0", "--json"]).json();
    assert_eq!(document["kept"][0]["reason"], "family");
    assert_eq!(document["kept_families"], 1);
}

#[test]
fn unsent_subagent_keeps_its_family_unless_forced() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), "main", 2023, &[]);
    session(dir.path(), "sub", 2022, &["main"]);
    owe(dir.path(), "sub.0001");
    let dry = run(dir.path(), &["prune", "--keep", "0", "--dry-run"]);
    assert!(dry.out.contains("0 sessions to remove"), "{dry:?}");
    run(dir.path(), &["prune", "--keep", "0"]);
    assert_eq!(left(dir.path()), ["main", "sub"]);
    run(dir.path(), &["prune", "--keep", "0", "--force"]);
    assert!(left(dir.path()).is_empty());
}

#[test]
fn subagent_resumed_elsewhere_joins_families() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), "first", 2020, &[]);
    session(dir.path(), "second", 2025, &[]);
    session(dir.path(), "third", 2024, &[]);
    session(dir.path(), "sub", 2021, &["first", "second"]);
    let done = run(dir.path(), &["prune", "--keep", "1"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(left(dir.path()), ["first", "second", "sub"]);
}

#[test]
fn parent_is_found_at_the_ends_of_a_long_trace() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), "first", 2025, &[]);
    session(dir.path(), "last", 2024, &[]);
    let runs = [("session_start", "first"), ("session_end", "last")];
    write_session(dir.path(), "sub", 2023, &runs, 5_000);
    let entries = Store::new(dir.path()).list().unwrap();
    assert!(!entries[2].whole);
    assert_eq!(families(&entries).len(), 1);
}

#[test]
fn parent_is_found_in_a_very_long_first_line() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), "main", 2025, &[]);
    let long = "main\",\"said\":\"".to_owned() + &"x".repeat(40_000);
    let runs = [("session_start", long.as_str()), ("session_end", "")];
    write_session(dir.path(), "sub", 2023, &runs, 5_000);
    let entries = Store::new(dir.path()).list().unwrap();
    assert!(!entries[1].whole);
    assert_eq!(families(&entries).len(), 1);
}

#[test]
fn family_is_listed_top_down() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), "subsub", 2025, &["sub"]);
    session(dir.path(), "sub", 2024, &["main"]);
    session(dir.path(), "main", 2023, &[]);
    let entries = Store::new(dir.path()).list().unwrap();
    let families = families(&entries);
    let members = families[0].members().iter();
    let ids: Vec<_> = members.map(|entry| &entry.summary.session_id).collect();
    assert_eq!(ids, ["main", "sub", "subsub"]);
    assert_eq!(families[0].last(), entries[0].summary.last);
}

#[test]
fn subagents_of_a_real_agent_stay_with_it() {
    let recording = Recording::new();
    recording.run(|| {
        let main = spans::session_run("main", "planner").start();
        main.in_scope(|| {
            let sub = spans::session_run("sub", "helper").start();
            sub.finish(Outcome::Ok);
        });
        main.finish(Outcome::Ok);
        let newest = spans::session_run("newest", "planner").start();
        newest.finish(Outcome::Ok);
    });
    let dir = recording.end();
    let done = run(dir.path(), &["prune", "--keep", "2"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(left(dir.path()), ["main", "newest", "sub"]);
    run(dir.path(), &["prune", "--keep", "1"]);
    assert_eq!(left(dir.path()), ["newest"]);
}

#[test]
fn session_named_alone_is_removed_alone() {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), "main", 2023, &[]);
    session(dir.path(), "sub", 2022, &["main"]);
    let removed = remove_session(dir.path(), "sub", false).unwrap();
    assert!(matches!(removed, Removal::Removed { .. }));
    assert_eq!(left(dir.path()), ["main"]);
}

#[test]
fn one_locked_session_keeps_all_of_a_removal() {
    let dir = sessions(3);
    let lock = File::create(dir.path().join("sessions/s1/lock")).unwrap();
    lock.lock().unwrap();
    let all = ["s0", "nobody", "s1", "s2"];
    let done = remove_sessions(dir.path(), &all, false).unwrap();
    let stays = [
        Removal::Family,
        Removal::NotFound,
        Removal::Locked,
        Removal::Family,
    ];
    assert_eq!(done, stays);
    assert_eq!(left(dir.path()), ["s0", "s1", "s2"]);
}

#[test]
fn unremovable_family_is_named_others_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    session(root, "old", 2019, &[""]);
    session(root, "old-review", 2019, &["old"]);
    session(root, "young", 2020, &[""]);
    // A lock that is no file can't be taken.
    std::fs::create_dir(root.join("sessions/old/lock")).unwrap();
    let done = run(root, &["prune", "--keep", "0"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.starts_with("spanledger: old: "), "{done:?}");
    assert!(done.out.contains("kept old-review  "), "{done:?}");
    assert!(done.out.contains("removed young  "), "{done:?}");
    let mut left = left(root);
    left.sort();
    assert_eq!(left, ["old", "old-review"]);
}
