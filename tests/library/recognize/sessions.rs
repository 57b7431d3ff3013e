//! Sessions, runs and turns of recognized spans.

use spanledger::{Outcome, SpanExt, spans};
use tracing::field::Empty;
use tracing::info_span;

use crate::support::rig_spans::{call, invoke_agent, messages, only_session, text, tool};
use crate::support::{LineExt, Recording};

#[test]
fn conversation_id_names_the_session() {
    let recording = Recording::new();
    recording.run(|| {
        for _ in 0..2 {
            let agent = info_span!(
                "invoke_agent a",
                gen_ai.operation.name = "invoke_agent",
                gen_ai.conversation.id = "conv-7"
            );
            drop(agent);
        }
        let late = info_span!(
            "invoke_agent b",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.conversation.id = Empty
        );
        late.record("gen_ai.conversation.id", "conv-8");
    });
    let trace = recording.trace();
    let kinds = [
        "segment",
        "session_start",
        "session_end",
        "session_resume",
        "session_end",
    ];
    assert_eq!(trace.kinds("conv-7"), kinds);
    assert_eq!(trace.kinds("conv-8"), kinds[..3]);
}

#[test]
fn agent_inside_a_session_is_a_run_of_it() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_outer", "outer").start();
        let _in_run = run.enter();
        let agent = info_span!(
            "invoke_agent x",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.agent.name = "x"
        );
        let _in_agent = agent.enter();
        call(&[text("user", "hi")], Some("hello"));
    });
    let trace = recording.trace();
    assert_eq!(only_session(&trace), "ses_outer");
    let inner = trace.one("session_resume");
    assert_eq!(inner.parent_span_id, trace.one("session_start").span_id);
    assert_eq!(trace.one("model_call").parent_span_id, inner.span_id);
    let end = trace.find("session_end", "agent", "outer");
    assert_eq!(end.get("totals.usage.input_tokens"), 100, "counted once");
}

#[test]
fn calls_inside_our_run_are_recorded_once() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_ours", "ours").start();
        let _in_run = run.enter();
        let turn = spans::session_turn().start();
        let _in_turn = turn.enter();
        call(&[text("user", "hi")], Some("hello"));
        tool("add", "c1");
    });
    let trace = recording.trace();
    assert_eq!(only_session(&trace), "ses_ours");
    let turn = trace.one("turn_start");
    assert_eq!(trace.one("model_result").parent_span_id, turn.span_id);
    assert_eq!(trace.one("tool_result").parent_span_id, turn.span_id);
    assert_eq!(
        turn.payload.get("synthetic"),
        None,
        "the turn there is enough"
    );
    assert_eq!(trace.one("tool_result").turn, Some(1));
}

#[test]
fn calls_of_one_request_share_an_implicit_session() {
    let recording = Recording::new();
    recording.run(|| {
        for request in ["one", "two"] {
            let request = info_span!("request", path = request);
            let _in_request = request.enter();
            call(&[text("user", "hi")], Some("a tool"));
            tool("add", "c1");
            call(
                &[
                    text("user", "hi"),
                    text("assistant", "a tool"),
                    text("user", "2"),
                ],
                Some("two"),
            );
        }
    });
    let trace = recording.trace();
    assert_eq!(trace.sessions.len(), 2);
    for lines in trace.sessions.values() {
        let of = |kind: &str| lines.iter().filter(|l| l.kind == kind).count();
        assert_eq!((of("model_result"), of("tool_result")), (2, 1));
        assert_eq!((of("turn_start"), of("turn_end")), (2, 2));
        let spans = lines.iter().filter_map(|line| line.trace_id.as_deref());
        assert!(spans.collect::<std::collections::HashSet<_>>().len() == 1);
        assert_eq!(lines.last().unwrap().kind, "turn_end");
    }
}

#[test]
fn span_that_names_a_session_contains_its_calls() {
    let recording = Recording::new();
    recording.run(|| {
        let request = info_span!("request", session_id = "ses_named");
        let _in_request = request.enter();
        call(&[text("user", "hi")], Some("hello"));
    });
    let trace = recording.trace();
    assert_eq!(only_session(&trace), "ses_named");
    assert_eq!(trace.one("model_result").turn, Some(1));
    assert_eq!(trace.session("ses_named").last().unwrap().kind, "turn_end");
}

#[test]
fn lone_call_uses_its_conversation_id() {
    let recording = Recording::new();
    recording.run(|| {
        drop(info_span!(
            "chat m",
            gen_ai.operation.name = "chat",
            gen_ai.conversation.id = "conv-1"
        ));
        let run = spans::session_run("ses_run", "a").start();
        let _in_run = run.enter();
        drop(info_span!(
            "chat n",
            gen_ai.operation.name = "chat",
            gen_ai.conversation.id = "conv-2"
        ));
    });
    let trace = recording.trace();
    let ids: Vec<_> = trace.sessions.keys().map(String::as_str).collect();
    assert_eq!(ids, ["conv-1", "ses_run"], "a run keeps what is inside it");
    let inside = trace.session("ses_run");
    let inside = inside.iter().find(|line| line.kind == "model_result");
    assert_eq!(inside.unwrap().payload["gen_ai.conversation.id"], "conv-2");
}

#[test]
fn synthetic_turn_spans_two_model_calls() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("adder");
        let _in_agent = agent.enter();
        call(&[text("user", "a")], Some("b"));
        tool("add", "c1");
        call(
            &[text("user", "a"), text("assistant", "b"), text("user", "c")],
            Some("d"),
        );
    });
    let trace = recording.trace();
    let ids: Vec<_> = trace
        .session(only_session(&trace))
        .iter()
        .filter(|line| line.kind != "span_update" && line.kind != "segment")
        .map(|line| (line.kind.as_str(), line.turn))
        .collect();
    assert_eq!(
        ids,
        [
            ("session_start", None),
            ("turn_start", Some(1)),
            ("model_call", Some(1)),
            ("message_user", Some(1)),
            ("message_assistant", Some(1)),
            ("model_result", Some(1)),
            ("tool_call", Some(1)),
            ("tool_result", Some(1)),
            ("turn_end", Some(1)),
            ("turn_start", Some(2)),
            ("model_call", Some(2)),
            ("message_user", Some(2)),
            ("message_assistant", Some(2)),
            ("model_result", Some(2)),
            ("turn_end", Some(2)),
            ("session_end", None),
        ]
    );
    let run = &trace.one("session_start").span_id;
    for turn in trace.all("turn_end") {
        assert_eq!(turn.get("synthetic"), true);
        assert_eq!(&turn.parent_span_id, run);
    }
}

#[test]
fn explicit_turn_ends_a_synthetic_one() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_both", "a").start();
        let _in_run = run.enter();
        call(&[text("user", "a")], Some("b"));
        let turn = spans::session_turn().start();
        let _in_turn = turn.enter();
        call(&[text("user", "c")], Some("d"));
    });
    let trace = recording.trace();
    let turns: Vec<_> = trace
        .lines()
        .filter(|line| line.kind.starts_with("turn_"))
        .map(|line| (line.kind.as_str(), line.turn.unwrap()))
        .collect();
    let each = [
        ("turn_start", 1),
        ("turn_end", 1),
        ("turn_start", 2),
        ("turn_end", 2),
    ];
    assert_eq!(turns, each);
    let in_turns: Vec<_> = trace.all("model_result").iter().map(|c| c.turn).collect();
    assert_eq!(in_turns, [Some(1), Some(2)]);
}

#[test]
fn synthetic_turn_after_run_end_ends_with_its_call() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_over", "a").start();
        let _in_run = run.enter();
        run.finish(Outcome::Ok);
        call(&[text("user", "a")], Some("b"));
    });
    let trace = recording.trace();
    let turns = trace.lines().filter(|line| line.kind.starts_with("turn_"));
    let turns: Vec<_> = turns.map(|line| (line.kind.as_str(), line.turn)).collect();
    assert_eq!(turns, [("turn_start", Some(1)), ("turn_end", Some(1))]);
}

#[test]
fn retried_call_stays_in_one_turn() {
    let recording = Recording::new();
    recording.run(|| {
        let agent = invoke_agent("a");
        let _in_agent = agent.enter();
        call(&[text("user", "a")], None);
        call(&[text("user", "a")], Some("b"));
    });
    let trace = recording.trace();
    assert_eq!(trace.all("model_result").len(), 2);
    assert_eq!(trace.all("turn_end").len(), 1);
    assert_eq!(messages(&trace), [("user", "a"), ("assistant", "b")]);
}
