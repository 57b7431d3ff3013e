//! Parents, sessions and outcomes across futures, tasks and threads.

use std::io;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use spanledger::{FutureExt, Outcome, SpanExt, events, spans};
use tokio::sync::oneshot;
use tracing::instrument::WithSubscriber;
use tracing::{Instrument, info_span, warn};

use crate::support::{LineExt, Recording};

/// Runs an agent on a runtime with threads of its own, whose tasks record too.
fn run_async<T>(recording: &Recording, agent: impl Future<Output = T>) -> T {
    let dispatch = recording.dispatch.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(agent.with_subscriber(dispatch))
}

/// A task that records in the subscriber that is current where it is spawned.
fn spawn<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(task.with_current_subscriber())
}

async fn forever() -> io::Result<()> {
    std::future::pending().await
}

#[test]
fn interleaved_futures_keep_their_own_children() {
    let recording = Recording::new();
    run_async(&recording, async {
        let _run = spans::session_run("s", "planner").start();
        let tool = |id: &'static str| {
            let span = spans::tool_call(id, id).child_of(&_run).start();
            async move {
                tokio::task::yield_now().await;
                drop(spans::permission_evaluate(id).start());
                tokio::task::yield_now().await;
                events::artifact(id).emit();
            }
            .instrument(span)
        };
        tokio::join!(tool("a"), tool("b"), tool("c"));
    });
    let trace = recording.trace();
    for id in ["a", "b", "c"] {
        let span = &trace.find("tool_call", "tool_id", id).span_id;
        let permission = trace.find("permission_request", "tool_id", id);
        assert_eq!(&permission.parent_span_id, span);
        assert_eq!(&trace.find("artifact", "path", id).span_id, span);
    }
}

#[test]
fn future_outcome_follows_its_result() {
    let recording = Recording::new();
    run_async(&recording, async {
        let good = spans::tool_call("good", "c1").start();
        let answer = async { Ok::<_, io::Error>(5) }.recorded(good).await;
        assert_eq!(answer.unwrap(), 5);
        let bad = spans::tool_call("bad", "c2").start();
        let error = async { Err::<(), _>(io::Error::other("disk on fire")) };
        error.recorded(bad).await.unwrap_err();
        let any = spans::tool_call("any", "c3").start();
        let error = async { Err::<(), _>(anyhow::anyhow!("out of luck")) };
        error.recorded(any).await.unwrap_err();
    });
    let trace = recording.trace();
    let outcome = |id: &str| trace.find("tool_result", "tool_id", id).text("outcome");
    assert_eq!(outcome("good"), "ok");
    assert_eq!(outcome("bad"), "error");
    let bad = trace.find("tool_result", "tool_id", "bad");
    assert_eq!(bad.get("error.message"), "disk on fire");
    assert_eq!(bad.get("error.error_type"), "std::io::Error");
    let any = trace.find("tool_result", "tool_id", "any");
    assert_eq!(any.get("error.message"), "out of luck");
}

#[test]
fn close_line_is_written_when_future_returns() {
    let recording = Recording::new();
    run_async(&recording, async {
        let tool = spans::tool_call("bash", "c1").start();
        let held = tool.clone();
        let answer = async { Ok::<_, io::Error>(()) }.recorded(tool).await;
        answer.unwrap();
        assert_eq!(recording.trace().one("tool_result").text("outcome"), "ok");
        drop(held);
    });
}

#[test]
fn future_dropped_by_select_is_cancelled() {
    let recording = Recording::new();
    run_async(&recording, async {
        let tool = spans::tool_call("slow", "c1").start();
        tokio::select! {
            biased;
            _ = forever().recorded(tool) => unreachable!(),
            () = async {} => {}
        }
        let trace = recording.trace();
        assert_eq!(trace.one("tool_result").text("outcome"), "cancelled");
    });
}

#[test]
fn future_that_times_out_is_cancelled() {
    let recording = Recording::new();
    run_async(&recording, async {
        let tool = spans::tool_call("slow", "c1").start();
        let limit = Duration::from_millis(1);
        let timed = tokio::time::timeout(limit, forever().recorded(tool)).await;
        assert!(timed.is_err());
    });
    let trace = recording.trace();
    assert_eq!(trace.one("tool_result").text("outcome"), "cancelled");
}

#[test]
fn recorded_tool_inside_a_timeout_is_timed_out() {
    let recording = Recording::new();
    run_async(&recording, async {
        let limit = Duration::from_millis(1);
        let tool = spans::tool_call("slow", "c1").timeout(limit).start();
        let timed = tokio::time::timeout(limit, forever().recorded(tool)).await;
        assert!(timed.is_err());
        let run = spans::session_run("s", "planner").timeout(limit).start();
        let turn = spans::session_turn().timeout(limit).child_of(&run).start();
        let nested = forever().recorded(turn).recorded(run);
        assert!(tokio::time::timeout(limit, nested).await.is_err());
        let patient = spans::tool_call("patient", "c2").timeout(Duration::from_secs(600));
        drop(forever().recorded(patient.start()));
    });
    let trace = recording.trace();
    let close = trace.find("tool_result", "tool_id", "slow");
    assert_eq!(close.text("outcome"), "timed_out");
    assert_eq!(close.get("error.message"), "it did not end within 1 ms");
    for closed in ["turn_end", "session_end"] {
        assert_eq!(trace.one(closed).text("outcome"), "timed_out");
    }
    let close = trace.find("tool_result", "tool_id", "patient");
    assert_eq!(close.text("outcome"), "cancelled");
}

#[test]
fn timeout_around_a_tool_is_timed_out() {
    let recording = Recording::new();
    run_async(&recording, async {
        let limit = Duration::from_millis(1);
        let tool = spans::tool_call("slow", "c1").start();
        let timed = tokio::time::timeout(limit, forever()).recorded(tool).await;
        assert!(timed.is_err());
        let turn = spans::session_turn().start();
        let timed = async {
            tokio::time::timeout(limit, forever())
                .await
                .context("the tool")??;
            anyhow::Ok(())
        };
        timed.recorded(turn).await.unwrap_err();
    });
    let trace = recording.trace();
    for kind in ["tool_result", "turn_end"] {
        assert_eq!(trace.one(kind).text("outcome"), "timed_out");
        assert!(trace.one(kind).text("error.message").len() > 3);
    }
}

#[test]
fn error_inside_ok_is_an_error() {
    async fn tool(fails: bool) -> Result<u8, io::Error> {
        match fails {
            true => Err(io::Error::other("disk on fire")),
            false => Ok(7),
        }
    }
    let recording = Recording::new();
    run_async(&recording, async {
        for (name, fails) in [("fails", true), ("works", false)] {
            let limit = Duration::from_secs(600);
            let timed = tokio::time::timeout(limit, tool(fails));
            let _ = timed.recorded(spans::tool_call(name, "c1").start()).await;
            let spawned = spawn(tool(fails));
            let _ = spawned.recorded(spans::tool_call(name, "c2").start()).await;
        }
    });
    let trace = recording.trace();
    let outcomes: Vec<_> = trace
        .all("tool_result")
        .iter()
        .map(|l| l.text("outcome"))
        .collect();
    assert_eq!(outcomes, ["error", "error", "ok", "ok"]);
    let error = trace.all("tool_result")[0].text("error.error_type");
    assert!(error.contains("io::error::Error"), "{error}");
    let message = trace.all("tool_result")[0].text("error.message");
    assert!(
        message.contains("`async { future.await? }` records it"),
        "{message}"
    );
}

#[test]
fn aborted_task_is_cancelled() {
    let recording = Recording::new();
    run_async(&recording, async {
        let tool = spans::tool_call("slow", "c1").start();
        let task = spawn(forever().recorded(tool));
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    });
    let trace = recording.trace();
    assert_eq!(trace.one("tool_result").text("outcome"), "cancelled");
}

#[test]
fn future_never_polled_is_cancelled() {
    let recording = Recording::new();
    recording.run(|| drop(forever().recorded(spans::tool_call("slow", "c1").start())));
    let trace = recording.trace();
    let close = trace.one("tool_result");
    assert_eq!(close.text("outcome"), "cancelled");
    assert_eq!(close.get("error.message"), "the future never ran");
}

#[test]
fn cancelled_span_has_its_reason_if_known() {
    let recording = Recording::new();
    run_async(&recording, async {
        let turn = spans::session_turn().start();
        let tool = spans::tool_call("slow", "c1").child_of(&turn).start();
        let given = spans::tool_call("given", "c2").child_of(&turn).start();
        let reason = given.clone();
        let both = async { tokio::try_join!(forever().recorded(tool), forever().recorded(given)) };
        tokio::select! {
            biased;
            _ = both.recorded(turn) => unreachable!(),
            () = async { reason.record_error("the user pressed Esc") } => {}
        }
    });
    let trace = recording.trace();
    let turn = trace.one("turn_end");
    assert_eq!(turn.text("outcome"), "cancelled");
    assert_eq!(turn.get("error"), &Value::Null);
    let of = |id: &str| trace.find("tool_result", "tool_id", id).clone();
    let message = of("slow").get("error.message").clone();
    assert_eq!(message, "the future around it was dropped");
    assert_eq!(of("given").text("outcome"), "cancelled");
    assert_eq!(of("given").get("error.message"), "the user pressed Esc");
    assert_eq!(trace.one("turn_end").get("totals.errors"), 0);
}

#[test]
fn events_while_dropping_a_future_are_in_its_span() {
    struct Farewell;
    impl Drop for Farewell {
        fn drop(&mut self) {
            warn!("torn down");
        }
    }
    let recording = Recording::new();
    run_async(&recording, async {
        let tool = spans::tool_call("slow", "c1").start();
        let future = async {
            let _farewell = Farewell;
            forever().await
        };
        tokio::select! {
            biased;
            _ = future.recorded(tool) => unreachable!(),
            () = async {} => {}
        }
    });
    let trace = recording.trace();
    let (log, close) = (trace.one("log"), trace.one("tool_result"));
    assert_eq!(log.span_id, close.span_id);
    assert!(log.seq < close.seq);
}

#[test]
fn task_under_foreign_span_keeps_its_session() {
    let recording = Recording::new();
    run_async(&recording, async {
        let run = spans::session_run("s", "planner").start();
        let task = run.in_scope(|| {
            let worker = info_span!("worker");
            spawn(
                async {
                    tokio::task::yield_now().await;
                    drop(spans::tool_call("bash", "c1").start());
                    events::message_user("from the task").emit();
                }
                .instrument(worker),
            )
        });
        task.await.unwrap();
    });
    let trace = recording.trace();
    assert_eq!(trace.sessions.len(), 1);
    let run = trace.one("session_start");
    assert_eq!(trace.one("tool_call").parent_span_id, run.span_id);
    assert_eq!(trace.one("message_user").span_id, run.span_id);
}

#[test]
fn task_under_a_span_of_any_level_keeps_its_session() {
    let recording = Recording::new();
    run_async(&recording, async {
        let run = spans::session_run("s", "planner").start();
        let debug = run.in_scope(|| tracing::debug_span!("worker"));
        let trace = run.in_scope(|| tracing::trace_span!("worker"));
        for worker in [debug, trace] {
            let task = async { drop(spans::tool_call("bash", "c1").start()) };
            spawn(task.instrument(worker)).await.unwrap();
        }
    });
    let trace = recording.trace();
    let run = trace.one("session_start");
    assert_eq!(trace.all("tool_call").len(), 2);
    for tool in trace.all("tool_call") {
        assert_eq!(tool.parent_span_id, run.span_id);
    }
}

#[test]
fn concurrent_sessions_do_not_mix() {
    let recording = Recording::new();
    run_async(&recording, async {
        let tasks: Vec<_> = (0..4)
            .map(|user| {
                let name = format!("user{user}");
                let run = spans::session_run(&name, "planner").start();
                let chat = async move {
                    for n in 0..8 {
                        tokio::task::yield_now().await;
                        events::message_user(format!("secret of {name} {n}")).emit();
                        let tool = async {
                            tokio::task::yield_now().await;
                            Ok::<_, io::Error>(())
                        };
                        tool.recorded(spans::tool_call("bash", &name).start())
                            .await?;
                    }
                    Ok::<_, io::Error>(())
                };
                spawn(chat.recorded(run))
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    });
    let trace = recording.trace();
    assert_eq!(trace.all("message_user").len(), 32);
    for line in trace.all("message_user") {
        let of = format!("secret of {} ", line.session_id);
        assert!(line.text("content").starts_with(&of), "{line:?}");
    }
    for line in trace.all("tool_result") {
        assert_eq!(line.text("tool_call_id"), line.session_id);
    }
}

#[test]
fn span_moved_across_threads_keeps_parent_and_session() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        let tool = run.in_scope(|| spans::tool_call("bash", "c1").start());
        let dispatch = recording.dispatch.clone();
        std::thread::spawn(move || {
            tracing::dispatcher::with_default(&dispatch, || {
                let _tool = tool.entered();
                drop(spans::permission_evaluate("bash").start());
            });
        })
        .join()
        .unwrap();
        let trace = recording.trace();
        let tool = trace.one("tool_result");
        assert_eq!(tool.session_id, "s");
        assert_eq!(tool.parent_span_id, trace.one("session_start").span_id);
        let permission = trace.one("permission_evaluate");
        assert_eq!(permission.parent_span_id, tool.span_id);
        drop(run);
    });
}

#[test]
fn explicit_parent_overrides_current_span() {
    let recording = Recording::new();
    recording.run(|| {
        let a = spans::session_run("a", "planner").start();
        let foreign = info_span!(parent: &a, "foreign");
        let _b = spans::session_run("b", "planner").start().entered();
        drop(info_span!(parent: &foreign, "tool.call", tool_id = "macro"));
        drop(spans::tool_call("made", "c1").child_of(&foreign).start());
        drop(info_span!(parent: None, "model.call", model_id = "root"));
    });
    let trace = recording.trace();
    let a = trace.find("session_start", "session_id", "a");
    for id in ["macro", "made"] {
        let tool = trace.find("tool_call", "tool_id", id);
        assert_eq!(tool.session_id, "a");
        assert_eq!(tool.parent_span_id, a.span_id);
    }
    let root = trace.one("model_call");
    assert_eq!(root.parent_span_id, None);
    assert!(root.session_id != "a" && root.session_id != "b");
}

#[test]
fn follows_from_becomes_a_link() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let first = spans::tool_call("first", "c1").start();
        let second = spans::tool_call("second", "c2").start();
        second.follows_from(&first);
        let trace = recording.trace();
        assert!(trace.one("span_update").get("links").is_array());
    });
    let trace = recording.trace();
    let first = trace.find("tool_call", "tool_id", "first");
    let second = trace.find("tool_result", "tool_id", "second");
    let links = second.get("links").as_array().unwrap();
    assert_eq!(links.len(), 1);
    assert_eq!(links[0]["span_id"].as_str(), first.span_id.as_deref());
    assert_eq!(links[0]["trace_id"].as_str(), first.trace_id.as_deref());
}

#[test]
fn finished_parent_is_closed_despite_leaked_child() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        let turn = run.in_scope(|| spans::session_turn().start());
        let leaked = turn.in_scope(|| spans::tool_call("bash", "c1").start());
        turn.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
        drop((turn, run));
        let trace = recording.trace();
        assert_eq!(trace.one("turn_end").text("outcome"), "ok");
        assert_eq!(trace.one("session_end").text("outcome"), "ok");
        assert!(trace.all("tool_result").is_empty());
        std::mem::forget(leaked);
    });
    assert_eq!(recording.trace().all("turn_end").len(), 1);
}

#[test]
fn child_outliving_finished_parent_is_closed() {
    let recording = Recording::new();
    recording.run(|| {
        let turn = spans::session_turn().start();
        let tool = turn.in_scope(|| spans::tool_call("bash", "c1").start());
        turn.finish(Outcome::Ok);
        drop(turn);
        tool.record_result("late but true");
    });
    let trace = recording.trace();
    let (turn, tool) = (trace.one("turn_end"), trace.one("tool_result"));
    assert_eq!(tool.text("result"), "late but true");
    assert_eq!(tool.parent_span_id, turn.span_id);
}

#[test]
fn finish_closes_parent_outside_scoped_subscriber() {
    let recording = Recording::new();
    let (run, tool) = recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        let tool = run.in_scope(|| spans::tool_call("bash", "c1").start());
        (run, tool)
    });
    // Out here another dispatcher is current: the registry can't close the parent by itself.
    run.finish(Outcome::Ok);
    tool.record_result("done");
    drop(run);
    drop(tool);
    let trace = recording.trace();
    assert_eq!(trace.one("session_end").text("outcome"), "ok");
    assert_eq!(trace.one("tool_result").text("result"), "done");
}

#[test]
fn two_tasks_record_in_one_session() {
    let recording = Recording::new();
    run_async(&recording, async {
        let run = spans::session_run("s", "planner").start();
        let (ready, wait) = oneshot::channel();
        let a = spawn(
            async move {
                ready.send(()).unwrap();
                (0..50).for_each(|n| events::custom("a", n.into()).emit());
            }
            .instrument(run.clone()),
        );
        let b = spawn(
            async move {
                wait.await.unwrap();
                (0..50).for_each(|n| events::custom("b", n.into()).emit());
            }
            .instrument(run),
        );
        a.await.unwrap();
        b.await.unwrap();
    });
    let trace = recording.trace();
    for kind in ["a", "b"] {
        let values: Vec<_> = trace
            .all(kind)
            .iter()
            .map(|l| l.get("value").clone())
            .collect();
        assert!(values.iter().enumerate().all(|(n, v)| *v == n));
        assert_eq!(values.len(), 50);
    }
}
