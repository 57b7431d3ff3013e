//! The demo agent's session in the real Jaeger and Tempo, directly and through the real collector.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use spanledger::trace::Line;
use tempfile::TempDir;

use crate::support::backends;
use crate::support::backends::{Collector, Held, Jaeger, Tempo, until};
use crate::support::cli;
use crate::support::mount;
use crate::support::{LineExt, Trace};

const PROTOCOLS: [&str; 3] = ["grpc", "http/protobuf", "http/json"];

/// A new demo with its own ids.
fn demo() -> (TempDir, Trace) {
    let root = tempfile::tempdir().unwrap();
    let done = cli::run(root.path(), &["demo", "--session", "ses_demo", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let trace = Trace::read(root.path());
    (root, trace)
}

/// The lines that closed a span, by its id.
fn closed(trace: &Trace) -> BTreeMap<&str, &Line> {
    let lines = trace
        .lines()
        .filter(|line| line.payload.contains_key("duration_ns"));
    let closed: BTreeMap<_, _> = lines
        .map(|line| (line.span_id.as_deref().unwrap(), line))
        .collect();
    assert!(closed.len() > 20, "the demo has a bit of everything");
    closed
}

/// The one trace that all of the demo is in.
fn trace_id(trace: &Trace) -> &str {
    trace.one("compaction_start").trace_id.as_deref().unwrap()
}

/// Looks at what a backend holds by itself, line by line of the local trace.
#[track_caller]
fn assert_same(held: &[Held], trace: &Trace) {
    let closed = closed(trace);
    let mut ids: Vec<_> = held.iter().map(|span| span.span_id.as_str()).collect();
    ids.sort();
    assert_eq!(
        ids,
        closed.keys().copied().collect::<Vec<_>>(),
        "each span once"
    );
    for span in held {
        let line = closed[span.span_id.as_str()];
        let attribute_of = |name: &str| span.attributes.get(name).unwrap_or(&Value::Null);
        let text = |text: &str| json!({ "stringValue": text });
        assert_eq!(span.trace_id, line.trace_id.as_deref().unwrap());
        assert_eq!(
            span.parent_id,
            line.parent_span_id.as_deref().unwrap_or_default()
        );
        let start: jiff::Timestamp = line.text("start").parse().unwrap();
        let start = u64::try_from(start.as_nanosecond()).unwrap();
        let duration = line.get("duration_ns").as_u64().unwrap();
        assert_eq!((span.start, span.end), (start, start + duration));
        let (name, kind) = match line.kind.as_str() {
            "session_end" => (format!("invoke_agent {}", line.text("agent")), 1),
            "turn_end" => ("session.turn".into(), 1),
            "model_result" => (format!("chat {}", line.text("model_id")), 3),
            "tool_result" => (format!("execute_tool {}", line.text("tool_id")), 1),
            "permission_evaluate" => ("permission.evaluate".into(), 1),
            "context_compaction" => ("compaction.run".into(), 1),
            other => panic!("the demo has no {other}"),
        };
        assert_eq!((&span.name, span.kind), (&name, kind));
        let status = match line.text("outcome") {
            "ok" => 1,
            "error" => 2,
            _ => 0,
        };
        assert_eq!(span.status, status, "{line:?}");
        if status == 2 {
            // Without error text, the type.
            assert_eq!(span.status_message, line.text("error.error_type"));
        }
        assert_eq!(attribute_of("agent.outcome"), &text(line.text("outcome")));
        assert_eq!(
            attribute_of("gen_ai.conversation.id"),
            &text(&line.session_id)
        );
        let address = format!("{}/{}:{}", line.session_id, line.seg, line.seq);
        assert_eq!(attribute_of("agent.trace.address"), &text(&address));
        if line.kind == "model_result" {
            for (attribute, member) in [
                ("gen_ai.usage.input_tokens", "usage.input_tokens"),
                ("gen_ai.usage.output_tokens", "usage.output_tokens"),
            ] {
                let count = line.get(member).as_u64().unwrap().to_string();
                assert_eq!(attribute_of(attribute), &json!({ "intValue": count }));
            }
        }
        if line.kind == "tool_result" {
            assert_eq!(
                attribute_of("gen_ai.tool.call.id"),
                &text(line.text("tool_call_id"))
            );
        }
        let events = line.get("events").as_array().map_or(0, Vec::len);
        // The error that ended it is one too.
        let exceptions = usize::from(status == 2);
        assert_eq!(span.events.len(), events + exceptions, "{line:?}");
        let service = span.resource.get("service.name");
        assert_eq!(service, Some(&text("spanledger-demo")));
    }
}

/// `verify` agrees, for the session and its subagent's.
#[track_caller]
fn assert_verified(root: &Path, backend: &str, url: &str) {
    let done = cli::run(
        root,
        &["verify", backend, url, "--all", "--wait", "60s", "--json"],
    );
    assert_eq!(done.code, 0, "{done:?}");
    let reports = done.objects();
    assert_eq!(reports.len(), 2);
    for report in reports {
        assert_eq!(report["findings"], json!([]));
        assert_eq!(report["same"], report["spans"]);
        assert!(report["spans"].as_u64().unwrap() > 0);
    }
}

#[test]
fn demo_is_in_jaeger_over_each_protocol() {
    let Some(jaeger) = Jaeger::shared() else {
        return;
    };
    for protocol in PROTOCOLS {
        let (root, trace) = demo();
        let endpoint = if protocol == "grpc" {
            &jaeger.grpc
        } else {
            &jaeger.http
        };
        cli::mirror(root.path(), endpoint, protocol);
        assert_same(&jaeger.spans(trace_id(&trace)), &trace);
        assert_verified(root.path(), "--jaeger", &jaeger.url);
    }
    let found = jaeger.search("spanledger-demo");
    assert!(found["data"].as_array().unwrap().len() >= PROTOCOLS.len());
}

#[test]
fn demo_is_in_jaeger_from_a_read_only_root() {
    let Some(jaeger) = Jaeger::shared() else {
        return;
    };
    let (root, trace) = demo();
    let Some(view) = mount::ReadOnly::of(root.path()) else {
        return;
    };
    let state = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let mut mirror = cli::spanledger(view.path());
        mirror.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        mirror.args(["mirror", "--once", "--endpoint", &jaeger.grpc, "--state"]);
        let done = cli::Done::from(mirror.arg(state.path()).output().unwrap());
        assert_eq!(done.code, 0, "{done:?}");
    }
    assert_same(&jaeger.spans(trace_id(&trace)), &trace);
    assert_verified(view.path(), "--jaeger", &jaeger.url);
}

#[test]
fn demo_is_in_tempo_over_each_protocol() {
    let Some(tempo) = Tempo::shared() else { return };
    for protocol in PROTOCOLS {
        let (root, trace) = demo();
        let endpoint = if protocol == "grpc" {
            &tempo.grpc
        } else {
            &tempo.http
        };
        cli::mirror(root.path(), endpoint, protocol);
        let held = tempo.whole(trace_id(&trace), closed(&trace).len());
        assert_same(&held, &trace);
        assert_verified(root.path(), "--tempo", &tempo.url);
    }
}

#[test]
fn demo_is_in_both_through_the_collector() {
    let Some(collector) = Collector::shared() else {
        return;
    };
    let (jaeger, tempo) = (Jaeger::shared().unwrap(), Tempo::shared().unwrap());
    for protocol in PROTOCOLS {
        let (root, trace) = demo();
        let endpoint = if protocol == "grpc" {
            &collector.grpc
        } else {
            &collector.http
        };
        cli::mirror(root.path(), endpoint, protocol);
        let (id, all) = (trace_id(&trace), closed(&trace).len());
        // It acknowledges what it has on disk, and passes it on when it likes.
        assert_same(&jaeger.whole(id, all), &trace);
        assert_same(&tempo.whole(id, all), &trace);
        assert_verified(root.path(), "--jaeger", &jaeger.url);
        assert_verified(root.path(), "--tempo", &tempo.url);
    }
}

#[test]
fn collector_counts_calls_of_tools_and_models() {
    let Some(collector) = Collector::shared() else {
        return;
    };
    let (root, trace) = demo();
    cli::mirror(root.path(), &collector.grpc, "grpc");
    // At least: others send through it too.
    for (kind, calls) in [
        (
            r#"gen_ai_request_model="claude-sonnet-4-5""#,
            trace.all("model_result").len(),
        ),
        (
            r#"gen_ai_tool_name="bash""#,
            trace
                .all("tool_result")
                .iter()
                .filter(|line| line.text("tool_id") == "bash")
                .count(),
        ),
    ] {
        assert!(calls > 1);
        until("span metrics of the calls", || {
            let metrics = String::from_utf8(backends::get(&collector.metrics)?).unwrap();
            let counted = metrics.lines().filter(|line| {
                line.starts_with("traces_span_metrics_calls_total{") && line.contains(kind)
            });
            let counts =
                counted.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
            (counts.sum::<f64>() >= calls as f64).then_some(())
        });
    }
}

/// The commands in `docs/sending.md`, unchanged except for the ports.
#[test]
fn docs_commands_work() {
    let Some(collector) = Collector::shared() else {
        return;
    };
    let (jaeger, tempo) = (Jaeger::shared().unwrap(), Tempo::shared().unwrap());
    let page = include_str!("../../docs/sending.md");
    let section = page
        .split("\n## See it in Jaeger and Tempo\n")
        .nth(1)
        .unwrap();
    let section = section.split("\n## ").next().unwrap();
    let blocks: Vec<Vec<&str>> = section
        .split("```")
        .skip(1)
        .step_by(2)
        .map(|block| block.lines().skip(1).collect())
        .collect();
    // What is running was started so.
    assert_eq!(blocks[0], backends::COMMANDS);
    let root = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_spanledger"));
    let path = std::env::var("PATH").unwrap();
    for line in &blocks[1] {
        let line = line
            .replace("./demo-traces", root.path().to_str().unwrap())
            .replace("http://127.0.0.1:4317", &collector.grpc)
            .replace("http://127.0.0.1:16686", &jaeger.url)
            .replace("http://127.0.0.1:3200", &tempo.url);
        let done = std::process::Command::new("sh")
            .args(["-c", &line])
            .env(
                "PATH",
                format!("{}:{path}", program.parent().unwrap().display()),
            )
            // What the port says by itself.
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
            .output();
        let done = cli::Done::from(done.unwrap());
        assert_eq!(done.code, 0, "{line}: {done:?}");
    }
    assert_eq!(blocks[1].len(), 4);
}
