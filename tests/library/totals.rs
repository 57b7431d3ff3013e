//! The totals on `turn_end` and `session_end`: every call and every token counts once.

use serde_json::{Value, json};
use spanledger::{Failure, Outcome, SpanExt, Usage, events, spans};
use tracing::Span;

use crate::support::{LineExt, Recording};

fn tokens(input: u64) -> Usage {
    Usage {
        input_tokens: Some(input),
        ..Usage::default()
    }
}

/// A model call that used so much; nothing if 0.
fn model(input: u64) {
    let call = spans::model_call("anthropic", "sonnet").start();
    if input > 0 {
        call.record_usage(&tokens(input));
    }
}

/// The input tokens that the session's last end counts, for an agent in one run and turn.
fn counted(agent: impl FnOnce(&Span, &Span)) -> Value {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        let turn = run.in_scope(|| spans::session_turn().start());
        turn.in_scope(|| agent(&run, &turn));
        turn.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
    let trace = recording.trace();
    let last = trace.all("session_end").pop().unwrap();
    last.get("totals.usage.input_tokens").clone()
}

#[test]
fn model_call_usage_overrides_turn_and_run() {
    let sum = counted(|run, turn| {
        model(10);
        model(5);
        turn.record_usage(&tokens(100));
        run.record_usage(&tokens(1000));
    });
    assert_eq!(sum, 15);
}

#[test]
fn turn_usage_overrides_run() {
    let sum = counted(|run, turn| {
        model(0);
        turn.record_usage(&tokens(100));
        run.record_usage(&tokens(1000));
    });
    assert_eq!(sum, 100);
}

#[test]
fn run_usage_counts_if_nothing_inside_has_any() {
    let sum = counted(|run, _| {
        model(0);
        run.record_usage(&tokens(1000));
    });
    assert_eq!(sum, 1000);
}

#[test]
fn unknown_usage_is_omitted_not_zero() {
    assert_eq!(counted(|_, _| model(0)), Value::Null);
}

#[test]
fn usage_event_counts_if_its_model_call_has_none() {
    let sum = counted(|run, _| {
        let call = spans::model_call("anthropic", "sonnet").start();
        events::model_usage(&tokens(7)).on(&call).emit();
        run.record_usage(&tokens(1000));
    });
    assert_eq!(sum, 7);
}

#[test]
fn model_call_usage_overrides_usage_event() {
    let sum = counted(|_, _| {
        let call = spans::model_call("anthropic", "sonnet").start();
        call.in_scope(|| events::model_usage(&tokens(7)).emit());
        call.record_usage(&tokens(9));
    });
    assert_eq!(sum, 9);
}

#[test]
fn usage_events_without_model_calls_add_up() {
    let sum = counted(|_, turn| {
        events::model_usage(&tokens(7)).emit();
        events::model_usage(&tokens(8)).emit();
        turn.record_usage(&tokens(100));
    });
    assert_eq!(sum, 15);
}

#[test]
fn usage_event_by_macro_counts() {
    let sum = counted(|_, _| {
        tracing::info!(target: "spanledger::model_usage", input_tokens = 6);
    });
    assert_eq!(sum, 6);
}

#[test]
fn nested_run_usage_is_counted_once() {
    let sum = counted(|run, _| {
        let inner = spans::session_run("s", "helper").start();
        inner.in_scope(|| model(10));
        drop(inner);
        run.record_usage(&tokens(1000));
    });
    assert_eq!(sum, 10);
}

#[test]
fn model_call_outliving_its_turn_is_counted_once() {
    let sum = counted(|_, turn| {
        let call = spans::model_call("anthropic", "sonnet").start();
        turn.record_usage(&tokens(100));
        turn.finish(Outcome::Ok);
        call.record_usage(&tokens(10));
    });
    assert_eq!(sum, 100);
}

#[test]
fn turn_end_has_totals_so_far() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        for input in [10, 20] {
            let _turn = spans::session_turn().start().entered();
            model(input);
            let tool = spans::tool_call("bash", "c1").start();
            tool.finish(Outcome::Error);
        }
    });
    let trace = recording.trace();
    let ends = trace.all("turn_end");
    let none = json!({"masked": 0, "cut": 0, "gaps": 0, "missing": 0});
    assert_eq!(
        ends[0].payload["totals"],
        json!({
            "turns": 1, "model_calls": 1, "tool_calls": 1, "errors": 1,
            "usage": {"input_tokens": 10}, "marks": none,
        })
    );
    let both = json!({
        "turns": 2, "model_calls": 2, "tool_calls": 2, "errors": 2,
        "usage": {"input_tokens": 30}, "marks": none,
    });
    assert_eq!(ends[1].payload["totals"], both);
    assert_eq!(trace.one("session_end").payload["totals"], both);
}

#[test]
fn costs_add_up() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        for _ in 0..2 {
            let call = spans::model_call("anthropic", "sonnet").start();
            call.record_usage(&Usage {
                cost_usd: Some(0.25),
                ..Usage::default()
            });
        }
    });
    let trace = recording.trace();
    let usage = trace.one("session_end").get("totals.usage");
    assert_eq!(usage, &json!({"cost_usd": 0.5}));
}

#[test]
fn masks_before_an_end_are_counted() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        for _ in 0..2 {
            let _turn = spans::session_turn().start().entered();
            events::message_user("password=hunter2hunter2 is not to be seen").emit();
        }
    });
    let trace = recording.trace();
    let ends = trace.all("turn_end");
    let masked = [&ends[0], &ends[1]].map(|end| end.get("totals.marks.masked").clone());
    assert_eq!(masked, [1, 2].map(Value::from));
}

#[test]
fn totals_survive_session_eviction() {
    let recording = Recording::new();
    // Each time on a thread of its own, whose cache ends with it.
    let run_once = || {
        let agent = || {
            let run = spans::session_run("s", "planner").start();
            run.in_scope(|| model(10));
        };
        std::thread::scope(|scope| _ = scope.spawn(|| recording.run(agent)).join());
    };
    run_once();
    for n in 0..5000 {
        recording.handle().session(&format!("other {n}"));
    }
    run_once();
    run_once();
    let trace = recording.trace();
    let segments = trace.session("s").iter().map(|line| line.seg);
    assert_eq!(segments.max(), Some(2), "it was forgotten once");
    let store = spanledger::session::Store::new(recording.dir.path());
    let listed = store.list().unwrap();
    let totals = listed[0].summary.totals();
    assert_eq!(
        (totals.model_calls, totals.usage.input_tokens),
        (3, Some(30))
    );
}

#[test]
fn turns_and_runs_have_what_they_used() {
    let recording = Recording::new();
    recording.run(|| {
        for (agent, turns) in [("planner", [3, 4]), ("reviewer", [0, 5])] {
            let run = spans::session_run("s", agent).start().entered();
            for input in turns {
                let turn = spans::session_turn().start().entered();
                model(input);
                events::model_usage(&tokens(10)).emit();
                turn.record_usage(&tokens(1000));
            }
            let reported = spans::session_turn().start();
            reported.record_usage(&tokens(100));
            drop((reported, run));
        }
    });
    let trace = recording.trace();
    let used = |kind: &str| -> Vec<Value> {
        let lines = trace.all(kind).into_iter();
        let used = lines.map(|line| line.get("used.input_tokens").clone());
        used.collect()
    };
    assert_eq!(used("turn_end"), [13, 14, 100, 10, 15, 100]);
    assert_eq!(used("session_end"), [127, 125]);
}

#[test]
fn error_that_travels_up_counts_once() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start().entered();
        let turn = spans::session_turn().start().entered();
        for call in ["c1", "c2"] {
            let tool = spans::tool_call("sql", call).start();
            tool.record_failure(&Failure::new("Refused", "no relation"));
        }
        let outer = json!({"message": "turn 1", "source": ["no relation"]});
        turn.set("error", outer.clone());
        drop(turn);
        events::error(&"x".parse::<u8>().unwrap_err()).emit();
        run.set("error", outer);
    });
    let trace = recording.trace();
    assert_eq!(trace.one("turn_end").get("totals.errors"), 2);
    assert_eq!(trace.one("session_end").get("totals.errors"), 3);
}
