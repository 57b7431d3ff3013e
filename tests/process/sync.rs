//! `SyncPolicy`: what is on the disk, and when.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spanledger::{Outcome, SpanExt, SyncPolicy, events, spans};

use crate::support::Recording;
use crate::sync_calls;
use crate::sync_calls::Synced;

const NEVER: Duration = Duration::from_secs(3600);

fn recording(sync: SyncPolicy) -> Recording {
    Recording::with(|builder| builder.sync(sync).inline_limit(64))
}

fn sessions(recording: &Recording) -> PathBuf {
    recording.dir.path().join("sessions")
}

/// What would be missing after a power cut now: files of which the disk lacks something, and
/// directories whose entries it may lack.
fn unsynced(dir: &Path, synced: &[Synced]) -> Vec<PathBuf> {
    let mut missing = Vec::new();
    let mut last_entry = None;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            missing.extend(unsynced(&path, synced));
            continue;
        }
        let meta = path.metadata().unwrap();
        let whole = |it: &Synced| (it.inode, it.size) == (meta.ino(), meta.len());
        match synced.iter().position(whole) {
            // A blob has another name until it is whole.
            Some(at) if path.parent().unwrap().ends_with("blobs") => last_entry = Some(at),
            Some(_) => {}
            None => missing.push(path),
        }
    }
    let after = last_entry.map_or(0, |at| at + 1);
    if !synced[after..].iter().any(|it| it.path == dir) {
        missing.push(dir.to_owned());
    }
    missing
}

#[test]
fn always_syncs_before_a_call_returns() {
    let recording = recording(SyncPolicy::Always);
    let sessions = sessions(&recording);
    let check = |what: &str| {
        let missing = unsynced(&sessions, &sync_calls::below(&sessions));
        assert!(missing.is_empty(), "after {what}: {missing:?}");
    };
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        check("a run was opened");
        let _run = run.enter();
        events::message_user("short").emit();
        check("a message");
        events::message_user("x".repeat(1000)).emit();
        check("a message in a blob");
        let tool = spans::tool_call("bash", "c1").start();
        tool.record_result(&"y".repeat(1000));
        tool.finish(Outcome::Ok);
        check("a tool was finished");
        drop(spans::session_run("other", "helper").start());
        check("another session");
    });
}

#[test]
fn interval_syncs_everything_at_shutdown() {
    let recording = recording(SyncPolicy::Interval(NEVER));
    let sessions = sessions(&recording);
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::message_user("x".repeat(1000)).emit();
    });
    let before = sync_calls::below(&sessions);
    assert!(before.is_empty(), "the agent waited for {before:?}");
    recording.guard.shutdown().unwrap();
    let synced = sync_calls::below(&sessions);
    assert_eq!(unsynced(&sessions, &synced), [] as [PathBuf; 0]);
    // A blob is synced before the line that names it, and both before their directory.
    let first = |fits: &dyn Fn(&Synced) -> bool| synced.iter().position(fits).unwrap();
    let blob = first(&|it| it.path.parent().unwrap().ends_with("blobs"));
    let segment = first(&|it| it.path.ends_with("trace.0001.jsonl"));
    let dir = first(&|it| it.path == sessions.join("s"));
    assert!(blob < segment && segment < dir, "{synced:?}");
}

#[test]
fn interval_syncs_on_its_own_thread() {
    let recording = recording(SyncPolicy::Interval(Duration::from_millis(1)));
    let sessions = sessions(&recording);
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::message_user("x".repeat(1000)).emit();
    });
    sync_calls::wait(&sessions, |synced| unsynced(&sessions, synced).is_empty());
    let synced = sync_calls::below(&sessions);
    let ours = synced.iter().all(|it| it.thread == "spanledger-sync");
    assert!(ours, "{synced:?}");
}

#[test]
fn default_never_syncs() {
    let recording = Recording::with(|builder| builder.inline_limit(64));
    let sessions = sessions(&recording);
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::message_user("x".repeat(1000)).emit();
    });
    recording.guard.shutdown().unwrap();
    let synced = sync_calls::below(&sessions);
    assert!(synced.is_empty(), "{synced:?}");
}
