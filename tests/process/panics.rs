//! A panic inside an agent span is recorded as its error and continues unchanged.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use spanledger::{FutureExt, SpanExt, spans};
use tracing::info_span;

use crate::support::{LineExt, Recording, child};

/// Runs `agent` without letting its panic print, and returns what it panicked with.
fn panicking(agent: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(agent)).unwrap_err();
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => (*panic.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[test]
fn panic_in_a_macro_span_is_an_error() {
    let recording = Recording::new();
    let message = panicking(|| {
        recording.run(|| {
            let _tool = info_span!("tool.call", tool_id = "bash").entered();
            panic!("the tool broke");
        });
    });
    assert_eq!(message, "the tool broke");
    let trace = recording.trace();
    let close = trace.one("tool_result");
    assert_eq!(close.text("outcome"), "error");
    assert_eq!(close.get("error.error_type"), "panic");
    assert_eq!(close.get("error.message"), "the tool broke");
    assert!(close.text("error.stack").contains("panics.rs:"));
}

#[test]
fn every_unwound_span_is_an_error() {
    let recording = Recording::new();
    panicking(|| {
        recording.run(|| {
            let _run = spans::session_run("s", "planner").start().entered();
            let _turn = spans::session_turn().start().entered();
            let _tool = spans::tool_call("bash", "c1").start().entered();
            panic!("all the way");
        });
    });
    let trace = recording.trace();
    for kind in ["tool_result", "turn_end", "session_end"] {
        assert_eq!(trace.one(kind).text("outcome"), "error", "{kind}");
    }
}

#[test]
fn caught_panic_leaves_the_turn_alone() {
    let recording = Recording::new();
    recording.run(|| {
        let _turn = spans::session_turn().start().entered();
        panicking(|| {
            let _tool = spans::tool_call("bash", "c1").start().entered();
            panic!("only the tool");
        });
    });
    let trace = recording.trace();
    assert_eq!(trace.one("tool_result").text("outcome"), "error");
    assert_eq!(trace.one("turn_end").text("outcome"), "unset");
}

#[test]
fn panic_does_not_replace_an_earlier_error() {
    let recording = Recording::new();
    panicking(|| {
        recording.run(|| {
            let tool = spans::tool_call("bash", "c1").start();
            tool.record_error(&io::Error::other("the cause"));
            panic!("the consequence");
        });
    });
    let trace = recording.trace();
    assert_eq!(trace.one("tool_result").get("error.message"), "the cause");
}

#[test]
fn span_created_while_unwinding_is_no_error() {
    struct Cleanup;
    impl Drop for Cleanup {
        fn drop(&mut self) {
            drop(spans::tool_call("cleanup", "c1").start());
        }
    }
    let recording = Recording::new();
    panicking(|| {
        recording.run(|| {
            let _cleanup = Cleanup;
            panic!("unwinding");
        });
    });
    let trace = recording.trace();
    assert_eq!(trace.one("tool_result").text("outcome"), "unset");
}

#[test]
fn panic_in_a_recorded_future_is_an_error() {
    let recording = Recording::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let message = panicking(|| {
        recording.run(|| {
            let tool = spans::tool_call("bash", "c1").start();
            let held = tool.clone();
            let future = async {
                tokio::task::yield_now().await;
                if true {
                    panic!("index {} is out of bounds", 7);
                }
                Ok::<(), io::Error>(())
            };
            let _ = runtime.block_on(future.recorded(tool));
            drop(held);
        });
    });
    assert_eq!(message, "index 7 is out of bounds");
    let trace = recording.trace();
    let close = trace.one("tool_result");
    assert_eq!(close.text("outcome"), "error");
    assert_eq!(close.get("error.error_type"), "panic");
    assert_eq!(close.get("error.message"), "index 7 is out of bounds");
}

#[test]
fn future_dropped_by_a_panic_says_so() {
    let recording = Recording::new();
    panicking(|| {
        recording.run(|| {
            let tool = spans::tool_call("bash", "c1").start();
            let mut other = Box::pin(std::future::pending::<io::Result<()>>().recorded(tool));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(other.as_mut().poll(&mut context).is_pending());
            panic!("beside it");
        });
    });
    let trace = recording.trace();
    let close = trace.one("tool_result");
    assert_eq!(close.text("outcome"), "cancelled");
    assert_eq!(close.get("error.message"), "dropped by a panic: beside it");
}

#[test]
fn panic_in_a_task_reaches_its_join() {
    let recording = Recording::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let joined = runtime.block_on(async {
        let tool = recording.run(|| spans::tool_call("bash", "c1").start());
        let future = async {
            if true {
                panic!("in the task");
            }
            Ok::<(), io::Error>(())
        };
        tokio::spawn(future.recorded(tool)).await
    });
    assert!(joined.unwrap_err().is_panic());
    let trace = recording.trace();
    assert_eq!(trace.one("tool_result").get("error.message"), "in the task");
}

#[test]
fn panic_without_a_text_says_so() {
    let recording = Recording::new();
    let agent = || {
        recording.run(|| {
            let _tool = spans::tool_call("bash", "c1").start().entered();
            std::panic::panic_any(42);
        });
    };
    catch_unwind(AssertUnwindSafe(agent)).unwrap_err();
    let trace = recording.trace();
    let close = trace.one("tool_result");
    assert_eq!(
        close.get("error.message"),
        "panic (its payload is not a text)"
    );
}

/// A hook that the agent installs later and that does not call the one before it.
#[test]
fn panic_that_the_hook_did_not_see_says_what_to_do() {
    child::alone(|| {
        let recording = Recording::new();
        std::panic::set_hook(Box::new(|_| {}));
        panicking(|| {
            recording.run(|| {
                let _tool = spans::tool_call("bash", "c1").start().entered();
                panic!("unseen");
            });
        });
        let trace = recording.trace();
        let message = trace.one("tool_result").text("error.message");
        assert!(
            message.contains("run the future with `.recorded(span)`"),
            "{message}"
        );
    });
}
