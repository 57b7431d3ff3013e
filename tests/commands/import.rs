//! `import`: sessions of other tools.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spanledger::export::Format;
use spanledger::import::Source;
use spanledger::read::session_dir;

use super::import_samples::{self, Shape};
use super::imports::files;
use crate::support::cli::{run, spanledger, stderr_on_terminal};

const SESSION: &str = "5b2e7a52-2b1c-4f0e-9d53-6f6b4c1a9e10";

/// A session of Claude Code: an answer in two lines, a tool with a secret in its result, a subagent.
fn claude_code(dir: &Path) -> PathBuf {
    let entry = |kind: &str, uuid: &str, second: u32, message: Value| {
        json!({
            "type": kind, "uuid": uuid, "parentUuid": null, "sessionId": SESSION,
            "timestamp": format!("2026-11-10T08:00:{second:02}.000Z"), "cwd": "/home/ada/app",
            "version": "2.0.1", "userType": "external", "isSidechain": false, "message": message,
        })
    };
    let answer = |block: Value| {
        json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [block], "stop_reason": "tool_use",
            "usage": {"input_tokens": 10, "output_tokens": 30, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5},
        })
    };
    let said = |content: Value| json!({"role": "user", "content": content});
    let tool = json!({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "cat .env"}});
    let result = json!([{
        "type": "tool_result", "tool_use_id": "toolu_1",
        "content": "GITHUB_TOKEN=ghp_abcdefghijklmnopqrstuvwxyz0123456789\npassword: |\n  x7Kp2mQ9vL4tR8wZ1bN5\n",
    }]);
    let mut side = entry("user", "u6", 6, said("Look into the tests.".into()));
    side["isSidechain"] = true.into();
    side["agentId"] = "a1".into();
    let lines = [
        json!({"type": "summary", "summary": "Fix the build", "leafUuid": "u5"}),
        json!({"type": "file-history-snapshot", "messageId": "m"}),
        entry("user", "u1", 1, said("The build fails.".into())),
        entry(
            "assistant",
            "u2",
            3,
            answer(json!({"type": "text", "text": "I look at the settings."})),
        ),
        entry("assistant", "u3", 4, answer(tool)),
        entry("user", "u5", 5, said(result)),
        side,
    ];
    let path = dir.join("session.jsonl");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn claude_code_session_is_an_ordinary_session() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let path = claude_code(dir.path());
    let path = path.to_str().unwrap();
    let dry = run(&root, &["import", "auto", path, "--dry-run", "--json"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert_eq!(run(&root, &["list", "--json"]).objects().len(), 0);

    let done = run(&root, &["import", "auto", path, "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let sessions = done.objects();
    assert_eq!(sessions.len(), 2, "{done:?}");
    assert!(sessions.iter().all(|session| session["imported"] == true));

    let listed = run(&root, &["list", "--json"]).objects();
    let session = listed
        .iter()
        .find(|one| one["session_id"] == SESSION)
        .unwrap();
    // Both lines of the answer have the same usage.
    let text = session.to_string();
    assert!(text.contains("\"input_tokens\":115"), "{text}");
    assert!(text.contains("\"output_tokens\":30"), "{text}");
    let shown = run(&root, &["show", SESSION]);
    assert_eq!(shown.code, 0, "{shown:?}");
    for text in [
        "The build fails.",
        "I look at the settings.",
        "Bash",
        "Fix the build",
    ] {
        assert!(shown.out.contains(text), "{text}: {}", shown.out);
    }

    // The secrets are nowhere, and the source is a blob.
    for file in files(&root) {
        let bytes = fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for secret in ["ghp_abcdefghijklmnop", "x7Kp2mQ9vL4tR8wZ1bN5"] {
            assert!(!text.contains(secret), "{}", file.display());
        }
    }
    let is_blob = |file: &PathBuf| file.to_string_lossy().contains("/blobs/");
    assert!(files(&root).iter().any(is_blob));

    let again = run(&root, &["import", "claude-code", path, "--json"]);
    assert_eq!(again.code, 0);
    assert!(
        again
            .objects()
            .iter()
            .all(|session| session["known"] == true)
    );
}

#[test]
fn codex_counts_the_tokens_of_an_answer_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let line = |second: u32, kind: &str, payload: Value| json!({"timestamp": format!("2026-11-10T08:00:{second:02}.000Z"), "type": kind, "payload": payload});
    let used = json!({"input_tokens": 900, "cached_input_tokens": 100, "output_tokens": 40, "reasoning_output_tokens": 8, "total_tokens": 940});
    let count = json!({"type": "token_count", "info": {"last_token_usage": used, "total_token_usage": used}});
    let lines = [
        line(
            0,
            "session_meta",
            json!({"id": SESSION, "timestamp": "2026-11-10T08:00:00.000Z", "cwd": "/home/ada/app", "originator": "cli", "cli_version": "0.169.0", "model_provider": "openai"}),
        ),
        line(
            0,
            "turn_context",
            json!({"model": "gpt-5", "cwd": "/home/ada/app"}),
        ),
        line(
            1,
            "event_msg",
            json!({"type": "user_message", "message": "List the files."}),
        ),
        line(
            3,
            "response_item",
            json!({"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"ls\"]}", "call_id": "c1"}),
        ),
        line(3, "event_msg", count.clone()),
        line(
            4,
            "response_item",
            json!({"type": "function_call_output", "call_id": "c1", "output": "{\"output\":\"no such file\",\"metadata\":{\"exit_code\":2}}"}),
        ),
        line(5, "event_msg", count),
        line(
            6,
            "response_item",
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "There are none."}]}),
        ),
    ];
    let path = dir.path().join("rollout.jsonl");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&path, text).unwrap();
    let done = run(&root, &["import", "auto", path.to_str().unwrap(), "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let listed = run(&root, &["list", "--json"]).objects()[0].to_string();
    assert!(listed.contains("\"input_tokens\":900"), "{listed}");
    let shown = run(&root, &["show", SESSION]).out;
    for text in [
        "List the files.",
        "There are none.",
        "shell",
        "gpt-5",
        "exit 2",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

#[test]
fn file_with_an_error_is_not_imported_by_halves() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let path = claude_code(dir.path());
    let good = fs::read_to_string(&path).unwrap();
    let deep = format!("{good}{}\n", "[".repeat(100_000));
    let list = format!("{good}[1]\n");
    let cut = format!("{good}{{\"type\":\n{good}");
    for text in [deep, list, cut] {
        fs::write(&path, text).unwrap();
        let done = run(&root, &["import", "claude-code", path.to_str().unwrap()]);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains("line 8:"), "{done:?}");
        assert_eq!(run(&root, &["list", "--json"]).objects().len(), 0);
        assert!(!root.join("importing").exists());
    }
    let missing = run(&root, &["import", "auto", "/nowhere"]);
    assert_eq!(missing.code, 2);
    let unknown = run(&root, &["import", "codes", "x"]);
    assert!(
        unknown
            .err
            .contains("agentdbg, atif, chat-json, chat-jsonl, chat-sqlite, claude-code, codex"),
        "{unknown:?}"
    );
}

/// Exports a session, imports that under another root, and exports it again. Both exports have the same rows,
/// apart from what `leave_out` removes.
fn round_trip(format: &str, leave_out: fn(&mut Value)) {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    let export = |root: &Path, session: &str, name: &str| -> PathBuf {
        let out = dir.path().join(name);
        let done = run(
            root,
            &["export", format, session, "-o", out.to_str().unwrap()],
        );
        assert_eq!(done.code, 0, "{done:?}");
        match out.join("runs") {
            runs if runs.is_dir() => fs::read_dir(runs).unwrap().next().unwrap().unwrap().path(),
            _ => out,
        }
    };
    let rows = |path: &Path| -> Vec<Value> {
        let path = match path.is_dir() {
            true => path.join("events.jsonl"),
            false => path.to_owned(),
        };
        let text = fs::read_to_string(path).unwrap();
        let mut rows: Vec<_> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        rows.iter_mut().for_each(leave_out);
        rows
    };
    let first = export(&fixture, "ses_whole", "first");
    let root = dir.path().join("root");
    let done = run(
        &root,
        &["import", format, first.to_str().unwrap(), "--json"],
    );
    assert_eq!(done.code, 0, "{done:?}");
    let id = done.objects()[0]["session_id"].as_str().unwrap().to_owned();
    let second = export(&root, &id, "second");
    let (first, second) = (rows(&first), rows(&second));
    assert!(first.len() > 3, "{first:?}");
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(first, second);
    }
    assert_eq!(first.len(), second.len());
}

#[test]
fn trajectory_survives_a_round_trip() {
    round_trip("trajectory", |row| {
        row["metadata"] = Value::Null;
        // A result's time is that of its call and its duration, in milliseconds.
        row["timestamp"] = Value::Null;
    });
}

#[test]
fn agentdbg_survives_a_round_trip() {
    round_trip("agentdbg", |row| {
        for name in ["event_id", "run_id", "parent_id", "meta"] {
            row[name] = Value::Null;
        }
    });
}

/// A run directory as other programs write it.
fn agentdbg_run(dir: &Path, status: &str, events: &[Value]) -> PathBuf {
    let run = dir.join("770e6076-24d6-4926-9ca6-c44884d0807d");
    fs::create_dir_all(&run).unwrap();
    let document = json!({"spec_version": "0.1", "run_name": "demo", "started_at": "2026-11-16T00:31:00.000Z", "status": status});
    fs::write(run.join("run.json"), document.to_string()).unwrap();
    let lines = events.iter().enumerate().map(|(n, event)| {
        let mut line = json!({"event_id": format!("e{n}"), "ts": format!("2026-11-16T00:31:0{n}.000Z"), "payload": {}});
        line.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
        format!("{line}\n")
    });
    fs::write(run.join("events.jsonl"), lines.collect::<String>()).unwrap();
    run
}

#[test]
fn agentdbg_prompts_and_unknown_events_are_read() {
    let call = |prompt: Value| json!({"event_type": "LLM_CALL", "payload": {"model": "m", "prompt": prompt, "status": "ok"}});
    let user = |content: Value| json!({"role": "user", "content": content});
    let list = json!([{"role": "system", "content": "Be brief."}, user(json!("Go.")), {"role": "assistant", "content": "Where?"}, user(json!([{"type": "text", "text": "There."}]))]);
    let body = json!({"model": "m", "messages": list});
    let events = [
        json!({"event_type": "RUN_START"}),
        call(json!("Go.")),
        call(json!("Go.")),
        call(list.clone()),
        call(body.clone()),
        json!({"event_type": "CACHE_HIT", "payload": {"key": "k"}}),
        json!({"event_type": "TURN_START", "payload": [1]}),
    ];
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let source = agentdbg_run(dir.path(), "running", &events);
    let done = run(&root, &["import", "agentdbg", source.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{done:?}");
    let session = source.file_name().unwrap().to_str().unwrap();
    let trace = session_dir(&root, session).join("trace.0001.jsonl");
    let text = fs::read_to_string(trace).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &str| {
        let of = lines.iter().filter(|line| line["kind"] == kind);
        of.map(|line| &line["payload"]).collect::<Vec<_>>()
    };
    let said: Vec<_> = of("message_user")
        .iter()
        .map(|said| said["content"].clone())
        .collect();
    assert_eq!(said, ["Go.", "There."]);
    let requests: Vec<_> = of("model_result")
        .iter()
        .map(|call| call["request"].clone())
        .collect();
    assert_eq!(
        requests,
        [Value::Null, Value::Null, json!({"messages": list}), body]
    );
    assert_eq!(of("cache_hit"), [&json!({"key": "k"})]);
    assert_eq!(of("custom.turn_start"), [&json!({"payload": [1]})]);
    // It may still run, or have been killed.
    assert_eq!(of("session_end")[0]["outcome"], "unset");
}

/// Offsets from UTC count, a time that is none is refused, and a file of the run means its directory.
#[test]
fn times_of_agentdbg_are_those_of_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = import_samples::write("agentdbg", Shape::Directory, dir.path(), &[json!({})]);
    let events = path.join("events.jsonl");
    let event = |time: &str| {
        let mut event = import_samples::lines("agentdbg", &[json!({})]).remove(0);
        event["ts"] = time.into();
        format!("{event}\n")
    };
    fs::write(&events, event("2026-11-10T09:30:00+01:30")).unwrap();
    let root = dir.path().join("root");
    let run_file = path.join("run.json");
    for (format, path) in [
        ("agentdbg", &run_file),
        ("auto", &events),
        ("auto", &run_file),
    ] {
        let done = run(&root, &["import", format, path.to_str().unwrap(), "--json"]);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(done.objects()[0]["session_id"], "agentdbg-source");
    }
    let shown = run(&root, &["show", "last", "--json"]).out;
    assert!(shown.contains("2026-11-10T08:00:00"), "{shown}");
    let good = event("2026-11-10T08:00:00Z");
    for wrong in ["soon", "2026-11-10"] {
        fs::write(&events, format!("{good}{}", event(wrong))).unwrap();
        let done = run(&root, &["import", "agentdbg", path.to_str().unwrap()]);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains("line 2: `ts`"), "{done:?}");
    }
    fs::write(&events, &good).unwrap();
    let mut document = import_samples::document("agentdbg", &[]);
    document["started_at"] = 5.into();
    fs::write(&run_file, document.to_string()).unwrap();
    let done = run(&root, &["import", "agentdbg", path.to_str().unwrap()]);
    assert!(done.err.contains("run.json: `started_at`"), "{done:?}");
}

#[test]
fn formats_are_listed() {
    let root = tempfile::tempdir().unwrap();
    let imports = run(root.path(), &["import", "--list", "--json"]).objects();
    let names = |formats: &[Value]| {
        let names = formats
            .iter()
            .map(|one| one["format"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let all: Vec<_> = Source::ALL.iter().map(|source| source.name()).collect();
    assert_eq!(names(&imports), all);
    assert!(imports.iter().all(|one| one["about"].is_string()));
    let exports = run(root.path(), &["export", "--list", "--json"]).objects();
    for one in &exports {
        let name = one["format"].as_str().unwrap();
        assert_eq!(one["importable"], all.contains(&name), "{one}");
        let format: Format = name.parse().unwrap();
        assert_eq!(one["live"], format.is_live(), "{one}");
    }
    let listed = run(root.path(), &["import", "--list"]).out;
    assert!(
        listed.contains("codex") && listed.contains("a rollout file of Codex"),
        "{listed}"
    );
    let listed = run(root.path(), &["export", "--list"]).out;
    let line = listed
        .lines()
        .find(|line| line.starts_with("trajectory"))
        .unwrap();
    assert!(line.contains("  live  import  "), "{listed}");
    let nothing = run(root.path(), &["import"]);
    assert_eq!(nothing.code, 2, "{nothing:?}");
}

#[test]
fn progress_is_shown_on_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let inputs = [json!({})];
    let [codex, chat] = ["codex", "chat-jsonl"]
        .map(|format| import_samples::write(format, Shape::Lines, dir.path(), &inputs));
    let mut import = spanledger(&root);
    import.args(["import", "auto"]).args([codex, chat]);
    let printed = stderr_on_terminal(&mut import);
    assert!(printed.contains("\r1 of 2 files"), "{printed:?}");
    assert!(printed.ends_with("\r\u{1b}[K"), "{printed:?}");
    let inputs = vec![json!({}); 1000];
    let long = import_samples::write("codex", Shape::Lines, dir.path(), &inputs);
    let mut import = spanledger(&root);
    import.args(["import", "codex", "--dry-run"]).arg(long);
    let printed = stderr_on_terminal(&mut import);
    assert!(printed.contains("\r1,000 events"), "{printed:?}");
    let mut export = spanledger(&root);
    export
        .args(["export", "session-log", "--all", "-o"])
        .arg(dir.path().join("log"));
    let printed = stderr_on_terminal(&mut export);
    assert!(printed.contains("\r1 of 2 sessions"), "{printed:?}");
}
