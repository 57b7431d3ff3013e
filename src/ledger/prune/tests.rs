use std::fs::File;

use super::*;

fn dead_session(root: &Path, id: &str) -> PathBuf {
    let session = root.join("sessions").join(id);
    std::fs::create_dir_all(&session).unwrap();
    let line = format!(
        "{{\"v\":1,\"seg\":1,\"seq\":1,\"ts\":\"2026-11-16T00:31:05.123456Z\",\
         \"kind\":\"segment\",\"session_id\":\"{id}\",\"payload\":{{\"writer\":\"w\"}}}}\n"
    );
    std::fs::write(session.join("trace.0001.jsonl"), line).unwrap();
    session
}

#[test]
fn a_session_that_is_resumed_while_its_subagents_go_keeps_the_rest() {
    let root = tempfile::tempdir().unwrap();
    let [sub1, sub2, main] = ["sub1", "sub2", "main"].map(|id| dead_session(root.path(), id));
    let resume = |next: &Path| {
        if next.ends_with("sub2") {
            File::create(main.join("trace.0002.jsonl")).unwrap();
        }
    };
    let all = ["sub1", "sub2", "main"];
    let done = remove_together(root.path(), &all, false, resume).unwrap();
    assert!(matches!(done[0], Removal::Removed { .. }), "{done:?}");
    assert_eq!(done[1..], [Removal::Family, Removal::Live]);
    assert!(!sub1.exists() && sub2.exists() && main.exists());
}

#[test]
fn what_is_gone_is_told_though_what_started_it_can_not_be_removed() {
    let root = tempfile::tempdir().unwrap();
    let [sub, main] = ["sub", "main"].map(|id| dead_session(root.path(), id));
    let spoil = |next: &Path| {
        if next.ends_with("main") {
            std::fs::remove_file(main.join("lock")).unwrap();
            std::fs::create_dir(main.join("lock")).unwrap();
        }
    };
    let all = ["sub", "main"];
    let done = remove_together(root.path(), &all, false, spoil).unwrap();
    assert!(matches!(done[0], Removal::Removed { .. }), "{done:?}");
    assert!(matches!(done[1], Removal::Failed { .. }), "{done:?}");
    assert!(!sub.exists() && main.exists());
}

#[test]
fn a_subagent_that_comes_back_keeps_what_started_it() {
    let root = tempfile::tempdir().unwrap();
    let [sub, main] = ["sub", "main"].map(|id| dead_session(root.path(), id));
    let come_back = |next: &Path| {
        if next.ends_with("sub") {
            File::create(sub.join("trace.0002.jsonl")).unwrap();
        }
    };
    let all = ["sub", "main"];
    let done = remove_together(root.path(), &all, false, come_back).unwrap();
    assert_eq!(done, [Removal::Live, Removal::Family]);
    assert!(sub.exists() && main.exists());
}

#[test]
fn a_writer_that_comes_in_between_gets_its_session_back() {
    let root = tempfile::tempdir().unwrap();
    let session = dead_session(root.path(), "ses_1");
    let come_in = || {
        File::create(session.join("trace.0002.jsonl")).unwrap();
    };
    let removal = remove(root.path(), &session, false, come_in).unwrap();
    assert_eq!(removal, Removal::Live);
    assert!(session.join("trace.0001.jsonl").exists());
    assert!(session.join("trace.0002.jsonl").exists());
    assert_eq!(remove_leftovers(root.path()).unwrap(), (0, 0));
}

#[test]
fn owed_sessions_are_found_without_listing_the_outbox() {
    let root = tempfile::tempdir().unwrap();
    let all = ["one", "two", "three"];
    for id in all {
        dead_session(root.path(), id);
        let marker = format!("outbox/{id}.0001");
        std::fs::create_dir_all(root.path().join("outbox")).unwrap();
        std::fs::write(root.path().join(marker), "").unwrap();
    }
    // The marker of a segment that is gone does not count.
    std::fs::write(root.path().join("outbox/one.0002"), "").unwrap();
    let done = can_remove_sessions(root.path(), &all, false).unwrap();
    assert_eq!(done, [const { Removal::Owed { segments: 1 } }; 3]);
    assert_eq!(marker::LISTED.get(), 0);
}
