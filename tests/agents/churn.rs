//! Threads that record without pause until they are killed, and say so before and after each call.

use std::time::Duration;

use spanledger::{Outcome, SpanExt, events, spans};
use tracing::Span;

/// One unbuffered write: a pipe keeps it whole, and what was written outlives the process.
fn say(mark: char, kind: &str, key: &str) {
    let line = format!("{mark} {kind} {key}\n");
    // SAFETY: the pointer and length describe `line`.
    let n = unsafe { libc::write(1, line.as_ptr().cast(), line.len()) };
    assert_eq!(n, line.len() as isize, "a pipe takes a short line whole");
}

/// Makes a call whose line is `kind` with `key`.
fn call<T>(kind: &str, key: &str, f: impl FnOnce() -> T) -> T {
    say('<', kind, key);
    let result = f();
    say('>', kind, key);
    result
}

pub fn run(root: &str, session: &str, life: &str, rounds: &str) {
    let builder = spanledger::builder().root(root);
    let guard = builder.shutdown_timeout(Duration::from_secs(120));
    let guard = guard.try_init().unwrap();
    let rounds: u64 = rounds.parse().unwrap();
    let run = call("run", life, || {
        spans::session_run(session, "churn")
            .set("key", life)
            .start()
    });
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let run = &run;
            scope.spawn(move || {
                for round in 0..rounds {
                    turn(run, &format!("{life}.{thread}.{round}"));
                }
            });
        }
    });
    call("session_end", life, || run.finish(Outcome::Ok));
    drop(run);
    guard.shutdown().unwrap();
}

fn turn(run: &Span, key: &str) {
    let turn = call("turn_start", key, || {
        spans::session_turn().set("key", key).child_of(run).start()
    });
    for n in 0..3 {
        let key = format!("{key}.{n}");
        let tool = call("tool_call", &key, || {
            spans::tool_call("shell", "c")
                .set("key", &key)
                .child_of(&turn)
                .start()
        });
        call("span_update", &key, || tool.set("step", &key));
        call("probe", &key, || {
            events::custom("probe", serde_json::json!({"key": key}))
                .on(&tool)
                .emit();
        });
        call("tool_result", &key, || tool.finish(Outcome::Ok));
    }
    call("turn_end", key, || turn.finish(Outcome::Ok));
}
