//! `export`: formats, targets, and a follower that is killed.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use spanledger::{SpanExt, events, spans};

use crate::support::cli::{run, spanledger};
use crate::support::targets::{live, live_formats, rows};
use crate::support::{Recording, file_states, kills};

fn fixture() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1")
}

#[test]
fn list_describes_every_format() {
    let formats = run(&fixture(), &["export", "--list", "--json"]).objects();
    assert_eq!(formats.len(), spanledger::export::Format::ALL.len());
    assert!(formats.iter().all(|format| format["about"].is_string()));
}

#[test]
fn wrong_use_says_what_to_do() {
    let unknown = run(&fixture(), &["export", "trajectories"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("use one of trajectory"), "{unknown:?}");
    let directory = run(&fixture(), &["export", "agentdbg"]);
    assert_eq!(directory.code, 2);
    assert!(directory.err.contains("give -o DIR"), "{directory:?}");
    let several = run(&fixture(), &["export", "trajectory", "--all"]);
    assert_eq!(several.code, 2);
    let missing = run(&fixture(), &["export", "trajectory", "ses_nowhere"]);
    assert_eq!(missing.code, 2);
}

#[test]
fn target_that_cannot_be_written_keeps_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.jsonl");
    fs::write(&out, "before").unwrap();
    fs::create_dir(dir.path().join("out.jsonl.part")).unwrap();
    let done = run(
        &fixture(),
        &[
            "export",
            "trajectory",
            "ses_whole",
            "-o",
            out.to_str().unwrap(),
        ],
    );
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("out.jsonl"), "{done:?}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "before");
}

/// A file of a format is written under another name first. What that name links to stays as it is.
#[test]
fn links_in_place_of_unfinished_files_are_refused() {
    let recording = Recording::new();
    record(&recording, 1);
    let root = recording.end();
    let export = |format: &str, out: &Path| {
        let out = out.to_str().unwrap();
        run(root.path(), &["export", format, "ses_1", "-o", out])
    };
    let formats = spanledger::export::Format::ALL.iter();
    for format in formats.filter(|format| !format.is_database()) {
        let dir = tempfile::tempdir().unwrap();
        let (whole, out) = (dir.path().join("whole"), dir.path().join("out"));
        let done = export(format.name(), &whole);
        assert_eq!(done.code, 0, "{format}: {done:?}");
        let victim = dir.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        let mut parts = Vec::new();
        for (file, ..) in file_states(&whole) {
            let name = file.strip_prefix(dir.path()).unwrap().to_str().unwrap();
            let part = dir.path().join(name.replacen("whole", "out", 1) + ".part");
            fs::create_dir_all(part.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(&victim, &part).unwrap();
            parts.push(part);
        }
        assert!(!parts.is_empty(), "{format}");
        let done = export(format.name(), &out);
        assert_eq!(done.code, 2, "{format}: {done:?}");
        assert!(done.err.contains(".part: not a regular file"), "{done:?}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine", "{format}");
        // What a crash left behind is no obstacle.
        for part in parts {
            fs::remove_file(&part).unwrap();
            fs::write(&part, "half").unwrap();
        }
        let done = export(format.name(), &out);
        assert_eq!(done.code, 0, "{format}: {done:?}");
        assert_eq!(contents(&out), contents(&whole), "{format}");
    }
}

#[test]
fn all_sessions_get_a_file_each() {
    let dir = tempfile::tempdir().unwrap();
    let recording = Recording::new();
    for id in ["ses_1", "../ses_2"] {
        recording.run(|| {
            let _run = spans::session_run(id, "planner").start().entered();
            events::message_user("=1+1\u{0}\u{202e}").emit();
        });
    }
    let root = recording.end();
    let out = dir.path().join("out");
    let done = run(
        root.path(),
        &["export", "trajectory", "--all", "-o", out.to_str().unwrap()],
    );
    assert_eq!(done.code, 0, "{done:?}");
    let files: Vec<_> = fs::read_dir(&out).unwrap().collect();
    assert_eq!(files.len(), 2);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Records so many tool calls.
fn record(recording: &Recording, tools: usize) {
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        run.in_scope(|| {
            for n in 0..tools {
                let tool = spans::tool_call("bash", format!("c{n}")).start();
                tool.record_exit_code(0);
            }
        });
    });
}

/// Begins a conversation that goes back while an answer arrives. The answer is not whole yet.
fn converse(recording: &Recording, round: usize) -> (tracing::Span, spanledger::Stream) {
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let stream = run.in_scope(|| {
            let asked = format!("u{round}");
            events::message_user("Go on.").message_id(&asked).emit();
            let call = spans::model_call("anthropic", "claude-sonnet-4-5").start();
            let usage = spanledger::Usage {
                input_tokens: Some(7),
                ..Default::default()
            };
            events::model_usage(&usage).on(&call).emit();
            let mut left = call.stream(format!("left{round}"));
            left.push("This answer is long enough to be written before it stops. ");
            events::rewind(asked).emit();
            left.abort("rewound");
            let mut stream = run.stream(format!("m{round}"));
            stream.push("This answer is long enough to be written before it is whole. ");
            stream
        });
        (run, stream)
    })
}

/// What is in a target: the lengths of its files.
fn sizes(path: &Path) -> u64 {
    match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| sizes(&entry.unwrap().path())).sum(),
        Err(_) => path.metadata().map_or(0, |meta| meta.len()),
    }
}

/// `run.json` of a run says what its events say.
fn assert_true(run: &Path) {
    let run_json = fs::read_to_string(run.join("run.json")).unwrap();
    let run_json: Value = serde_json::from_str(&run_json).unwrap();
    let events = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let events: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let calls = events
        .iter()
        .filter(|event| event["event_type"] == "TOOL_CALL")
        .count();
    let ended = events.iter().any(|event| event["event_type"] == "RUN_END");
    assert_eq!(run_json["counts"]["tool_calls"], calls, "{run_json}");
    assert_eq!(run_json["status"] == "running", !ended, "{run_json}");
}

#[test]
fn killed_followers_of_every_format_leave_every_row_once() {
    for format in live_formats() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let recording = Recording::new();
        record(&recording, 1);
        let root = recording.dir.path().to_owned();
        for round in 0..kills(50) {
            let before = file_states(dir.path());
            record(&recording, 2);
            let (run, stream) = converse(&recording, round);
            let mut follower = spanledger(&root)
                .args(["export", format.name(), "ses_1", "--follow", "-o"])
                .arg(&out)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            // It is at work when the target changes.
            let late = Instant::now() + Duration::from_secs(60);
            while file_states(dir.path()) == before && Instant::now() < late {
                std::thread::yield_now();
            }
            assert_ne!(
                file_states(dir.path()),
                before,
                "{format}: nothing is written"
            );
            record(&recording, fastrand::usize(..20));
            follower.kill().unwrap();
            follower.wait().unwrap();
            recording.run(|| {
                stream.end();
                drop(run);
            });
        }
        let session = spanledger::read::session_dir(&root, "ses_1");
        live(format, &out).sync(&session).unwrap();
        let whole = dir.path().join("whole");
        let whole_path = whole.to_str().unwrap();
        assert_eq!(
            run(&root, &["export", format.name(), "ses_1", "-o", whole_path]).code,
            0
        );
        assert_eq!(contents(&out), contents(&whole), "{format}");
        if format.name() == "trajectory" {
            assert_eq!(fs::read(&out).unwrap(), fs::read(&whole).unwrap());
        }
        for run in fs::read_dir(out.join("runs")).into_iter().flatten() {
            assert_true(&run.unwrap().path());
        }
    }
}

/// The rows of all files of a target.
fn contents(path: &Path) -> Vec<String> {
    rows(path).into_values().flatten().collect()
}

/// Ids that are no file names, or lead elsewhere.
const HOSTILE_IDS: [&str; 7] = [
    "../../evil",
    "a/b\\c",
    ".hidden",
    "=1+1",
    "nul\0byte",
    "_under",
    "\u{202e}right",
];

#[test]
fn hostile_session_ids_stay_in_the_target() {
    let recording = Recording::new();
    let long = "x".repeat(300);
    recording.run(|| {
        for id in HOSTILE_IDS.into_iter().chain([long.as_str()]) {
            let _run = spans::session_run(id, "planner").start().entered();
            events::message_user("\0 =1+1 \u{2028}").emit();
            drop(spans::tool_call("../bash", "../../c").start());
        }
    });
    let root = recording.dir.path();
    for format in spanledger::export::Format::ALL {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("inside/out");
        let done = run(
            root,
            &[
                "export",
                format.name(),
                "--all",
                "-o",
                out.to_str().unwrap(),
            ],
        );
        if format.name() == "trial" {
            // A record is named by its ids, so these are refused.
            assert_eq!(done.code, 2, "{done:?}");
            assert!(!out.join("default").exists());
        } else {
            assert_eq!(done.code, 0, "{format}: {done:?}");
            let files = contents(&out);
            assert!(!files.is_empty(), "{format}");
        }
        for outside in [dir.path(), &dir.path().join("inside")] {
            let inside = fs::read_dir(outside).map_or(0, Iterator::count);
            assert!(inside <= 1, "{format}");
        }
    }
}

/// A value comes out of every format that has it as the trace has it: recording cuts it at 64 MB.
/// `SPANLEDGER_MEGABYTES=100` for a large one.
#[test]
fn large_values_are_exported_whole() {
    let given = std::env::var("SPANLEDGER_MEGABYTES").ok();
    let megabytes: usize = given.and_then(|text| text.parse().ok()).unwrap_or(2);
    let recording = Recording::new();
    let mut text = String::new();
    for n in 0.. {
        text += &format!("line {n} abcdef ");
        if text.len() >= megabytes << 20 {
            break;
        }
    }
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        events::message_user("Go.").emit();
        let tool = spans::tool_call("bash", "c1").start();
        tool.record_result(&text);
    });
    // No character of it is escaped, so it is in a document as it is.
    let expected = &text[..text.len().min(64 << 20)];
    let root = recording.dir.path();
    for format in spanledger::export::Format::ALL {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let done = run(
            root,
            &[
                "export",
                format.name(),
                "ses_1",
                "-o",
                out.to_str().unwrap(),
            ],
        );
        assert_eq!(done.code, 0, "{format}: {done:?}");
        let has_results = [
            "trajectory",
            "acp",
            "agentdbg",
            "trace-sqlite",
            "chat-sqlite",
            "chat-json",
            "chat-jsonl",
            "maida",
            "atif",
            "openai-messages",
            "anthropic-messages",
        ];
        if has_results.contains(&format.name()) {
            let found = match format.name() {
                "trace-sqlite" => is_in(&out, "events", "payload_json", expected),
                "chat-sqlite" => is_in(&out, "chat_parts", "data_json", expected),
                _ => contents(&out).iter().any(|row| row.contains(expected)),
            };
            assert!(found, "{format}: {}", sizes(&out));
        }
    }
}

/// A run whose trace is full goes on in others: it is one run all the same.
#[test]
fn long_run_is_one_run() {
    let recording = Recording::new();
    let text = "abcdef ".repeat(1_000);
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        for _ in 0..10 {
            let _turn = spans::session_turn().start().entered();
            for call in 0..100 {
                let tool = spans::tool_call("bash", format!("c{call}")).start();
                tool.record_result(&text);
            }
        }
    });
    let out = recording.dir.path().join("out");
    let to = out.to_str().unwrap();
    let done = run(
        recording.dir.path(),
        &["export", "agentdbg", "ses_1", "-o", to],
    );
    assert_eq!(done.code, 0, "{done:?}");
    let runs = fs::read_dir(out.join("runs")).unwrap();
    let runs: Vec<_> = runs.map(|run| run.unwrap().path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let document = fs::read_to_string(runs[0].join("run.json")).unwrap();
    assert!(document.contains("\"tool_calls\":1000,"), "{document}");
    let done = run(recording.dir.path(), &["export", "chrome-trace", "ses_1"]);
    let trace: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let events = trace.as_array().unwrap();
    let slices = events.iter().filter(|event| event["ph"] == "X");
    let lanes: std::collections::BTreeSet<_> =
        slices.map(|slice| slice["tid"].to_string()).collect();
    assert_eq!(lanes.len(), 1, "{lanes:?}");
}

/// Whether a column of a database has a text in it.
fn is_in(database: &Path, table: &str, column: &str, text: &str) -> bool {
    let database = rusqlite::Connection::open(database).unwrap();
    let query = format!("SELECT count(*) FROM {table} WHERE instr({column}, ?1)");
    let count = database.query_row(&query, [text], |row| row.get::<_, i64>(0));
    count.unwrap() > 0
}

/// A target that is a link is refused, and what the link leads to stays as it is.
#[test]
fn link_in_place_of_a_live_target_is_refused() {
    let recording = Recording::new();
    record(&recording, 1);
    let session = spanledger::read::session_dir(recording.dir.path(), "ses_1");
    for format in live_formats() {
        let dir = tempfile::tempdir().unwrap();
        let (other, link) = (dir.path().join("other"), dir.path().join("link"));
        fs::write(&other, "mine").unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert!(live(format, &link).sync(&session).is_err(), "{format}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine", "{format}");
    }
}
