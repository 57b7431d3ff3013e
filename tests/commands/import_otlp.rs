//! `import otlp-json`: our own export is the same session again, and GenAI spans of other libraries are sessions.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use spanledger::read::session_dir;
use spanledger::{Outcome, SpanExt, Usage, events, spans};

use crate::support::Recording;
use crate::support::cli::run;
use crate::support::rich_session::{self, SESSION};

/// The lines of all segments of a session.
fn lines(root: &Path, session: &str) -> Vec<Value> {
    let dir = session_dir(root, session);
    let mut all = Vec::new();
    for segment in 1.. {
        let Ok(text) = fs::read_to_string(dir.join(format!("trace.{segment:04}.jsonl"))) else {
            break;
        };
        // Halves of surrogate pairs, which no JSON parser takes.
        let text = text
            .replace("\\ud83d of", "? of")
            .replace("\\ud83d \\u0000", "?");
        all.extend(
            text.lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap()),
        );
    }
    all
}

fn export(root: &Path, session: &str, to: &Path) -> String {
    let done = run(
        root,
        &["export", "otlp-json", session, "-o", to.to_str().unwrap()],
    );
    assert_eq!(done.code, 0, "{done:?}");
    fs::read_to_string(to).unwrap()
}

#[track_caller]
fn import(root: &Path, path: &Path) -> Vec<Value> {
    let done = run(root, &["import", "auto", path.to_str().unwrap(), "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    done.objects()
}

/// Attributes by name, without those that say where a line was and what its writer counted.
fn attributes(list: &Value) -> BTreeMap<String, Value> {
    let list = list.as_array().cloned().unwrap_or_default();
    let pairs = list.into_iter().map(|one| {
        let value = one["value"].clone();
        (one["key"].as_str().unwrap().to_owned(), value)
    });
    let is_place = |key: &str| key == "agent.trace.address" || key.starts_with("agent.totals.");
    pairs.filter(|(key, _)| !is_place(key)).collect()
}

/// The spans of an export by id, with attributes in the order of their names.
fn spans_of(text: &str) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let request: Value = serde_json::from_str(line).unwrap();
        let resources = request["resourceSpans"].as_array().unwrap().clone();
        let scopes = resources
            .iter()
            .flat_map(|one| one["scopeSpans"].as_array().unwrap());
        for span in scopes.flat_map(|one| one["spans"].as_array().unwrap()) {
            let mut span = span.clone();
            span["attributes"] = json!(attributes(&span["attributes"]));
            for part in ["events", "links"] {
                let parts = span.get_mut(part).and_then(Value::as_array_mut);
                for one in parts.into_iter().flatten() {
                    one["attributes"] = json!(attributes(&one["attributes"]));
                }
            }
            all.insert(span["spanId"].as_str().unwrap().to_owned(), span);
        }
    }
    all
}

/// What a close line says about its span, apart from its fields.
fn closed(lines: &[Value]) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for line in lines
        .iter()
        .filter(|line| line["payload"].get("outcome").is_some())
    {
        let id = line["span_id"].as_str().unwrap().to_owned();
        let payload = &line["payload"];
        let what = json!([
            line["kind"],
            payload["closes"],
            line["trace_id"],
            line["parent_span_id"],
            line["turn"],
            payload["start"],
            payload["duration_ns"],
            payload["outcome"],
        ]);
        all.entry(id).or_insert(what);
    }
    all
}

#[track_caller]
fn assert_same_session(first_root: &Path, session: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans.jsonl");
    let first = export(first_root, session, &file);
    let root = dir.path().join("root");
    let sessions = import(&root, &file);
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert_eq!(sessions[0]["session_id"], session);
    let again = import(&root, &file);
    assert_eq!(again[0]["known"], true);

    let (before, after) = (lines(first_root, session), lines(&root, session));
    assert_eq!(closed(&before), closed(&after));
    // Each span opens before it closes, and its parent is open meanwhile.
    let mut open = HashSet::new();
    for line in &after {
        let Some(id) = line["span_id"].as_str() else {
            continue;
        };
        if line["payload"].get("outcome").is_some() {
            assert!(open.remove(id), "{line}");
        } else if line["payload"].get("start").is_some() {
            open.insert(id);
        } else {
            assert!(open.contains(id), "{line}");
        }
    }
    assert!(open.is_empty());
    let second = export(&root, session, &dir.path().join("again.jsonl"));
    let (first, second) = (spans_of(&first), spans_of(&second));
    for (id, span) in &first {
        assert_eq!(Some(span), second.get(id));
    }
    assert_eq!(first.len(), second.len());
    dir
}

#[test]
fn our_own_export_is_the_same_session() {
    let rich = rich_session::record();
    let dir = assert_same_session(rich.path(), SESSION);
    let root = dir.path().join("root");
    let after = lines(&root, SESSION);
    // Events are lines again, in their order.
    let kinds = |lines: &[Value]| -> Vec<String> {
        let noted = [
            "verdict",
            "iterate_result",
            "rewind",
            "branch",
            "artifact",
            "attempt",
            "trial",
            "output",
            "weather_report",
            "loop_warning",
            "state_update",
        ];
        let kinds = lines
            .iter()
            .map(|line| line["kind"].as_str().unwrap().to_owned());
        kinds
            .filter(|kind| noted.contains(&kind.as_str()))
            .collect()
    };
    assert_eq!(kinds(&lines(rich.path(), SESSION)), kinds(&after));
    let shown = run(&root, &["show", SESSION, "--hidden"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    for text in ["bash", "DENIED", "claude-sonnet-4-5", "ERROR"] {
        assert!(shown.out.contains(text), "{text}: {}", shown.out);
    }
}

#[test]
fn content_comes_back_where_it_was_exported() {
    let otlp = spanledger::mirror::Otlp::new()
        .endpoint("http://127.0.0.1:1")
        .content(true);
    let recording = Recording::with(|builder| {
        let builder = builder.shutdown_timeout(std::time::Duration::ZERO);
        builder.otlp(otlp)
    });
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.in_scope(|| {
            events::system_prompt("Be careful.").emit();
            let turn = spans::session_turn().trigger("user").start();
            turn.in_scope(|| {
                events::message_user("What is here?").emit();
                for answer in ["I look.", "A file."] {
                    let call = spans::model_call("anthropic", "m-1").start();
                    call.in_scope(|| events::message_assistant(answer).emit());
                    call.record_usage(&Usage {
                        input_tokens: Some(7),
                        cost_usd: Some(0.5),
                        ..Usage::default()
                    });
                    call.finish(Outcome::Ok);
                    let tool = spans::tool_call("bash", "c1")
                        .args(json!({"command": "ls"}))
                        .start();
                    tool.record_result("Cargo.toml");
                    tool.finish(Outcome::Ok);
                }
            });
            turn.finish(Outcome::Ok);
        });
        run.finish(Outcome::Ok);
    });
    let first_root = recording.dir.path().to_owned();
    let _ = recording.guard.shutdown();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans.jsonl");
    export(&first_root, "ses_1", &file);
    let root = dir.path().join("root");
    import(&root, &file);
    let (before, after) = (lines(&first_root, "ses_1"), lines(&root, "ses_1"));
    assert_eq!(closed(&before), closed(&after));
    let said = |lines: &[Value]| -> Vec<Value> {
        let is_said = |line: &&Value| {
            let kind = line["kind"].as_str().unwrap();
            kind.starts_with("message_") || matches!(kind, "system_prompt" | "tool_result")
        };
        let said = lines.iter().filter(is_said).map(|line| {
            let payload = &line["payload"];
            json!([
                line["kind"],
                payload["content"],
                payload["body"],
                payload["digest"],
                payload["args"],
                payload["result"]
            ])
        });
        said.collect()
    };
    let (mut before, mut after) = (said(&before), said(&after));
    // A message of the user is known with the call that it was sent with.
    before.sort_by_key(Value::to_string);
    after.sort_by_key(Value::to_string);
    assert_eq!(before, after);
    let listed = run(&root, &["list", "--json"]).objects()[0].to_string();
    assert!(listed.contains("\"input_tokens\":14"), "{listed}");
}

/// A request as the collector's file exporter writes it, from spans.
fn request(service: &str, spans: Vec<Value>) -> String {
    let service = json!([{"key": "service.name", "value": {"stringValue": service}}]);
    json!({"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"scope": {"name": "lib"}, "spans": spans}]}]})
        .to_string()
}

fn span(trace: &str, id: u64, parent: u64, name: &str, times: (u64, u64), with: Value) -> Value {
    let base = 1_794_787_200_000_000_000;
    let value = |value: &Value| match value {
        Value::Number(number) if number.is_u64() => json!({"intValue": number.to_string()}),
        Value::Array(list) => {
            json!({"arrayValue": {"values": list.iter().map(|one| json!({"stringValue": one})).collect::<Vec<_>>()}})
        }
        value => json!({"stringValue": value}),
    };
    let with: Map<String, Value> = serde_json::from_value(with).unwrap();
    let attributes: Vec<_> = with
        .iter()
        .map(|(key, one)| json!({"key": key, "value": value(one)}))
        .collect();
    let mut span = json!({
        "traceId": trace, "spanId": format!("{id:016X}"), "name": name, "kind": "SPAN_KIND_INTERNAL",
        "startTimeUnixNano": (base + times.0).to_string(), "endTimeUnixNano": base + times.1,
        "attributes": attributes, "status": {},
    });
    if parent > 0 {
        span["parentSpanId"] = format!("{parent:016x}").into();
    }
    span
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const OTHER: &str = "0af7651916cd43dd8448eb211c80319d";
const SECRET: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
/// One that only the name of its attribute makes a secret.
const NAMED_SECRET: &str = "wild horses";

/// An agent of another library: two calls, the second with the whole history, a tool between them that fails.
fn foreign() -> Vec<Value> {
    let said = |role: &str, text: &str| json!({"role": role, "parts": [{"type": "text", "content": text}]});
    let (question, look) = (said("user", "What is here?"), said("assistant", "I look."));
    let answer = said("assistant", "A file.");
    let call = |input: Value, output: &Value| {
        json!({
            "gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "gpt-5",
            "gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.output_tokens": 3, "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.input.messages": input.to_string(), "gen_ai.output.messages": json!([output]).to_string(),
            "server.address": "api.example.com",
        })
    };
    let tool = json!({
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read", "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": "{\"path\":\"a\"}", "gen_ai.tool.call.result": SECRET, "error.type": "NotFound",
    });
    let mut failed = span(TRACE, 3, 1, "execute_tool read", (40, 50), tool);
    failed["status"] = json!({"code": "STATUS_CODE_ERROR", "message": "no such file"});
    vec![
        span(
            TRACE,
            2,
            1,
            "chat gpt-5",
            (10, 30),
            call(json!([question]), &look),
        ),
        failed,
        span(
            TRACE,
            5,
            4,
            "POST",
            (60, 80),
            json!({"http.response.status_code": 200}),
        ),
        span(
            TRACE,
            4,
            1,
            "chat gpt-5",
            (60, 90),
            call(json!([question, look, said("tool", "none")]), &answer),
        ),
        span(
            TRACE,
            1,
            0,
            "invoke_agent helper",
            (0, 100),
            json!({
                "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper", "db.password": NAMED_SECRET,
            }),
        ),
    ]
}

#[test]
fn spans_of_another_library_are_a_session() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let file = dir.path().join("spans.jsonl");
    let unrelated = span(
        OTHER,
        9,
        0,
        "GET /",
        (0, 5),
        json!({"http.response.status_code": 200}),
    );
    let named = span(
        "0af7651916cd43dd8448eb211c80319e",
        9,
        0,
        "chat m",
        (0, 5),
        json!({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.conversation.id": "../conv"}),
    );
    let text = format!(
        "{}\n{}\n",
        request("shop", foreign()),
        request("web", vec![unrelated, named])
    );
    // The names of protobuf are the same.
    let snake = text
        .replace("resourceSpans", "resource_spans")
        .replace("traceId", "trace_id");
    for (n, text) in [text, snake].into_iter().enumerate() {
        fs::write(&file, text).unwrap();
        let root = root.join(n.to_string());
        let mut ids: Vec<_> = import(&root, &file)
            .iter()
            .map(|one| one["session_id"].to_string())
            .collect();
        ids.sort();
        assert_eq!(ids, ["\"../conv\"", &format!("\"{TRACE}\"")]);
        assert!(!root.join("sessions/conv").exists() && !root.join("conv").exists());
    }
    let root = root.join("0");
    let all = lines(&root, TRACE);
    let kinds: Vec<_> = all
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "segment",
            "session_start",
            "model_call",
            "message_user",
            "message_assistant",
            "model_result",
            "tool_call",
            "tool_result",
            "model_call",
            "message_tool",
            "span_start",
            "span_end",
            "message_assistant",
            "model_result",
            "session_end",
            "import",
        ],
        "{all:#?}"
    );
    let tool = &all[7];
    assert_eq!(tool["span_id"], "0000000000000003");
    assert_eq!(tool["parent_span_id"], "0000000000000001");
    assert_eq!(tool["payload"]["args"], json!({"path": "a"}));
    assert_eq!(tool["payload"]["outcome"], "error");
    assert_eq!(
        tool["payload"]["error"],
        json!({"error_type": "NotFound", "message": "no such file"})
    );
    let call = &all[5]["payload"];
    assert_eq!(call["finish_reason"], "stop");
    assert_eq!(
        call["usage"],
        json!({"input_tokens": 10, "output_tokens": 3})
    );
    assert_eq!(call["attributes"]["server.address"], "api.example.com");
    assert_eq!(call["duration_ns"], 20);
    let listed = run(&root, &["list", "--json"]).objects();
    let listed = listed
        .iter()
        .find(|one| one["session_id"] == TRACE)
        .unwrap()
        .to_string();
    assert!(
        listed.contains("\"input_tokens\":20") && listed.contains("helper"),
        "{listed}"
    );
    for entry in fs::read_dir(session_dir(&root, TRACE).join("blobs")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let has_secret = text.contains(SECRET) || text.contains(NAMED_SECRET);
        assert!(!has_secret && text.contains("[masked rule="), "{text}");
    }
    let all = format!("{all:?}");
    assert!(!all.contains(SECRET) && !all.contains(NAMED_SECRET));
}

#[test]
fn file_with_an_error_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let file = dir.path().join("spans.jsonl");
    let good = request("shop", foreign());
    let with = |key: &str, value: Value| {
        let mut span = foreign().remove(0);
        span[key] = value;
        request("shop", vec![span])
    };
    let deep = format!("{{\"resourceSpans\":{}", "[".repeat(1_000_000));
    // In spans that are not read before.
    let deep_value = good.replace(TRACE, OTHER).replacen(
        "\"status\":{}",
        &format!("\"status\":{}1{}", "[".repeat(100_000), "]".repeat(100_000)),
        1,
    );
    for (line, why) in [
        (
            with("traceId", "CvdlGRbNQ92ESOshHIAxnA==".into()),
            "line 2: `traceId` is not 32 hexadecimal digits",
        ),
        (with("spanId", "0a".into()), "line 2: `spanId` is not 16"),
        (with("spanId", Value::Null), "line 2: a span has no"),
        (
            json!({"resourceLogs": []}).to_string(),
            "line 2: no `resourceSpans`",
        ),
        ("{\"resourceSpans\":".to_owned(), "line 2: "),
        ("\u{7f}".to_owned(), "line 2: "),
        (deep, "line 2: "),
        (deep_value, "line 2: "),
    ] {
        fs::write(&file, format!("{good}\n{line}\n{good}\n")).unwrap();
        let done = run(&root, &["import", "otlp-json", file.to_str().unwrap()]);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(
            done.err.contains(why),
            "{why}: {}",
            &done.err[..done.err.len().min(500)]
        );
        assert!(!session_dir(&root, TRACE).exists() && !root.join("importing").exists());
    }
    // The last line was being written when its process stopped.
    fs::write(&file, format!("{good}\n{}", &good[..50])).unwrap();
    assert_eq!(import(&root, &file).len(), 1);
    let other = span(OTHER, 9, 0, "GET /", (0, 5), json!({}));
    fs::write(&file, request("web", vec![other])).unwrap();
    let done = run(&root, &["import", "otlp-json", file.to_str().unwrap()]);
    assert!(
        done.code == 2 && done.err.contains("no span with GenAI attributes"),
        "{done:?}"
    );
}
