//! `stats`, `context`, `summary`, `baseline`, `assert` and `permissions`.

use std::path::Path;

use serde_json::{Value, json};
use spanledger::{Failure, Outcome, SpanExt, Usage, events, spans};

use crate::support::Recording;
use crate::support::cli::run;

fn usage(input: u64, cached: u64, output: u64) -> Usage {
    Usage {
        input_tokens: Some(input),
        cache_read_tokens: Some(cached),
        output_tokens: Some(output),
        ..Usage::default()
    }
}

fn model(name: &str, used: &Usage) {
    let call = spans::model_call("anthropic", name).start();
    call.record_usage(used);
    call.set("ttft_ms", 40);
    call.finish(Outcome::Ok);
}

fn tool(name: &str, result: &str, outcome: Outcome) {
    let call = spans::tool_call(name, "call_1").start();
    call.record_result(result);
    call.finish(outcome);
}

/// Runs an agent in a session of its own.
fn session(recording: &Recording, id: &str, agent: impl FnOnce() -> Outcome) {
    recording.run(|| {
        let run = spans::session_run(id, "planner").start();
        let _run = run.clone().entered();
        let turn = spans::session_turn().start();
        let outcome = turn.in_scope(agent);
        turn.finish(outcome);
        run.finish(outcome);
    });
}

/// A session with a subagent, and a model that has no price.
fn family() -> Recording {
    let recording = Recording::new();
    session(&recording, "ses_1", || {
        model("claude-sonnet-4-5", &usage(1_000, 400, 100));
        model("a-model-of-my-own", &usage(10, 0, 1));
        tool("bash", "ok", Outcome::Ok);
        tool("bash", "no", Outcome::Error);
        tool("=1+1", "ok", Outcome::Ok);
        let child = spans::session_run("ses_1-child", "reviewer").start();
        child.in_scope(|| {
            let recorded = Usage {
                cost_usd: Some(0.5),
                ..usage(100, 0, 10)
            };
            model("claude-haiku-4-5", &recorded);
        });
        child.finish(Outcome::Ok);
        Outcome::Ok
    });
    recording
}

fn row<'a>(report: &'a Value, key: &str) -> &'a Value {
    let rows = report["rows"].as_array().unwrap();
    let found = rows.iter().find(|row| row["key"] == key);
    found.unwrap_or_else(|| panic!("no {key}: {report:#}"))
}

#[test]
fn stats_add_up_a_session_and_its_subagents() {
    let recording = family();
    let root = recording.dir.path();
    let report = run(root, &["stats", "ses_1", "--json"]).json();
    let total = &report["total"];
    for (name, expected) in [
        ("sessions", json!(1)),
        ("subagents", json!(1)),
        ("model_calls", json!(3)),
        ("tool_calls", json!(3)),
        ("input_tokens", json!(1_110)),
        ("output_tokens", json!(111)),
        ("cache_read_tokens", json!(400)),
        ("errors", json!(1)),
    ] {
        assert_eq!(total[name], expected, "{name} in {total:#}");
    }
    assert_eq!(total["first_token_ms"]["p50"], 40.0);
    let cost = &total["cost"];
    assert_eq!(
        (&cost["recorded_calls"], &cost["priced_calls"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&cost["unknown_calls"], &cost["partial"]),
        (&json!(1), &json!(true))
    );
    // 600 tokens of input, 400 of cached input and 100 of output.
    let listed = 0.5 + 600e-6 * 3.0 + 400e-6 * 0.3 + 100e-6 * 15.0;
    let usd = cost["usd"].as_f64().unwrap();
    assert!((usd - listed).abs() < 1e-9, "{usd}, {listed}");
    let text = run(root, &["stats", "ses_1"]).out;
    assert!(text.contains("≥$0.50"), "{text}");
    assert!(
        text.contains("The cost of 1 model call is not known."),
        "{text}"
    );
}

#[test]
fn stats_have_rows_by_what_was_asked_for() {
    let recording = family();
    let root = recording.dir.path();
    let by = |what: &str| run(root, &["stats", "--all", "--json", "--by", what]).json();
    let models = by("model");
    assert_eq!(row(&models, "claude-sonnet-4-5")["cache_rate"], 0.4);
    assert_eq!(
        row(&models, "a-model-of-my-own")["cost"]["usd"],
        Value::Null
    );
    let tools = by("tool");
    assert_eq!(row(&tools, "bash")["tool_calls"], 2);
    assert_eq!(row(&tools, "bash")["errors"], 1);
    let agents = by("agent");
    assert_eq!(row(&agents, "reviewer")["model_calls"], 1);
    assert_eq!(row(&agents, "planner")["model_calls"], 2);
    let sessions = by("session");
    assert_eq!(sessions["rows"].as_array().unwrap().len(), 1);
    assert_eq!(row(&sessions, "ses_1")["model_calls"], 3);
    let days = by("day");
    assert_eq!(days["rows"][0]["model_calls"], days["total"]["model_calls"]);
    // Nothing ended in the future.
    let none = run(root, &["stats", "--since", "0s", "--json"]).json();
    assert_eq!(none["total"]["model_calls"], 0);
    let some = run(root, &["stats", "--since", "1h", "--json"]).json();
    assert_eq!(some["total"]["model_calls"], 3);
}

#[test]
fn stats_as_csv_have_no_formulas() {
    let recording = family();
    let done = run(
        recording.dir.path(),
        &["stats", "--all", "--by", "tool", "--csv"],
    );
    let lines = done.lines();
    assert!(lines[0].starts_with("tool,sessions,"), "{done:?}");
    assert!(
        lines.iter().any(|line| line.starts_with("'=1+1,")),
        "{done:?}"
    );
    let cells = |line: &str| line.split(',').count();
    assert!(
        lines.iter().all(|line| cells(line) == cells(lines[0])),
        "{done:?}"
    );
}

/// A wait and a denial count once, wherever they were recorded.
#[test]
fn stats_count_waits_and_denials_once() {
    let recording = Recording::new();
    session(&recording, "ses_1", || {
        let tool = spans::tool_call("edit", "call_1").start();
        let ask = spans::permission_evaluate("edit").child_of(&tool).start();
        ask.set("action", "ask");
        events::hitl_request("int_1").on(&ask).emit();
        events::hitl_response("int_1")
            .decision("deny")
            .on(&ask)
            .emit();
        ask.finish(Outcome::Denied);
        tool.set("blocked_ms", 3_600_000);
        tool.finish(Outcome::Denied);
        let blocked = spans::tool_call("edit", "call_2").start();
        blocked.set("blocked_ms", 1_000);
        blocked.finish(Outcome::Ok);
        Outcome::Ok
    });
    let report = run(recording.dir.path(), &["stats", "--json"]).json();
    assert_eq!(report["total"]["denials"], 1);
    let waited = report["total"]["waited_ms"].as_f64().unwrap();
    // The question took next to no time; the hour on the tool is the same wait again.
    assert!((1_000.0..60_000.0).contains(&waited), "{waited}");
}

#[test]
fn usage_of_a_turn_counts_where_its_calls_have_none() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner")
            .model("anthropic", "claude-sonnet-4-5")
            .start();
        let _run = run.clone().entered();
        for with_call in [true, false] {
            let turn = spans::session_turn().start();
            if with_call {
                turn.in_scope(|| model("claude-sonnet-4-5", &usage(100, 0, 10)));
            }
            turn.record_usage(&usage(100, 0, 10));
            turn.finish(Outcome::Ok);
        }
        run.record_usage(&usage(200, 0, 20));
        run.finish(Outcome::Ok);
    });
    let root = recording.dir.path();
    let total = run(root, &["stats", "--json"]).json()["total"].clone();
    assert_eq!(
        (&total["input_tokens"], &total["model_calls"]),
        (&json!(200), &json!(1))
    );
    let listed = run(root, &["list", "--json"]).objects();
    assert_eq!(listed[0]["usage"]["input_tokens"], total["input_tokens"]);
}

#[test]
fn context_shows_calls_compactions_and_carried_results() {
    let recording = Recording::new();
    session(&recording, "ses_1", || {
        events::system_prompt("s".repeat(400)).emit();
        events::message_user("u".repeat(400))
            .message_id("m1")
            .emit();
        tool("read", &"r".repeat(3_200), Outcome::Ok);
        model("claude-sonnet-4-5", &usage(1_000, 500, 10));
        model("claude-sonnet-4-5", &usage(1_000, 900, 10));
        let compaction = spans::compaction_run().start();
        compaction.set("summary", "c".repeat(400));
        compaction.finish(Outcome::Ok);
        model("claude-sonnet-4-5", &usage(200, 0, 10));
        Outcome::Ok
    });
    let root = recording.dir.path();
    let items = run(root, &["context", "last", "--json"]).objects();
    let of = |kind: &str| -> Vec<&Value> {
        let items = items.iter();
        items.filter(|item| item["type"] == kind).collect()
    };
    let calls = of("call");
    assert_eq!(calls.len(), 3);
    let parts = &calls[0]["parts"];
    assert_eq!(
        (&parts["system"], &parts["user"], &parts["tool_results"]),
        (&json!(100), &json!(100), &json!(800))
    );
    assert_eq!(calls[1]["cached_tokens"], 900);
    let parts = &calls[2]["parts"];
    assert_eq!(
        (&parts["summary"], &parts["tool_results"]),
        (&json!(100), &json!(0))
    );
    assert_eq!(calls[2]["compacted"], true);
    assert_eq!(of("compaction").len(), 1);
    let result = of("tool_result")[0];
    assert_eq!(
        (&result["carried_calls"], &result["carried_tokens"]),
        (&json!(2), &json!(1_600))
    );
    // Of the first call: 500 fresh and 500 cached tokens; of the second: 100 and 900.
    let input = |fresh: f64, cached: f64| (fresh * 3.0 + cached * 0.3) * 1e-6;
    let expected = 0.8 * (input(500.0, 500.0) + input(100.0, 900.0));
    let usd = result["carried_usd"].as_f64().unwrap();
    assert!((usd - expected).abs() < 1e-9, "{usd}, {expected}");

    let text = run(root, &["context"]).out;
    for part in [
        "sss",
        "rrr",
        "ccc",
        "compaction: ~",
        "Carried tool results",
        "90%",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

fn ending(root: &Path, id: &str) -> Value {
    run(root, &["summary", id, "--json"]).json()["ending"].clone()
}

#[test]
fn summary_says_how_a_session_ended() {
    let recording = Recording::new();
    session(&recording, "completed", || {
        model("claude-sonnet-4-5", &usage(10, 0, 1));
        Outcome::Ok
    });
    session(&recording, "error", || {
        let call = spans::tool_call("bash", "call_1").start();
        call.record_failure(&Failure::new("Timeout", "no output for 30 s"));
        call.finish(Outcome::Error);
        Outcome::Error
    });
    session(&recording, "loop", || {
        events::loop_warning("bash, bash", 3).emit();
        Outcome::Error
    });
    session(&recording, "limit", || {
        let call = spans::model_call("anthropic", "claude-sonnet-4-5").start();
        call.set("finish_reason", "max_tokens");
        call.finish(Outcome::Ok);
        Outcome::Ok
    });
    session(&recording, "denied", || {
        tool("bash", "", Outcome::Denied);
        Outcome::Ok
    });
    session(&recording, "interrupted", || Outcome::Cancelled);
    let root = recording.dir.path();
    for class in [
        "completed",
        "error",
        "loop",
        "limit",
        "denied",
        "interrupted",
    ] {
        assert_eq!(ending(root, class), class);
    }
    let open = recording.run(|| spans::session_run("running", "planner").start());
    assert_eq!(ending(root, "running"), "running");
    drop(open);

    let summary = run(root, &["summary", "error", "--json"]).json();
    assert_eq!(
        (&summary["turns"], &summary["tool_errors"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(summary["first_error"]["what"], "bash");
    let text = run(root, &["summary", "error"]).out;
    assert!(text.starts_with("error  error"), "{text}");
    assert!(text.contains("bash: no output for 30 s"), "{text}");
    assert_eq!(
        run(root, &["summary", "loop", "--json"]).json()["loop_warnings"],
        1
    );
}

#[test]
fn assert_names_each_line_that_a_session_violates() {
    let recording = Recording::new();
    let script = |tools: &'static [&'static str]| {
        move || {
            tools.iter().for_each(|name| tool(name, "ok", Outcome::Ok));
            model("claude-sonnet-4-5", &usage(1_000, 0, 100));
            Outcome::Ok
        }
    };
    session(&recording, "good", script(&["read", "edit", "bash"]));
    session(&recording, "bad", || {
        events::loop_warning("web, web", 3).emit();
        (0..9).for_each(|_| tool("web", "no", Outcome::Error));
        (0..9).for_each(|_| model("claude-sonnet-4-5", &usage(1_000, 0, 100)));
        Outcome::Error
    });
    let root = recording.dir.path();
    let file = root.join("baseline.json");
    let file = file.to_str().unwrap();
    assert_eq!(run(root, &["baseline", "good", "-o", file]).code, 0);
    let with = |session: &str, args: &[&str]| {
        let all = [
            &[
                "assert",
                session,
                "--baseline",
                file,
                "--ignore",
                "duration",
            ],
            args,
        ]
        .concat();
        run(root, &all)
    };
    let good = with("good", &["--max-divergence", "0"]);
    assert_eq!(good.code, 0, "{good:?}");
    let bad = with("bad", &["--max-divergence", "0.5"]);
    assert_eq!(bad.code, 1, "{bad:?}");
    let failed = bad
        .out
        .lines()
        .filter_map(|line| line.strip_prefix("FAIL "));
    let failed: Vec<&str> = failed.filter_map(|line| line.split(' ').next()).collect();
    let expected = [
        "steps",
        "calls",
        "tokens",
        "cost",
        "new-tools",
        "loops",
        "errors",
        "status",
        "divergence",
    ];
    assert_eq!(failed, expected, "{bad:?}");
    assert!(
        bad.out.contains("web, which the baseline did not call"),
        "{bad:?}"
    );

    let report = with("bad", &["--json"]);
    assert_eq!(report.code, 1);
    assert_eq!(report.json()["passed"], false);
    let junit = with("bad", &["--format", "junit"]);
    assert_eq!(junit.code, 1);
    assert_eq!(junit.out.matches("<failure ").count(), 8, "{junit:?}");
    // A given limit replaces the baseline's, and needs none.
    let given = run(
        root,
        &["assert", "bad", "--max-steps", "9", "--max-errors", "9"],
    );
    assert_eq!(given.code, 0, "{given:?}");
    assert_eq!(run(root, &["assert", "bad", "--max-steps", "8"]).code, 1);
}

#[test]
fn assert_needs_something_to_check() {
    let recording = family();
    let root = recording.dir.path();
    assert_eq!(run(root, &["assert", "ses_1"]).code, 2);
    let missing = run(root, &["assert", "ses_1", "--baseline", "no-such-file"]);
    assert_eq!(missing.code, 2);
    assert!(
        missing.err.contains("can't read no-such-file"),
        "{missing:?}"
    );
    let file = root.join("other.json");
    std::fs::write(&file, "{}").unwrap();
    let other = run(
        root,
        &["assert", "ses_1", "--baseline", file.to_str().unwrap()],
    );
    assert_eq!(other.code, 2);
    assert!(other.err.contains("is no baseline"), "{other:?}");
    // A part of the cost is not known, so it can't be within a limit.
    let partial = run(root, &["assert", "ses_1", "--max-cost", "100"]);
    assert_eq!(partial.code, 1);
    assert!(partial.out.contains("not wholly known"), "{partial:?}");
}

/// A tool call that its permission decides.
fn guarded(command: &str, action: &str, answer: Option<&str>) {
    let tool = spans::tool_call("bash", "call_1")
        .args(json!({"command": command}))
        .start();
    let permission = spans::permission_evaluate("bash")
        .pattern("*")
        .child_of(&tool)
        .start();
    permission.set("action", action);
    permission.set("source", "project");
    if let Some(answer) = answer {
        permission.set("decision", answer);
        permission.set("decided_by", "ada");
    }
    let denied = action == "deny" || answer == Some("deny");
    let outcome = if denied { Outcome::Denied } else { Outcome::Ok };
    permission.finish(outcome);
    tool.finish(outcome);
}

#[test]
fn permissions_are_listed_and_evaluated_under_other_rules() {
    let recording = Recording::new();
    session(&recording, "ses_1", || {
        guarded("cargo test", "ask", Some("allow_once"));
        guarded("git push", "ask", Some("deny"));
        guarded("ls", "allow", None);
        guarded("rm -rf /", "deny", None);
        Outcome::Ok
    });
    session(&recording, "ses_2", || {
        guarded("cargo build", "ask", Some("allow_once"));
        Outcome::Ok
    });
    let root = recording.dir.path();
    let listed = run(root, &["permissions", "ses_1"]);
    let lines = listed.lines();
    assert_eq!(lines.len(), 4, "{listed:?}");
    assert!(lines[0].contains("ask   bash  cargo test"), "{listed:?}");
    assert!(
        lines[0].contains("rule *, by project, asked ada: allow_once, "),
        "{listed:?}"
    );
    assert!(lines[3].contains("deny  bash  rm -rf /"), "{listed:?}");

    let all = run(root, &["permissions", "--all"]);
    let lines = all.lines();
    assert_eq!(
        (lines.len(), lines[0], lines[5]),
        (7, "ses_1", "ses_2"),
        "{all:?}"
    );

    let file = root.join("rules.json");
    let rules = json!([
        {"permission": "bash", "action": "allow"},
        {"permission": "bash", "pattern": "rm *", "action": "deny"},
        {"permission": "bash", "pattern": "l?", "action": "ask"},
    ]);
    std::fs::write(&file, rules.to_string()).unwrap();
    let what_if = ["permissions", "--all", "--what-if", file.to_str().unwrap()];
    let objects = run(root, &[&what_if[..], &["--json"]].concat()).objects();
    let (counts, flips) = objects.split_last().unwrap();
    let changes: Vec<_> = flips
        .iter()
        .map(|flip| [&flip["subject"], &flip["action"], &flip["would_be"]])
        .map(|texts| texts.map(|text| text.as_str().unwrap()))
        .collect();
    let expected = [
        ["cargo test", "ask", "allow"],
        ["git push", "ask", "allow"],
        ["ls", "allow", "ask"],
        ["cargo build", "ask", "allow"],
    ];
    assert_eq!(changes, expected);
    for (name, expected) in [
        ("decisions", 5),
        ("flips", 4),
        ("questions_saved", 3),
        ("questions_added", 1),
        ("would_run_unasked", 3),
        ("would_run_unasked_denied_by_person", 1),
        ("would_be_denied", 0),
        ("undecided", 0),
    ] {
        assert_eq!(counts[name], expected, "{name} in {counts:#}");
    }
    let text = run(root, &what_if).out;
    assert!(text.contains("4 of 5 decisions would flip"), "{text}");
    std::fs::write(&file, "[{}]").unwrap();
    let wrong = run(root, &what_if);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong
            .err
            .contains("rules.json is not a list of permission rules"),
        "{wrong:?}"
    );
}

#[test]
fn names_from_a_trace_do_not_affect_the_terminal() {
    const HOSTILE: &str = "\u{1b}[31m\u{202e}<&\"";
    let recording = Recording::new();
    session(&recording, HOSTILE, || {
        tool(HOSTILE, "ok", Outcome::Ok);
        model(HOSTILE, &usage(10, 0, 1));
        guarded(HOSTILE, "ask", Some(HOSTILE));
        let call = spans::tool_call("bash", "call_1").start();
        call.record_failure(&Failure::new(HOSTILE, HOSTILE));
        call.finish(Outcome::Error);
        Outcome::Error
    });
    let root = recording.dir.path();
    let rules = root.join("rules.json");
    std::fs::write(&rules, "[]").unwrap();
    let rules = rules.to_str().unwrap();
    for args in [
        &["stats"][..],
        &["stats", "--by", "model"],
        &["stats", "--by", "tool"],
        &["stats", "--by", "session", "--json"],
        &["summary"],
        &["summary", "--json"],
        &["context"],
        &["context", "--json"],
        &["permissions"],
        &["permissions", "--json"],
        &["permissions", "--what-if", rules],
        &["baseline", "last"],
        &["assert", "last", "--max-errors", "9"],
        &["assert", "last", "--max-errors", "9", "--format", "junit"],
    ] {
        let done = run(root, args);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        assert!(
            !done.out.contains(['\u{1b}', '\u{202e}']),
            "{args:?}: {done:?}"
        );
    }
}

/// One turn with more results than the commands may hold.
#[test]
fn a_long_turn_is_folded_in_bounded_memory() {
    use std::io::Write;
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("sessions/ses_1");
    std::fs::create_dir_all(&dir).unwrap();
    let file = std::fs::File::create(dir.join("trace.0001.jsonl")).unwrap();
    let mut file = std::io::BufWriter::new(file);
    let mut seq = 0;
    let mut line = |kind: &str, span: u64, payload: &str| {
        seq += 1;
        writeln!(
            file,
            r#"{{"v":1,"seg":1,"seq":{seq},"ts":"2026-11-16T00:31:05.123456Z","kind":"{kind}","session_id":"ses_1","turn":1,"trace_id":"{:032x}","span_id":"{span:016x}","payload":{payload}}}"#,
            1
        )
        .unwrap();
    };
    line("segment", 1, r#"{"writer":"w1"}"#);
    line("turn_start", 1, "{}");
    let result = "x".repeat(64 << 10);
    for n in 0..2_000 {
        line("model_call", 2 * n, r#"{"model_id":"m"}"#);
        line("model_result", 2 * n, r#"{"model_id":"m","outcome":"ok"}"#);
        let result = format!(
            r#"{{"tool_id":"t{}","outcome":"ok","result":"{result}"}}"#,
            n % 7
        );
        line("tool_result", 2 * n + 1, &result);
    }
    line("turn_end", 1, r#"{"outcome":"ok"}"#);
    file.flush().unwrap();
    for command in ["stats", "summary", "context"] {
        let limited = "ulimit -d 65536; exec \"$0\" --root \"$1\" \"$2\" ses_1";
        let done = std::process::Command::new("sh")
            .args(["-c", limited, env!("CARGO_BIN_EXE_spanledger")])
            .arg(root.path())
            .arg(command)
            .output()
            .unwrap();
        assert!(done.status.success(), "{command}: {done:?}");
    }
}

#[test]
fn summary_names_what_subagents_add() {
    let recording = Recording::new();
    let call = || {
        let call = spans::model_call("anthropic", "claude-sonnet-4-5").start();
        call.record_usage(&Usage {
            input_tokens: Some(1_000),
            output_tokens: Some(100),
            ..Usage::default()
        });
        call.finish(Outcome::Ok);
    };
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        call();
        let _child = spans::session_run("ses_2", "reviewer").start().entered();
        call();
        let tool = spans::tool_call("read", "call_1").start();
        tool.record_error("no such file");
        tool.finish(Outcome::Error);
    });
    let root = recording.dir.path();
    let text = run(root, &["summary", "ses_1"]).out;
    for row in [
        "model calls 1 (+1 in subagents)\n",
        "tool calls  0 (+1 in subagents)\n",
        "errors      0 (+1 in subagents)\n",
        "tokens      2,000 → 200 (with subagents)\n",
        ", by list prices (with subagents)\n",
    ] {
        assert!(text.contains(row), "{row}{text}");
    }
    let json = run(root, &["summary", "ses_1", "--json"]).json();
    assert_eq!(json["usage"]["input_tokens"], 2_000);
    assert_eq!(json["subagents"]["tool_calls"], 1);
    let header = run(root, &["show", "ses_1"]).out;
    assert!(header.contains("cost – (see `stats`)"), "{header}");
}
