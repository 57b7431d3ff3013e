//! Session ids, resuming, subagents, and which session a span belongs to.

use serde_json::Value;
use spanledger::{Outcome, RemoteContext, SpanExt, events, new_session_id, spans};
use tracing::field::Empty;
use tracing::{info_span, warn};

use crate::support::{LineExt, Recording};

#[test]
fn generated_ids_sort_by_time() {
    let ids: Vec<_> = (0..5000).map(|_| new_session_id()).collect();
    for id in &ids {
        let rest = id.strip_prefix("ses_").unwrap();
        let (time, random) = rest.split_at(12);
        assert!(time.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
        assert_eq!(random.len(), 14);
        assert!(random.bytes().all(|b| b.is_ascii_alphanumeric()));
    }
    assert!(ids.is_sorted_by(|a, b| a < b));
}

#[test]
fn lines_are_in_time_order_across_threads() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        let dispatch = tracing::dispatcher::get_default(tracing::Dispatch::clone);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let _ours = tracing::dispatcher::set_default(&dispatch);
                    for n in 0..200 {
                        let id = n.to_string();
                        drop(spans::tool_call("bash", &id).child_of(&run).start());
                    }
                });
            }
        });
    });
    let trace = recording.trace();
    assert_eq!(trace.all("tool_call").len(), 800);
    assert!(trace.session("s").is_sorted_by_key(|line| &line.ts));
    for open in trace.all("tool_call") {
        let start = open.text("start");
        assert!(open.ts.trim_end_matches('Z') > start.trim_end_matches('Z'));
    }
}

#[test]
fn run_without_id_gets_one() {
    let recording = Recording::new();
    recording.run(|| {
        drop(info_span!("session.run", agent = "planner"));
        drop(spans::SessionRun::new("planner").start());
    });
    let trace = recording.trace();
    assert_eq!(trace.sessions.len(), 2);
    for line in trace.all("session_start") {
        assert!(line.session_id.starts_with("ses_"));
        assert_eq!(line.text("session_id"), line.session_id);
    }
    assert_eq!(recording.guard.health().orphaned, 0);
}

#[test]
fn resume_in_next_process_continues_turn_numbers() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        drop(spans::session_turn().start());
        drop(spans::session_turn().start());
    });
    let recording = Recording::again(recording.end());
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        drop(spans::session_turn().start());
    });
    let trace = recording.trace();
    let (start, resume) = (trace.one("session_start"), trace.one("session_resume"));
    assert_eq!((start.seg, resume.seg), (1, 2));
    assert_ne!(start.trace_id, resume.trace_id);
    let turns: Vec<_> = trace.all("turn_end").iter().map(|l| l.turn).collect();
    assert_eq!(turns, [Some(1), Some(2), Some(3)]);
    assert_eq!(trace.all("turn_start")[2].get("turn_index"), 3);
}

#[test]
fn second_run_resumes_in_the_same_segment() {
    let recording = Recording::new();
    recording.run(|| {
        for _ in 0..2 {
            let _run = spans::session_run("s", "planner").start().entered();
            drop(spans::session_turn().start());
        }
    });
    assert_eq!(
        recording.trace().kinds("s"),
        [
            "segment",
            "session_start",
            "turn_start",
            "turn_end",
            "session_end",
            "session_resume",
            "turn_start",
            "turn_end",
            "session_end"
        ]
    );
    let trace = recording.trace();
    assert_eq!(trace.all("turn_start")[1].turn, Some(2));
    let traces: Vec<_> = trace
        .all("session_end")
        .iter()
        .map(|l| &l.trace_id)
        .collect();
    assert_ne!(traces[0], traces[1]);
}

#[test]
fn events_before_the_first_run_are_no_resume() {
    let recording = Recording::new();
    recording.handle().session("s").title("before it began");
    recording.run(|| drop(spans::session_run("s", "planner").start()));
    recording.trace().one("session_start");
}

#[test]
fn explicit_turn_numbers_are_followed() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        drop(info_span!("session.turn", turn_index = 7));
        drop(spans::session_turn().start());
    });
    let trace = recording.trace();
    let turns: Vec<_> = trace.all("turn_start").iter().map(|l| l.turn).collect();
    assert_eq!(turns, [Some(7), Some(8)]);
}

#[test]
fn nested_run_is_a_subagent_in_the_same_trace() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("main", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        let _tool = spans::tool_call("task", "c1").start().entered();
        let _child = spans::session_run("sub", "helper").start().entered();
        drop(spans::session_turn().start());
    });
    let trace = recording.trace();
    let child = trace.find("session_start", "session_id", "sub");
    let tool = trace.one("tool_call");
    assert_eq!(child.session_id, "sub");
    assert_eq!(child.text("parent_session_id"), "main");
    assert_eq!(Some(child.text("parent_span_id")), tool.span_id.as_deref());
    assert_eq!(child.parent_span_id, tool.span_id);
    assert_eq!(child.trace_id, tool.trace_id);
    assert_eq!(child.turn, None);
    assert_eq!(
        trace.kinds("sub"),
        [
            "segment",
            "session_start",
            "turn_start",
            "turn_end",
            "session_end"
        ]
    );
    assert_eq!(trace.session("sub")[2].turn, Some(1));
}

#[test]
fn subagent_by_macro_without_id_is_a_session() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = info_span!("session.run", session_id = "main").entered();
        let _child = info_span!("session.run", agent = "helper").entered();
    });
    let trace = recording.trace();
    let child = trace.find("session_start", "parent_session_id", "main");
    assert_ne!(child.session_id, "main");
}

#[test]
fn detached_run_has_no_parent() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("main", "planner").start().entered();
        drop(spans::session_run("own", "helper").detached().start());
    });
    let trace = recording.trace();
    let own = trace.find("session_start", "session_id", "own");
    let main = trace.find("session_start", "session_id", "main");
    assert_eq!(own.get("parent_session_id"), &Value::Null);
    assert_eq!(own.parent_span_id, None);
    assert_ne!(own.trace_id, main.trace_id);
}

#[test]
fn nested_run_with_same_id_is_in_the_same_session() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        let _inner = spans::session_run("s", "helper").start().entered();
        drop(spans::session_turn().start());
    });
    let trace = recording.trace();
    assert_eq!(trace.sessions.len(), 1);
    let inner = trace.one("session_resume");
    let turn = &trace.all("turn_start")[0];
    assert_eq!(inner.parent_span_id, turn.span_id);
    assert_eq!(inner.trace_id, turn.trace_id);
    assert_eq!(inner.get("parent_session_id"), &Value::Null);
    assert_eq!(trace.all("turn_start")[1].turn, Some(2));
}

#[test]
fn run_may_have_a_remote_parent() {
    let recording = Recording::new();
    let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let remote: RemoteContext = header.parse().unwrap();
    recording.run(|| {
        let _around = spans::session_run("around", "planner").start().entered();
        let run = spans::session_run("s", "planner").parent(remote).start();
        run.in_scope(|| drop(spans::tool_call("bash", "c1").start()));
    });
    let trace = recording.trace();
    for kind in ["session_start", "session_end"] {
        let line = trace.find(kind, "session_id", "s");
        assert_eq!(
            line.trace_id.as_deref(),
            Some("0af7651916cd43dd8448eb211c80319c")
        );
        assert_eq!(line.parent_span_id.as_deref(), Some("b7ad6b7169203331"));
        assert_eq!(line.get("parent_session_id"), &Value::Null);
    }
    let tool = trace.one("tool_call");
    assert_eq!(
        tool.trace_id.as_deref(),
        Some("0af7651916cd43dd8448eb211c80319c")
    );
}

#[test]
fn spans_of_one_request_share_an_implicit_session() {
    let recording = Recording::new();
    recording.run(|| {
        for request in ["a", "b"] {
            let _request = info_span!("request").entered();
            let _handler = info_span!("handler").entered();
            drop(spans::tool_call(request, "c1").start());
            let _other = info_span!("other").entered();
            drop(info_span!("model.call", model_id = request));
        }
    });
    let trace = recording.trace();
    assert_eq!(trace.sessions.len(), 2);
    for request in ["a", "b"] {
        let tool = trace.find("tool_call", "tool_id", request);
        let model = trace.find("model_call", "model_id", request);
        assert_eq!(tool.session_id, model.session_id);
        assert_eq!(tool.trace_id, model.trace_id);
    }
    assert_eq!(trace.all("segment")[0].text("implicit"), "anchor");
    assert_eq!(recording.guard.health().orphaned, 8);
}

#[test]
fn events_of_a_request_join_its_implicit_session() {
    let recording = Recording::new();
    recording.run(|| {
        let _request = info_span!("request").entered();
        events::message_user("first").emit();
        tracing::info!(target: "spanledger::hook", point = "a", name = "b");
        drop(spans::tool_call("bash", "c1").start());
        events::message_assistant("last").emit();
    });
    let trace = recording.trace();
    assert_eq!(trace.sessions.len(), 1, "{:?}", trace.sessions.keys());
    assert_eq!(trace.one("segment").text("implicit"), "anchor");
}

#[test]
fn spans_without_context_share_the_process_session() {
    let recording = Recording::new();
    recording.run(|| {
        drop(spans::tool_call("bash", "c1").start());
        events::message_user("hello").emit();
        drop(info_span!("model.call", model_id = "m"));
    });
    let trace = recording.trace();
    assert_eq!(trace.sessions.len(), 1);
    assert_eq!(trace.one("segment").text("implicit"), "process");
    assert_eq!(recording.guard.health().orphaned, 5);
}

#[test]
fn foreign_span_names_the_session_inside_it() {
    let recording = Recording::new();
    recording.run(|| {
        let _request = info_span!("request", session_id = "s").entered();
        let _handler = info_span!("handler").entered();
        events::message_user("hello").emit();
        warn!("careful");
        drop(spans::tool_call("bash", "c1").start());
        drop(info_span!("session.run", agent = "planner"));
    });
    let trace = recording.trace();
    assert_eq!(
        trace.kinds("s"),
        [
            "segment",
            "message_user",
            "log",
            "tool_call",
            "tool_result",
            "session_start",
            "session_end"
        ]
    );
    assert_eq!(trace.sessions.len(), 1);
}

#[test]
fn foreign_span_may_name_its_session_later() {
    let recording = Recording::new();
    recording.run(|| {
        let request = info_span!("request", session_id = Empty);
        request.record("session_id", "s");
        request.in_scope(|| drop(spans::tool_call("bash", "c1").start()));
    });
    assert_eq!(
        recording.trace().kinds("s"),
        ["segment", "tool_call", "tool_result"]
    );
}

#[test]
fn foreign_span_naming_its_own_session_is_harmless() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        let _foreign = info_span!("http", session_id = "s").entered();
        drop(spans::tool_call("bash", "c1").start());
        events::message_user("hello").emit();
    });
    let trace = recording.trace();
    let (turn, tool) = (trace.one("turn_start"), trace.one("tool_call"));
    assert_eq!(tool.parent_span_id, turn.span_id);
    assert_eq!(tool.trace_id, turn.trace_id);
    assert_eq!(tool.turn, Some(1));
    assert_eq!(trace.one("message_user").span_id, turn.span_id);
}

#[test]
fn agent_span_may_name_another_session() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("here", "planner").start().entered();
        drop(info_span!("tool.call", tool_id = "a", session_id = "there"));
        drop(spans::compaction_run().set("session_id", "there").start());
    });
    let trace = recording.trace();
    assert_eq!(
        trace.kinds("there"),
        [
            "segment",
            "tool_call",
            "tool_result",
            "compaction_start",
            "context_compaction"
        ]
    );
    assert_eq!(trace.one("tool_call").parent_span_id, None);
}

#[test]
fn recorded_foreign_span_may_name_another_session() {
    let recording = Recording::with(|b| b.record_spans(|meta| meta.name() == "step"));
    recording.run(|| {
        let _run = spans::session_run("here", "planner").start().entered();
        let _step = info_span!("step", session_id = "there").entered();
        drop(spans::tool_call("bash", "c1").start());
    });
    let trace = recording.trace();
    assert_eq!(
        trace.kinds("there"),
        [
            "segment",
            "span_start",
            "tool_call",
            "tool_result",
            "span_end"
        ]
    );
}

#[test]
fn foreign_spans_are_recorded_only_inside_sessions() {
    let recording = Recording::with(|b| b.record_spans(|meta| meta.name() == "step"));
    recording.run(|| {
        drop(info_span!("step", n = 0));
        let _run = spans::session_run("s", "planner").start().entered();
        let _step = info_span!("step", n = 1).entered();
        let _not_this = info_span!("other").entered();
        drop(spans::tool_call("bash", "c1").start());
    });
    let trace = recording.trace();
    let step = trace.one("span_start");
    assert_eq!(step.text("name"), "step");
    assert_eq!(step.text("level"), "INFO");
    assert_eq!(step.get("fields.n"), 1);
    assert_eq!(trace.one("tool_call").parent_span_id, step.span_id);
    assert_eq!(trace.one("span_end").span_id, step.span_id);
}

#[test]
fn handle_puts_a_span_in_its_session() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        let session = run.session().unwrap();
        let _elsewhere = spans::session_run("other", "planner").start().entered();
        drop(spans::tool_call("bash", "c1").in_session(&session).start());
        run.finish(Outcome::Ok);
    });
    let trace = recording.trace();
    let tool = trace.one("tool_call");
    assert_eq!(tool.session_id, "s");
    let run = trace.find("session_start", "session_id", "s");
    assert_eq!(tool.parent_span_id, run.span_id);
}

#[test]
fn span_outside_sessions_has_no_session() {
    let recording = Recording::new();
    recording.run(|| {
        assert!(info_span!("foreign").session().is_none());
        let run = spans::session_run("s", "planner").start();
        let inside = run.in_scope(|| info_span!("foreign"));
        assert_eq!(inside.session().unwrap().id(), "s");
    });
}

#[test]
fn parent_session_records_where_a_subagent_began() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_parent", "planner").start();
        let _run = run.enter();
        let tool = spans::tool_call("task", "c1").start();
        let _tool = tool.enter();
        let _child = spans::session_run("ses_child", "reviewer").start();
    });
    let trace = recording.trace();
    let subagent = trace.one("subagent");
    assert_eq!(subagent.session_id, "ses_parent");
    assert_eq!(subagent.text("child_session_id"), "ses_child");
    assert_eq!(subagent.text("agent"), "reviewer");
    assert_eq!(subagent.span_id, trace.one("tool_call").span_id);
}

#[test]
fn span_at_a_handle_of_another_ledger() {
    let (one, other) = (Recording::new(), Recording::new());
    let of_one = one.run(|| spans::session_run("s", "planner").start());
    let by_id = one.handle().session("t");
    other.run(|| {
        let session = of_one.session().unwrap();
        let call = |id, session| spans::tool_call("bash", id).in_session(session).start();
        drop(call("in a span", &session));
        drop(call("in a session", &by_id));
    });
    drop(of_one);
    let (trace, theirs) = (one.trace(), other.trace());
    assert_eq!(
        trace.kinds("s"),
        ["segment", "session_start", "session_end"]
    );
    assert_eq!(trace.sessions.len(), 1);
    let run = trace.one("session_start");
    let call = theirs.find("tool_call", "tool_call_id", "in a span");
    assert_eq!(call.session_id, "s");
    assert_eq!(
        (&call.trace_id, &call.parent_span_id),
        (&run.trace_id, &run.span_id)
    );
    assert_eq!(call.get("parent_remote"), true);
    let call = theirs.find("tool_call", "tool_call_id", "in a session");
    assert_eq!((&*call.session_id, &call.parent_span_id), ("t", &None));
}
