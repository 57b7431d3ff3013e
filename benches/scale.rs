//! What must not grow with the square of the work, nor without a bound: before it was bounded, and now.
//!
//! ```text
//! cargo bench --all-features --bench scale                  a table: what, before, target, now
//! cargo bench --all-features --bench scale -- --json        one JSON document
//! cargo bench --all-features --bench scale -- --quick       a twentieth of everything, for trying
//! ```

#[path = "common/command.rs"]
mod command;
#[allow(dead_code)]
mod common;
#[path = "common/compared.rs"]
mod compared;
#[path = "common/recorder.rs"]
mod recorder;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde_json::json;
use spanledger::redact::{MaskKey, Redaction, Redactor, Tally};
use spanledger::trace::time_text;
use spanledger::{SpanExt, events, spans};
use tracing::dispatcher;

use command::run;
use common::{Figure, Target, grouped};
use compared::Compared;
use recorder::{has_flag, recorder};

fn main() {
    let part = if has_flag("--quick") { 20 } else { 1 };
    let dir = tempfile::tempdir().expect("a directory for the traces");
    let at = |name: &str| dir.path().join(name);
    let mut figures = vec![
        open_spans(&at("open"), 200_000 / part),
        resume(&at("resume"), 1_600 / part),
        prune_owed(&at("owed"), 8_000 / part),
    ];
    figures.extend(many_sessions(&at("many"), 100_000 / part));
    figures.extend(threads(&at("threads"), 64));
    figures.extend(hard_texts(100 / part));
    if has_flag("--json") {
        let figures: Vec<_> = figures.iter().map(Compared::to_json).collect();
        return println!("{:#}", json!({ "figures": figures }));
    }
    Compared::print_header();
    figures.iter().for_each(Compared::print);
}

fn at_most(
    name: String,
    before: &'static str,
    most: f64,
    value: f64,
    unit: &'static str,
) -> Compared {
    let target = Target::AtMost(most);
    let figure = Figure {
        name,
        value,
        unit,
        target,
    };
    Compared { before, figure }
}

/// How large a trace is while spans open and none closes: at most a quarter more than without checkpoints.
fn open_spans(root: &Path, count: usize) -> Compared {
    let (dispatch, _guard) = recorder(root);
    dispatcher::with_default(&dispatch, || {
        let run = spans::session_run("s", "planner").start();
        let open = (0..count).map(|_| spans::tool_call("bash", "c1").child_of(&run).start());
        drop(open.collect::<Vec<_>>());
    });
    let trace = fs::read(root.join("sessions/s/trace.0001.jsonl")).expect("the trace");
    let is_checkpoint = |line: &&[u8]| {
        let head = &line[..line.len().min(120)];
        String::from_utf8_lossy(head).contains("\"kind\":\"checkpoint\"")
    };
    let lines = trace.split(|byte| *byte == b'\n');
    let checkpoints: usize = lines.filter(is_checkpoint).map(<[u8]>::len).sum();
    let most = (1.25 * (trace.len() - checkpoints) as f64 / 1e6).round();
    let name = format!("a trace of {} open spans", grouped(count));
    at_most(name, "850 MB", most, trace.len() as f64 / 1e6, "MB")
}

/// How long `start()` takes in a session whose process was killed.
fn resume(root: &Path, megabytes: usize) -> Compared {
    let (dispatch, guard) = recorder(&root.join("killed"));
    let text = "lorem ipsum ".repeat(800);
    dispatcher::with_default(&dispatch, || {
        let _run = spans::session_run("s", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        let lines = megabytes * 1_000_000 / text.len();
        (0..lines).for_each(|_| events::message_user(&text).emit());
        // As it is while the spans are open, and without the writer's lock.
        let (from, to) = (root.join("killed/sessions/s"), root.join("next/sessions/s"));
        fs::create_dir_all(&to).expect("a directory");
        for entry in fs::read_dir(from).expect("the session").flatten() {
            let path = entry.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "jsonl")
            {
                fs::copy(&path, to.join(entry.file_name())).expect("a copy");
            }
        }
    });
    drop(guard);
    let (dispatch, _guard) = recorder(&root.join("next"));
    let took = dispatcher::with_default(&dispatch, || {
        let begun = Instant::now();
        let run = spans::session_run("s", "planner").start();
        let took = begun.elapsed();
        drop(run);
        took
    });
    let name = format!("start() in a killed session of {} MB", grouped(megabytes));
    at_most(name, "8,300 ms", 50.0, took.as_secs_f64() * 1e3, "ms")
}

/// Writes sessions of dead writers, by hand.
fn write_sessions(root: &Path, count: usize, endpoint: bool) {
    let mirror = match endpoint {
        true => r#","mirror":{"endpoint":"http://127.0.0.1:1"}"#,
        false => "",
    };
    fs::create_dir_all(root.join("outbox")).expect("a directory");
    for n in 0..count {
        let dir = root.join(format!("sessions/ses_{n}"));
        fs::create_dir_all(&dir).expect("a directory");
        let active = Duration::from_secs(1_767_225_600 + 10 * n as u64);
        let ts = time_text(active.as_nanos() as u64, 6);
        let head = |seq: u32, kind: &str| {
            format!(
                r#"{{"v":1,"seg":1,"seq":{seq},"ts":"{ts}","kind":"{kind}","session_id":"ses_{n}","#
            )
        };
        let process = "x".repeat(4_000);
        let lines = format!(
            "{}\"payload\":{{\"writer\":\"w{n}\",\"process\":{{\"argv\":[\"{process}\"]}}{mirror}}}}}\n\
             {}\"payload\":{{\"content\":\"hello\"}}}}\n",
            head(1, "segment"),
            head(2, "message_user"),
        );
        let mut file = File::create(dir.join("trace.0001.jsonl")).expect("a segment");
        file.write_all(lines.as_bytes()).expect("its lines");
        file.set_modified(UNIX_EPOCH + active).expect("its time");
        if endpoint {
            fs::write(root.join(format!("outbox/ses_{n}.0001")), "").expect("a marker");
        }
    }
}

/// How long a text takes that is made of nothing but places where a secret could be.
fn hard_texts(megabytes: usize) -> Vec<Compared> {
    let redactor = Redactor::new(&Redaction::new(), MaskKey::new([7; 32]));
    let redactor = redactor.expect("there are no patterns to compile");
    let row = |unit: &str| {
        let text = unit.repeat(megabytes * 1_000_000 / unit.len());
        let begun = Instant::now();
        std::hint::black_box(redactor.text(&text, &mut Tally::default()));
        let name = format!("redact {megabytes} MB of `{unit}`");
        at_most(name, "20 s", 2.0, begun.elapsed().as_secs_f64(), "s")
    };
    ["sk-", "password="].map(row).into()
}

fn prune_owed(root: &Path, count: usize) -> Compared {
    write_sessions(root, count, true);
    let (took, _) = run(root, &["prune", "--keep", "0", "--dry-run"]);
    let name = format!("prune over {} sessions that are owed", grouped(count));
    let most = 500e-6 * count as f64;
    at_most(name, "34 s", most, took.as_secs_f64(), "s")
}

fn many_sessions(root: &Path, count: usize) -> Vec<Compared> {
    write_sessions(root, count, false);
    let commands = [
        &["list"][..],
        &["list", "-n", "20"],
        &["status"],
        &["grep", "-l", "hello"],
        &["show", "last"],
    ];
    let memory = commands.iter().map(|args| {
        let name = format!("`{}`, {} sessions", args.join(" "), grouped(count));
        at_most(name, "703 MB", 64.0, run(root, args).1, "MB")
    });
    memory.collect()
}

/// How long an event takes while many threads write to one session, and how long the slowest one took. The same for
/// threads that share nothing: with more threads than processors, that is what the scheduler takes.
fn threads(root: &Path, count: usize) -> Vec<Compared> {
    let (dispatch, _guard) = recorder(root);
    let session = dispatcher::with_default(&dispatch, || {
        spans::session_run("s", "planner").start().session()
    });
    let session = session.expect("a session");
    let record = || session.report_status("busy");
    let compute = || {
        let sum = (0..4_000_u64).fold(0, |sum: u64, n| sum.wrapping_mul(31).wrapping_add(n));
        std::hint::black_box(sum);
    };
    type Work<'a> = (&'a str, [&'static str; 2], &'a (dyn Fn() + Sync));
    let works: [Work<'_>; 2] = [
        ("on one session", ["5.7 µs", "131 ms"], &record),
        ("that share nothing", ["-", "-"], &compute),
    ];
    let mut rows = Vec::new();
    for (what, before, work) in works {
        let (mean, worst) = contend(count, work);
        let name = |figure: &str| format!("{count} threads {what}, {figure}");
        rows.push(at_most(name("each"), before[0], 10.0, mean, "µs"));
        rows.push(at_most(name("worst"), before[1], 200.0, worst, "ms"));
    }
    rows
}

/// The time of the work by throughput, in microseconds, and the longest of all calls, in milliseconds.
fn contend(count: usize, work: &(dyn Fn() + Sync)) -> (f64, f64) {
    const CALLS: usize = 2_000;
    let barrier = Barrier::new(count);
    let begun = Instant::now();
    let worst = std::thread::scope(|scope| {
        let each = |_| {
            scope.spawn(|| {
                barrier.wait();
                let call = |_| {
                    let begun = Instant::now();
                    work();
                    begun.elapsed()
                };
                (0..CALLS).map(call).max().unwrap_or_default()
            })
        };
        let threads: Vec<_> = (0..count).map(each).collect();
        let worst = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_default());
        worst.max().unwrap_or_default()
    });
    let mean = begun.elapsed().as_secs_f64() * 1e6 / (count * CALLS) as f64;
    (mean, worst.as_secs_f64() * 1e3)
}
