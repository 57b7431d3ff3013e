//! `spanledger verify` against the real Jaeger and Tempo: what it reports about damaged or missing
//! spans.

use std::path::Path;

use serde_json::{Value, json};
use spanledger::mirror::{Otlp, Protocol};
use spanledger::{Failure, Outcome, SpanExt, events, spans};
use tempfile::TempDir;

use crate::support;
use crate::support::backends::{Jaeger, Tempo};
use crate::support::cli::{self, Done, Victim};
use crate::support::{Recording, Trace};

/// A run with a turn and a tool in it, all of which ended.
fn agent(session: &str, note: &str) {
    let run = spans::session_run(session, "planner").start();
    let _in_run = run.enter();
    let turn = spans::session_turn().start();
    let _in_turn = turn.enter();
    let tool = spans::tool_call("bash", "call_1").start();
    // A field that always leaves.
    tool.set("tool_kind", note);
    tool.finish(Outcome::Ok);
    turn.finish(Outcome::Ok);
    run.finish(Outcome::Ok);
}

fn recorded(note: &str) -> TempDir {
    let recording = Recording::new();
    recording.run(|| agent("ses_1", note));
    recording.end()
}

/// Changes the only line of a kind.
fn tamper(root: &Path, kind: &str, from: &str, to: &str) {
    let file = root.join("sessions/ses_1/trace.0001.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let wanted = format!(r#""kind":"{kind}""#);
    let mut changed = 0;
    let lines = text.lines().map(|line| match line.contains(&wanted) {
        true => {
            changed += line.matches(from).count();
            line.replacen(from, to, 1)
        }
        false => line.to_owned(),
    });
    let text = lines.collect::<Vec<_>>().join("\n") + "\n";
    assert!(changed > 0, "{kind} has no {from}");
    std::fs::write(&file, text).unwrap();
}

fn findings(done: &Done) -> Vec<Value> {
    done.json()["findings"].as_array().unwrap().clone()
}

#[test]
fn unsent_spans_are_missing() {
    let Some(jaeger) = Jaeger::shared() else {
        return;
    };
    let root = recorded("short");
    cli::mirror(root.path(), &jaeger.grpc, "grpc");
    // A second run of the session, in another segment, which is not sent.
    let again = Recording::again(root);
    again.run(|| agent("ses_1", "short"));
    let root = again.end();
    let done = cli::run(root.path(), &["verify", "--jaeger", &jaeger.url, "--json"]);
    assert_eq!(done.code, 1, "{done:?}");
    let report = done.json();
    let numbers = [&report["spans"], &report["same"], &report["traces"]];
    assert_eq!(numbers, [&json!(6), &json!(3), &json!(2)]);
    for found in findings(&done) {
        assert_eq!(found["what"], "missing");
        assert_eq!(
            found["why"],
            "not exported yet (recorded with no endpoint; run `spanledger mirror --once`)"
        );
        assert!(found["address"].as_str().unwrap().starts_with("ses_1/2:"));
    }
    // People read the same.
    let done = cli::run(
        root.path(),
        &["verify", "--jaeger", &jaeger.url, "--wait", "0s", "ses_1"],
    );
    assert_eq!(done.code, 1);
    assert!(
        done.lines()[0].contains("6 spans in 2 traces; 3 in Jaeger as recorded, 3 missing"),
        "{done:?}"
    );
    assert!(done.out.contains("execute_tool bash"), "{done:?}");

    cli::mirror(root.path(), &jaeger.grpc, "grpc");
    let done = cli::run(root.path(), &["verify", "--jaeger", &jaeger.url]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        done.out,
        "ses_1: 6 spans in 2 traces; all in Jaeger as recorded\n"
    );
}

#[test]
fn content_is_in_both_as_it_was_sent() {
    let (Some(jaeger), Some(tempo)) = (Jaeger::shared(), Tempo::shared()) else {
        return;
    };
    for (backend, url, endpoint) in [
        ("--jaeger", &jaeger.url, &jaeger.grpc),
        ("--tempo", &tempo.url, &tempo.grpc),
    ] {
        let otlp = Otlp::new().endpoint(endpoint).protocol(Protocol::Grpc);
        let recording = Recording::with(|builder| builder.otlp(otlp.content(true)));
        recording.run(|| {
            let _run = spans::session_run("ses_1", "planner").start().entered();
            let _turn = spans::session_turn().start().entered();
            events::message_user("What is 2 + 2?").emit();
            let call = spans::model_call("anthropic", "sonnet").start();
            events::message_assistant("4").on(&call).emit();
            call.record_failure(&Failure::new("Refused", "said no").stack("at main"));
            tracing::warn!(user = "ada", "odd question");
        });
        let root = recording.end();
        let args = ["verify", backend, url, "--wait", "60s"];
        let done = cli::run(root.path(), &args);
        assert_eq!(done.code, 0, "{done:?}");
        let trace = Trace::read(root.path());
        let id = trace.one("model_result").trace_id.clone().unwrap();
        let held = match backend {
            "--jaeger" => jaeger.spans(&id),
            _ => tempo.whole(&id, 3),
        };
        let chat = held.iter().find(|span| span.name == "chat sonnet").unwrap();
        for (key, role, text) in [
            ("gen_ai.input.messages", "user", "What is 2 + 2?"),
            ("gen_ai.output.messages", "assistant", "4"),
        ] {
            let sent = chat.attributes[key]["stringValue"].as_str().unwrap();
            let sent: Value = serde_json::from_str(sent).unwrap();
            let part = json!({"type": "text", "content": text});
            assert_eq!(sent, json!([{"role": role, "parts": [part]}]));
        }
        assert_eq!(chat.status_message, "said no");
    }
}

#[test]
fn changed_line_is_reported_field_by_field() {
    let (Some(jaeger), Some(tempo)) = (Jaeger::shared(), Tempo::shared()) else {
        return;
    };
    for (backend, url, endpoint) in [
        ("--jaeger", &jaeger.url, &jaeger.grpc),
        ("--tempo", &tempo.url, &tempo.grpc),
    ] {
        let root = recorded("short");
        cli::mirror(root.path(), endpoint, "grpc");
        tamper(
            root.path(),
            "tool_result",
            r#""tool_kind":"short""#,
            r#""tool_kind":"other""#,
        );
        tamper(
            root.path(),
            "tool_result",
            r#""outcome":"ok""#,
            r#""outcome":"error""#,
        );
        tamper(root.path(), "turn_end", r#""parent_span_id":"#, r#""was":"#);
        let done = cli::run(
            root.path(),
            &["verify", backend, url, "--wait", "60s", "--json"],
        );
        assert_eq!(done.code, 1, "{done:?}");
        let mut fields: Vec<_> = findings(&done)
            .iter()
            .map(|found| found["field"].as_str().unwrap().to_owned())
            .collect();
        fields.sort();
        let expected = [
            "attributes.agent.outcome",
            "attributes.agent.tool_kind",
            "attributes.error.type",
            "parent_span_id",
            "status.code",
        ];
        assert_eq!(fields, expected);
        let found = findings(&done);
        let note = found
            .iter()
            .find(|found| found["field"] == "attributes.agent.tool_kind");
        let note = note.unwrap();
        assert_eq!(
            (&note["sent"], &note["held"]),
            (&json!("other"), &json!("short"))
        );
    }
}

#[test]
fn unexpected_span_is_extra() {
    let Some(tempo) = Tempo::shared() else { return };
    let root = recorded("short");
    cli::mirror(root.path(), &tempo.grpc, "grpc");
    tamper(
        root.path(),
        "tool_result",
        r#""payload":{"#,
        r#""payload":{"sampled":false,"#,
    );
    let done = cli::run(
        root.path(),
        &["verify", "--tempo", &tempo.url, "--wait", "60s", "--json"],
    );
    assert_eq!(done.code, 1, "{done:?}");
    let found = findings(&done);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&found[0]["what"], &found[0]["name"]),
        (&json!("extra"), &json!("execute_tool bash"))
    );
    assert_eq!(done.json()["left_out"], 1);
}

#[test]
fn tempo_truncation_is_named_and_jaeger_keeps_all() {
    let (Some(jaeger), Some(tempo)) = (Jaeger::shared(), Tempo::shared()) else {
        return;
    };
    // One byte, then characters of two: the cut goes through one of them.
    let note = format!("a{}", "é".repeat(2000));
    let root = recorded(&note);
    cli::mirror(root.path(), &tempo.grpc, "grpc");
    let args = ["verify", "--tempo", &tempo.url, "--wait", "60s", "--json"];
    let done = cli::run(root.path(), &args);
    assert_eq!(done.code, 0, "{done:?}");
    let found = findings(&done);
    assert_eq!(found.len(), 1, "{found:?}");
    let findings_text = [
        &found[0]["what"],
        &found[0]["field"],
        &found[0]["left"],
        &found[0]["of"],
    ];
    assert_eq!(
        findings_text,
        [
            &json!("cut"),
            &json!("attributes.agent.tool_kind"),
            &json!(2048),
            &json!(4001)
        ]
    );
    let strict = [&args[..], &["--strict"]].concat();
    assert_eq!(cli::run(root.path(), &strict).code, 1);

    let root = recorded(&note);
    cli::mirror(root.path(), &jaeger.grpc, "grpc");
    let done = cli::run(
        root.path(),
        &["verify", "--jaeger", &jaeger.url, "--strict"],
    );
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn killed_process_spans_are_interrupted_in_both() {
    cli::in_victim(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        let _tool = spans::tool_call("bash", "call_1").start().entered();
        cli::wait_to_be_killed();
    });
    let (Some(jaeger), Some(tempo)) = (Jaeger::shared(), Tempo::shared()) else {
        return;
    };
    for (backend, url, endpoint) in [
        ("--jaeger", &jaeger.url, &jaeger.grpc),
        ("--tempo", &tempo.url, &tempo.grpc),
    ] {
        let root = tempfile::tempdir().unwrap();
        Victim::start(root.path()).kill();
        let done = cli::run(
            root.path(),
            &["verify", backend, url, "--wait", "60s", "--json"],
        );
        assert_eq!(
            (done.code, &done.json()["open"]),
            (0, &json!(2)),
            "{done:?}"
        );
        cli::mirror(root.path(), endpoint, "grpc");
        let done = cli::run(
            root.path(),
            &["verify", backend, url, "--wait", "60s", "--json"],
        );
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(done.json()["same"], 2);
        let trace = support::Trace::read(root.path());
        let trace_id = trace.all("interrupted")[0].trace_id.clone().unwrap();
        let held = match backend {
            "--jaeger" => jaeger.spans(&trace_id),
            _ => tempo.whole(&trace_id, 2),
        };
        assert_eq!(held.len(), 2);
        for span in held {
            assert_eq!(
                (span.status, span.status_message.as_str()),
                (2, "interrupted: writer gone")
            );
        }
    }
}

#[test]
fn wrong_kind_of_backend_is_rejected() {
    let (Some(jaeger), Some(tempo)) = (Jaeger::shared(), Tempo::shared()) else {
        return;
    };
    let root = recorded("short");
    for (backend, url) in [("--jaeger", &tempo.url), ("--tempo", &jaeger.url)] {
        let done = cli::run(root.path(), &["verify", backend, url]);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains("doesn't answer as"), "{done:?}");
    }
}
