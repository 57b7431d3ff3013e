//! The close line that a dead writer's span gets: everything the span had said.

mod support;

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::json;
use spanledger::ledger::Line;
use spanledger::{Handle, SpanExt, Usage, spans};
use support::{LineExt, Recording, Trace};
use tempfile::TempDir;
use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// What the next process makes of the trace, if this one died at the end of `agent`.
fn recovered(agent: impl FnOnce(&dyn Fn())) -> Trace {
    let recording = Recording::new();
    let next = tempfile::tempdir().unwrap();
    recording.run(|| {
        agent(&|| {
            // Without the lock under `writers`, the writer is dead.
            let sessions = "sessions";
            copy(
                &recording.dir.path().join(sessions),
                &next.path().join(sessions),
            );
        });
    });
    let recording = Recording::again(next);
    recording.handle().session("s").recover();
    recording.trace()
}

#[test]
fn an_interrupted_span_keeps_all_that_its_updates_said() {
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
fn fields_named_like_an_interrupted_lines_own_members_do_not_disturb_it() {
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
    let next = tempfile::tempdir().unwrap();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        copy(
            &recording.dir.path().join("sessions"),
            &next.path().join("sessions"),
        );
    });
    next
}

#[test]
fn a_recovered_session_is_recovered_once() {
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

/// A session in which two writers left a call open, and where their locks would be.
fn left_open() -> (TempDir, [PathBuf; 2]) {
    let (one, left) = (Recording::new(), tempfile::tempdir().unwrap());
    let (layer, guard) = spanledger::builder().root(one.dir.path()).build().unwrap();
    let two = Dispatch::new(tracing_subscriber::registry().with(layer));
    let call = |handle: Handle| {
        let session = handle.session("s");
        spans::tool_call("bash", "c").in_session(&session).start()
    };
    let _one = one.run(|| call(one.handle()));
    let _two = tracing::dispatcher::with_default(&two, || call(guard.handle()));
    copy(
        &one.dir.path().join("sessions"),
        &left.path().join("sessions"),
    );
    let writers = left.path().join("writers");
    let lock = |segment: &Line| writers.join(segment.text("writer"));
    let locks = [0, 1].map(|n| lock(one.trace().all("segment")[n]));
    std::fs::create_dir(writers).unwrap();
    (left, locks)
}

/// Whoever asks whether that writer lives is answered here.
fn ask_here(lock: &Path) {
    let path = CString::new(lock.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

fn answer(lock: &Path) -> File {
    File::options().write(true).open(lock).unwrap()
}

#[test]
fn a_child_that_is_forked_during_a_recovery_does_not_keep_the_session_locked() {
    let (dir, [first, second]) = left_open();
    let next = Recording::again(dir);
    let lock = next.dir.path().join("sessions/s/lock");
    ask_here(&first);
    ask_here(&second);
    let (mut born, tell) = std::io::pipe().unwrap();
    let child = std::thread::scope(|scope| {
        let recovery = scope.spawn(|| next.handle().session("s").recover());
        drop(answer(&first));
        drop(answer(&second));
        // It asks once more when it has the session's lock.
        drop(answer(&first));
        // SAFETY: the child says that it is there, and does nothing until it is killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            unsafe { libc::write(tell.as_raw_fd(), [1].as_ptr().cast(), 1) };
            loop {
                unsafe { libc::pause() };
            }
        }
        born.read_exact(&mut [0]).unwrap();
        drop(answer(&second));
        assert_eq!(recovery.join().unwrap(), 2);
        child
    });
    let locked = File::open(lock).unwrap().try_lock();
    // SAFETY: ends that child, and waits for it.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    locked.unwrap();
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
fn an_interrupted_span_ends_when_its_writer_was_last_heard_of() {
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

/// A session whose recovery failed when a run of it began, and what has to be removed for it to go well.
fn not_recovered() -> (Recording, PathBuf) {
    let next = with_an_open_run();
    let lock = next.path().join("sessions/s/lock");
    std::fs::create_dir(&lock).unwrap();
    let recording = Recording::again(next);
    let run = || recording.run(|| drop(spans::session_run("s", "planner").start()));
    // A thread of its own takes along what it remembers of the session.
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
fn what_could_not_be_recovered_when_a_run_began_is_recovered_later() {
    let (recording, lock) = not_recovered();
    std::fs::remove_dir(&lock).unwrap();
    recording.handle().flush();
    assert_recovered(&recording);
}

#[test]
fn a_session_that_owes_a_recovery_is_not_forgotten_for_thousands_of_others() {
    let (recording, lock) = not_recovered();
    for n in 0..5000 {
        recording.handle().session(&format!("other_{n}"));
    }
    std::fs::remove_dir(&lock).unwrap();
    recording.handle().flush();
    assert_recovered(&recording);
}
