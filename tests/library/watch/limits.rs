//! Limits hold exactly, for a session with its subagents, and go on counting when it is resumed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use spanledger::{
    Error, FutureExt, Limits, LoopPolicy, Outcome, Refused, SpanExt, Usage, events, spans,
};
use tracing::Span;

use crate::support::{LineExt, Recording};

fn with(limits: Limits) -> Recording {
    Recording::with(|builder| builder.limits(limits))
}

/// Whether a tool call is allowed. Each has arguments of its own.
fn tool(n: usize) -> Result<(), Refused> {
    let tool = spans::tool_call("bash", format!("call_{n}"))
        .args(json!({"n": n}))
        .start();
    tool.allowed()?;
    tool.finish(Outcome::Ok);
    Ok(())
}

fn model(usage: &Usage) -> Result<(), Refused> {
    let call = spans::model_call("openai", "a-model-of-my-own").start();
    call.allowed()?;
    call.record_usage(usage);
    call.finish(Outcome::Ok);
    Ok(())
}

#[track_caller]
fn stopped(result: Result<(), Refused>) -> (&'static str, f64, f64) {
    match result.unwrap_err() {
        Refused::Stopped {
            limit,
            threshold,
            actual,
            ..
        } => (limit, threshold, actual),
        other => panic!("{other}"),
    }
}

#[test]
fn refused_call_closes_as_denied_with_the_limit() {
    let recording = with(Limits::new().tool_calls(2));
    recording.run(|| {
        let run = spans::session_run("s", "agent").start().entered();
        let turn = spans::session_turn().start().entered();
        assert_eq!((tool(1), tool(2)), (Ok(()), Ok(())));
        assert_eq!(stopped(tool(3)), ("max_tool_calls", 2.0, 3.0));
        turn.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
    let trace = recording.trace();
    let error = json!({
        "error_type": "Stopped",
        "message": "the limit max_tool_calls is 2, and this is tool call 3",
        "guardrail": "max_tool_calls",
        "threshold": 2,
        "actual": 3,
    });
    let denied = trace.find("tool_result", "tool_call_id", "call_3");
    assert_eq!(denied.text("outcome"), "denied");
    assert_eq!(denied.text("tool_state"), "output-denied");
    assert_eq!(*denied.get("error"), error);
    let line = trace.one("error");
    assert_eq!(*line.get("error"), error);
    assert_eq!(line.span_id, trace.one("turn_start").span_id);
    assert_eq!(*trace.one("session_end").get("totals.errors"), 1);
}

#[test]
fn each_limit_stops_its_call() {
    let used = Usage {
        input_tokens: Some(60),
        output_tokens: Some(40),
        cost_usd: Some(0.5),
        ..Usage::default()
    };
    let in_run = |limits: Limits, agent: &dyn Fn()| {
        with(limits).run(|| {
            let _run = spans::session_run("s", "agent").start().entered();
            agent();
        });
    };
    in_run(Limits::new().model_calls(1), &|| {
        assert_eq!(model(&used), Ok(()));
        assert_eq!(stopped(model(&used)), ("max_model_calls", 1.0, 2.0));
        assert_eq!(tool(1), Ok(()));
    });
    in_run(Limits::new().turns(1), &|| {
        assert_eq!(spans::session_turn().start().allowed(), Ok(()));
        let second = spans::session_turn().start();
        assert_eq!(stopped(second.allowed()), ("max_turns", 1.0, 2.0));
        assert_eq!(stopped(tool(1)), ("max_turns", 1.0, 2.0));
    });
    in_run(Limits::new().tokens(200), &|| {
        assert_eq!((model(&used), model(&used)), (Ok(()), Ok(())));
        assert_eq!(stopped(tool(1)), ("max_tokens", 200.0, 200.0));
    });
    in_run(Limits::new().cost_usd(0.75), &|| {
        assert_eq!((model(&used), model(&used)), (Ok(()), Ok(())));
        assert_eq!(stopped(model(&used)), ("max_cost_usd", 0.75, 1.0));
    });
    in_run(Limits::new().duration(Duration::ZERO), &|| {
        assert_eq!(stopped(tool(1)).0, "max_duration_s");
    });
    in_run(Limits::new().duration(Duration::from_secs(3600)), &|| {
        assert_eq!(tool(1), Ok(()));
    });
}

#[test]
fn usage_of_events_and_turns_counts_once() {
    let usage = Usage {
        total_tokens: Some(50),
        ..Usage::default()
    };
    with(Limits::new().tokens(100)).run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        let turn = spans::session_turn().start();
        turn.in_scope(|| {
            model(&usage).unwrap();
        });
        // The turn reports what its call used.
        turn.record_usage(&usage);
        turn.finish(Outcome::Ok);
        assert_eq!(tool(1), Ok(()));
        events::model_usage(&usage).emit();
        assert_eq!(stopped(tool(2)), ("max_tokens", 100.0, 100.0));
    });
}

#[test]
fn unknown_price_is_reported_once_and_not_counted() {
    let usage = Usage {
        input_tokens: Some(1_000_000),
        output_tokens: Some(10),
        ..Usage::default()
    };
    let recording = with(Limits::new().cost_usd(0.01));
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        for _ in 0..3 {
            assert_eq!(model(&usage), Ok(()));
        }
    });
    let trace = recording.trace();
    let log = trace.one("log");
    assert_eq!(log.text("level"), "WARN");
    assert!(
        log.text("message")
            .starts_with("the price of a-model-of-my-own is not known")
    );
}

#[cfg(feature = "cost")]
#[test]
fn known_price_counts_where_no_cost_is_recorded() {
    let usage = Usage {
        input_tokens: Some(1_000_000),
        output_tokens: Some(100_000),
        ..Usage::default()
    };
    with(Limits::new().cost_usd(0.5)).run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        let call = spans::model_call("openai", "gpt-5").start();
        call.record_usage(&usage);
        call.finish(Outcome::Ok);
        let (limit, _, actual) = stopped(tool(1));
        assert_eq!(limit, "max_cost_usd");
        assert!(actual > 0.5, "{actual}");
    });
}

#[test]
fn eight_threads_get_exactly_as_many_calls_as_allowed() {
    let recording = with(Limits::new().tool_calls(100));
    let allowed = AtomicUsize::new(0);
    let refused = AtomicUsize::new(0);
    recording.run(|| {
        let run = spans::session_run("s", "agent").start();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (run, dispatch) = (&run, &recording.dispatch);
                let (allowed, refused) = (&allowed, &refused);
                scope.spawn(move || {
                    let _default = tracing::dispatcher::set_default(dispatch);
                    let _run = run.enter();
                    for n in 0..25 {
                        match tool(thread * 100 + n) {
                            Ok(()) => allowed.fetch_add(1, Ordering::Relaxed),
                            Err(_) => refused.fetch_add(1, Ordering::Relaxed),
                        };
                    }
                });
            }
        });
    });
    assert_eq!(allowed.into_inner(), 100);
    assert_eq!(refused.into_inner(), 100);
    // In the order of the open lines, the first hundred ran.
    let trace = recording.trace();
    let opened = trace.all("tool_call");
    for (at, open) in opened.iter().enumerate() {
        let closed = trace.all("tool_result");
        let closed = closed.iter().find(|line| line.span_id == open.span_id);
        let outcome = if at < 100 { "ok" } else { "denied" };
        assert_eq!(closed.unwrap().text("outcome"), outcome, "call {at}");
    }
}

#[test]
fn subagents_count_for_their_root() {
    let recording = with(Limits::new().tool_calls(4).on_loop(LoopPolicy::Off));
    recording.run(|| {
        let _run = spans::session_run("root", "agent").start().entered();
        tool(1).unwrap();
        {
            let _child = spans::session_run("child", "agent").start().entered();
            tool(2).unwrap();
            let _grandchild = spans::session_run("grandchild", "agent").start().entered();
            tool(3).unwrap();
        }
        tool(4).unwrap();
        {
            let _child = spans::session_run("child", "agent").start().entered();
            assert_eq!(stopped(tool(5)), ("max_tool_calls", 4.0, 5.0));
        }
        // Another session has counts of its own.
        let _other = spans::session_run("other", "agent")
            .detached()
            .start()
            .entered();
        tool(6).unwrap();
    });
}

#[test]
fn resumed_session_goes_on_counting() {
    let limits = Limits::new().tool_calls(4).tokens(100);
    let usage = Usage {
        total_tokens: Some(40),
        ..Usage::default()
    };
    let recording = with(limits.clone());
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        tool(1).unwrap();
        model(&usage).unwrap();
        let _child = spans::session_run("child", "agent").start().entered();
        tool(2).unwrap();
        model(&usage).unwrap();
    });
    let dir = recording.end();
    let builder = spanledger::builder().root(dir.path()).limits(limits);
    let (layer, guard) = builder.build().unwrap();
    use tracing_subscriber::layer::SubscriberExt;
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        let _run = spans::session_run("s", "agent").start().entered();
        tool(3).unwrap();
        {
            // Its own earlier call is counted, once.
            let _child = spans::session_run("child", "agent").start().entered();
            tool(4).unwrap();
        }
        assert_eq!(stopped(tool(5)), ("max_tool_calls", 4.0, 5.0));
        model(&usage).unwrap();
        assert_eq!(stopped(model(&usage)), ("max_tokens", 100.0, 120.0));
    });
    drop(guard);
}

#[tokio::test]
async fn stop_that_is_passed_on_is_one_error() {
    let recording = with(Limits::new().tool_calls(0));
    let agent = async {
        let run = spans::session_run("s", "agent").start();
        async {
            let turn = spans::session_turn().start();
            async {
                let tool = spans::tool_call("bash", "c").start();
                tool.allowed()?;
                Ok::<_, anyhow::Error>(())
            }
            .recorded(turn)
            .await
        }
        .recorded(run)
        .await
    };
    let _default = tracing::dispatcher::set_default(&recording.dispatch);
    agent.await.unwrap_err();
    let trace = recording.trace();
    let end = trace.one("session_end");
    assert_eq!(end.text("outcome"), "error");
    assert_eq!(end.text("error.guardrail"), "max_tool_calls");
    assert_eq!(*end.get("error.actual"), 1);
    assert_eq!(*end.get("totals.errors"), 1);
}

#[test]
fn everything_is_allowed_where_nothing_is_recorded() {
    assert_eq!(Span::none().allowed(), Ok(()));
    assert_eq!(tool(1), Ok(()));
    let recording =
        Recording::with(|builder| builder.disabled(true).limits(Limits::new().tool_calls(0)));
    assert_eq!(recording.run(|| tool(1)), Ok(()));
    assert_eq!(Recording::new().run(|| tool(1)), Ok(()));
}

#[test]
fn second_question_about_a_refused_call_is_refused() {
    with(Limits::new().tool_calls(0)).run(|| {
        let tool = spans::tool_call("bash", "c").start();
        assert!(tool.allowed().is_err());
        assert!(tool.allowed().is_err());
    });
}

#[test]
fn limit_that_can_not_be_meant_is_an_error() {
    let build = |limits| {
        let builder = spanledger::builder().root("/nonexistent").limits(limits);
        match builder.build::<tracing_subscriber::Registry>() {
            Err(Error::Config { place, .. }) => place,
            other => panic!("{:?}", other.map(drop)),
        }
    };
    assert_eq!(build(Limits::new().cost_usd(-1.0)), "Limits: cost_usd");
    assert_eq!(build(Limits::new().cost_usd(f64::NAN)), "Limits: cost_usd");
    let limits = Limits::new().repetitions(spanledger::watch::LoopKind::Cycle, 1);
    assert_eq!(build(limits), "Limits: cycle");
}
