//! An agent built on the real rig, in the real Jaeger.

use serde_json::{Value, json};

use crate::support::Trace;
use crate::support::backends::{Held, Jaeger};
use crate::support::cli;
use crate::support::rig::Rig;

/// What a user sets so that the program sends what it records.
fn sending(jaeger: &Jaeger) -> [(&str, &str); 2] {
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &jaeger.http),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
    ]
}

/// The same, with content.
fn with_content(jaeger: &Jaeger) -> [(&str, &str); 3] {
    let [endpoint, protocol] = sending(jaeger);
    let content = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
    [endpoint, protocol, (content, "true")]
}

/// What Jaeger holds of the trace of the first agent here: so many spans.
fn held(jaeger: &Jaeger, rig: &Rig, count: usize) -> Vec<Held> {
    let trace = Trace::read(rig.path());
    let mut starts = trace.all("session_start");
    starts.sort_by(|a, b| a.ts.cmp(&b.ts));
    let spans = jaeger.whole(starts[0].trace_id.as_deref().unwrap(), count);
    assert_eq!(spans.len(), count, "{spans:#?}");
    spans
}

fn attribute<'a>(span: &'a Held, name: &str) -> &'a Value {
    let missing = || panic!("{} has no {name}: {:?}", span.name, span.attributes);
    span.attributes.get(name).unwrap_or_else(missing)
}

fn text(text: &str) -> Value {
    json!({ "stringValue": text })
}

#[track_caller]
fn assert_count(span: &Held, name: &str, count: u64) {
    // Jaeger spells it as a number or as a text, both are OTLP's JSON.
    let found = &attribute(span, name)["intValue"];
    let found = found
        .as_str()
        .map_or_else(|| found.as_u64(), |n| n.parse().ok());
    assert_eq!(found, Some(count), "{name} of {}", span.name);
}

#[test]
fn names_parents_tokens_and_arguments_are_kept() {
    for (args, provider, model, input) in [
        ("openai", "openai", "gpt-4o", 100),
        ("anthropic --stream", "anthropic", "claude-sonnet-4-5", 172),
    ] {
        let Some(jaeger) = Jaeger::shared() else {
            return;
        };
        let Some(rig) = Rig::run_with(args, &with_content(jaeger)) else {
            return;
        };
        let mut spans = held(jaeger, &rig, 6);
        spans.sort_by_key(|span| (span.start, span.name.clone()));
        let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
        let chat = format!("chat {model}");
        assert_eq!(
            names,
            [
                "invoke_agent calculator",
                &chat,
                "execute_tool add",
                &chat,
                "execute_tool divide",
                &chat
            ]
        );
        let run = &spans[0];
        assert_eq!(run.parent_id, "");
        for span in &spans[1..] {
            assert_eq!(span.parent_id, run.span_id, "{}", span.name);
            assert!(run.start <= span.start && span.end <= run.end);
        }
        for (nth, call) in [&spans[1], &spans[3], &spans[5]].into_iter().enumerate() {
            assert_eq!(call.kind, 3, "a client");
            assert_eq!(attribute(call, "gen_ai.operation.name"), &text("chat"));
            assert_eq!(attribute(call, "gen_ai.provider.name"), &text(provider));
            assert_count(call, "gen_ai.usage.input_tokens", input + nth as u64);
            assert_count(call, "gen_ai.usage.output_tokens", 10 + nth as u64);
            assert_count(call, "gen_ai.usage.cache_read.input_tokens", 64);
            assert_count(call, "agent.turn_index", 1 + nth as u64);
        }
        for (tool, arguments, result) in [
            (&spans[2], r#"{"x":19,"y":23}"#, "42"),
            (&spans[4], r#"{"x":42,"y":2}"#, "21"),
        ] {
            assert_eq!(
                attribute(tool, "gen_ai.tool.call.arguments"),
                &text(arguments)
            );
            assert_eq!(attribute(tool, "gen_ai.tool.call.result"), &text(result));
            assert_eq!(tool.status, 1, "ok");
        }
    }
}

#[test]
fn failed_tool_is_an_error() {
    let Some(jaeger) = Jaeger::shared() else {
        return;
    };
    let Some(rig) = Rig::run_with("openai fail", &sending(jaeger)) else {
        return;
    };
    let spans = held(jaeger, &rig, 4);
    let tool = spans.iter().find(|span| span.name == "execute_tool divide");
    let tool = tool.unwrap();
    assert_eq!(tool.status, 2, "an error");
    assert_eq!(attribute(tool, "error.type"), &text("other"));
    let sent = format!("{spans:?}");
    assert!(!sent.contains("What is"), "nobody allowed content");
}

/// A program that was killed inside a tool, having sent what it could.
fn killed(jaeger: &Jaeger) -> Option<Rig> {
    let hanging = Rig::hang_with("openai hang", &with_content(jaeger))?;
    Some(hanging.kill())
}

#[track_caller]
fn assert_interrupted(jaeger: &Jaeger, rig: &Rig) {
    let spans = held(jaeger, rig, 3);
    let find = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let (run, tool) = (find("invoke_agent calculator"), find("execute_tool wait"));
    assert_eq!(tool.parent_id, run.span_id);
    assert_eq!(find("chat gpt-4o").parent_id, run.span_id);
    for span in [run, tool] {
        assert_eq!(span.status_message, "interrupted: writer gone");
    }
    assert_eq!(
        attribute(tool, "gen_ai.tool.call.arguments"),
        &text(r#"{"for":"ever"}"#)
    );
}

#[test]
fn next_start_sends_a_killed_tool_as_interrupted() {
    let Some(jaeger) = Jaeger::shared() else {
        return;
    };
    let Some(rig) = killed(jaeger) else { return };
    let Some(()) = rig.again("openai", &sending(jaeger)) else {
        return;
    };
    assert_interrupted(jaeger, &rig);
}

#[test]
fn command_sends_a_killed_tool_as_interrupted() {
    let Some(jaeger) = Jaeger::shared() else {
        return;
    };
    let Some(rig) = killed(jaeger) else { return };
    cli::mirror(rig.path(), &jaeger.http, "http/protobuf");
    assert_interrupted(jaeger, &rig);
}

#[test]
fn verify_ignores_synthetic_turns() {
    let Some(jaeger) = Jaeger::shared() else {
        return;
    };
    let Some(rig) = Rig::run_with("openai", &sending(jaeger)) else {
        return;
    };
    let args = ["verify", "--jaeger", &jaeger.url, "--wait", "60s", "--json"];
    let done = cli::run(rig.path(), &args);
    assert_eq!(done.code, 0, "{done:?}");
    let report = done.json();
    assert_eq!(report["left_out"], 0, "{report}");
    assert_eq!(report["spans"], 6, "{report}");
}
