//! The close line that recovery writes for a dead writer's span has everything the span had
//! recorded.

use std::cell::Cell;
use std::path::PathBuf;

use serde_json::json;
use spanledger::{Outcome, SpanExt, Usage, events, spans};
use tempfile::TempDir;

use crate::support::{LineExt, Recording, Trace};

/// The trace after the next process has recovered it, if this one died at the end of `agent`.
fn recovered(agent: impl FnOnce(&dyn Fn())) -> Trace {
    recovered_from(Recording::new(), agent)
}

fn recovered_from(recording: Recording, agent: impl FnOnce(&dyn Fn())) -> Trace {
    let next = Cell::new(None);
    recording.run(|| agent(&|| next.set(Some(recording.copy_as_crashed()))));
    let recording = Recording::again(next.take().unwrap());
    recording.handle().session("s").recover();
    recording.trace()
}

#[test]
fn interrupted_line_keeps_all_updates() {
    let trace = recovered(|die| {
        let _run = spans::session_run("s", "planner").start().entered();
        let turn = spans::session_turn().start();
        let (a, b) = (spans::session_turn().start(), spans::session_turn().start());
        turn.follows_from(&a);
        turn.follows_from(&b);
        turn.record_usage(&Usage {
            input_tokens: Some(10),
            ..Usage::default()
        });
        turn.record_usage(&Usage {
            output_tokens: Some(3),
            ..Usage::default()
        });
        turn.set("stop_reason", "none yet");
        die();
    });
    let closed = trace.find("interrupted", "turn_index", 1);
    assert_eq!(closed.text("closes"), "turn_end");
    assert_eq!(closed.text("outcome"), "interrupted");
    assert_eq!(closed.text("stop_reason"), "none yet");
    assert_eq!(
        closed.get("usage"),
        &json!({"input_tokens": 10, "output_tokens": 3})
    );
    assert_eq!(closed.get("links").as_array().unwrap().len(), 2);
}

#[test]
fn fields_named_like_own_members_are_harmless() {
    let trace = recovered(|die| {
        let _run = spans::session_run("s", "planner").start().entered();
        let tool = spans::tool_call("bash", "c1").start();
        for own in ["closes", "reason", "last_seen", "detected_at", "outcome"] {
            tool.set(own, "mine");
        }
        die();
    });
    let closed = trace.find("interrupted", "tool_id", "bash");
    assert_eq!(closed.text("closes"), "tool_result");
    assert_eq!(closed.text("reason"), "writer_gone");
    assert_eq!(closed.text("outcome"), "interrupted");
    assert_ne!(closed.text("last_seen"), "mine");
    assert_ne!(closed.text("detected_at"), "mine");
    assert_eq!(closed.payload["custom.reason"], "mine");
}

/// The trace as a process leaves it that dies in a run.
fn with_an_open_run() -> TempDir {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        recording.copy_as_crashed()
    })
}

#[test]
fn session_is_recovered_once() {
    let next = with_an_open_run();
    let recording = Recording::again(next);
    assert_eq!(recording.handle().session("s").recover(), 1);
    assert_eq!(recording.handle().session("s").recover(), 0);
    recording.run(|| drop(spans::session_run("s", "planner").start()));
    let trace = recording.trace();
    let interrupted = trace.one("interrupted");
    assert_eq!(interrupted.text("closes"), "session_end");
    assert_eq!(interrupted.span_id, trace.one("session_start").span_id);
    assert_eq!(trace.one("session_resume").seg, 2);
}

/// A time as nanoseconds of its day.
fn of_day(time: &str) -> i128 {
    let (_, clock) = time.trim_end_matches('Z').split_once('T').unwrap();
    let (whole, fraction) = clock.split_once('.').unwrap();
    let seconds = whole
        .split(':')
        .fold(0, |sum, part| 60 * sum + part.parse::<i128>().unwrap());
    seconds * 1_000_000_000 + format!("{fraction:0<9}").parse::<i128>().unwrap()
}

#[test]
fn span_ends_at_the_writers_last_line() {
    let trace = recovered(|die| {
        let _run = spans::session_run("s", "planner").start().entered();
        let _tool = spans::tool_call("bash", "c1").start().entered();
        spanledger::events::message_user("the last word").emit();
        die();
    });
    let last = &trace.one("message_user").ts;
    let closed = trace.all("interrupted");
    assert_eq!(closed.len(), 2);
    for line in closed {
        assert_eq!(line.text("last_seen"), last);
        assert!(line.text("detected_at") >= last.as_str());
        let duration = i128::from(line.get("duration_ns").as_u64().unwrap());
        let until = of_day(last) - of_day(line.text("start"));
        assert_eq!(duration, until.rem_euclid(86_400_000_000_000));
    }
}

/// A full segment continues in another one, and so do the spans that are open then.
#[test]
fn span_ends_at_the_last_line_in_any_segment() {
    let recording = Recording::with(|builder| builder.segment_size(4096));
    let trace = recovered_from(recording, |die| {
        let _run = spans::session_run("s", "planner").start().entered();
        for _ in 0..20 {
            events::message_user("word ".repeat(200)).emit();
        }
        let _tool = spans::tool_call("bash", "c1").start().entered();
        events::message_system("the last word").emit();
        die();
    });
    let last = trace.one("message_system");
    let run = trace.find("interrupted", "closes", "session_end");
    assert!(last.seg > 2, "{last:?}");
    assert_eq!(run.get("opened_seg"), 1);
    for line in trace.all("interrupted") {
        assert_eq!(line.text("last_seen"), last.ts);
    }
}

/// A session whose recovery failed when a run of it began, and what has to be removed for it to go well.
fn not_recovered() -> (Recording, PathBuf) {
    let next = with_an_open_run();
    let lock = next.path().join("sessions/s/lock");
    std::fs::create_dir(&lock).unwrap();
    let recording = Recording::again(next);
    let run = || recording.run(|| drop(spans::session_run("s", "planner").start()));
    // On a thread of its own, whose cache of the session ends with it.
    std::thread::scope(|scope| scope.spawn(run).join().unwrap());
    assert!(recording.trace().all("interrupted").is_empty());
    let error = recording.guard.health().last_error.unwrap();
    assert!(error.contains("recover"), "{error}");
    (recording, lock)
}

fn assert_recovered(recording: &Recording) {
    let trace = recording.trace();
    let started = trace.one("session_start");
    assert_eq!(trace.one("interrupted").span_id, started.span_id);
}

#[test]
fn failed_recovery_is_retried_later() {
    let (recording, lock) = not_recovered();
    std::fs::remove_dir(&lock).unwrap();
    recording.handle().flush();
    assert_recovered(&recording);
}

#[test]
fn session_awaiting_recovery_is_not_evicted() {
    let (recording, lock) = not_recovered();
    for n in 0..5000 {
        recording.handle().session(&format!("other_{n}"));
    }
    std::fs::remove_dir(&lock).unwrap();
    recording.handle().flush();
    assert_recovered(&recording);
}

/// How many bytes this thread has read.
fn bytes_read() -> u64 {
    let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.unwrap().parse().unwrap()
}

#[test]
fn large_session_is_recovered_off_the_thread() {
    let recording = Recording::new();
    let dir = recording.run(|| {
        let run = spans::session_run("s", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        let text = "x".repeat(10_000);
        (0..2_500).for_each(|_| events::message_user(&text).emit());
        let dir = recording.copy_as_crashed();
        drop(run);
        dir
    });
    let recording = Recording::again(dir);
    recording.run(|| {
        let before = bytes_read();
        let _run = spans::session_run("s", "planner").start().entered();
        let read = bytes_read() - before;
        assert!(read < 9 << 20, "{read} bytes were read");
        let _turn = spans::session_turn().start();
    });
    assert_eq!(recording.handle().flush(), 0);
    let trace = recording.trace();
    assert_eq!(trace.all("interrupted").len(), 2);
    assert_eq!(trace.all("session_resume").len(), 1);
    assert_eq!(trace.find("turn_start", "turn_index", 2).seg, 2);
}

#[test]
fn compaction_is_known_after_a_checkpoint() {
    let recording = Recording::new();
    let dir = recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        spans::compaction_run().start().finish(Outcome::Ok);
        let text = "x".repeat(10_000);
        (0..250).for_each(|_| events::message_user(&text).emit());
        recording.copy_as_crashed()
    });
    let recording = Recording::again(dir);
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        drop(spans::model_call("anthropic", "m-1").start());
        drop(spans::model_call("anthropic", "m-2").start());
    });
    let trace = recording.trace();
    assert!(!trace.all("checkpoint").is_empty());
    let first = trace.find("model_result", "model_id", "m-1");
    assert_eq!(first.get("compacted"), &json!(true));
    let second = trace.find("model_result", "model_id", "m-2");
    assert!(!second.payload.contains_key("compacted"));
}
