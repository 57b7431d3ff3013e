//! No space left on the device.

use crate::faults::setup::Scene;
use crate::support::agent::Agent;
use crate::support::mount::Tmpfs;
use crate::support::{LineExt, Trace};

#[test]
fn loses_only_events_while_full() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let Some(disk) = Tmpfs::mount(&root, 256 * 1024) else {
        return zero_file_size_limit_loses_only_new_events();
    };
    let mut scene = Scene::new(Agent::start(&root), &root);
    scene.before();
    let ballast = disk.fill();
    // What is left of the last page still takes a line or two, and then a part of one.
    scene.until_it_fails();
    scene.during();
    std::fs::remove_file(ballast).unwrap();
    let trace = scene.after();
    // The part of a line that fitted is truncated.
    assert!(trace.damage.is_empty(), "{:?}", trace.damage);
}

#[test]
fn full_from_the_start_is_recorded_later() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let Some(disk) = Tmpfs::mount(&root, 256 * 1024) else {
        return zero_file_size_limit_loses_only_new_events();
    };
    let ballast = disk.fill();
    let mut scene = Scene::new(Agent::start(&root), &root);
    scene.during();
    std::fs::remove_file(ballast).unwrap();
    let trace = scene.after();
    assert!(trace.damage.is_empty(), "{:?}", trace.damage);
}

/// Replaces a small file system where none can be mounted: every write fails, as on a full disk.
#[test]
fn zero_file_size_limit_loses_only_new_events() {
    let dir = tempfile::tempdir().unwrap();
    let mut scene = Scene::new(Agent::start(dir.path()), dir.path());
    scene.before();
    scene.agent.send(&["fsize 0"]);
    scene.during();
    let none = u64::MAX;
    scene.agent.send(&[&format!("fsize {none}")]);
    scene.after();
}

#[test]
fn agent_killed_while_full_is_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let Some(disk) = Tmpfs::mount(&root, 256 * 1024) else {
        return;
    };
    let mut scene = Scene::new(Agent::start(&root), &root);
    scene.before();
    let ballast = disk.fill();
    scene.until_it_fails();
    scene.agent.kill();
    std::fs::remove_file(ballast).unwrap();
    let mut next = Agent::start(&root);
    next.send(&["run run s", "turn turn run", "finish turn", "finish run"]);
    let trace = Trace::read(&root);
    assert!(trace.damage.is_empty(), "{:?}", trace.damage);
    let closed: Vec<_> = trace
        .all("interrupted")
        .iter()
        .map(|line| line.text("closes"))
        .collect();
    assert_eq!(closed, ["tool_result", "turn_end", "session_end"]);
    assert_eq!(trace.all("session_resume").len(), 1);
    let turns: Vec<_> = trace
        .all("turn_start")
        .iter()
        .map(|line| line.get("turn_index").as_u64())
        .collect();
    assert_eq!(turns, [Some(1), Some(2)]);
}

#[test]
fn line_without_newline_is_truncated_and_late() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let Some(disk) = Tmpfs::mount(&root, 256 * 1024) else {
        return;
    };
    let segment = root.join("sessions/s/trace.0001.jsonl");
    let size = || segment.metadata().unwrap().len();
    let mut agent = Agent::start(&root);
    agent.send(&["run run s", "events run 0 10", "tool aa run 0"]);
    let before = size();
    agent.send(&["tool bb run 0"]);
    // An open line that ends one byte behind the last page there is.
    let line = size() - before;
    while size() % 4096 + line > 4096 {
        agent.send(&["events run 10 11"]);
    }
    let now = size();
    let page = (now + line).next_multiple_of(4096);
    let ballast = disk.fill();
    agent.send(&[&format!("tool cc run {}", page + 1 - now - line)]);
    assert_eq!(size(), now);
    let health = agent.health();
    assert_eq!(health.failed, 1, "{health:?}");
    std::fs::remove_file(ballast).unwrap();
    assert_eq!(agent.ask("flush"), "0");
    agent.send(&["finish cc"]);
    let trace = Trace::read(&root);
    assert!(trace.damage.is_empty() && trace.all("gap").len() == 1);
    let opened = trace.find("tool_call", "tool_call_id", "cc");
    assert_eq!(*opened.get("late"), true);
}

#[test]
fn writer_with_torn_first_line_is_not_dead() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let Some(disk) = Tmpfs::mount(&root, 256 * 1024) else {
        return;
    };
    // A first line longer than the one page that is left beside the writer's lock.
    let argument = "x".repeat(5000);
    let mut agent = Agent::named(&root, &argument);
    std::fs::create_dir_all(root.join("sessions/s")).unwrap();
    let ballast = disk.fill();
    let size = ballast.metadata().unwrap().len();
    let file = std::fs::File::options().write(true).open(&ballast).unwrap();
    file.set_len(size - 2 * 4096).unwrap();
    drop(file);
    agent.send(&["run run s", "tool a run 0"]);
    assert!(agent.health().failed > 0);
    std::fs::remove_file(ballast).unwrap();
    assert_eq!(agent.ask("flush"), "0", "{:?}", agent.health());

    let mut other = Agent::start(&root);
    assert_eq!(other.ask("recover s"), "0", "its writer lives");
    agent.send(&["finish a", "finish run"]);
    let trace = Trace::read(&root);
    assert!(trace.all("interrupted").is_empty());
    assert!(trace.damage.is_empty(), "{:?}", trace.damage);
}
