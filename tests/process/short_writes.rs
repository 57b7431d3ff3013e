//! Writes of which the kernel accepts only a part.

use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::Recording;
use crate::write_calls;

#[test]
fn partial_write_is_completed() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        write_calls::shorten(1);
        run.in_scope(|| events::message_user("in two pieces").emit());
        assert_eq!(write_calls::left_to_shorten(), 0);
        run.finish(Outcome::Ok);
    });
    let trace = recording.trace();
    assert_eq!(trace.damage, []);
    let kinds = ["segment", "session_start", "message_user", "session_end"];
    assert_eq!(trace.kinds("s"), kinds);
    assert_eq!(recording.guard.health().failed, 0);
}

#[test]
fn failed_partial_write_loses_only_its_line() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        write_calls::shorten(2);
        run.in_scope(|| events::message_user("only three quarters").emit());
        assert_eq!(write_calls::left_to_shorten(), 0);
        run.in_scope(|| events::message_user("whole").emit());
        run.finish(Outcome::Ok);
    });
    let trace = recording.trace();
    assert_eq!(trace.damage, []);
    let kinds = [
        "segment",
        "session_start",
        "gap",
        "message_user",
        "session_end",
    ];
    assert_eq!(trace.kinds("s"), kinds);
    assert_eq!(trace.one("gap").payload["count"], 1);
    assert_eq!(recording.guard.health().failed, 1);
}
