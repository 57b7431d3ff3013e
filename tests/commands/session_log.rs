//! `spanledger export session-log`: what the row of a run says.

use serde_json::{Value, json};
use spanledger::{Failure, Outcome, SpanExt, events, spans};

use crate::support::Recording;
use crate::support::cli::run;

/// The row of a session that has one run.
#[track_caller]
fn row(work: impl FnOnce(&tracing::Span)) -> Value {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.in_scope(|| work(&run));
    });
    let root = recording.end();
    let done = run(root.path(), &["export", "session-log", "ses_1"]);
    assert_eq!((done.code, &*done.err), (0, ""), "{done:?}");
    let mut rows = done.objects();
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

const KEYS: [&str; 15] = [
    "schema",
    "session_id",
    "timestamp",
    "daemon",
    "kind",
    "model",
    "provider",
    "prompt",
    "iterations",
    "max_iterations",
    "final_verdict",
    "attempts",
    "artifact",
    "grounded_in_roster",
    "duration_ms",
];

/// DuckDB derives a column from the first rows: each has all keys, and texts where texts belong.
#[track_caller]
fn assert_columns(row: &Value) {
    let keys: Vec<_> = row.as_object().unwrap().keys().collect();
    assert_eq!(keys, KEYS);
    for key in &KEYS[..8] {
        assert!(row[key].is_string(), "{key}: {row}");
    }
    for attempt in row["attempts"].as_array().unwrap() {
        assert!(attempt["iteration"].is_u64(), "{row}");
        for key in ["verdict_kind", "error", "span_id"] {
            assert!(attempt[key].is_string(), "{key}: {row}");
        }
    }
}

/// Verdicts, how the run ends, and the recorded result; and the final verdict with the attempts' kinds and errors.
type Case<'a> = (
    Vec<(&'a str, Value)>,
    Option<Outcome>,
    Option<&'a str>,
    &'a str,
    &'a [(&'a str, &'a str)],
);

#[test]
fn final_verdict_is_that_of_the_last_attempt() {
    let rejected = ("validation_failed", json!("consistency: no city"));
    let accepted = ("accepted", json!(""));
    let infra = ("infra_error", json!("chat: no answer"));
    let in_words = ("validation_failed", "consistency: no city");
    let ok = Some(Outcome::Ok);
    let error = Some(Outcome::Error);
    let cases: &[Case<'_>] = &[
        (vec![], ok, None, "accepted", &[("accepted", "")]),
        (vec![], None, None, "accepted", &[("accepted", "")]),
        (
            vec![],
            error,
            None,
            "infra_error",
            &[("infra_error", "error: it broke")],
        ),
        (
            vec![],
            Some(Outcome::Cancelled),
            None,
            "infra_error",
            &[("infra_error", "cancelled: no error was recorded")],
        ),
        (
            vec![rejected.clone(), accepted.clone()],
            ok,
            None,
            "accepted",
            &[in_words, ("accepted", "")],
        ),
        (
            vec![accepted.clone()],
            error,
            None,
            "accepted",
            &[("accepted", "")],
        ),
        (
            vec![rejected.clone()],
            ok,
            None,
            "max_iter_exhausted",
            &[in_words],
        ),
        (
            vec![accepted, rejected.clone()],
            None,
            None,
            "max_iter_exhausted",
            &[("accepted", ""), in_words],
        ),
        (
            vec![rejected.clone()],
            error,
            None,
            "infra_error",
            &[in_words, ("infra_error", "error: it broke")],
        ),
        (
            vec![infra],
            ok,
            None,
            "infra_error",
            &[("infra_error", "chat: no answer")],
        ),
        // What the agent recorded as the result counts.
        (
            vec![],
            ok,
            Some("max_iter_exhausted"),
            "max_iter_exhausted",
            &[("max_iter_exhausted", "")],
        ),
        (
            vec![rejected],
            ok,
            Some("accepted"),
            "accepted",
            &[in_words],
        ),
        // An error that is an object, in words.
        (
            vec![(
                "validation_failed",
                json!({"error_type": "Roster", "message": "no such worker"}),
            )],
            ok,
            None,
            "max_iter_exhausted",
            &[("validation_failed", "Roster: no such worker")],
        ),
        (
            vec![("validation_failed", json!({"message": "late"}))],
            ok,
            None,
            "max_iter_exhausted",
            &[("validation_failed", "error: late")],
        ),
        (
            vec![("validation_failed", Value::Null)],
            ok,
            None,
            "max_iter_exhausted",
            &[("validation_failed", "")],
        ),
    ];
    for (n, (verdicts, outcome, result, verdict, attempts)) in cases.iter().enumerate() {
        let row = row(|run| {
            for (at, (kind, error)) in verdicts.iter().enumerate() {
                events::verdict(at as u64, *kind)
                    .set("error", error.clone())
                    .emit();
            }
            if let Some(result) = result {
                events::iterate_result(*result).emit();
            }
            if *outcome == Some(Outcome::Error) {
                run.record_failure(&Failure::message("it broke"));
            }
            if let Some(outcome) = outcome {
                run.finish(*outcome);
            }
        });
        assert_columns(&row);
        assert_eq!(row["final_verdict"], *verdict, "case {n}: {row}");
        let of = |attempt: &Value| (attempt["verdict_kind"].clone(), attempt["error"].clone());
        let found: Vec<_> = row["attempts"].as_array().unwrap().iter().map(of).collect();
        let expected: Vec<_> = attempts
            .iter()
            .map(|(kind, error)| (json!(kind), json!(error)))
            .collect();
        assert_eq!(found, expected, "case {n}");
        let iterations = row["attempts"].as_array().unwrap().iter();
        let iterations: Vec<_> = iterations.map(|attempt| &attempt["iteration"]).collect();
        let numbers: Vec<_> = (0..attempts.len()).map(|n| json!(n)).collect();
        assert_eq!(iterations, numbers.iter().collect::<Vec<_>>(), "case {n}");
    }
}

#[test]
fn model_is_that_of_the_loop() {
    let row = row(|_| {
        for (model, purpose) in [
            ("first", None),
            ("main", Some("main")),
            ("title", Some("title")),
            ("advisor", Some("advisor")),
        ] {
            let call = spans::model_call(format!("{model}-provider"), model);
            match purpose {
                Some(purpose) => drop(call.purpose(purpose).start()),
                None => drop(call.start()),
            }
        }
    });
    assert_eq!(
        (&row["model"], &row["provider"]),
        (&json!("main"), &json!("main-provider"))
    );
}

#[test]
fn prompt_is_cut_and_what_is_not_known_is_an_empty_text() {
    let long = "é".repeat(5000);
    let row = row(|_| events::message_user(&long).emit());
    assert_columns(&row);
    assert_eq!(row["prompt"], "é".repeat(4000));
    assert_eq!((&row["model"], &row["provider"]), (&json!(""), &json!("")));
    assert_eq!(
        (&row["artifact"], &row["grounded_in_roster"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn export_without_an_ended_run_says_so() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        let done = run(recording.dir.path(), &["export", "session-log", "ses_1"]);
        assert_eq!((done.code, &*done.out), (0, ""));
        assert!(done.err.contains("no run has ended"), "{done:?}");
    });
}
