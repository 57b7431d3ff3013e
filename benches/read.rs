//! What reading costs: a long session folded, and many sessions listed.
//!
//! ```text
//! cargo bench --bench read                  a table
//! cargo bench --bench read -- --json        one JSON document
//! cargo bench --bench read -- --quick       a tenth of everything, for trying
//! ```
//!
//! The traces are recorded by the library itself, so they are what users have. Every reading is
//! done in rounds that take turns, and a figure is the median of its rounds. Nothing is asserted:
//! a target is printed beside what was measured.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use spanledger::read::SessionReader;
use spanledger::session::{Store, Summary, Turns, turn};
use spanledger::trace::ReadItem;
use spanledger::{SpanExt, Usage, events, spans};
use tracing::{Dispatch, dispatcher};
use tracing_subscriber::layer::SubscriberExt;

const ROUNDS: usize = 5;

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let scale = if has("--quick") { 10 } else { 1 };
    let dir = tempfile::tempdir().expect("a directory for the traces");
    let mut rows = Vec::new();
    long_session(&dir.path().join("long"), (1 << 30) / scale, &mut rows);
    many_sessions(&dir.path().join("many"), 10_000 / scale as usize, &mut rows);
    if has("--json") {
        let rows: Vec<_> = rows.iter().map(Row::to_json).collect();
        println!("{:#}", json!({ "rows": rows }));
        return;
    }
    for row in rows {
        println!("{:<64} {:>12}   {}", row.name, row.shown(), row.verdict());
    }
}

/// A figure, and what it should be.
struct Row {
    name: String,
    value: f64,
    unit: &'static str,
    target: Option<Target>,
}

enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Row {
    fn shown(&self) -> String {
        format!("{:.2} {}", self.value, self.unit)
    }

    fn met(&self) -> Option<bool> {
        self.target.as_ref().map(|target| match target {
            Target::AtLeast(least) => self.value >= *least,
            Target::AtMost(most) => self.value <= *most,
        })
    }

    fn verdict(&self) -> String {
        let target = match &self.target {
            None => return String::new(),
            Some(Target::AtLeast(least)) => format!("at least {least} {}", self.unit),
            Some(Target::AtMost(most)) => format!("at most {most} {}", self.unit),
        };
        let word = if self.met() == Some(true) {
            "ok"
        } else {
            "missed"
        };
        format!("{target:<20} {word}")
    }

    fn to_json(&self) -> Value {
        json!({"name": self.name, "value": self.value, "unit": self.unit, "met": self.met()})
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Resident memory, in bytes.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kib.unwrap_or(0.0) * 1024.0
}

/// Records with a ledger in `root`.
fn record(root: &Path, agent: impl FnOnce()) {
    let (layer, guard) = spanledger::builder().root(root).build().expect("a ledger");
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    dispatcher::with_default(&dispatch, agent);
    guard.shutdown().expect("a whole trace");
}

/// One turn as an agent has it: a message, model calls, tools with output.
fn a_turn(tools: usize) {
    let turn = spans::session_turn().trigger("user").start();
    let _in_turn = turn.enter();
    events::message_user("Find out why the build fails, and mend it.").emit();
    for call in 0..tools {
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

fn session_dir(root: &Path) -> PathBuf {
    spanledger::read::session_dir(root, "long")
}

fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .map(|meta| meta.len())
        .sum()
}

fn long_session(root: &Path, bytes: u64, rows: &mut Vec<Row>) {
    let dir = session_dir(root);
    let mut turns = 0;
    record(root, || {
        let run = spans::session_run("long", "builder").start();
        let _in_run = run.enter();
        while turns % 16 != 0 || size(&dir) < bytes {
            a_turn(100);
            turns += 1;
        }
    });
    let gigabytes = size(&dir) as f64 / 1e9;
    let files: Vec<_> = std::fs::read_dir(&dir)
        .expect("the session")
        .map(|entry| entry.expect("a segment").path())
        .filter(|path| path.is_file())
        .collect();

    let mut parsed = Vec::new();
    let mut folded = Vec::new();
    let mut summed = Vec::new();
    let mut found = Vec::new();
    let before = resident();
    let mut most = before;
    for _ in 0..ROUNDS {
        parsed.push(seconds(|| {
            for file in &files {
                let mut reader =
                    BufReader::with_capacity(1 << 18, File::open(file).expect("a file"));
                let mut line = Vec::new();
                while reader.read_until(b'\n', &mut line).expect("a line") > 0 {
                    black_box(serde_json::from_slice::<Value>(&line).expect("JSON"));
                    line.clear();
                }
            }
        }));
        folded.push(seconds(|| {
            let mut turns = Turns::default();
            let mut reader = SessionReader::open(&dir).expect("the session");
            let mut nodes = 0;
            while let Some(item) = reader.next().expect("a line") {
                if let ReadItem::Line(line) = item {
                    turns.take(&line);
                }
                while let Some(turn) = turns.ready() {
                    nodes += turn.nodes.len();
                }
            }
            black_box(nodes);
        }));
        most = most.max(resident());
        summed.push(seconds(|| {
            let mut summary = Summary::default();
            let mut reader = SessionReader::open(&dir).expect("the session");
            while let Some(item) = reader.next().expect("a line") {
                if let ReadItem::Line(line) = item {
                    summary.take(&line);
                }
            }
            black_box(summary.totals());
        }));
        let wanted = turns * 3 / 4;
        found.push(seconds(|| {
            black_box(
                turn(&dir, wanted)
                    .expect("the session")
                    .turn
                    .expect("the turn"),
            );
        }));
    }
    let speed = |seconds: &[f64]| gigabytes / median(seconds.to_vec());
    let ratios: Vec<_> = parsed
        .iter()
        .zip(&folded)
        .map(|(parse, fold)| parse / fold)
        .collect();
    let mut row = |name: &str, value: f64, unit, target| {
        rows.push(Row {
            name: name.to_owned(),
            value,
            unit,
            target,
        });
    };
    row("a session of", gigabytes, "GB", None);
    row(
        "parsed into serde_json::Value",
        speed(&parsed),
        "GB/s",
        None,
    );
    row(
        "folded into turns",
        speed(&folded),
        "GB/s",
        Some(Target::AtLeast(0.4)),
    );
    row(
        "folded: against parsing",
        median(ratios),
        "x",
        Some(Target::AtLeast(1.3)),
    );
    row(
        "summed up (the header of show)",
        speed(&summed),
        "GB/s",
        None,
    );
    row(
        "one turn found in it",
        median(found),
        "s",
        Some(Target::AtMost(1.0)),
    );
    row(
        "resident memory grown by folding",
        (most - before) / 1e6,
        "MB",
        Some(Target::AtMost(64.0)),
    );
}

fn many_sessions(root: &Path, count: usize, rows: &mut Vec<Row>) {
    record(root, || {
        for index in 0..count {
            let run = spans::session_run(format!("ses-{index:05}"), "builder").start();
            let _in_run = run.enter();
            a_turn(3);
        }
    });
    let listed = (0..ROUNDS).map(|_| {
        seconds(|| {
            let entries = Store::new(root).list().expect("the root");
            assert_eq!(entries.len(), count);
        })
    });
    rows.push(Row {
        name: format!("{count} sessions listed, warm"),
        value: median(listed.collect()),
        unit: "s",
        target: Some(Target::AtMost(0.5)),
    });
}
