//! Threads that record without pause until they are killed, and say so before and after each call.

use std::time::Duration;

use spanledger::{Outcome, SpanExt, Usage, events, spans};
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

/// `talks`: a conversation is recorded too.
pub fn run(root: &str, session: &str, life: &str, rounds: &str, talks: bool) {
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
                    turn(run, &format!("{life}.{thread}.{round}"), talks);
                }
            });
        }
    });
    call("session_end", life, || run.finish(Outcome::Ok));
    drop(run);
    guard.shutdown().unwrap();
}

fn turn(run: &Span, key: &str, talks: bool) {
    let turn = call("turn_start", key, || {
        spans::session_turn().set("key", key).child_of(run).start()
    });
    let user = format!("u{key}");
    if talks {
        call("message_user", key, || {
            events::message_user("Go on.")
                .message_id(&user)
                .on(&turn)
                .emit();
        });
    }
    for n in 0..3 {
        if talks {
            answer(&turn, &format!("{key}.{n}"));
        }
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
    if talks {
        call("rewind", key, || events::rewind(user).on(&turn).emit());
    }
    call("turn_end", key, || turn.finish(Outcome::Ok));
}

/// A model call whose text arrives in pieces, while other threads record and exports are made.
fn answer(turn: &Span, key: &str) {
    let model = call("model_call", key, || {
        spans::model_call("anthropic", "claude-sonnet-4-5")
            .child_of(turn)
            .start()
    });
    let mut stream = model.stream(format!("m{key}"));
    for _ in 0..3 {
        call("message_delta", key, || {
            stream.push("These are words of an answer that arrive one after the other. ");
        });
    }
    call("model_usage", key, || {
        let usage = Usage {
            input_tokens: Some(7),
            ..Usage::default()
        };
        events::model_usage(&usage).on(&model).emit();
    });
    call("message_assistant", key, || stream.end());
    call("model_result", key, || model.finish(Outcome::Ok));
}
