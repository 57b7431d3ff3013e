//! What exports and imports cost: events per second and peak memory for each format.
//!
//! ```text
//! cargo bench --all-features --bench formats                  a table, of a session of 1,000,000 events
//! cargo bench --all-features --bench formats -- --json        one JSON document
//! cargo bench --all-features --bench formats -- --quick       of 50,000 events, for trying
//! cargo bench --all-features --bench formats -- otlp-json     this format only
//! ```
//!
//! Each export and each import is a process of its own, which prints what time and memory it needed: by the clock, and
//! the time of the processor, which is the same on a busy machine. The databases are compared with a bare loop of
//! inserts of the same rows. Nothing is asserted: a target is printed beside what was measured.

#[allow(dead_code)]
mod common;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use common::{Figure, Target as Goal, median};
use rustix::time::ClockId;
use serde_json::{Value, json};
use spanledger::export::{Export, Format, Shape, Target, export};
use spanledger::import::{Import, Source};
use spanledger::read::session_dir;
use spanledger::{SpanExt, Usage, events, spans};
use tracing::{Dispatch, dispatcher};
use tracing_subscriber::layer::SubscriberExt;

const SESSION: &str = "long";
const MEGABYTE: f64 = 1e6;
/// A figure without a target: its name, value and unit.
type Compared = (&'static str, f64, &'static str);
/// The lines of a turn of [`a_turn`].
const LINES_OF_A_TURN: usize = 254;
/// Calls of tools in a sample of [`write_samples`], and the lines of its session.
const CALLS_OF_A_SAMPLE: usize = 100;
const LINES_OF_A_SAMPLE: usize = 5 * CALLS_OF_A_SAMPLE;
/// Model calls in a record of [`write_trials`], and the lines of its session.
const CALLS_OF_A_TRIAL: usize = 100;
const LINES_OF_A_TRIAL: usize = 2 * CALLS_OF_A_TRIAL + 12;
/// Pairs of sessions with and without a live export.
const LIVE_ROUNDS: usize = 10;
/// What is said behind the name of a rate by the processor's time.
const PER_CPU: &str = ", per CPU second";

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if let Some(at) = args.iter().position(|arg| arg == "--one") {
        return one(&args[at + 1..]);
    }
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let wanted: Vec<_> = args.iter().filter(|arg| !arg.starts_with("--")).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|arg| *arg == name);
    let lines = if has("--quick") { 50_000 } else { 1_000_000 };
    let dir = tempfile::tempdir().expect("a directory for the traces");
    let root = dir.path().join("root");
    record(&root, None, || long_session(lines / LINES_OF_A_TURN));
    let lines = count_lines(&session_dir(&root, SESSION));
    let mut figures = Vec::new();
    let mut compared = Vec::new();
    for format in Format::ALL
        .iter()
        .copied()
        .filter(|format| is_wanted(format.name()))
    {
        figures.extend(measure_export(format, &root, dir.path(), lines));
    }
    for source in Source::ALL
        .iter()
        .copied()
        .filter(|source| is_wanted(source.name()))
    {
        figures.extend(measure_import(source, dir.path(), lines));
    }
    if is_wanted("trace-sqlite") {
        bare_inserts(dir.path(), &figures, &mut compared);
        live(dir.path(), lines / 10, &mut compared);
    }
    if has("--json") {
        let figures: Vec<_> = figures.iter().map(Figure::to_json).collect();
        return println!(
            "{:#}",
            json!({"events": lines, "figures": figures, "compared": compared})
        );
    }
    println!("{} events\n", common::grouped(lines));
    figures.iter().for_each(Figure::print);
    for (name, value, unit) in compared {
        println!("{name:<66}{value:>10.2} {unit}");
    }
}

/// What one process took.
struct Took {
    /// How many events an import has written.
    events: usize,
    /// Seconds by the clock.
    clock: f64,
    /// Seconds of the processor.
    cpu: f64,
    /// Bytes at most.
    memory: f64,
}

/// Runs an export or an import in this process, and prints what it took.
fn one(args: &[String]) {
    let [what, format, from, to] = args else {
        panic!("--one WHAT FORMAT FROM TO");
    };
    let start = Instant::now();
    let events = match what.as_str() {
        "export" => {
            let format: Format = format.parse().expect("a format");
            let mut target = Target::file(to);
            export(format, session_dir(from, SESSION), &mut target).expect("an export");
            target.finish().expect("a whole file");
            0
        }
        _ => {
            let source: Source = format.parse().expect("a format");
            let mut import = Import::new(to).expect("a root");
            let sessions = import.read(source, from).expect("an import");
            sessions.iter().map(|session| session.events).sum()
        }
    };
    let clock = start.elapsed().as_secs_f64();
    let cpu = nanoseconds(ClockId::ProcessCPUTime) / 1e9;
    println!("{}", json!([events, clock, cpu, peak_memory()]));
}

/// The most memory that the process had, in bytes.
fn peak_memory() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kib.unwrap_or(0.0) * 1024.0
}

/// Runs it in a process of its own.
fn in_a_process(what: &str, format: &str, from: &Path, to: &Path) -> Took {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--one", what, format])
        .args([from, to])
        .output()
        .expect("a process");
    assert!(output.status.success(), "{what} {format}: {output:?}");
    let printed = serde_json::from_slice(&output.stdout);
    let (events, clock, cpu, memory) = printed.expect("figures");
    Took {
        events,
        clock,
        cpu,
        memory,
    }
}

/// The figures of a process that has read or written so many events.
fn figures(name: &str, events: usize, took: &Took, least: f64) -> [Figure; 3] {
    let figure = |of: &str, value, unit, target| Figure {
        name: format!("{name}{of}"),
        value,
        unit,
        target,
    };
    let rate = |seconds: f64| events as f64 / seconds;
    let memory = took.memory / MEGABYTE;
    [
        figure("", rate(took.clock), "/s", Goal::AtLeast(least)),
        figure(PER_CPU, rate(took.cpu), "/s", Goal::AtLeast(least)),
        figure(", memory", memory, "MB", Goal::AtMost(64.0)),
    ]
}

/// Where a format's export is.
fn exported(format: &str, dir: &Path) -> PathBuf {
    dir.join(format!("export-{format}"))
}

fn measure_export(format: Format, root: &Path, dir: &Path, lines: usize) -> [Figure; 3] {
    let to = exported(format.name(), dir);
    let took = in_a_process("export", format.name(), root, &to);
    let least = if format.is_database() {
        50_000.0
    } else {
        100_000.0
    };
    figures(&format!("export {format}"), lines, &took, least)
}

fn measure_import(source: Source, dir: &Path, lines: usize) -> [Figure; 3] {
    let from = source_of(source, dir, lines);
    let to = dir.join(format!("import-{source}"));
    let took = in_a_process("import", source.name(), &from, &to);
    let _ = fs::remove_dir_all(to);
    let name = format!("import {source}, {} events", common::grouped(took.events));
    figures(&name, took.events, &took, 50_000.0)
}

/// A long source of a format: the export, or what the tool writes.
fn source_of(source: Source, dir: &Path, lines: usize) -> PathBuf {
    let file = dir.join(format!("{source}.jsonl"));
    match source.name() {
        "claude-code" => write_lines(&file, lines / 4, claude_code),
        "codex" => write_lines(&file, lines / 4, codex),
        "prime" => write_samples(&file, lines / LINES_OF_A_SAMPLE),
        "trial" => write_trials(&file, lines / LINES_OF_A_TRIAL),
        name => {
            let format: Format = name.parse().expect("a format");
            let export = exported(name, dir);
            if !export.exists() {
                in_a_process("export", name, &dir.join("root"), &export);
            }
            if format.shape() == Shape::Directory {
                let mut runs = fs::read_dir(export.join("runs")).expect("runs");
                return runs.next().expect("a run").expect("a run").path();
            }
            return export;
        }
    }
    file
}

fn write_lines(path: &Path, turns: usize, lines: impl Fn(usize) -> Vec<Value>) {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    for line in (0..turns).flat_map(lines) {
        writeln!(file, "{line}").expect("a line");
    }
}

/// Samples of a hosted evaluation, each with a conversation of its own.
fn write_samples(path: &Path, samples: usize) {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    write!(file, "{{\"evaluation_id\":\"ev\",\"samples\":[").expect("a beginning");
    for n in 0..samples {
        let calls = (0..CALLS_OF_A_SAMPLE).flat_map(|call| {
            let function = json!({"name": "bash", "arguments": "{\"command\":\"cargo test --workspace\"}"});
            let id = format!("call_{call}");
            [
                json!({"role": "assistant", "content": "I run the tests.", "tool_calls": [{"id": id, "type": "function", "function": function}]}),
                json!({"role": "tool", "tool_call_id": id, "content": "running 42 tests\ntest result: ok. 42 passed"}),
            ]
        });
        let completion: Vec<Value> = calls.collect();
        let sample = json!({"sample_id": format!("s{n}"), "reward": 1.0, "is_completed": true,
            "prompt": [{"role": "user", "content": "Mend the build."}], "completion": completion});
        let comma = if n > 0 { "," } else { "" };
        write!(file, "{comma}{sample}").expect("a sample");
    }
    writeln!(file, "]}}").expect("an end");
}

/// A ledger of records.
fn write_trials(dir: &Path, trials: usize) {
    fs::create_dir(dir).expect("a ledger");
    for n in 0..trials {
        let record = json!({
            "trial_id": format!("t{n}"), "experiment_id": "exp", "timestamp": at(n),
            "task": {"task_id": "build", "task_revision": "r1"},
            "agent": {"adapter": "tool_loop", "model": "claude-sonnet-4-5"},
            "inputs": {"instruction": "Mend the build."},
            "outputs": {"agent_result": {"final": {"flow": 1.5}}, "agent_output": {"status": "completed"}},
            "evaluation": {"reward": 1.0, "validity": {"errors": []}},
            "timing": {"total_seconds": 12.5},
            "cost": {"tokens_in": 90_000, "tokens_out": 4_000, "model_calls": CALLS_OF_A_TRIAL},
        });
        let path = dir.join(format!("t{n}.json"));
        fs::write(path, record.to_string()).expect("a record");
    }
}

fn at(n: usize) -> String {
    format!(
        "2026-11-10T{:02}:{:02}:{:02}.{:03}Z",
        n / 3_600_000 % 24,
        n / 60_000 % 60,
        n / 1000 % 60,
        n % 1000
    )
}

/// A call of a tool and its result, as Claude Code writes them.
fn claude_code(n: usize) -> Vec<Value> {
    let entry = |kind: &str, message: Value| {
        json!({"type": kind, "uuid": format!("{kind}{n}"), "parentUuid": null, "sessionId": "5b2e7a52", "timestamp": at(n),
            "cwd": "/home/ada", "version": "2.0.1", "userType": "external", "isSidechain": false, "message": message})
    };
    let id = format!("toolu_{n}");
    let call = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "cargo test --workspace"}});
    let result = json!([{"type": "tool_result", "tool_use_id": id, "content": "running 42 tests\ntest result: ok. 42 passed"}]);
    vec![
        entry(
            "assistant",
            json!({"id": format!("msg_{n}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [call], "usage": {"input_tokens": 10, "output_tokens": 30}}),
        ),
        entry("user", json!({"role": "user", "content": result})),
    ]
}

/// The same, as Codex does.
fn codex(n: usize) -> Vec<Value> {
    let line =
        |kind: &str, payload: Value| json!({"timestamp": at(n), "type": kind, "payload": payload});
    if n == 0 {
        let meta = json!({"id": "5b2e7a52", "timestamp": at(0), "cwd": "/home/ada", "originator": "cli", "cli_version": "0.169.0"});
        return vec![line("session_meta", meta)];
    }
    let used = json!({"input_tokens": 900, "output_tokens": 40, "total_tokens": 940});
    let total = json!({"input_tokens": 900 * n, "output_tokens": 40 * n, "total_tokens": 940 * n});
    vec![
        line(
            "response_item",
            json!({"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"cargo\",\"test\"]}", "call_id": format!("c{n}")}),
        ),
        line(
            "event_msg",
            json!({"type": "token_count", "info": {"last_token_usage": used, "total_token_usage": total}}),
        ),
        line(
            "response_item",
            json!({"type": "function_call_output", "call_id": format!("c{n}"), "output": "running 42 tests"}),
        ),
    ]
}

/// Records with a ledger in `root`.
fn record(root: &Path, export: Option<Export>, agent: impl FnOnce()) {
    let builder = spanledger::builder().root(root);
    let builder = export
        .into_iter()
        .fold(builder, |builder, export| builder.export(export));
    let (layer, guard) = builder.build().expect("a ledger");
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    dispatcher::with_default(&dispatch, agent);
    guard.shutdown().expect("a whole trace");
}

fn long_session(turns: usize) {
    let run = spans::session_run(SESSION, "builder").model("anthropic", "claude-sonnet-4-5");
    let _run = run.start().entered();
    (0..turns).for_each(|_| a_turn());
}

/// One turn as an agent has it: a message, model calls with their answers, tools with output.
fn a_turn() {
    let turn = spans::session_turn().trigger("user").start();
    let _in_turn = turn.enter();
    events::message_user("Find out why the build fails, and mend it.").emit();
    for call in 0..100 {
        if call % 4 == 0 {
            let model = spans::model_call("anthropic", "claude-sonnet-4-5")
                .temperature(0.2)
                .start();
            model.record_usage(&Usage {
                input_tokens: Some(4_096),
                output_tokens: Some(180),
                cost_usd: Some(0.0123),
                ..Usage::default()
            });
        }
        let tool = spans::tool_call("bash", format!("call_{call}"))
            .args(json!({"command": "cargo test --workspace", "workdir": "/home/ada/pump"}))
            .start();
        tool.record_result(
            "running 42 tests\ntest valve::opens ... ok\ntest valve::closes ... ok\n\n\
             test result: ok. 42 passed; 0 failed; 0 ignored; finished in 0.31s",
        );
        tool.set("exit_code", 0);
    }
    events::message_assistant("The valve's flow was an f32; it is an f64 now.").emit();
}

fn count_lines(session: &Path) -> usize {
    let files = fs::read_dir(session)
        .expect("the session")
        .map(|entry| entry.expect("a file").path());
    let files = files.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
    });
    let count = |path: PathBuf| {
        let bytes = fs::read(path).expect("a segment");
        bytes.iter().filter(|byte| **byte == b'\n').count()
    };
    files.map(count).sum()
}

/// Inserts the rows of `trace-sqlite` into another database, and no more than that.
fn bare_inserts(dir: &Path, all: &[Figure], compared: &mut Vec<Compared>) {
    let exported = exported("trace-sqlite", dir);
    let from = rusqlite::Connection::open(exported).expect("the export");
    let to = rusqlite::Connection::open(dir.join("bare.sqlite")).expect("a database");
    let tables = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
        CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp TEXT NOT NULL, kind TEXT NOT NULL, payload_json TEXT NOT NULL);
        CREATE INDEX events_by_kind ON events (kind);";
    to.execute_batch(tables).expect("tables");
    let mut rows = from
        .prepare("SELECT timestamp, kind, payload_json FROM events")
        .expect("rows");
    let mut rows = rows.query([]).expect("rows");
    let mut insert = to
        .prepare("INSERT INTO events (timestamp, kind, payload_json) VALUES (?, ?, ?)")
        .expect("a statement");
    let (mut count, mut took) = (0, 0.0);
    loop {
        let mut some: Vec<(String, String, String)> = Vec::new();
        while let Some(row) = rows.next().expect("a row") {
            some.push((
                row.get(0).expect("a text"),
                row.get(1).expect("a text"),
                row.get(2).expect("a text"),
            ));
            if some.len() == 10_000 {
                break;
            }
        }
        if some.is_empty() {
            break;
        }
        count += some.len();
        let start = nanoseconds(ClockId::ThreadCPUTime);
        to.execute_batch("BEGIN").expect("a transaction");
        for (time, kind, payload) in &some {
            insert.execute([time, kind, payload]).expect("a row");
        }
        to.execute_batch("COMMIT").expect("a transaction");
        took += nanoseconds(ClockId::ThreadCPUTime) - start;
    }
    let rate = count as f64 / took * 1e9;
    let name = format!("export trace-sqlite{PER_CPU}");
    let ours = all.iter().find(|figure| figure.name == name);
    let ours = ours.map(|figure| figure.value);
    let name = "bare loop of inserts of the same rows, per CPU second";
    compared.push((name, rate, "/s"));
    if let Some(ours) = ours {
        let name = "export trace-sqlite takes, compared with the bare loop";
        compared.push((name, rate / ours, "x"));
    }
}

fn nanoseconds(clock: ClockId) -> f64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// What a live export adds to the thread of the agent.
fn live(dir: &Path, lines: usize, compared: &mut Vec<Compared>) {
    let turns = (lines / LINES_OF_A_TURN).max(4);
    let line = |live: bool| {
        let root = dir.join(format!("live-{live}"));
        let mut took = 0.0;
        record(&root, live.then(Export::trace_sqlite), || {
            long_session(2);
            let start = nanoseconds(ClockId::ThreadCPUTime);
            long_session(turns);
            took = nanoseconds(ClockId::ThreadCPUTime) - start;
        });
        let _ = fs::remove_dir_all(root);
        took / (turns * LINES_OF_A_TURN) as f64
    };
    let (mut without, mut with, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..LIVE_ROUNDS {
        // Neither is always the first one.
        let first = line(round % 2 == 0);
        let second = line(round % 2 == 1);
        let (live, bare) = if round % 2 == 0 {
            (first, second)
        } else {
            (second, first)
        };
        without.push(bare);
        with.push(live);
        times.push(live / bare);
    }
    let (without, with) = (median(without), median(with));
    compared.push(("a line on the agent's thread", without, "ns"));
    compared.push(("the same with a live trace-sqlite", with, "ns"));
    let name = "the same, compared in each round";
    compared.push((name, median(times), "x"));
}
