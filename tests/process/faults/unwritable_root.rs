//! The root can't be written.

use std::fs::Permissions;
use std::io::{PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use spanledger::spans;

use crate::faults::setup::Scene;
use crate::support::agent::Agent;
use crate::support::is_root;
use crate::support::mount::Tmpfs;
use crate::support::skipped::skipped;
use crate::support::{Recording, Trace};

#[test]
fn read_only_directory_delays_the_trace() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("place");
    std::fs::create_dir(&place).unwrap();
    let root = place.join("root");
    if let Some(disk) = Tmpfs::mount(&place, 1 << 20) {
        disk.set_read_only(true);
        let mut scene = Scene::new(Agent::start(&root), &root);
        scene.during();
        disk.set_read_only(false);
        scene.after();
    } else if !is_root() {
        std::fs::set_permissions(&place, Permissions::from_mode(0o500)).unwrap();
        let mut scene = Scene::new(Agent::start(&root), &root);
        scene.during();
        std::fs::set_permissions(&place, Permissions::from_mode(0o700)).unwrap();
        scene.after();
    } else {
        skipped("root without mounts can't make a directory read-only");
    }
}

#[test]
fn root_that_is_a_file_delays_the_trace() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::write(&root, "not a directory").unwrap();
    let mut scene = Scene::new(Agent::start(&root), &root);
    scene.during();
    assert_eq!(std::fs::read(&root).unwrap(), b"not a directory");
    std::fs::remove_file(&root).unwrap();
    scene.after();
}

#[test]
fn sessions_that_is_a_file_delays_the_trace() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = dir.path().join("sessions");
    std::fs::write(&sessions, "not a directory").unwrap();
    let mut scene = Scene::new(Agent::start(dir.path()), dir.path());
    scene.during();
    std::fs::remove_file(&sessions).unwrap();
    scene.after();
}

#[test]
fn later_events_retry_after_a_fault() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = dir.path().join("sessions");
    std::fs::write(&sessions, "not a directory").unwrap();
    let mut agent = Agent::start(dir.path());
    agent.send(&["run run s", "events run 0 5"]);
    std::fs::remove_file(&sessions).unwrap();
    let late = Instant::now() + Duration::from_secs(60);
    while agent.health().written == 0 {
        assert!(Instant::now() < late, "it never tried again");
        agent.send(&["event run 5 0"]);
    }
    let trace = Trace::read(dir.path());
    let kinds = ["segment", "gap", "session_start", "probe"];
    assert_eq!(trace.kinds("s"), kinds);
    let failed = agent.health().failed;
    assert_eq!(trace.one("gap").payload["count"], failed);
}

#[test]
fn file_in_place_of_a_session_affects_only_it() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sessions")).unwrap();
    std::fs::write(dir.path().join("sessions/bad"), "").unwrap();
    let mut agent = Agent::start(dir.path());
    agent.send(&[
        "run bad bad",
        "run good good",
        "events good 0 5",
        "finish good",
    ]);
    let health = agent.health();
    assert_eq!(health.failed, 1, "{health:?}");
    std::fs::remove_file(dir.path().join("sessions/bad")).unwrap();
    assert_eq!(agent.ask("flush"), "0");
    let trace = Trace::read(dir.path());
    let kinds = trace.kinds("good");
    assert_eq!(kinds[..2], ["segment", "session_start"]);
    assert!(!kinds.contains(&"gap"));
    assert_eq!(trace.kinds("bad"), ["segment", "gap", "session_start"]);
}

#[test]
fn closed_stderr_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = dir.path().join("sessions");
    std::fs::write(&sessions, "").unwrap();
    let mut agent = Agent::start(dir.path());
    agent.send(&["close-stderr", "run run s", "events run 0 3"]);
    assert_eq!(agent.health().failed, 4);
    std::fs::remove_file(&sessions).unwrap();
    assert_eq!(agent.ask("flush"), "0");
    agent.send(&["events run 3 6"]);
    assert_eq!(agent.health().failed, 4);
    // What the agent prints there must not end up in the trace.
    assert_eq!(agent.ask("stderr-is-open"), "false");
    assert_eq!(agent.stderr(), "");
    let trace = Trace::read(dir.path());
    assert_eq!(trace.one("gap").payload["count"], 4);
    assert_eq!(trace.all("probe").len(), 3);
}

#[test]
fn locked_stderr_does_not_block() {
    let recording = Recording::new();
    std::fs::write(recording.dir.path().join("sessions"), "").unwrap();
    let run = || recording.run(|| drop(spans::session_run("s", "planner").start()));
    let held = std::io::stderr().lock();
    // The library reports there that the trace can't be written.
    std::thread::scope(|scope| scope.spawn(run).join().unwrap());
    run();
    drop(held);
    assert_eq!(recording.guard.health().failed, 4);
}

/// Fills a pipe and returns how many bytes that took.
fn fill(mut pipe: &PipeWriter) -> u64 {
    let fd = pipe.as_raw_fd();
    // SAFETY: sets a flag of a descriptor that is open.
    let set = |flags: libc::c_int| unsafe { libc::fcntl(fd, libc::F_SETFL, flags) };
    assert_eq!(set(libc::O_NONBLOCK), 0);
    let mut filled = 0;
    while let Ok(n) = pipe.write(&[b'.'; 4096]) {
        filled += n as u64;
    }
    assert_eq!(set(0), 0);
    filled
}

#[test]
fn unread_stderr_does_not_block() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = dir.path().join("sessions");
    std::fs::write(&sessions, "").unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let filled = fill(&writer);
    let mut agent = Agent::with_stderr(dir.path(), &[], writer.into());
    agent.send(&["run run s", "events run 0 3"]);
    assert_eq!(agent.health().failed, 4);
    // Once it is read, the next failure is reported.
    std::io::copy(&mut reader.by_ref().take(filled), &mut std::io::sink()).unwrap();
    agent.send(&["events run 3 6"]);
    agent.exit("exit");
    let mut stderr_text = String::new();
    reader.read_to_string(&mut stderr_text).unwrap();
    assert_eq!(stderr_text.lines().count(), 1, "{stderr_text}");
}
