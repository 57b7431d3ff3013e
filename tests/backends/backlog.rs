//! Old and very large traces in the real Tempo.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use spanledger::{Builder, Outcome, SpanExt, spans};
use tempfile::TempDir;

use crate::support::backends::{Tempo, until};
use crate::support::cli;
use crate::support::{Recording, Trace};

const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Sets a trace back in time, as if it had been recorded then.
fn set_back(root: &Path, by: SignedDuration) {
    let back = |value: &mut Value| {
        if let Some(then) = value.as_str() {
            let then: Timestamp = then.parse().unwrap();
            *value = (then - by).to_string().into();
        }
    };
    for session in std::fs::read_dir(root.join("sessions")).unwrap() {
        let file = session.unwrap().path().join("trace.0001.jsonl");
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text.lines().map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            back(&mut line["ts"]);
            if let Some(start) = line["payload"].get_mut("start") {
                back(start);
            }
            let events = line["payload"].get_mut("events");
            for event in events.and_then(Value::as_array_mut).into_iter().flatten() {
                back(&mut event["ts"]);
            }
            format!("{line}\n")
        });
        let text: String = lines.collect();
        std::fs::write(&file, text).unwrap();
    }
}

#[test]
fn week_old_backlog_is_found_in_tempo() {
    let Some(tempo) = Tempo::shared() else { return };
    let root = tempfile::tempdir().unwrap();
    let done = cli::run(root.path(), &["demo", "--session", "ses_week", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    set_back(root.path(), WEEK);
    cli::mirror(root.path(), &tempo.http, "http/protobuf");

    let trace = Trace::read(root.path());
    let id = trace.one("compaction_start").trace_id.clone().unwrap();
    let then: Timestamp = trace.one("compaction_start").ts.parse().unwrap();
    let now = Timestamp::now();
    assert!((now - WEEK).duration_since(then).abs() < SignedDuration::from_hours(1));
    tempo.whole(&id, 20);
    let done = cli::run(
        root.path(),
        &["verify", "--tempo", &tempo.url, "--all", "--wait", "60s"],
    );
    assert_eq!(done.code, 0, "{done:?}");

    // What is older than half an hour is searched for in files alone.
    tempo.flush();
    let (from, to) = (then.as_second() as u64 - 600, then.as_second() as u64 + 600);
    let query =
        r#"{ span.gen_ai.conversation.id = "ses_week" && name = "chat claude-sonnet-4-5" }"#;
    let found = until("the trace in a search of last week", || {
        let found = tempo.search(query, from, to);
        (!found.is_empty()).then_some(found)
    });
    assert_eq!(found, [id.as_str()]);
    // In its files it is still all that was sent.
    let done = cli::run(
        root.path(),
        &["verify", "--tempo", &tempo.url, "--all", "--wait", "60s"],
    );
    assert_eq!(done.code, 0, "{done:?}");
}

/// A run of so many turns, each with tool calls of so many bytes in all, none of which has a text that
/// Tempo would cut.
fn large(turns: usize, bytes: usize, configure: fn(Builder) -> Builder) -> TempDir {
    // They always leave.
    const FIELDS: [&str; 8] = [
        "tool_kind",
        "tool_state",
        "model_span_id",
        "message_id",
        "purpose",
        "variant",
        "trigger",
        "stop_reason",
    ];
    const LENGTH: usize = 2_000;
    let text: String = (0..LENGTH).map(|_| fastrand::alphanumeric()).collect();
    let turn = || {
        let turn = spans::session_turn().start();
        let _in_turn = turn.enter();
        for n in 0..bytes / (FIELDS.len() * LENGTH) {
            let tool = spans::tool_call("bash", format!("call_{n}")).start();
            for field in FIELDS {
                tool.set(field, text.as_str());
            }
            tool.finish(Outcome::Ok);
        }
        turn.finish(Outcome::Ok);
    };
    let recording = Recording::with(configure);
    recording.run(|| {
        let run = spans::session_run("ses_large", "planner").start();
        run.in_scope(|| (0..turns).for_each(|_| turn()));
        run.finish(Outcome::Ok);
    });
    recording.end()
}

#[test]
fn session_of_20_megabytes_is_whole_in_tempo() {
    let Some(tempo) = Tempo::shared() else { return };
    let root = large(21, 1_000_000, |builder| builder);
    cli::mirror(root.path(), &tempo.http, "http/protobuf");
    let done = cli::run(
        root.path(),
        &["verify", "--tempo", &tempo.url, "--wait", "60s", "--json"],
    );
    assert_eq!(done.code, 0, "{done:?}");
    // On a machine that is busy it may have been sent again.
    for found in done.json()["findings"].as_array().unwrap() {
        assert_eq!(found["what"], "copies");
    }

    let trace = Trace::read(root.path());
    let mut closed: BTreeMap<&str, usize> = BTreeMap::new();
    for line in trace
        .lines()
        .filter(|line| line.payload.contains_key("duration_ns"))
    {
        *closed.entry(line.trace_id.as_deref().unwrap()).or_default() += 1;
    }
    let mut held = Vec::new();
    for (id, spans) in closed {
        let mut whole = tempo.whole(id, spans);
        whole.sort_by(|a, b| a.span_id.cmp(&b.span_id));
        whole.dedup();
        assert_eq!(whole.len(), spans);
        held.extend(whole);
    }
    let texts = held.iter().flat_map(|span| span.attributes.values());
    let bytes: usize = texts
        .filter_map(|value| Some(value["stringValue"].as_str()?.len()))
        .sum();
    assert!(bytes > 20_000_000, "{bytes}");
}

#[test]
fn turn_of_8_megabytes_is_whole_in_tempo() {
    let Some(tempo) = Tempo::shared() else { return };
    let root = large(1, 8_000_000, |builder| builder);
    cli::mirror(root.path(), &tempo.http, "http/protobuf");
    let done = cli::run(
        root.path(),
        &["verify", "--tempo", &tempo.url, "--wait", "60s", "--json"],
    );
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.json()["traces"].as_u64().unwrap() > 2, "{done:?}");
}

#[test]
fn trace_truncated_by_tempo_is_reported() {
    let Some(tempo) = Tempo::shared() else { return };
    let one_trace = |builder: Builder| builder.trace_limits(u64::MAX, Duration::MAX);
    let root = large(1, 8_000_000, one_trace);
    cli::mirror(root.path(), &tempo.http, "http/protobuf");
    let done = cli::run(
        root.path(),
        &["verify", "--tempo", &tempo.url, "--wait", "0s", "--json"],
    );
    assert_eq!(done.code, 1, "{done:?}");
    let report = done.json();
    let missing = report["findings"].as_array().unwrap().len() as u64;
    assert_eq!(
        report["same"].as_u64().unwrap() + missing,
        report["spans"].as_u64().unwrap()
    );
    let note = report["notes"][0].as_str().unwrap();
    assert!(note.contains("max_bytes_per_trace"), "{note}");
}
