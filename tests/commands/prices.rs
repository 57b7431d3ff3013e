//! What model calls cost by list prices, where no cost was recorded.

use spanledger::{Outcome, SpanExt, Usage, spans};

use crate::support::Recording;
use crate::support::cli::{Done, run};

const PRICED: &str = "claude-sonnet-4-5";

/// A call of 1,000 input and 100 output tokens.
fn call(model: &str, cost_usd: Option<f64>) {
    let call = spans::model_call("anthropic", model).start();
    call.record_usage(&Usage {
        input_tokens: Some(1_000),
        output_tokens: Some(100),
        cost_usd,
        ..Usage::default()
    });
    call.finish(Outcome::Ok);
}

/// A session with a turn of these calls.
fn recorded(calls: &[(&str, Option<f64>)]) -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        calls.iter().for_each(|(model, cost)| call(model, *cost));
    });
    recording
}

fn show(recording: &Recording, args: &[&str]) -> Done {
    run(
        recording.dir.path(),
        &[&["show", "ses_1"][..], args].concat(),
    )
}

#[test]
fn unrecorded_cost_is_computed_and_marked() {
    let recording = recorded(&[(PRICED, None), (PRICED, None)]);
    let done = show(&recording, &[]);
    let row = "1,000 in, 100 out  ~$0.0045  ";
    assert_eq!(done.out.matches(row).count(), 2, "{done:?}");
    let title = done.out.lines().find(|line| line.starts_with("Turn 1"));
    assert!(
        title.unwrap().contains("2,000 in, 200 out  ~$0.0090"),
        "{done:?}"
    );
    assert!(done.out.contains(", ~$0.0090 by list prices\n"), "{done:?}");
    let nodes = show(&recording, &["--json"]).objects();
    assert_eq!(nodes[0]["cost"]["priced_calls"], 2);
    assert_eq!(nodes[0]["usage"]["cost_usd"], serde_json::Value::Null);
    let call = nodes.iter().find(|node| node["kind"] == "model_call");
    assert_eq!(call.unwrap()["cost"]["priced_calls"], 1);
    let turn = show(&recording, &["--turn", "1"]);
    assert!(
        turn.out.contains("\n  cost ~$0.0090, by list prices\n"),
        "{turn:?}"
    );
}

#[test]
fn recorded_cost_wins() {
    let done = show(&recorded(&[(PRICED, Some(0.25))]), &[]);
    assert!(done.out.contains("100 out  $0.2500  "), "{done:?}");
    assert!(done.out.contains(" reasoning), $0.2500\n"), "{done:?}");
    let mixed = show(&recorded(&[(PRICED, Some(0.25)), (PRICED, None)]), &[]);
    assert!(
        mixed.out.contains(", ~$0.2545 partly by list prices\n"),
        "{mixed:?}"
    );
}

#[test]
fn unknown_cost_stays_unknown() {
    let done = show(&recorded(&[("m-1", None)]), &[]);
    assert!(done.out.contains("100 out  1:"), "{done:?}");
    assert!(done.out.contains(" reasoning), cost –\n"), "{done:?}");
    let partial = show(&recorded(&[("m-1", None), (PRICED, None)]), &[]);
    assert!(
        partial.out.contains(", ≥~$0.0045 by list prices\n"),
        "{partial:?}"
    );
}

#[test]
fn subagents_have_a_sum_of_their_own() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        let _child = spans::session_run("ses_2", "worker").start().entered();
        call(PRICED, None);
        let _inner = spans::session_run("ses_3", "helper").start().entered();
        call(PRICED, None);
    });
    let done = show(&recording, &[]);
    let row = "\n  subagent + 2 sessions, ~$0.0090 by list prices: 0 turns, ";
    assert!(done.out.contains(row), "{done:?}");
    let header = &show(&recording, &["--json"]).objects()[0];
    assert_eq!(header["subagents"]["cost"]["priced_calls"], 2);
    assert_eq!(header["cost"]["priced_calls"], 0);
}
