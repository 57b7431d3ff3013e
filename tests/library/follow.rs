//! Following sessions as they grow, through the library.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use spanledger::read::{self, Follower, Start};
use spanledger::trace::{Address, ReadItem};
use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::Recording;

/// Far longer than anything here takes: after this time, something was lost.
const LONG: Duration = Duration::from_secs(60);

fn next(follower: &mut Follower) -> (String, String, String) {
    match follower.next(LONG).unwrap().expect("a line").found {
        ReadItem::Line(line) => (
            line.session_id.to_string(),
            line.address().to_string(),
            line.kind.to_string(),
        ),
        other => panic!("{other:?}"),
    }
}

fn kinds(follower: &mut Follower, count: usize) -> Vec<String> {
    (0..count).map(|_| next(follower).2).collect()
}

fn none(follower: &mut Follower) {
    let more = follower.next(Duration::ZERO).unwrap();
    assert!(more.is_none(), "{more:?}");
}

#[test]
fn line_arrives_once_when_written() {
    let recording = Recording::new();
    let session = recording.handle().session("ses_1");
    session.title("one");
    let dir = read::session_dir(recording.dir.path(), "ses_1");
    let mut follower = Follower::session(&dir, Start::Beginning).unwrap();
    assert_eq!(kinds(&mut follower, 2), ["segment", "session_title"]);
    none(&mut follower);
    let writer = std::thread::spawn(move || session.report_status("busy"));
    assert_eq!(next(&mut follower).2, "session_status");
    writer.join().unwrap();
    none(&mut follower);
}

#[test]
fn segment_of_a_second_writer_arrives() {
    let recording = Recording::new();
    recording.handle().session("ses_1").title("one");
    let dir = read::session_dir(recording.dir.path(), "ses_1");
    let mut follower = Follower::session(&dir, Start::Now).unwrap();
    none(&mut follower);
    let (layer, other) = spanledger::builder()
        .root(recording.dir.path())
        .build::<tracing_subscriber::Registry>()
        .unwrap();
    other.handle().session("ses_1").title("two");
    let arrived = [next(&mut follower), next(&mut follower)];
    assert_eq!(
        arrived.map(|(_, address, kind)| (address, kind)),
        [
            ("2:1".into(), "segment".into()),
            ("2:2".into(), "session_title".into())
        ]
    );
    drop((layer, other));
}

#[test]
fn address_skips_earlier_lines_of_other_segments() {
    let recording = Recording::new();
    let (layer, other) = spanledger::builder()
        .root(recording.dir.path())
        .build::<tracing_subscriber::Registry>()
        .unwrap();
    let (one, two) = (
        recording.handle().session("ses_1"),
        other.handle().session("ses_1"),
    );
    one.title("1:2");
    two.title("2:2");
    one.title("1:3");
    two.title("2:3");
    let dir = read::session_dir(recording.dir.path(), "ses_1");
    let at = Start::At(Address { seg: 1, seq: 3 });
    let mut follower = Follower::session(&dir, at).unwrap();
    assert_eq!(next(&mut follower).1, "1:3");
    assert_eq!(next(&mut follower).1, "2:3");
    none(&mut follower);
    drop((layer, other));
}

#[test]
fn root_yields_new_sessions_whole_and_old_from_now() {
    let recording = Recording::new();
    let handle = recording.handle();
    handle.session("old").title("before");
    let mut follower = Follower::root(recording.dir.path(), Start::Now).unwrap();
    none(&mut follower);
    handle.session("new").title("first");
    assert_eq!(
        [next(&mut follower), next(&mut follower)].map(|(id, _, kind)| (id, kind)),
        [
            ("new".into(), "segment".into()),
            ("new".into(), "session_title".into())
        ]
    );
    handle.session("old").title("after");
    assert_eq!(
        next(&mut follower),
        ("old".into(), "1:3".into(), "session_title".into())
    );
    none(&mut follower);
}

#[test]
fn missing_root_is_awaited() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("later");
    let mut follower = Follower::root(&root, Start::Now).unwrap();
    none(&mut follower);
    let (layer, guard) = spanledger::builder()
        .root(&root)
        .build::<tracing_subscriber::Registry>()
        .unwrap();
    guard.handle().session("ses_1").title("here");
    assert_eq!(next(&mut follower).2, "segment");
    assert_eq!(next(&mut follower).2, "session_title");
    drop((layer, guard));
}

#[test]
fn deltas_do_not_count_as_last_lines() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "writer").start();
        let _run = run.clone().entered();
        events::message_user("Tell me a story.").emit();
        let mut out = run.stream("msg_1");
        for _ in 0..50 {
            out.push("once upon a time there was a fox ");
        }
        std::mem::forget(out);
    });
    let dir = read::session_dir(recording.dir.path(), "ses_1");
    let last = Start::Last {
        lines: 1,
        kinds: vec!["message_user".into()],
    };
    let mut follower = Follower::session(&dir, last).unwrap();
    assert_eq!(next(&mut follower).2, "message_user");
    assert_eq!(next(&mut follower).2, "message_delta");
}

#[test]
fn more_sessions_than_open_files_arrive_in_order() {
    const SESSIONS: usize = 400;
    const LINES: usize = 5;
    let recording = Recording::new();
    let handle = recording.handle();
    let mut follower = Follower::root(recording.dir.path(), Start::Now).unwrap();
    let writer = std::thread::spawn(move || {
        for round in 0..LINES {
            for n in 0..SESSIONS {
                handle.session(&format!("s{n}")).title(&format!("{round}"));
            }
        }
    });
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..SESSIONS * (LINES + 1) {
        let (id, address, _) = next(&mut follower);
        let count = seen.entry(id).or_default();
        *count += 1;
        assert_eq!(address, format!("1:{count}"));
    }
    writer.join().unwrap();
    assert_eq!(seen.len(), SESSIONS);
    none(&mut follower);
}

#[test]
fn removed_session_is_forgotten_and_may_return() {
    let recording = Recording::new();
    let root = recording.dir.path().to_owned();
    recording.handle().session("ses_1").title("one");
    let mut follower = Follower::root(&root, Start::Beginning).unwrap();
    kinds(&mut follower, 2);
    let dir = read::session_dir(&root, "ses_1");
    let hidden = root.join("sessions/.gone-ses_1");
    std::fs::rename(&dir, &hidden).unwrap();
    std::fs::remove_dir_all(&hidden).unwrap();
    assert!(follower.next(Duration::from_millis(50)).unwrap().is_none());
    write_segment(&dir, "ses_1");
    assert_eq!(next(&mut follower).2, "session_title");
}

fn write_segment(dir: &Path, id: &str) {
    let line = format!(
        "{{\"v\":1,\"seg\":1,\"seq\":1,\"ts\":\"2026-11-16T00:31:05.123456Z\",\
         \"kind\":\"session_title\",\"session_id\":\"{id}\",\"payload\":{{}}}}\n"
    );
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("trace.0001.jsonl"), line).unwrap();
}

#[test]
fn line_written_in_two_pieces_arrives_whole() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("ses_1");
    write_segment(&session, "ses_1");
    let path = session.join("trace.0001.jsonl");
    let line = std::fs::read_to_string(&path)
        .unwrap()
        .replace("\"seq\":1", "\"seq\":2");
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    file.write_all(&line.as_bytes()[..20]).unwrap();
    // It starts in the middle of a line.
    let mut follower = Follower::session(&session, Start::Now).unwrap();
    none(&mut follower);
    file.write_all(&line.as_bytes()[20..]).unwrap();
    assert_eq!(next(&mut follower).1, "1:2");
    none(&mut follower);
}

#[test]
fn root_ignores_an_address() {
    let dir = tempfile::tempdir().unwrap();
    let at = Start::At(Address { seg: 1, seq: 3 });
    let error = Follower::root(dir.path(), at).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn existing_lines_of_sessions_arrive_in_time_order() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("parent", "planner").start();
        let _run = run.clone().entered();
        let tool = spans::tool_call("task", "call_1").start();
        let child = spans::session_run("child", "worker")
            .child_of(&tool)
            .start();
        child.finish(Outcome::Ok);
        tool.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
    let mut follower = Follower::root(recording.dir.path(), Start::Beginning).unwrap();
    let mut order = Vec::new();
    while let Some(followed) = follower.next(Duration::ZERO).unwrap() {
        if let ReadItem::Line(line) = followed.found {
            order.push(format!("{} {}", line.session_id, line.kind));
        }
    }
    let at = |what: &str| order.iter().position(|line| line == what).unwrap();
    assert!(at("parent tool_call") < at("child session_start"));
    assert!(at("child session_end") < at("parent tool_result"));
}
