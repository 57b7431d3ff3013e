//! The spans that are recorded by everybody who is measured.

use std::hint::black_box;

use tracing::field::Empty;
use tracing::span::EnteredSpan;
use tracing::{Span, info_span};

/// About 120 bytes.
pub const ARGS: &str = r#"{"command":"cargo test --workspace --all-features","workdir":"/home/agent/project","timeout_ms":120000,"login":false}"#;
/// About 150 bytes.
pub const RESULT: &str = "running 42 tests\ntest parser::tests::reads_a_line ... ok\ntest parser::tests::keeps_unknown_members ... ok\n\ntest result: ok. 42 passed; 0 failed; 0 ignored";

pub fn call_ids() -> Vec<String> {
    (0..1024).map(|n| format!("call_{n:024x}")).collect()
}

/// How many calls an agent makes in a turn. In one turn without end each call would be linked to it
/// from another trace, since traces have an end.
pub const CALLS_A_TURN: usize = 100;

/// The turn that calls are made in, one after the other.
#[derive(Default)]
pub struct Turns(Option<EnteredSpan>);

impl Turns {
    /// Begins the next turn before its first call, as `make` makes it.
    pub fn before(&mut self, call: usize, make: impl FnOnce(u64) -> Span) {
        if call.is_multiple_of(CALLS_A_TURN) {
            self.0 = None;
            self.0 = Some(make((call / CALLS_A_TURN) as u64 + 1).entered());
        }
    }
}

/// A turn by macro.
pub fn turn(index: u64) -> Span {
    info_span!("session.turn", turn_index = index)
}

/// A tool call with seven fields, four at creation and three later, inside the current span.
pub fn call(id: &str) {
    let span = info_span!(
        "tool.call",
        tool_id = "bash",
        tool_call_id = id,
        tool_type = "function",
        args = ARGS,
        result = Empty,
        exit_code = Empty,
        truncated = Empty,
    );
    finish(&span);
}

/// The same inside this one.
pub fn call_in(turn: &Span, id: &str) {
    let span = info_span!(
        parent: turn,
        "tool.call",
        tool_id = "bash",
        tool_call_id = id,
        tool_type = "function",
        args = ARGS,
        result = Empty,
        exit_code = Empty,
        truncated = Empty,
    );
    finish(&span);
}

fn finish(span: &Span) {
    span.in_scope(|| black_box(()));
    span.record("result", RESULT);
    span.record("exit_code", 0);
    span.record("truncated", false);
}

/// A thousand sessions are a thousand files: takes all that the system allows, and says so.
pub fn raise_open_files() -> String {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the answer, and then a valid limit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let before = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        let raised = libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0;
        match raised && before != limit.rlim_max {
            true => format!(
                "open files allowed: raised from {before} to {}",
                limit.rlim_max
            ),
            false => format!("open files allowed: {before}"),
        }
    }
}
