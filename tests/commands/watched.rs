//! Limits, loops and hooks in `show`: what happened is said in plain words, and once.

use serde_json::json;
use spanledger::{
    BeforeTool, Decision, Limits, LoopPolicy, Outcome, Refused, SpanExt, events, spans,
};

use crate::support::Recording;
use crate::support::cli::run;

fn tool(name: &str, n: u32) -> Result<(), Refused> {
    let tool = spans::tool_call(name, format!("call_{n}"))
        .args(json!({"n": n}))
        .start();
    tool.allowed()?;
    tool.record_result("failed");
    tool.finish(Outcome::Ok);
    Ok(())
}

/// The rows of a session, without the header, which repeats the first error.
fn rows(recording: &Recording, args: &[&str]) -> Vec<String> {
    let done = run(recording.dir.path(), &[&["show", "s"], args].concat());
    assert_eq!(done.code, 0, "{done:?}");
    let rows = done.out.lines().skip_while(|line| !line.is_empty());
    rows.map(str::to_owned).collect()
}

#[track_caller]
fn assert_one<'a>(rows: &'a [String], text: &str) -> &'a str {
    let found: Vec<_> = rows.iter().filter(|row| row.contains(text)).collect();
    assert_eq!(found.len(), 1, "{text}: {rows:#?}");
    found[0]
}

fn in_turn(recording: &Recording, agent: impl FnOnce()) {
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        let _turn = spans::session_turn().start().entered();
        agent();
    });
}

#[test]
fn limit_that_stopped_a_call_is_explained_once() {
    let recording = Recording::with(|builder| builder.limits(Limits::new().tool_calls(1)));
    in_turn(&recording, || {
        tool("bash", 1).unwrap();
        tool("bash", 2).unwrap_err();
    });
    for args in [&[][..], &["--full"]] {
        let rows = rows(&recording, args);
        let denied = assert_one(&rows, "DENIED");
        assert!(
            denied.contains("DENIED by limit max_tool_calls"),
            "{denied}"
        );
        let error = assert_one(&rows, "stopped by limit max_tool_calls");
        assert!(error.contains("threshold 1, actual 2"), "{error}");
        assert_one(
            &rows,
            "the limit max_tool_calls is 1, and this is tool call 2",
        );
    }
}

#[test]
fn loop_is_explained_with_its_calls() {
    let limits = Limits::new().on_loop(LoopPolicy::Stop);
    let recording = Recording::with(|builder| builder.limits(limits));
    in_turn(&recording, || {
        (0..3).for_each(|_| tool("bash", 7).unwrap());
        assert!(spans::model_call("p", "m").start().allowed().is_err());
    });
    let trace = recording.trace();
    let calls = trace.all("tool_result");
    let calls: Vec<_> = calls
        .iter()
        .map(|call| call.address().to_string())
        .collect();
    let rows = rows(&recording, &[]);
    let warning = assert_one(&rows, "bash: the same call with the same result, 3 times");
    let evidence = format!("calls {}", calls.join(", "));
    assert!(warning.contains(&evidence), "{warning}");
    assert!(warning.contains("no_progress"), "{warning}");
    assert_one(&rows, "DENIED by limit loop");
    let error = assert_one(&rows, "stopped by limit loop");
    assert!(error.contains("threshold 3, actual 3"), "{error}");
}

fn policy(call: &BeforeTool) -> Decision {
    match call.tool_id() {
        "rm" => Decision::deny("nothing is removed here"),
        "deploy" => Decision::ask("it reaches production"),
        _ => Decision::Allow,
    }
}

#[test]
fn decisions_of_hooks_are_on_the_rows_of_their_calls() {
    let recording = Recording::with(|builder| builder.before_tool(policy));
    in_turn(&recording, || {
        tool("ls", 1).unwrap();
        tool("rm", 2).unwrap_err();
        tool("deploy", 3).unwrap_err();
        events::hook("turn.end", "audit").emit();
    });
    let short = rows(&recording, &[]);
    let allowed = assert_one(&short, "tool       ls");
    assert!(allowed.contains("allowed by hook "), "{allowed}");
    let denied = assert_one(&short, "tool       rm");
    assert!(denied.contains("DENIED by hook"), "{denied}");
    let reason = assert_one(&short, "nothing is removed here");
    assert!(
        reason.contains("::policy: nothing is removed here"),
        "{reason}"
    );
    let asks = assert_one(&short, "::policy wants a person to decide");
    assert!(asks.contains("reason: it reaches production"), "{asks}");
    assert_one(&short, "audit ran");
    // Each decision has a row where nothing is left out.
    let full = rows(&recording, &["--full"]);
    assert_one(&full, "::policy allowed it");
    assert_one(&full, "::policy denied it");
}
