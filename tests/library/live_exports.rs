//! Targets that are kept current while sessions grow.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use spanledger::export::Live;
use spanledger::read::session_dir;
use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::rich_session::HOSTILE;
use crate::support::targets::{assert_complete, live, live_formats};
use crate::support::{Recording, open_files};

/// As deep as a recorded value may be.
fn deep() -> Value {
    (0..125).fold(json!(HOSTILE), |inner, _| json!([inner]))
}

/// Records a turn with values that a target has to hold.
fn record_turn(recording: &Recording, session: &str, n: usize) {
    recording.run(|| {
        let _run = spans::session_run(session, "planner").start().entered();
        let turn = spans::session_turn().start().entered();
        events::message_user(format!("{n} {HOSTILE}")).emit();
        let mut answer = tracing::Span::current().stream(format!("msg_{n}"));
        answer.push("Looking ");
        answer.push(HOSTILE);
        answer.end();
        let tool = spans::tool_call(HOSTILE, format!("c{n}")).args(deep());
        let tool = tool.start();
        tool.record_result(&deep());
        tool.finish(Outcome::Ok);
        drop(turn);
    });
}

#[test]
fn target_of_two_writers_has_each_row_once() {
    let recording = Recording::new();
    let session = session_dir(recording.dir.path(), "ses_1");
    let out = tempfile::tempdir().unwrap();
    let target = |format: &str| out.path().join(format);
    let writers = || {
        live_formats()
            .into_iter()
            .map(|format| live(format, &target(format.name())))
    };
    let mut both: [Vec<Live>; 2] = [writers().collect(), writers().collect()];
    for n in 0..6 {
        record_turn(&recording, "ses_1", n);
        for live in &mut both[n % 2] {
            live.sync(&session).unwrap();
        }
    }
    for format in live_formats() {
        assert_complete(format, &session, &target(format.name()));
    }
}

#[test]
fn target_that_was_removed_is_written_again_at_once() {
    let recording = Recording::new();
    let session = session_dir(recording.dir.path(), "ses_1");
    for format in live_formats() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let mut live = live(format, &out);
        recording.run(|| {
            // While it is open, the session is not read from its beginning.
            let _open = spans::session_run("ses_1", "planner").start().entered();
            record_turn(&recording, "ses_1", 1);
            live.sync(&session).unwrap();
            match out.is_dir() {
                true => fs::remove_dir_all(&out).unwrap(),
                false => fs::remove_file(&out).unwrap(),
            }
            record_turn(&recording, "ses_1", 2);
            live.sync(&session).unwrap();
        });
        live.sync(&session).unwrap();
        assert_complete(format, &session, &out);
    }
}

/// Between two calls an export of many sessions has few files open.
#[cfg(target_os = "linux")]
#[test]
fn many_sessions_are_exported_with_few_open_files() {
    let recording = Recording::new();
    let root = recording.dir.path();
    let sessions: Vec<String> = (0..100).map(|n| format!("ses_{n}")).collect();
    let dir_of = |id: &String| session_dir(root, id);
    let runs: Vec<_> = recording.run(|| {
        let start = |id: &String| spans::session_run(id.as_str(), "planner").start();
        sessions.iter().map(start).collect()
    });
    let out = tempfile::tempdir().unwrap();
    for format in live_formats() {
        let before = open_files(root);
        let base = out.path().join(format.name());
        let mut live = Live::new(format, &base);
        for round in 0..2 {
            for id in &sessions {
                live.sync(&dir_of(id)).unwrap();
            }
            assert_eq!(open_files(root), before, "{format}: segments");
            // A database has up to three.
            assert!(open_files(&base) <= 3 * 33, "{format}");
            record_turn(&recording, "ses_7", round);
        }
        live.sync(&dir_of(&sessions[7])).unwrap();
        let file = base.join(format!("ses_7.{}", format.extension()));
        if file.is_file() {
            assert_complete(format, &dir_of(&sessions[7]), &file);
        }
    }
    drop(runs);
}

#[test]
fn damage_is_reported_once() {
    let recording = Recording::new();
    record_turn(&recording, "ses_1", 1);
    let root = recording.end();
    let session = session_dir(root.path(), "ses_1");
    let segment = session.join("trace.0001.jsonl");
    let mut text = fs::read_to_string(&segment).unwrap();
    text.push_str("no line\n");
    fs::write(&segment, text).unwrap();
    let out = tempfile::tempdir().unwrap();
    let mut live = live(live_formats()[0], &out.path().join("out"));
    live.sync(Path::new(&session)).unwrap();
    assert_eq!(live.exported().damages.len(), 1);
    assert_eq!(live.exported().damages.len(), 0);
}

/// Rows that are equal otherwise differ by their rewinds, so none is taken for one that is there.
#[test]
fn rewinds_of_one_moment_are_all_carried_out() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        for id in ["m1", "m2"] {
            events::message_user("Go.").message_id(id).emit();
        }
        for _ in 0..50 {
            events::rewind("m2").emit();
            events::rewind("m1").emit();
        }
    });
    let session = session_dir(recording.dir.path(), "ses_1");
    let out = tempfile::tempdir().unwrap();
    for format in live_formats() {
        let target = out.path().join(format.name());
        live(format, &target).sync(&session).unwrap();
        assert_complete(format, &session, &target);
    }
}
