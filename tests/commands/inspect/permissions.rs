//! `spanledger permissions`.

use serde_json::json;
use spanledger::Outcome;

use super::{guarded, session};
use crate::support::Recording;
use crate::support::cli::run;

#[test]
fn permissions_are_listed_and_evaluated_under_other_rules() {
    let recording = Recording::new();
    session(&recording, "ses_1", || {
        guarded("cargo test", "ask", Some("allow_once"));
        guarded("git push", "ask", Some("deny"));
        guarded("ls", "allow", None);
        guarded("rm -rf /", "deny", None);
        Outcome::Ok
    });
    session(&recording, "ses_2", || {
        guarded("cargo build", "ask", Some("allow_once"));
        Outcome::Ok
    });
    let root = recording.dir.path();
    let listed = run(root, &["permissions", "ses_1"]);
    let lines = listed.lines();
    assert_eq!(lines.len(), 4, "{listed:?}");
    assert!(lines[0].contains("ask   bash  cargo test"), "{listed:?}");
    assert!(
        lines[0].contains("rule *, by project, asked ada: allow_once, "),
        "{listed:?}"
    );
    assert!(lines[3].contains("deny  bash  rm -rf /"), "{listed:?}");

    let all = run(root, &["permissions", "--all"]);
    let lines = all.lines();
    assert_eq!(
        (lines.len(), lines[0], lines[5]),
        (7, "ses_1", "ses_2"),
        "{all:?}"
    );

    let file = root.join("rules.json");
    let rules = json!([
        {"permission": "bash", "action": "allow"},
        {"permission": "bash", "pattern": "rm *", "action": "deny"},
        {"permission": "bash", "pattern": "l?", "action": "ask"},
    ]);
    std::fs::write(&file, rules.to_string()).unwrap();
    let what_if = ["permissions", "--all", "--what-if", file.to_str().unwrap()];
    let objects = run(root, &[&what_if[..], &["--json"]].concat()).objects();
    let (counts, flips) = objects.split_last().unwrap();
    let changes: Vec<_> = flips
        .iter()
        .map(|flip| [&flip["subject"], &flip["action"], &flip["would_be"]])
        .map(|texts| texts.map(|text| text.as_str().unwrap()))
        .collect();
    let expected = [
        ["cargo test", "ask", "allow"],
        ["git push", "ask", "allow"],
        ["ls", "allow", "ask"],
        ["cargo build", "ask", "allow"],
    ];
    assert_eq!(changes, expected);
    for (name, expected) in [
        ("decisions", 5),
        ("flips", 4),
        ("questions_saved", 3),
        ("questions_added", 1),
        ("would_run_unasked", 3),
        ("would_run_unasked_denied_by_person", 1),
        ("would_be_denied", 0),
        ("undecided", 0),
    ] {
        assert_eq!(counts[name], expected, "{name} in {counts:#}");
    }
    let text = run(root, &what_if).out;
    assert!(text.contains("4 of 5 decisions would flip"), "{text}");
    std::fs::write(&file, "[{}]").unwrap();
    let wrong = run(root, &what_if);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong
            .err
            .contains("rules.json is not a list of permission rules"),
        "{wrong:?}"
    );
}
