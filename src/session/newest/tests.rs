use std::fs::File;
use std::time::Duration;

use super::*;
use crate::trace::time_text;

const START_S: u64 = 1_700_000_000;

/// Writes a session that was active at a second, with a file that was written at another one.
fn session(root: &Path, name: &str, active: u64, written: u64) {
    let dir = root.join("sessions").join(name);
    std::fs::create_dir_all(&dir).unwrap();
    let ts = time_text((START_S + active) * 1_000_000_000, 6);
    let line = format!(
        "{{\"v\":1,\"seg\":1,\"seq\":1,\"ts\":\"{ts}\",\"kind\":\"message_user\",\
         \"session_id\":\"{name}\",\"payload\":{{}}}}\n"
    );
    let path = dir.join("trace.0001.jsonl");
    std::fs::write(&path, line).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let modified = UNIX_EPOCH + Duration::from_secs(START_S + written);
    file.set_modified(modified).unwrap();
}

fn names(newest: Newest<'_>) -> Vec<String> {
    newest.map(|entry| entry.summary.session_id).collect()
}

#[test]
fn first_ones_are_found_without_reading_all() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..200 {
        // The names are in another order than the times.
        session(root.path(), &format!("s{}", (n * 7) % 200), n * 10, n * 10);
    }
    let store = Store::new(root.path());
    let mut newest = store.newest().unwrap();
    let first = newest.next().unwrap();
    assert_eq!(first.summary.session_id, format!("s{}", (199 * 7) % 200));
    assert!(newest.unread.len() >= 190, "{}", newest.unread.len());
    assert_eq!(newest.by_ref().take(19).count(), 19);
    assert!(newest.unread.len() >= 140, "{}", newest.unread.len());
    assert_eq!(newest.count(), 180);
    assert_eq!(store.resolve("last").unwrap(), first.dir);
}

#[test]
fn files_written_later_do_not_change_the_order() {
    let root = tempfile::tempdir().unwrap();
    // A recovery and a copy write long after a session was active.
    let sessions = [("old", 1, 900), ("new", 50, 50), ("newer", 60, 800)];
    for (name, active, written) in sessions {
        session(root.path(), name, active, written);
    }
    let store = Store::new(root.path());
    assert_eq!(names(store.newest().unwrap()), ["newer", "new", "old"]);
}

#[test]
fn more_than_fit_into_memory_come_in_order() {
    let root = tempfile::tempdir().unwrap();
    let count = MOST_KEPT as u64 + 100;
    for n in 0..count {
        session(root.path(), &format!("s{n}"), n, count);
    }
    let store = Store::new(root.path());
    let mut newest = store.newest().unwrap();
    let first = newest.next().unwrap();
    assert_eq!(first.summary.session_id, format!("s{}", count - 1));
    let kept = newest.waiting.values().filter(|entry| entry.is_some());
    assert!(kept.count() <= MOST_KEPT);
    let expected: Vec<_> = (0..count - 1).rev().map(|n| format!("s{n}")).collect();
    assert_eq!(names(newest), expected);
}
