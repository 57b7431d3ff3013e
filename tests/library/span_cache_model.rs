//! The per-thread span cache does not change the trace: clearing it after each step of a random
//! agent leaves the same lines.
//! them after each step leaves the same trace.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::Value;
use spanledger::{Failure, Outcome, SpanExt, Usage, events, spans};
use tracing::field::{Empty, debug};
use tracing::span::EnteredSpan;
use tracing::{Span, info_span};

use crate::support::Recording;

#[derive(Clone, Debug)]
enum Step {
    /// A span of some kind in the current span.
    Make(u8),
    /// The same in one of the existing spans, or in none.
    MakeIn(u8, Option<usize>),
    /// Records something on a span.
    Record(u8, usize),
    Finish(usize),
    Follow(usize, usize),
    Enter(usize),
    Leave,
    Drop(usize),
    /// Drops it on another thread.
    DropElsewhere(usize),
    /// Records something on it on another thread.
    RecordElsewhere(u8, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let span = || 0..6usize;
    prop_oneof![
        3 => (0..11u8).prop_map(Step::Make),
        1 => (0..10u8, prop::option::of(span())).prop_map(|(kind, parent)| Step::MakeIn(kind, parent)),
        6 => (0..19u8, span()).prop_map(|(what, span)| Step::Record(what, span)),
        1 => span().prop_map(Step::Finish),
        1 => (span(), span()).prop_map(|(a, b)| Step::Follow(a, b)),
        2 => span().prop_map(Step::Enter),
        1 => Just(Step::Leave),
        2 => span().prop_map(Step::Drop),
        1 => span().prop_map(Step::DropElsewhere),
        1 => (0..19u8, span()).prop_map(|(what, span)| Step::RecordElsewhere(what, span)),
    ]
}

macro_rules! any_span {
    ($parent:expr, $name:literal, { $($own:tt)* }) => {
        any_span!(@ $parent, $name, {
            $($own)*
            result = Empty, exit_code = Empty, truncated = Empty, stop_reason = Empty,
            action = Empty, input_tokens = Empty, error = Empty, password = Empty, more = Empty
        })
    };
    (@ $parent:expr, $name:literal, { $($fields:tt)* }) => {
        match $parent {
            Parent::Around => info_span!($name, $($fields)*),
            Parent::Explicit(id) => info_span!(parent: id, $name, $($fields)*),
        }
    };
}

enum Parent {
    /// The current span.
    Around,
    /// This span, or none.
    Explicit(Option<tracing::span::Id>),
}

fn make(kind: u8, parent: Parent) -> Span {
    match kind {
        0 => any_span!(parent, "session.run", { session_id = "s", }),
        1 => any_span!(parent, "session.turn", {}),
        2 => any_span!(parent, "model.call", { model_id = "sonnet", }),
        3 => any_span!(parent, "tool.call", { tool_id = "bash", }),
        4 => any_span!(parent, "permission.evaluate", { tool_id = "bash", }),
        // Deferred until its kind is known.
        5 => any_span!(parent, "tool.call", { tool_id = Empty, }),
        // A foreign span, which may become recognized later.
        6 => any_span!(parent, "chat", { gen_ai.operation.name = Empty, }),
        7 => any_span!(parent, "theirs", {}),
        // A foreign span that is recorded.
        8 => any_span!(parent, "chosen", {}),
        _ => any_span!(parent, "theirs", { session_id = "other", }),
    }
}

fn record_on(what: u8, span: &Span) {
    match what {
        0 => _ = span.record("result", r#"{"token":"hunter2-hunter2","files":[1,2]}"#),
        1 => _ = span.record("result", "done"),
        2 => _ = span.record("exit_code", -1),
        3 => _ = span.record("truncated", true),
        4 => _ = span.record("stop_reason", "end_turn"),
        5 => _ = span.record("action", "deny"),
        6 => _ = span.record("input_tokens", 12),
        7 => _ = span.record("error", "no such file"),
        8 => _ = span.record("password", "hunter2-hunter2"),
        9 => _ = span.record("result", debug(["a", "b"])),
        10 => _ = span.record("result", None::<&str>),
        11 => _ = span.record("tool_id", "bash"),
        12 => _ = span.record("more", 1.5),
        13 => span.record_result(&"of our function"),
        14 => span.record_usage(&Usage {
            output_tokens: Some(7),
            ..Usage::default()
        }),
        15 => span.record_failure(&Failure::message("it broke")),
        16 => _ = span.record("gen_ai.operation.name", "chat"),
        17 => span.in_scope(|| tracing::error!(error = "inside", "it broke")),
        _ => events::artifact("plot.png").on(span).emit(),
    }
}

struct Agent<'a> {
    recording: &'a Recording,
    spans: Vec<Span>,
    inside: Vec<EnteredSpan>,
}

impl Agent<'_> {
    fn span(&self, index: usize) -> Option<&Span> {
        self.spans.get(index)
    }

    fn take(&mut self, index: usize) -> Option<Span> {
        (index < self.spans.len()).then(|| self.spans.remove(index))
    }

    fn elsewhere(&self, what: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| self.recording.run(what));
            thread.join().unwrap();
        });
    }

    fn take_step(&mut self, step: &Step) {
        match *step {
            Step::Make(10) => self.spans.push(spans::tool_call("fetch", "c1").start()),
            Step::Make(kind) => self.spans.push(make(kind, Parent::Around)),
            Step::MakeIn(kind, parent) => {
                let parent = parent.and_then(|index| self.span(index)?.id());
                self.spans.push(make(kind, Parent::Explicit(parent)));
            }
            Step::Record(what, index) => self
                .span(index)
                .into_iter()
                .for_each(|span| record_on(what, span)),
            Step::RecordElsewhere(what, index) => {
                if let Some(span) = self.span(index) {
                    self.elsewhere(|| record_on(what, span));
                }
            }
            Step::Finish(index) => {
                if let Some(span) = self.span(index) {
                    span.finish(Outcome::Ok);
                }
            }
            Step::Follow(one, other) => {
                if let (Some(one), Some(other)) = (self.span(one), self.span(other)) {
                    one.follows_from(other);
                }
            }
            Step::Enter(index) => {
                let entered = self.span(index).map(|span| span.clone().entered());
                self.inside.extend(entered);
            }
            Step::Leave => drop(self.inside.pop()),
            Step::Drop(index) => drop(self.take(index)),
            Step::DropElsewhere(index) => {
                let span = self.take(index);
                self.elsewhere(move || drop(span));
            }
        }
    }
}

/// The thread caches two spans: these replace them.
fn forget(others: &Recording) {
    others.run(|| {
        let run = info_span!("session.run", session_id = "others");
        run.in_scope(|| [(); 2].map(|()| drop(info_span!("tool.call", tool_id = "bash"))));
    });
}

/// Everything in a trace except times, with ids and digests numbered in order of appearance.
fn comparable_lines(recording: &Recording) -> Vec<String> {
    let mut ids = HashMap::new();
    let mut comparable_lines = Vec::new();
    let trace = recording.trace();
    for line in trace.lines().filter(|line| line.kind != "segment") {
        let mut payload = Value::Object(line.payload.clone());
        without_times(&mut payload);
        let line = format!(
            "{} {} {:?} {:?} {:?} {:?} {payload}",
            line.kind, line.session_id, line.turn, line.trace_id, line.span_id, line.parent_span_id
        );
        comparable_lines.push(with_ids_by_order(&line, &mut ids));
    }
    comparable_lines
}

fn without_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|name, _| {
                !["ts", "start", "time", "duration_ns", "process"].contains(&name.as_str())
            });
            map.values_mut().for_each(without_times);
        }
        Value::Array(list) => list.iter_mut().for_each(without_times),
        _ => {}
    }
}

fn with_ids_by_order(text: &str, ids: &mut HashMap<String, usize>) -> String {
    let mut out = String::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let id = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let hex = id.len() >= 8 && id.bytes().all(|b| b.is_ascii_hexdigit());
        if hex || id.starts_with("ses_") {
            let next = ids.len();
            let number = ids.entry(id.to_owned()).or_insert(next);
            out.push_str(&format!("#{number}{}", &word[id.len()..]));
        } else {
            out.push_str(word);
        }
    }
    out
}

fn run(steps: &[Step], context: bool, after_each: impl Fn()) -> Vec<String> {
    let recording = Recording::with(|builder| {
        let builder = builder.record_spans(|meta| meta.name() == "chosen");
        builder.context(context)
    });
    recording.run(|| {
        let (spans, inside) = (Vec::new(), Vec::new());
        let mut agent = Agent {
            recording: &recording,
            spans,
            inside,
        };
        for step in steps {
            agent.take_step(step);
            after_each();
        }
        while let Some(inner) = agent.inside.pop() {
            drop(inner);
        }
    });
    assert_eq!(recording.guard.health().failed, 0);
    comparable_lines(&recording)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn clearing_the_cache_does_not_change_the_trace(
        steps in prop::collection::vec(step(), 1..40),
        context in any::<bool>(),
    ) {
        let others = Recording::new();
        let remembering = run(&steps, context, || {});
        let forgetting = run(&steps, context, || forget(&others));
        prop_assert_eq!(remembering, forgetting);
    }
}
