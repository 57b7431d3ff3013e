//! Implicit sessions: what was recorded outside every run.

use spanledger::{Outcome, SpanExt, spans};

use crate::support::Recording;
use crate::support::cli::run;

#[test]
fn implicit_session_names_its_process() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.finish(Outcome::Ok);
        // A task that was spawned without a span.
        spans::tool_call("lost", "call_1")
            .start()
            .finish(Outcome::Ok);
    });
    let root = recording.dir.path();
    let listed = run(root, &["list"]);
    let process = format!("(pid {})", std::process::id());
    let is_row = |line: &&str| line.contains("implicit, commands-") && line.contains(&process);
    assert_eq!(listed.out.lines().filter(is_row).count(), 1, "{listed:?}");
    let json = run(root, &["list", "--json"]).objects();
    let implicit = |id: bool| {
        let one = json.iter().find(|one| (one["session_id"] == "ses_1") == id);
        one.unwrap()["implicit"].clone()
    };
    assert!(implicit(true).is_null() && implicit(false).is_string());
    let own = json
        .iter()
        .find(|one| one["session_id"] != "ses_1")
        .unwrap();
    let shown = run(root, &["show", own["session_id"].as_str().unwrap()]);
    let row = format!("{process}: spans and events outside every run");
    assert!(shown.out.contains("\n  implicit commands-"), "{shown:?}");
    assert!(shown.out.contains(&row), "{shown:?}");
    let status = run(root, &["status"]);
    assert!(
        status.out.contains("  implicit 1 session has "),
        "{status:?}"
    );
}
