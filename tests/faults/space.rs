//! No space left.

use crate::agent::Agent;
use crate::mount::Tmpfs;
use crate::scene::Scene;
use crate::support::{LineExt, Trace};
use spanledger::reader::Item;

#[test]
fn a_full_disk_costs_only_what_happens_while_it_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let Some(disk) = Tmpfs::mount(&root, 256 * 1024) else {
        return a_process_that_may_not_write_one_byte_more_loses_only_what_happens_meanwhile();
    };
    let mut scene = Scene::new(Agent::start(&root), &root);
    scene.before();
    let ballast = disk.fill();
    // What is left of the last page still takes a line or two, and then a part of one.
    scene.until_it_fails();
    scene.during();
    std::fs::remove_file(ballast).unwrap();
    let trace = scene.after();
    // The part of a line that fitted is followed by a newline; all lines behind it are whole.
    let fragments = trace.damage.iter().map(|item| match item {
        Item::Damaged(damage) => damage.bytes,
        other => panic!("{other:?}"),
    });
    assert_eq!(
        fragments.filter(|bytes| *bytes > 1).count(),
        1,
        "{:?}",
        trace.damage
    );
}

#[test]
fn a_disk_that_was_full_from_the_start_gets_the_whole_story_later() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let Some(disk) = Tmpfs::mount(&root, 256 * 1024) else {
        return a_process_that_may_not_write_one_byte_more_loses_only_what_happens_meanwhile();
    };
    let ballast = disk.fill();
    let mut scene = Scene::new(Agent::start(&root), &root);
    scene.during();
    std::fs::remove_file(ballast).unwrap();
    let trace = scene.after();
    assert!(trace.damage.is_empty(), "{:?}", trace.damage);
}

/// Where no small file system can be had: every write fails, as on a full disk.
#[test]
fn a_process_that_may_not_write_one_byte_more_loses_only_what_happens_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let mut scene = Scene::new(Agent::start(dir.path()), dir.path());
    scene.before();
    // The flush has it look at the limit, which it does only now and then by itself.
    scene.agent.tell(&["fsize 0"]);
    scene.agent.ask("flush");
    scene.during();
    let none = u64::MAX;
    scene.agent.tell(&[&format!("fsize {none}")]);
    scene.agent.ask("flush");
    scene.after();
}

#[test]
fn an_agent_killed_while_the_disk_is_full_is_recovered_past_the_torn_line() {
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
    next.tell(&["run run s", "turn turn run", "finish turn", "finish run"]);
    let trace = Trace::read(&root);
    assert!(
        matches!(trace.damage[..], [Item::Tail(_)]),
        "{:?}",
        trace.damage
    );
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
fn a_line_that_lacks_only_its_newline_gets_it_later_and_is_not_said_twice() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let Some(disk) = Tmpfs::mount(&root, 256 * 1024) else {
        return;
    };
    let segment = root.join("sessions/s/trace.0001.jsonl");
    let size = || segment.metadata().unwrap().len();
    let mut agent = Agent::start(&root);
    agent.tell(&["run run s", "events run 0 10", "tool aa run 0"]);
    let before = size();
    agent.tell(&["tool bb run 0"]);
    // An open line that ends one byte behind the last page there is.
    let line = size() - before;
    while size() % 4096 + line > 4096 {
        agent.tell(&["events run 10 11"]);
    }
    let now = size();
    let page = (now + line).next_multiple_of(4096);
    let ballast = disk.fill();
    agent.tell(&[&format!("tool cc run {}", page + 1 - now - line)]);
    assert_eq!(size(), page);
    let health = agent.health();
    assert_eq!(health.failed, 1, "{health:?}");
    assert_eq!(agent.ask("flush"), "1", "its newline is owed");
    std::fs::remove_file(ballast).unwrap();
    assert_eq!(agent.ask("flush"), "0");
    assert_eq!(size(), page + 1);
    agent.tell(&["finish cc"]);
    let trace = Trace::read(&root);
    assert!(trace.damage.is_empty() && trace.all("gap").is_empty());
    let opened = trace.find("tool_call", "tool_call_id", "cc");
    assert_eq!(opened.get("late"), &serde_json::Value::Null);
}

#[test]
fn a_writer_whose_first_line_was_torn_by_a_full_disk_is_not_taken_for_dead() {
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
    agent.tell(&["run run s", "tool a run 0"]);
    assert!(agent.health().failed > 0);
    std::fs::remove_file(ballast).unwrap();
    assert_eq!(agent.ask("flush"), "0", "{:?}", agent.health());

    let mut other = Agent::start(&root);
    assert_eq!(other.ask("recover s"), "0", "its writer lives");
    agent.tell(&["finish a", "finish run"]);
    let trace = Trace::read(&root);
    assert!(trace.all("interrupted").is_empty());
    assert!(!trace.damage.is_empty(), "the first line was torn");
}
