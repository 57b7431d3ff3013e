//! `spanledger prune`, and the removal behind it.
#![cfg(feature = "cli")]

#[path = "support/cli.rs"]
mod cli;
mod support;

use std::fs::File;
use std::path::{Path, PathBuf};

use cli::run;
use spanledger::ledger::{Removal, remove_leftovers, remove_session};
use support::Recording;
use tempfile::TempDir;

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
fn all_but_the_newest_are_removed_and_said() {
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
fn a_dry_run_removes_nothing_and_says_what_would_go() {
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
fn by_size_the_oldest_go_until_the_rest_fits() {
    let dir = sessions(4);
    let done = run(dir.path(), &["prune", "--max-size", "25KB"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(left(dir.path()), ["s0", "s1"]);
}

#[test]
fn without_a_limit_or_with_a_wrong_one_it_ends_with_2() {
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
fn a_session_of_a_living_process_stays_though_it_has_nothing_open() {
    let recording = Recording::new();
    recording.handle().session("ses_1").title("one");
    let root = recording.dir.path().to_owned();
    let done = run(&root, &["prune", "--keep", "0", "--force"]);
    assert!(done.out.contains("kept ses_1"), "{done:?}");
    assert!(done.out.contains("lives"), "{done:?}");
    assert_eq!(left(&root), ["ses_1"]);
    let dir = recording.end();
    let done = run(&root, &["prune", "--keep", "0"]);
    assert!(done.out.starts_with("removed ses_1"), "{done:?}");
    assert!(left(dir.path()).is_empty());
}

#[test]
fn what_the_mirror_still_owes_stays_unless_forced() {
    let dir = sessions(2);
    let marker = owe(dir.path(), "s1.0001");
    // Another session's, whose name begins alike.
    let others = owe(dir.path(), "s10.0001");
    let done = run(dir.path(), &["prune", "--keep", "0"]);
    assert!(done.out.contains("kept s1 "), "{done:?}");
    assert!(
        done.out
            .contains("the mirror still has to send 1 of its segments (--force)")
    );
    assert_eq!(left(dir.path()), ["s1"]);
    let done = run(dir.path(), &["prune", "--keep", "0", "--force"]);
    assert!(done.out.starts_with("removed s1"), "{done:?}");
    assert!(left(dir.path()).is_empty());
    assert!(!marker.exists() && others.exists());
}

#[test]
fn what_a_prune_that_was_cut_short_left_behind_goes_with_the_next() {
    let dir = sessions(2);
    let sessions = dir.path().join("sessions");
    std::fs::rename(sessions.join("s1"), sessions.join(".gone-s1-1")).unwrap();
    let done = run(dir.path(), &["list"]);
    assert!(!done.out.contains("s1"), "{done:?}");
    let done = run(dir.path(), &["prune", "--keep", "5"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.lines()[0].contains("left of 1 sessions"), "{done:?}");
    assert_eq!(left(dir.path()), ["s0"]);
}

#[test]
fn a_session_whose_lock_is_held_stays() {
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
fn what_another_removal_is_at_is_left_to_it() {
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
fn a_segment_that_has_just_begun_and_says_nothing_yet_keeps_its_session() {
    let dir = sessions(1);
    File::create(dir.path().join("sessions/s0/trace.0002.jsonl")).unwrap();
    assert_eq!(
        remove_session(dir.path(), "s0", true).unwrap(),
        Removal::Live
    );
    assert_eq!(left(dir.path()), ["s0"]);
}

#[test]
fn a_path_that_leads_elsewhere_removes_nothing() {
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
