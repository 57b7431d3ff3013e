//! Every way in which a value can be recorded.

use std::fmt;

use serde_json::{Value, json};
use spanledger::{Failure, FutureExt, Outcome, SpanExt, Usage, events, spans};
use tracing::field::Empty;
use tracing::{Span, error, info, info_span, warn};

use crate::support::Recording;
use crate::support::secrets::{positions, secrets};

/// JSON where the text is JSON, else the text itself.
pub fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn tool() -> Span {
    spans::tool_call("bash", "c1").start()
}

/// An error with a message and a cause.
#[derive(Debug)]
struct Broken(&'static str, Option<Box<Broken>>);

impl Broken {
    fn new(text: &str) -> Self {
        Self(text.to_owned().leak(), None)
    }

    fn because_of(text: &str) -> Self {
        let inner = Self("inner", Some(Box::new(Self::new(text))));
        Self("outer", Some(Box::new(inner)))
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Broken {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.1.as_deref()?;
        Some(source)
    }
}

type Way = (&'static str, fn(&str));

/// Spans: by macro, by constructor, and what is recorded on them.
const SPANS: &[Way] = &[
    ("a macro's field", |text| {
        info_span!("tool.call", tool_id = "bash", args = text);
    }),
    ("a macro's unknown field", |text| {
        info_span!("tool.call", tool_id = "bash", note = %text);
    }),
    ("a macro's field by its Debug", |text| {
        info_span!("tool.call", tool_id = "bash", args = ?text);
    }),
    ("a macro's bytes", |text| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.extend(b" \xff");
        info_span!("tool.call", tool_id = "bash", args = bytes.as_slice());
    }),
    ("a field recorded later", |text| {
        let span = info_span!("tool.call", tool_id = "bash", args = Empty, note = Empty);
        span.record("args", text);
        span.record("note", text);
    }),
    ("a field that identifies the span late", |text| {
        let span = info_span!("tool.call", tool_id = Empty, args = text);
        span.record("tool_id", text);
    }),
    ("a constructor's JSON", |text| {
        drop(spans::tool_call("bash", "c1").args(value(text)).start());
    }),
    ("a constructor's JSON text", |text| {
        drop(spans::tool_call("bash", "c1").args(text).start());
    }),
    ("a constructor's texts", |text| {
        let call = spans::tool_call("bash", text).command(text);
        drop(call.title(text).locations(vec![text]).start());
    }),
    ("a result", |text| tool().record_result(&value(text))),
    ("a result's text", |text| tool().record_result(text)),
    ("a result that is a list", |text| {
        tool().record_result(&json!([1, value(text), {"deep": [text]}]));
    }),
    ("set", |text| {
        let tool = tool();
        tool.set("note", text);
        tool.set("nested", json!({"a": [value(text)]}));
        tool.set("locations", text);
    }),
    ("set after the end", |text| {
        let tool = tool();
        tool.finish(Outcome::Ok);
        tool.set("note", text);
    }),
    ("a tool's output", |text| {
        let tool = tool();
        tool.set("stdout", format!("$ env\n{text}\n$ "));
        tool.set("stderr", text);
    }),
    ("usage details", |text| {
        let call = spans::model_call("p", "m").params(value(text)).start();
        call.record_usage(&Usage {
            usage_details: Some(value(text)),
            ..Usage::default()
        });
    }),
    ("a session's texts", |text| {
        let run = spans::session_run("other", "agent").title(text);
        drop(run.metadata(value(text)).tags(json!([text])).start());
    }),
    ("a turn and a permission", |text| {
        let turn = spans::session_turn().trigger(text).start();
        turn.set("stop_reason", text);
        let permission = spans::permission_evaluate("bash").pattern(text).start();
        permission.set("rule", json!({"pattern": text}));
    }),
    ("a compaction's summary", |text| {
        spans::compaction_run().start().set("summary", text);
    }),
    ("an error's message", |text| {
        tool().record_error(&Broken::new(text))
    }),
    ("an error's causes", |text| {
        tool().record_error(&Broken::because_of(text))
    }),
    ("anyhow's causes", |text| {
        let error = anyhow::Error::new(Broken::new(text)).context("calling the tool");
        tool().record_error(&error);
    }),
    ("an error that is no Rust error", |text| {
        let failure = Failure::new("Refused", text)
            .stack(text)
            .details(value(text));
        tool().record_failure(&failure);
        events::failure(&failure).emit();
    }),
    ("a future's error", |text| {
        let failing = std::future::ready(Err::<(), _>(Broken::because_of(text)));
        let mut future = std::pin::pin!(failing.recorded(tool()));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_ready());
    }),
    ("a panic's message", |text| {
        let failing =
            std::future::poll_fn(|_| std::panic::resume_unwind(Box::new(text.to_owned())));
        let mut future = std::pin::pin!(failing.recorded::<(), Broken, _>(tool()));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let poll = || drop(future.as_mut().poll(&mut context));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(poll)).unwrap_err();
    }),
    ("a span of others", |text| {
        let span = info_span!("request", header = text, later = Empty, shown = ?text);
        span.record("later", text);
    }),
];

/// Events: typed, of one's own, by macro, and from the log.
const EVENTS: &[Way] = &[
    ("messages", |text| {
        events::message_user(text).parts(value(text)).emit();
        events::message_assistant(text).metadata(value(text)).emit();
        events::message_system("x").message_id(text).emit();
    }),
    ("a prompt, a catalog and rules", |text| {
        events::system_prompt(text).sources(json!([text])).emit();
        events::tool_catalog(json!([{"name": "bash", "description": text}])).emit();
        events::permission_rules(json!([{"pattern": value(text)}])).emit();
        drop(spans::model_call("p", "m").start());
    }),
    ("other typed events", |text| {
        events::artifact("a.png")
            .source_code(text)
            .caption(text)
            .emit();
        events::attempt("1").parameters_changed(value(text)).emit();
        events::hook("tool.before", "h").reason(text).emit();
        events::rpc("in", "m")
            .params(value(text))
            .error(text)
            .emit();
        events::state_update().state(value(text)).emit();
        events::output().r#final(value(text)).raw(text).emit();
        events::verdict(1, "rejected").error(text).emit();
    }),
    ("an event on a span", |text| {
        let tool = tool();
        events::hitl_request("i")
            .pending(value(text))
            .on(&tool)
            .emit();
    }),
    ("a session handle", |text| {
        let session = tool().session().unwrap();
        session.hitl_response("i", value(text));
        session.title(text);
        session.report_status(text);
        session.record(events::annotation("1:1", value(text)));
    }),
    ("a custom event", |text| {
        events::custom("mine", value(text)).emit();
        events::custom("mine", json!({"note": text, "deep": [value(text)]})).emit();
    }),
    ("an event by macro", |text| {
        info!(target: "spanledger::message_user", parts = text, "{text}");
        info!(target: "spanledger::mine", anything = ?text);
    }),
    ("a warning", |text| warn!("{text}")),
    (
        "a warning's field",
        |text| warn!(body = text, shown = ?text, "odd"),
    ),
    ("an error event", |text| {
        let _tool = tool().entered();
        let broken = Broken::because_of(text);
        error!(error = &broken as &dyn std::error::Error, "failed");
        error!(error = text, "failed");
        events::error(&broken).emit();
    }),
    ("a stream", |text| {
        let call = spans::model_call("p", "m").start();
        let mut out = call.stream("msg");
        out.push(text);
        out.push(" and more");
        out.end();
        let mut out = call.stream_reasoning("msg");
        out.push(text);
        out.abort(text);
    }),
    ("a tool's input stream", |text| {
        let mut input = spans::model_call("p", "m").start().stream_tool_input("c1");
        input.push(text);
    }),
    ("a value too large for a line", |text| {
        let long = format!("{}\n{text}\n{}", "word ".repeat(20), "word ".repeat(400));
        let at_the_end = format!("{}{text}", "line\n".repeat(400));
        let tool = spans::tool_call("bash", "c1")
            .args(json!({"body": long}))
            .start();
        tool.record_result(&json!([value(text), at_the_end]));
        tool.set("stdout", &long);
        events::message_user(at_the_end).emit();
    }),
];

fn recording() -> Recording {
    Recording::with(|builder| builder.record_spans(|_| true).inline_limit(1024))
}

fn never_on_disk(ways: &[Way]) {
    let mut failures = Vec::new();
    for (way, record) in ways {
        let recording = recording();
        let mut recorded = 0;
        recording.run(|| {
            let _run = spans::session_run("s", "agent").start().entered();
            for (_, secret) in secrets() {
                for (_, text) in positions(&secret) {
                    record(&text);
                    recorded += 1;
                }
            }
        });
        let health = recording.guard.health();
        assert!(
            health.masked >= recorded,
            "{way}: {recorded} and {health:?}"
        );
        assert_eq!(health.failed, 0, "{way}: {health:?}");
        let trace = recording.trace();
        assert_eq!(trace.damage, [], "{way}");
        failures.extend(
            trace
                .leaked_secrets()
                .into_iter()
                .map(|leak| format!("{way}: {leak}")),
        );
    }
    assert!(
        failures.is_empty(),
        "{} leaks:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn secret_in_a_span_is_masked() {
    never_on_disk(SPANS);
}

#[test]
fn secret_in_an_event_is_masked() {
    never_on_disk(EVENTS);
}

#[test]
fn secret_in_a_name_is_masked() {
    let recording = recording();
    let mut recorded = 0;
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        for (_, secret) in secrets() {
            // Names are no sentences: here only what is a secret by itself, or with its context.
            let name = secret.as_str();
            events::custom("mine", json!({name: 1, "deep": [{name: {"x": 1}}]})).emit();
            events::message_user("hi")
                .set(secret.clone(), "there")
                .emit();
            let tool = spans::tool_call("bash", "c1")
                .args(json!({name: "v"}))
                .set(secret.clone(), 1)
                .start();
            tool.set(secret.clone(), true);
            tool.record_result(&json!({"map": {name: []}}));
            recorded += 1;
        }
    });
    assert!(recording.guard.health().masked >= 6 * recorded);
    let leaks = recording.trace().leaked_secrets();
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}

#[test]
fn secret_in_a_resource_attribute_is_masked() {
    let mut all = Vec::new();
    for (family, secret) in secrets() {
        for (position, text) in positions(&secret) {
            all.push((format!("{family} as {position}"), text));
        }
    }
    let count = all.len() as u64;
    let recording = Recording::with(|builder| {
        let named = all.iter().fold(builder, |builder, (name, text)| {
            builder.resource(name.as_str(), value(text))
        });
        named.resource("deployment.token", "hunter2-Correct")
    });
    recording.run(|| drop(spans::session_run("s", "agent").start()));
    assert!(recording.guard.health().masked > count);
    let leaks = recording.trace().leaked_secrets();
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}
