//! Writes that the kernel takes only a part of, which no disk here can be made to do on demand and
//! then go on.

mod support;

use std::cell::Cell;
use std::ffi::c_void;

use spanledger::{Outcome, SpanExt, events, spans};
use support::Recording;

thread_local! {
    /// How many of this thread's next writes are cut short.
    static SHORT: Cell<u32> = const { Cell::new(0) };
}

// This comes before the C library's of the same name, for this executable.
#[unsafe(no_mangle)]
extern "C" fn write(fd: libc::c_int, bytes: *const c_void, count: usize) -> isize {
    let short = SHORT.try_with(Cell::get).unwrap_or(0);
    let count = if short > 0 {
        SHORT.set(short - 1);
        count / 2
    } else {
        count
    };
    // SAFETY: the call that was asked for, of no more bytes than that.
    unsafe { libc::syscall(libc::SYS_write, fd, bytes, count) as isize }
}

#[test]
fn a_line_that_was_written_in_part_is_written_to_its_end() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        SHORT.set(1);
        run.in_scope(|| events::message_user("in two pieces").emit());
        assert_eq!(SHORT.get(), 0);
        run.finish(Outcome::Ok);
    });
    let trace = recording.trace();
    assert_eq!(trace.damage, []);
    let kinds = ["segment", "session_start", "message_user", "session_end"];
    assert_eq!(trace.kinds("s"), kinds);
    assert_eq!(recording.guard.health().failed, 0);
}

#[test]
fn a_line_that_was_never_written_to_its_end_is_missing_and_costs_no_other() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "planner").start();
        SHORT.set(2);
        run.in_scope(|| events::message_user("only three quarters").emit());
        assert_eq!(SHORT.get(), 0);
        run.in_scope(|| events::message_user("whole").emit());
        run.finish(Outcome::Ok);
    });
    let trace = recording.trace();
    assert_eq!(trace.damage.len(), 1, "{:?}", trace.damage);
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
