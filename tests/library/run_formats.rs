//! `agentdbg`, `maida`, `acp` and `chrome-trace`: what belongs to a run, and what becomes of it.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use spanledger::export::{Format, Live, Target, export};
use spanledger::import::{Import, Source};
use spanledger::read::session_dir;
use spanledger::{Failure, Outcome, SpanExt, events, spans};

use crate::support::{Recording, Trace};

/// A run directory.
#[derive(Debug)]
struct Run {
    id: String,
    document: Value,
    rows: Vec<Value>,
}

impl Run {
    /// The rows with a member.
    fn of(&self, name: &str, value: &str) -> Vec<&Value> {
        let is = |row: &&Value| row[name] == value;
        self.rows.iter().filter(is).collect()
    }

    #[track_caller]
    fn one(&self, name: &str, value: &str) -> &Value {
        match self.of(name, value)[..] {
            [one] => one,
            ref all => panic!("{} rows have {name}={value}: {:#?}", all.len(), self.rows),
        }
    }
}

fn parse_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().map(|row| serde_json::from_str(row).unwrap());
    rows.collect()
}

/// The run directories of a session, in their order.
fn runs(format: Format, root: &Path, session: &str) -> Vec<Run> {
    let out = tempfile::tempdir().unwrap();
    let mut target = Target::directory(out.path());
    export(format, session_dir(root, session), &mut target).unwrap();
    target.finish().unwrap();
    read_runs(format, out.path())
}

fn read_runs(format: Format, out: &Path) -> Vec<Run> {
    let names = match format {
        Format::Maida => ["meta.json", "spans.jsonl"],
        _ => ["run.json", "events.jsonl"],
    };
    let read = |dir: fs::DirEntry| {
        let [document, rows] = names.map(|name| dir.path().join(name));
        Run {
            id: dir.file_name().into_string().unwrap(),
            document: serde_json::from_slice(&fs::read(document).unwrap()).unwrap(),
            rows: parse_lines(&rows),
        }
    };
    let dirs = fs::read_dir(out.join("runs")).unwrap();
    let mut runs: Vec<_> = dirs.map(|dir| read(dir.unwrap())).collect();
    runs.sort_by_key(|run| run.document["started_at"].to_string());
    runs
}

/// An export that is kept current has the same run as one that is made now.
fn assert_same_when_kept_current(root: &Path, session: &str) {
    let out = tempfile::tempdir().unwrap();
    let mut live = Live::new(Format::AgentDbg, out.path());
    live.sync(&session_dir(root, session)).unwrap();
    let kept = read_runs(Format::AgentDbg, out.path()).remove(0);
    let made = only_run(Format::AgentDbg, root, session);
    assert_eq!(kept.document, made.document);
    assert_eq!(kept.rows, made.rows);
}

#[track_caller]
fn only_run(format: Format, root: &Path, session: &str) -> Run {
    let mut runs = runs(format, root, session);
    assert_eq!(runs.len(), 1, "{runs:#?}");
    runs.remove(0)
}

/// The lines of a format with one file.
fn lines(format: Format, root: &Path, session: &str) -> Vec<Value> {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("out");
    let mut target = Target::file(&file);
    export(format, session_dir(root, session), &mut target).unwrap();
    target.finish().unwrap();
    parse_lines(&file)
}

const BOTH: [Format; 2] = [Format::AgentDbg, Format::Maida];

#[test]
fn event_without_a_span_is_in_the_open_run() {
    let recording = Recording::new();
    let session = recording.handle().session("s");
    recording.run(|| {
        let run = spans::session_run("s", "agent").start();
        session.record(events::state_update().state(json!({"step": 1})));
        run.finish(Outcome::Ok);
    });
    for format in BOTH {
        let run = only_run(format, recording.dir.path(), "s");
        run.one("name", "state");
        assert_eq!(run.document["status"], "ok", "{format}");
    }
}

#[test]
fn sessions_without_a_run_have_runs_of_their_own() {
    let recording = Recording::new();
    for (name, failed) in [("a", false), ("b", true), ("open", false)] {
        let session = recording.handle().session(name);
        session.record(events::state_update().state(json!({"of": name})));
        if failed {
            session.record(events::error("no answer"));
        }
    }
    let root = recording.dir.path();
    let tool = spans::tool_call("bash", "c1").set("session_id", "open");
    let tool = recording.run(|| tool.start());
    for format in BOTH {
        let [a, b, open] = ["a", "b", "open"].map(|name| only_run(format, root, name));
        let ids: BTreeSet<_> = [&a, &b, &open].map(|run| run.id.clone()).into();
        assert_eq!(ids.len(), 3, "{format}");
        for (run, status, errors) in [(&a, "ok", 0), (&b, "error", 1), (&open, "running", 0)] {
            assert_eq!(run.document["status"], status, "{format}: {run:#?}");
            assert_eq!(run.document["counts"]["errors"], errors);
            assert_eq!(run.document["ended_at"].is_null(), status == "running");
            run.one("name", "state");
        }
    }
    for name in ["a", "b", "open"] {
        assert_same_when_kept_current(root, name);
    }
    drop(tool);
}

/// A tool call and what is in it close after their run.
#[test]
fn what_ends_after_its_run_belongs_to_it() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "agent").start();
        let (tool, inside) = run.in_scope(|| {
            let tool = spans::tool_call("bash", "c1").start();
            let inside = tool.in_scope(|| spans::tool_call("read", "c2").start());
            (tool, inside)
        });
        run.finish(Outcome::Ok);
        tool.in_scope(|| events::error("too late").emit());
        inside.finish(Outcome::Ok);
        tool.finish(Outcome::Ok);
    });
    for format in BOTH {
        let run = only_run(format, recording.dir.path(), "s");
        assert_eq!(run.document["status"], "ok", "{format}");
        assert_eq!(run.document["counts"]["tool_calls"], 2, "{format}");
        assert_eq!(run.document["counts"]["errors"], 1, "{format}");
        for tool in ["bash", "read"] {
            run.one("name", tool);
        }
    }
    let maida = only_run(Format::Maida, recording.dir.path(), "s");
    let roots = maida
        .rows
        .iter()
        .filter(|row| row["parent_span_id"].is_null());
    assert_eq!(roots.count(), 1);
    let agentdbg = only_run(Format::AgentDbg, recording.dir.path(), "s");
    assert_eq!(agentdbg.of("event_type", "RUN_END").len(), 1);
    assert_same_when_kept_current(recording.dir.path(), "s");
}

/// A trace that is full is continued by others, and what is in them keeps its place.
#[test]
fn spans_of_further_traces_keep_their_parents() {
    let recording = Recording::with(|builder| {
        let builder = builder.record_spans(|_| true);
        builder.trace_limits(1, Duration::MAX)
    });
    recording.run(|| {
        let run = spans::session_run("s", "agent").start();
        run.in_scope(|| {
            let turn = spans::session_turn().start();
            turn.in_scope(|| {
                let step = tracing::info_span!("step");
                step.in_scope(|| spans::tool_call("bash", "c1").start().finish(Outcome::Ok));
            });
            turn.finish(Outcome::Ok);
        });
        run.finish(Outcome::Ok);
    });
    let trace = Trace::read(recording.dir.path());
    let traces: BTreeSet<_> = trace
        .lines()
        .filter_map(|line| line.trace_id.clone())
        .collect();
    assert!(traces.len() > 2, "{traces:?}");
    let run = only_run(Format::Maida, recording.dir.path(), "s");
    assert_eq!(run.rows.len(), 4);
    let chain = [
        ("bash", "step"),
        ("step", "turn_start"),
        ("turn_start", "agent"),
    ];
    for (child, parent) in chain {
        let (child, parent) = (run.one("name", child), run.one("name", parent));
        assert_eq!(child["parent_span_id"], parent["span_id"]);
    }
    assert_eq!(
        only_run(Format::AgentDbg, recording.dir.path(), "s")
            .rows
            .len(),
        3
    );
}

#[test]
fn maida_joins_answers_and_keeps_errors() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "agent").run_name("fill").start();
        run.in_scope(|| {
            let turn = spans::session_turn().start();
            turn.in_scope(|| {
                let model = spans::model_call("anthropic", "opus").start();
                model.in_scope(|| {
                    events::message_assistant("One.").emit();
                    events::message_assistant("Two.").emit();
                });
                model.record_finish_reason("tool_use");
                model.finish(Outcome::Ok);
                events::message_assistant("Three.").emit();
                let tool = spans::tool_call("bash", "c1").start();
                tool.set("stderr", "not found");
                tool.record_exit_code(127);
                tool.record_result("12");
                tool.record_failure(&Failure::new("ExitStatus", "exit status: 127"));
                tool.finish(Outcome::Error);
            });
            turn.record_failure(&Failure::new("TurnFailed", "no tool"));
            turn.finish(Outcome::Error);
        });
        run.record_failure(&Failure::new("RunFailed", "no turn"));
        run.finish(Outcome::Error);
    });
    let run = only_run(Format::Maida, recording.dir.path(), "s");
    assert_eq!(run.document["counts"]["errors"], 1);
    let model = run.one("name", "opus");
    let said = model["events"].as_array().unwrap();
    assert_eq!(said.len(), 1, "{model}");
    assert_eq!(
        said[0]["attributes"],
        json!({"content": "One.\n\nTwo.\n\nThree."})
    );
    assert_eq!(
        model["attributes"]["gen_ai.response.finish_reasons"],
        "tool_use"
    );

    let tool = run.one("name", "bash");
    assert_eq!(tool["attributes"]["maida.error_type"], "ExitStatus");
    assert_eq!(
        tool["events"][0]["attributes"],
        json!({"result": r#""12""#})
    );
    let meta: Value =
        serde_json::from_str(tool["attributes"]["maida.meta"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&meta["stderr"], &meta["exit_code"]),
        (&json!("not found"), &json!(127))
    );

    for (name, error) in [("turn_start", "TurnFailed"), ("agent", "RunFailed")] {
        let span = run.one("name", name);
        assert_eq!(span["status_code"], "ERROR");
        // With this attribute it would be an error beside the calls.
        assert_eq!(span["attributes"].get("maida.error_type"), None);
        let exception = &span["events"][0];
        assert_eq!(exception["name"], "exception");
        assert_eq!(exception["attributes"]["maida.error_type"], error);
    }
    let root = &run.one("name", "agent")["attributes"];
    assert_eq!(root["maida.run_name"], "fill");
    assert_eq!(root["maida.platform"], std::env::consts::OS);
    assert!(root["maida.cwd"].is_string() && root["maida.argv"].is_array());
}

#[test]
fn agentdbg_keeps_the_output_of_tools() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("s", "agent").start();
        run.in_scope(|| {
            for (tool, result) in [("streams", None), ("both", Some(json!({"changed": 1})))] {
                let call = spans::tool_call(tool, "c").start();
                call.set("stdout", "out");
                call.set("stderr", "err");
                call.record_exit_code(2);
                result.iter().for_each(|result| call.record_result(result));
                call.finish(Outcome::Ok);
            }
        });
        run.finish(Outcome::Ok);
    });
    let dir = tempfile::tempdir().unwrap();
    let mut target = Target::directory(dir.path());
    export(
        Format::AgentDbg,
        session_dir(recording.dir.path(), "s"),
        &mut target,
    )
    .unwrap();
    target.finish().unwrap();
    let first = only_run(Format::AgentDbg, recording.dir.path(), "s");
    let source = dir.path().join("runs").join(&first.id);
    let root = dir.path().join("root");
    let mut import = Import::new(&root).unwrap();
    let imported = import.read(Source::AgentDbg, &source).unwrap();
    let second = only_run(Format::AgentDbg, &root, &imported[0].id);
    for run in [first, second] {
        let output = |tool: &str| {
            let event = run.one("name", tool);
            let meta = &event["meta"];
            let result = &event["payload"]["result"];
            json!([result, meta["stdout"], meta["stderr"], meta["exit_code"]])
        };
        assert_eq!(output("streams"), json!(["out", null, "err", 2]));
        assert_eq!(output("both"), json!([{"changed": 1}, "out", "err", 2]));
    }
}

#[test]
fn acp_messages_have_their_attachments() {
    let recording = Recording::new();
    let plan = json!([{"name": "plan.pdf", "media_type": "application/pdf", "url": "file:///plan.pdf", "bytes": 12}]);
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        events::message_user("").attachments(plan.clone()).emit();
        events::message_user("And this.")
            .attachments(plan.clone())
            .emit();
        events::message_assistant("Look.")
            .attachments(plan.clone())
            .emit();
    });
    let link = json!({"type": "resource_link", "name": "plan.pdf", "uri": "file:///plan.pdf", "mimeType": "application/pdf", "size": 12});
    let text = |text: &str| json!({"type": "text", "text": text});
    let messages = lines(Format::Acp, recording.dir.path(), "s");
    assert_eq!(messages[0]["params"]["prompt"], json!([link]));
    let updates = messages.iter().map(|message| &message["params"]["update"]);
    let chunks: Vec<_> = updates
        .filter(|update| !update.is_null())
        .map(|update| json!([update["sessionUpdate"], update["content"]]))
        .collect();
    let expected = [
        json!(["user_message_chunk", text("And this.")]),
        json!(["user_message_chunk", link]),
        json!(["agent_message_chunk", text("Look.")]),
        json!(["agent_message_chunk", link]),
    ];
    assert_eq!(chunks, expected);
}

/// Opens and closes of spans, a millisecond apart: a span in one that is open, or the end of one. Other spans than
/// the last one may end first, and a child may end after its parent.
#[derive(Clone, Copy, Debug)]
enum Step {
    Open(usize),
    Close(usize),
}

fn write_steps(root: &Path, steps: &[Step]) {
    let mut text = String::from(
        r#"{"v":1,"seg":1,"seq":1,"ts":"2026-01-01T00:00:00.000000Z","kind":"segment","session_id":"s","payload":{"writer":"w","format":1}}"#,
    );
    let mut open: Vec<(usize, Option<usize>, usize)> = Vec::new();
    let closes = std::iter::repeat_n(&Step::Close(0), steps.len());
    for (ms, step) in steps.iter().chain(closes).enumerate() {
        let (kind, (id, parent, start)) = match step {
            Step::Open(at) => {
                let parent = open.get(at % (open.len() + 1)).map(|(id, ..)| *id);
                open.push((ms + 1, parent, ms));
                ("span_start", open[open.len() - 1])
            }
            Step::Close(_) if open.is_empty() => continue,
            Step::Close(at) => ("span_end", open.remove(at % open.len())),
        };
        let parent = parent.map(|id| format!(r#","parent_span_id":"{id:016x}""#));
        let (seq, parent) = (text.lines().count() + 1, parent.unwrap_or_default());
        let duration = (ms - start) * 1_000_000;
        text += &format!(
            "\n{}{}",
            format_args!(
                r#"{{"v":1,"seg":1,"seq":{seq},"ts":"2026-01-01T00:00:00.{ms:03}000Z","kind":"{kind}","session_id":"s","trace_id":"{:032x}","span_id":"{id:016x}"{parent}"#,
                1
            ),
            format_args!(
                r#","payload":{{"start":"2026-01-01T00:00:00.{start:03}000000Z","duration_ns":{duration},"outcome":"ok","name":"n"}}}}"#
            )
        );
    }
    let dir = session_dir(root, "s");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("trace.0001.jsonl"), text + "\n").unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn chrome_trace_tracks_have_no_crossing_spans(steps in prop::collection::vec(
        prop_oneof![any::<usize>().prop_map(Step::Open), any::<usize>().prop_map(Step::Close)], 1..40)) {
        let root = tempfile::tempdir().unwrap();
        write_steps(root.path(), &steps);
        let text = lines_as_one(root.path());
        let spans = text.as_array().unwrap().iter().filter(|event| event["ph"] == "X");
        let mut tracks: HashMap<u64, Vec<(f64, f64)>> = HashMap::new();
        for span in spans {
            let (start, duration) = (span["ts"].as_f64().unwrap(), span["dur"].as_f64().unwrap());
            let track = tracks.entry(span["tid"].as_u64().unwrap()).or_default();
            for (other, end) in &*track {
                let crosses = (start < *other && *other < start + duration && start + duration < *end)
                    || (*other < start && start < *end && *end < start + duration);
                prop_assert!(!crosses, "{start} {duration} crosses {other} to {end}");
            }
            track.push((start, start + duration));
        }
        let opened = steps.iter().filter(|step| matches!(step, Step::Open(_))).count();
        prop_assert_eq!(tracks.values().map(Vec::len).sum::<usize>(), opened);
    }
}

fn lines_as_one(root: &Path) -> Value {
    let out = root.join("out.json");
    let mut target = Target::file(&out);
    export(Format::ChromeTrace, session_dir(root, "s"), &mut target).unwrap();
    target.finish().unwrap();
    serde_json::from_slice(&fs::read(out).unwrap()).unwrap()
}
