//! What the questions of `inspect` cost: many sessions added up, a long session folded, and two compared.
//!
//! ```text
//! cargo bench --features cli --bench inspect                  a table
//! cargo bench --features cli --bench inspect -- --json        one JSON document
//! cargo bench --features cli --bench inspect -- --quick       a twentieth of everything, for trying
//! ```
//!
//! The traces are recorded by the library itself. The long session is one run of many turns with compactions, and a
//! second one has a single turn, so that a fold which held a turn would show.

#[path = "common/command.rs"]
mod command;
#[allow(dead_code)]
mod common;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

use serde_json::json;
use spanledger::inspect::{context, stats::Stats, summary::Outline};
use spanledger::session::Store;
use spanledger::{Outcome, SpanExt, Usage, events, spans};
use tracing::{Dispatch, dispatcher};
use tracing_subscriber::layer::SubscriberExt;

use command::run;
use common::{Figure, Target, grouped, median};

const ROUNDS: usize = 3;

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let part = if has("--quick") { 20 } else { 1 };
    let dir = tempfile::tempdir().expect("a directory for the traces");
    let at = |name: &str| dir.path().join(name);
    let mut figures = many_sessions(&at("many"), 10_000 / part);
    figures.push(compared(&at("compared"), 10_000 / part));
    figures.extend(long_session(&at("turns"), (1 << 30) / part, true));
    figures.extend(long_session(&at("turn"), (1 << 30) / part, false));
    if has("--json") {
        let figures: Vec<_> = figures.iter().map(Figure::to_json).collect();
        return println!("{:#}", json!({ "figures": figures }));
    }
    figures.iter().for_each(Figure::print);
}

/// Records with a ledger in `root`.
fn record(root: &Path, agent: impl FnOnce()) {
    let (layer, guard) = spanledger::builder().root(root).build().expect("a ledger");
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    dispatcher::with_default(&dispatch, agent);
    guard.shutdown().expect("a whole trace");
}

/// A model call and the tools that it asks for. Returns about how many bytes that is.
fn step(number: u64, result: &str) -> usize {
    let call = spans::model_call("anthropic", "claude-sonnet-4-5").start();
    let usage = Usage {
        input_tokens: Some(20_000 + number % 100_000),
        cache_read_tokens: Some(15_000),
        output_tokens: Some(300),
        ..Usage::default()
    };
    call.record_usage(&usage);
    call.finish(Outcome::Ok);
    for name in ["read", "bash"] {
        let tool = spans::tool_call(name, "call_1")
            .args(json!({"path": "src/main.rs"}))
            .start();
        tool.record_result(result);
        tool.finish(Outcome::Ok);
    }
    events::message_assistant("The cast is sound.").emit();
    2 * result.len() + 4_000
}

fn many_sessions(root: &Path, count: usize) -> Vec<Figure> {
    record(root, || {
        for n in 0..count {
            let run = spans::session_run(format!("ses_{n:05}"), "planner").start();
            let _run = run.clone().entered();
            let turn = spans::session_turn().start();
            turn.in_scope(|| {
                events::message_user("Find out why the build fails.").emit();
                step(n as u64, "ok");
            });
            turn.finish(Outcome::Ok);
            run.finish(Outcome::Ok);
        }
    });
    let time = |args: &[&str]| {
        let rounds = (0..ROUNDS).map(|_| run(root, args).0.as_secs_f64());
        median(rounds.collect::<Vec<_>>())
    };
    // The first reading fills the page cache.
    time(&["list"]);
    let (list, stats) = (time(&["list"]), time(&["stats", "--all", "--by", "model"]));
    vec![Figure {
        name: format!("`stats --all` to `list`, {} sessions", grouped(count)),
        value: stats / list,
        unit: "×",
        target: Target::AtMost(3.0),
    }]
}

/// The time of `diff` for two equal sessions of so many events.
fn compared(root: &Path, events: usize) -> Figure {
    let result = "test pump::case_001 ... ok\n".repeat(30);
    for session in ["a", "b"] {
        record(root, || {
            let run = spans::session_run(session, "planner").start();
            let _run = run.clone().entered();
            // A step is 7 lines, and a turn 3 more.
            for turn in 0..events / 73 {
                let span = spans::session_turn().start();
                span.in_scope(|| {
                    events::message_user(format!("Look at case {turn}.")).emit();
                    for number in 0..10 {
                        step(number, &result);
                    }
                });
                span.finish(Outcome::Ok);
            }
            run.finish(Outcome::Ok);
        });
    }
    let rounds = (0..9).map(|_| run(root, &["diff", "a", "b"]).0.as_secs_f64());
    Figure {
        name: format!("`diff` of two sessions of {} events", grouped(events)),
        value: median(rounds.collect::<Vec<_>>()) * 1e3,
        unit: "ms",
        target: Target::AtMost(100.0),
    }
}

/// Gives a session another name, without a copy of its files.
fn link(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    let files = fs::read_dir(from).expect("a session");
    for file in files.map(|file| file.expect("a file")) {
        if file.file_type().is_ok_and(|kind| kind.is_file()) {
            fs::hard_link(file.path(), to.join(file.file_name())).expect("a link");
        }
    }
}

fn long_session(root: &Path, bytes: usize, many_turns: bool) -> Vec<Figure> {
    let result = "test pump::case_001 ... ok\n".repeat(300);
    record(root, || {
        let run = spans::session_run("s", "planner").start();
        let _run = run.clone().entered();
        let mut turn = spans::session_turn().start();
        let (mut written, mut number) = (0, 0);
        while written < bytes {
            number += 1;
            written += turn.in_scope(|| step(number, &result));
            if many_turns && number % 50 == 0 {
                let compaction = spans::compaction_run().child_of(&turn).start();
                compaction.set("summary", "All tests pass.");
                compaction.finish(Outcome::Ok);
                turn.finish(Outcome::Ok);
                turn = spans::session_turn().start();
            }
        }
        turn.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
    let what = match many_turns {
        true => "many turns",
        false => "one turn",
    };
    let store = Store::new(root);
    let dir = store.dir("s");
    let size = store.segment_bytes().expect("its size") as f64;
    let megabytes = (size / 1e6) as usize;
    type Fold<'a> = (&'a str, Box<dyn Fn() -> io::Result<()> + 'a>);
    let folds: [Fold<'_>; 3] = [
        ("stats", Box::new(|| Stats::new(None).add(&dir).map(drop))),
        (
            "summary",
            Box::new(|| Outline::read(&store, &dir).map(drop)),
        ),
        (
            "context",
            Box::new(|| context::each(&dir, |_| Ok::<_, io::Error>(())).map(drop)),
        ),
    ];
    let mut figures = Vec::new();
    for (name, fold) in folds {
        let seconds = |_| {
            let begun = Instant::now();
            fold().expect("a readable session");
            begun.elapsed().as_secs_f64()
        };
        let took = median((0..ROUNDS).map(seconds).collect::<Vec<_>>());
        figures.push(Figure {
            name: format!("fold `{name}`, {what} of {} MB", grouped(megabytes)),
            value: size / took / 1e9,
            unit: "GB/s",
            target: Target::AtLeast(0.4),
        });
        figures.push(Figure {
            name: format!("memory of `{name}`, {what} of {} MB", grouped(megabytes)),
            value: run(root, &[name, "s"]).1,
            unit: "MB",
            target: Target::AtMost(64.0),
        });
    }
    if many_turns {
        // These hold a turn, or a few.
        link(&dir, &store.dir("t"));
        let commands: [(&[&str], f64); 2] = [
            (&["transcript", "s", "--turn", "20"], 64.0),
            (&["diff", "s", "t"], 256.0),
        ];
        for (args, most) in commands {
            figures.push(Figure {
                name: format!(
                    "memory of `{}`, {what} of {} MB",
                    args.join(" "),
                    grouped(megabytes)
                ),
                value: run(root, args).1,
                unit: "MB",
                target: Target::AtMost(most),
            });
        }
    }
    figures
}
