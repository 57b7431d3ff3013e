//! The user's sampler, which runs just before a root's line is written.

use std::sync::{Arc, Mutex, mpsc};

use opentelemetry::trace::{Link, SpanKind, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SamplingDecision, SamplingResult, ShouldSample};
use spanledger::SpanExt;
use tracing::field::Empty;
use tracing::{Span, info_span, warn};

use crate::support::child;
use crate::support::{LineExt, Recording};

/// Calls a closure on each decision.
#[derive(Clone)]
struct Busy(Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Busy")
    }
}

impl ShouldSample for Busy {
    fn should_sample(
        &self,
        _: Option<&Context>,
        _: TraceId,
        _: &str,
        _: &SpanKind,
        _: &[KeyValue],
        _: &[Link],
    ) -> SamplingResult {
        (self.0)();
        SamplingResult {
            decision: SamplingDecision::RecordAndSample,
            attributes: Vec::new(),
            trace_state: Default::default(),
        }
    }
}

fn recording(busy: impl Fn() + Send + Sync + 'static) -> Recording {
    Recording::with(|builder| builder.sampler(Busy(Arc::new(busy))))
}

/// A call that waits for its name.
fn waiting() -> Span {
    info_span!("tool.call", tool_id = Empty, more = Empty)
}

#[test]
fn sampler_may_record_on_its_span() {
    let recording = recording(|| {
        warn!("asked");
        let current = Span::current();
        current.record("more", "by the sampler");
        assert!(current.remote_context().is_none());
    });
    recording.run(|| waiting().in_scope(|| ()));
    let trace = recording.trace();
    assert_eq!(trace.one("tool_result").text("outcome"), "unset");
    assert_eq!(trace.all("tool_call").len(), 1);
}

#[test]
fn fork_while_sampling_does_not_block_the_child() {
    child::alone(|| {
        let (asked, is_asked) = mpsc::channel();
        let (answer, may_answer) = mpsc::channel();
        let may_answer = Mutex::new(may_answer);
        let recording = recording(move || {
            asked.send(()).unwrap();
            may_answer.lock().unwrap().recv().unwrap();
        });
        let ended = recording.run(|| {
            let call = waiting();
            std::thread::scope(|scope| {
                scope.spawn(|| call.in_scope(|| ()));
                is_asked.recv().unwrap();
                // SAFETY: the child records once and exits, and is killed if it blocks.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    unsafe { libc::alarm(60) };
                    call.record("more", "in the child");
                    unsafe { libc::_exit(0) };
                }
                let mut ended = -1;
                // SAFETY: waits for that child, into a place of ours.
                unsafe { libc::waitpid(child, &mut ended, 0) };
                answer.send(()).unwrap();
                ended
            })
        });
        assert_eq!(ended, 0);
        assert_eq!(recording.trace().all("tool_result").len(), 1);
    });
}
