//! `spanledger baseline` and `spanledger assert`.

use spanledger::{Outcome, events};

use super::{family, model, session, tool, usage};
use crate::support::Recording;
use crate::support::cli::run;

#[test]
fn assert_names_each_line_that_a_session_violates() {
    let recording = Recording::new();
    let script = |tools: &'static [&'static str]| {
        move || {
            tools.iter().for_each(|name| tool(name, "ok", Outcome::Ok));
            model("claude-sonnet-4-5", &usage(1_000, 0, 100));
            Outcome::Ok
        }
    };
    session(&recording, "good", script(&["read", "edit", "bash"]));
    session(&recording, "bad", || {
        events::loop_warning("web, web", 3).emit();
        (0..9).for_each(|_| tool("web", "no", Outcome::Error));
        (0..9).for_each(|_| model("claude-sonnet-4-5", &usage(1_000, 0, 100)));
        Outcome::Error
    });
    let root = recording.dir.path();
    let file = root.join("baseline.json");
    let file = file.to_str().unwrap();
    assert_eq!(run(root, &["baseline", "good", "-o", file]).code, 0);
    let with = |session: &str, args: &[&str]| {
        let all = [
            &[
                "assert",
                session,
                "--baseline",
                file,
                "--ignore",
                "duration",
            ],
            args,
        ]
        .concat();
        run(root, &all)
    };
    let good = with("good", &["--max-divergence", "0"]);
    assert_eq!(good.code, 0, "{good:?}");
    let bad = with("bad", &["--max-divergence", "0.5"]);
    assert_eq!(bad.code, 1, "{bad:?}");
    let failed = bad
        .out
        .lines()
        .filter_map(|line| line.strip_prefix("FAIL "));
    let failed: Vec<&str> = failed.filter_map(|line| line.split(' ').next()).collect();
    let expected = [
        "steps",
        "calls",
        "tokens",
        "cost",
        "new-tools",
        "loops",
        "errors",
        "status",
        "divergence",
    ];
    assert_eq!(failed, expected, "{bad:?}");
    assert!(
        bad.out.contains("web, which the baseline did not call"),
        "{bad:?}"
    );

    let report = with("bad", &["--json"]);
    assert_eq!(report.code, 1);
    assert_eq!(report.json()["passed"], false);
    let junit = with("bad", &["--format", "junit"]);
    assert_eq!(junit.code, 1);
    assert_eq!(junit.out.matches("<failure ").count(), 8, "{junit:?}");
    // A given limit replaces the baseline's, and needs none.
    let given = run(
        root,
        &["assert", "bad", "--max-steps", "9", "--max-errors", "9"],
    );
    assert_eq!(given.code, 0, "{given:?}");
    assert_eq!(run(root, &["assert", "bad", "--max-steps", "8"]).code, 1);
}

#[test]
fn assert_needs_something_to_check() {
    let recording = family();
    let root = recording.dir.path();
    assert_eq!(run(root, &["assert", "ses_1"]).code, 2);
    let missing = run(root, &["assert", "ses_1", "--baseline", "no-such-file"]);
    assert_eq!(missing.code, 2);
    assert!(
        missing.err.contains("can't read no-such-file"),
        "{missing:?}"
    );
    let file = root.join("other.json");
    std::fs::write(&file, "{}").unwrap();
    let other = run(
        root,
        &["assert", "ses_1", "--baseline", file.to_str().unwrap()],
    );
    assert_eq!(other.code, 2);
    assert!(other.err.contains("is no baseline"), "{other:?}");
    // A part of the cost is not known, so it can't be within a limit.
    let partial = run(root, &["assert", "ses_1", "--max-cost", "100"]);
    assert_eq!(partial.code, 1);
    assert!(partial.out.contains("not wholly known"), "{partial:?}");
}
