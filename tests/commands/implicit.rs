//! Implicit sessions: what was recorded outside every run.

use spanledger::{Outcome, SpanExt, spans};

use crate::support::Recording;
use crate::support::cli::{self, run};

#[test]
fn implicit_session_names_its_process() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        // A task that was spawned without a span.
        spans::tool_call("lost", "call_1")
            .start()
            .finish(Outcome::Ok);
        run.finish(Outcome::Ok);
        let later = spans::session_run("ses_2", "planner").start();
        later.finish(Outcome::Ok);
    });
    let root = recording.dir.path();
    let listed = run(root, &["list"]);
    let process = format!("(pid {})", std::process::id());
    let is_row = |line: &&str| line.contains("implicit, commands-") && line.contains(&process);
    assert_eq!(listed.out.lines().filter(is_row).count(), 1, "{listed:?}");
    let json = run(root, &["list", "--json"]).objects();
    let (own, runs): (Vec<_>, Vec<_>) = json.iter().partition(|one| one["implicit"].is_string());
    assert_eq!((own.len(), runs.len()), (1, 2));
    let own = own[0];
    let shown = run(root, &["show", own["session_id"].as_str().unwrap()]);
    let row = format!("{process}: spans and events outside every run");
    assert!(shown.out.contains("\n  implicit commands-"), "{shown:?}");
    assert!(shown.out.contains(&row), "{shown:?}");
    let id = own["session_id"].as_str().unwrap();
    let beside = run(root, &["show", "ses_1"]);
    let why = "recorded by its process outside every run; was a task spawned without a span?";
    let row = format!("\n  outside  {id}: {why}");
    assert!(beside.out.contains(&row), "{beside:?}");
    // A narrow terminal cuts the words, not the id.
    let mut narrow = cli::spanledger(root);
    let narrow = narrow.args(["show", "ses_1"]).env("COLUMNS", "80").output();
    let narrow = cli::Done::from(narrow.unwrap());
    let row = format!("\n  outside  {id}: recorded by");
    assert!(narrow.out.contains(&row), "{narrow:?}");
    let header = &run(root, &["show", "ses_1", "--json"]).objects()[0];
    assert_eq!(header["implicit_beside"], serde_json::json!([id]));
    assert!(!shown.out.contains("\n  outside "), "{shown:?}");
    let health = recording.guard.health();
    assert_eq!(health.implicit_session.as_deref(), Some(id));
    assert!(health.orphaned > 0);
    let status = run(root, &["status"]);
    assert!(
        status.out.contains("  implicit 1 session has "),
        "{status:?}"
    );
    // A run that began later is not concerned.
    let later = run(root, &["show", "ses_2"]);
    assert!(!later.out.contains("outside"), "{later:?}");
}

#[test]
fn status_of_a_live_run_names_the_implicit_session() {
    let recording = Recording::new();
    let open = recording.run(|| {
        let open = spans::session_run("ses_1", "planner").start();
        drop(spans::tool_call("lost", "call_1").start());
        open
    });
    let root = recording.dir.path();
    let id = recording.guard.health().implicit_session.unwrap();
    let status = run(root, &["status"]);
    let why = "recorded by its process outside every run; was a task spawned without a span?";
    let row = format!("\n  outside: {id}: {why}");
    assert!(status.out.contains(&row), "{status:?}");
    let json = run(root, &["status", "--json"]).json();
    assert_eq!(json["live"][0]["implicit_beside"][0], id);
    drop(open);
}
