//! What recording costs the agent's own thread, beside others who record the same spans.
//!
//! ```text
//! cargo bench --bench record                        a table
//! cargo bench --bench record -- --json              one JSON document
//! cargo bench --bench record -- --quick             a tenth of everything, for trying
//! cargo bench --bench record -- --only "<row>"      one round of one row, for a profiler
//! ```
//!
//! Everything is measured in one process, in rounds that take turns, so that a busy machine slows
//! all of them alike; a figure is the median of its rounds and a ratio the median of the rounds'
//! ratios. Nothing is asserted: a target is printed beside what was measured.

#[path = "common/mod.rs"]
mod common;

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use common::{Figure, Target, grouped, median};
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanData, SpanExporter,
};
use serde_json::{Value, json};
use spanledger::{Builder, Guard, SpanExt, spans};
use tempfile::TempDir;
use tracing::field::Empty;
use tracing::{Dispatch, Span, dispatcher, info_span};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

/// About 120 bytes.
const ARGS: &str = r#"{"command":"cargo test --workspace --all-features","workdir":"/home/agent/project","timeout_ms":120000,"login":false}"#;
/// About 150 bytes.
const RESULT: &str = "running 42 tests\ntest parser::tests::reads_a_line ... ok\ntest parser::tests::keeps_unknown_members ... ok\n\ntest result: ok. 42 passed; 0 failed; 0 ignored";

const ROUNDS: usize = 10;
const WARM_UP: usize = 200;
/// The spans of others: a row for `--only`.
const FOREIGN: &str = "foreign spans";

fn main() {
    let plan = Plan::from_args();
    let files = raise_open_files();
    let dir = temp_dir();
    if plan.only.as_deref() == Some(FOREIGN) {
        let mut report = Report::default();
        foreign_span(&plan, dir.path(), &mut report);
        return report.print(&plan);
    }
    if let Some(name) = &plan.only {
        match Peer::ALL.into_iter().find(|peer| peer.name() == name) {
            Some(peer) => println!("{name}: {:.0} ns", peer.round(dir.path(), plan.spans).wall),
            None => println!("rows: {:?}, {FOREIGN:?}", Peer::ALL.map(Peer::name)),
        }
        return;
    }
    let mut report = Report::default();
    report.notes.push(files);
    per_span(&plan, dir.path(), &mut report);
    flat_over_spans(&plan, dir.path(), &mut report);
    flat_over_sessions(&plan, dir.path(), &mut report);
    foreign_span(&plan, dir.path(), &mut report);
    if plan.json {
        println!("{:#}", report.to_json(&plan));
    } else {
        report.print(&plan);
    }
}

/// How much is measured.
struct Plan {
    json: bool,
    only: Option<String>,
    /// Spans of one round of the comparison.
    spans: usize,
    /// Spans of the longest session.
    long: usize,
    /// Most sessions open at once.
    sessions: usize,
}

impl Plan {
    fn from_args() -> Self {
        // Cargo adds `--bench`.
        let args: Vec<_> = std::env::args().skip(1).collect();
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        let only = args.iter().position(|arg| arg == "--only");
        let scale = if has("--quick") { 10 } else { 1 };
        Self {
            json: has("--json"),
            only: only.map(|at| args.get(at + 1).cloned().unwrap_or_default()),
            spans: 20_000 / scale,
            long: 1_000_000 / scale,
            sessions: 1_000 / scale,
        }
    }
}

// ---- what is compared

/// Who records the spans.
#[derive(Clone, Copy, PartialEq)]
enum Peer {
    Registry,
    OpenTelemetry,
    JsonNewClose,
    JsonFull,
    Macros,
    Constructors,
}

impl Peer {
    const ALL: [Self; 6] = [
        Self::Registry,
        Self::OpenTelemetry,
        Self::JsonNewClose,
        Self::JsonFull,
        Self::Macros,
        Self::Constructors,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Registry => "registry only",
            Self::OpenTelemetry => "tracing-opentelemetry, batch, null exporter",
            Self::JsonNewClose => "fmt::json to a file, span events NEW|CLOSE",
            Self::JsonFull => "fmt::json to a file, span events FULL",
            Self::Macros => "spanledger, by macros",
            Self::Constructors => "spanledger, by constructors",
        }
    }

    /// One round: a run, a turn, `count` tool calls; in files of its own, gone afterwards.
    fn round(self, dir: &Path, count: usize) -> Cost {
        match self {
            Self::Registry => with(Dispatch::new(registry()), || macro_turn(count)),
            Self::OpenTelemetry => opentelemetry_round(count),
            Self::JsonNewClose => json_round(FmtSpan::NEW | FmtSpan::CLOSE, dir, count),
            Self::JsonFull => json_round(FmtSpan::FULL, dir, count),
            Self::Macros => Ledger::new(dir).round(|| macro_turn(count)),
            Self::Constructors => Ledger::new(dir).round(|| constructor_turn(count)),
        }
    }
}

fn with<T>(dispatch: Dispatch, agent: impl FnOnce() -> T) -> T {
    dispatcher::with_default(&dispatch, agent)
}

fn json_round(events: FmtSpan, dir: &Path, count: usize) -> Cost {
    let path = dir.join("fmt.jsonl");
    let file = File::create(&path).expect("a file for fmt::json");
    let layer = tracing_subscriber::fmt::layer()
        .json()
        .with_span_events(events)
        .with_writer(Arc::new(file));
    let cost = with(Dispatch::new(registry().with(layer)), || macro_turn(count));
    std::fs::remove_file(&path).expect("fmt::json's file is removed");
    cost
}

#[derive(Debug)]
struct NullExporter(Arc<AtomicU64>);

impl SpanExporter for NullExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.fetch_add(batch.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn opentelemetry_round(count: usize) -> Cost {
    let all = WARM_UP + count + 2;
    let exported = Arc::new(AtomicU64::new(0));
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(all)
        .build();
    let processor = BatchSpanProcessor::builder(NullExporter(Arc::clone(&exported)))
        .with_batch_config(config)
        .build();
    let provider = SdkTracerProvider::builder()
        .with_span_processor(processor)
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("record"));
    let cost = with(Dispatch::new(registry().with(layer)), || macro_turn(count));
    let _ = provider.shutdown();
    warn_unless(
        exported.load(Ordering::Relaxed) == all as u64,
        "the batch processor dropped spans",
    );
    cost
}

/// A ledger of ours in a directory of its own.
struct Ledger {
    dispatch: Dispatch,
    guard: Guard,
    _dir: TempDir,
}

impl Ledger {
    fn new(dir: &Path) -> Self {
        Self::with(dir, |builder| builder)
    }

    fn with(dir: &Path, configure: impl FnOnce(Builder) -> Builder) -> Self {
        let dir = tempfile::tempdir_in(dir).expect("a directory for the trace");
        let builder = spanledger::builder().root(dir.path()).disabled(false);
        let (layer, guard) = configure(builder).build().expect("a ledger");
        Self {
            dispatch: Dispatch::new(registry().with(layer)),
            guard,
            _dir: dir,
        }
    }

    fn round<T>(self, agent: impl FnOnce() -> T) -> T {
        let result = dispatcher::with_default(&self.dispatch, agent);
        let health = self.guard.health();
        warn_unless(
            health.written > 0 && health.failed == 0,
            "spanledger lost lines",
        );
        result
    }
}

fn warn_unless(fine: bool, what: &str) {
    if !fine {
        eprintln!("record: {what}; its figure means nothing");
    }
}

// ---- the load

fn call_ids() -> Vec<String> {
    (0..1024).map(|n| format!("call_{n:024x}")).collect()
}

/// A tool call with seven fields: four at creation, three later.
fn macro_call(id: &str) {
    let span = info_span!(
        "tool.call",
        tool_id = "bash",
        tool_call_id = id,
        tool_type = "function",
        args = ARGS,
        result = Empty,
        exit_code = Empty,
        truncated = Empty,
    );
    macro_result(&span);
}

fn macro_result(span: &Span) {
    span.in_scope(|| black_box(()));
    span.record("result", RESULT);
    span.record("exit_code", 0);
    span.record("truncated", false);
}

/// The same by our constructors.
fn constructor_call(id: &str) {
    let span = spans::tool_call("bash", id)
        .tool_type("function")
        .args(ARGS)
        .start();
    span.in_scope(|| black_box(()));
    span.record_result(RESULT);
    span.set("exit_code", 0);
    span.set("truncated", false);
}

fn macro_turn(count: usize) -> Cost {
    let ids = call_ids();
    let _run = info_span!("session.run", session_id = "bench", agent = "bench").entered();
    let _turn = info_span!("session.turn", turn_index = 1).entered();
    (0..WARM_UP).for_each(|n| macro_call(&ids[n % ids.len()]));
    timed(count, |n| macro_call(&ids[n % ids.len()]))
}

fn constructor_turn(count: usize) -> Cost {
    let ids = call_ids();
    let _run = spans::session_run("bench", "bench").start().entered();
    let _turn = spans::session_turn().turn_index(1).start().entered();
    (0..WARM_UP).for_each(|n| constructor_call(&ids[n % ids.len()]));
    timed(count, |n| constructor_call(&ids[n % ids.len()]))
}

// ---- the measurements

fn per_span(plan: &Plan, dir: &Path, report: &mut Report) {
    let mut costs: [Vec<Cost>; Peer::ALL.len()] = Default::default();
    for round in 0..ROUNDS {
        for turn in 0..Peer::ALL.len() {
            // Nobody always comes after the same neighbour's files were removed.
            let at = (turn + round) % Peer::ALL.len();
            costs[at].push(Peer::ALL[at].round(dir, plan.spans));
        }
    }
    let of = |peer: Peer| &costs[Peer::ALL.iter().position(|p| *p == peer).unwrap_or(0)];
    let ratio = |a: Peer, b: Peer| {
        let pairs = of(a).iter().zip(of(b));
        median(pairs.map(|(a, b)| a.wall / b.wall))
    };
    for peer in Peer::ALL {
        report.rows.push(Row {
            name: peer.name(),
            wall: median(of(peer).iter().map(|c| c.wall)),
            cpu: median(of(peer).iter().map(|c| c.cpu)),
            to_opentelemetry: ratio(peer, Peer::OpenTelemetry),
            to_json: ratio(peer, Peer::JsonNewClose),
        });
    }
    for peer in [Peer::Macros, Peer::Constructors] {
        report.figures.push(Figure {
            name: format!("{}: time of tracing-opentelemetry's", peer.name()),
            value: ratio(peer, Peer::OpenTelemetry),
            unit: "x",
            target: Target::AtMost(1.5),
        });
    }
    for (events, json) in [("FULL", Peer::JsonFull), ("NEW|CLOSE", Peer::JsonNewClose)] {
        for peer in [Peer::Macros, Peer::Constructors] {
            report.figures.push(Figure {
                name: format!("{}: faster than fmt::json {events}", peer.name()),
                value: ratio(json, peer),
                unit: "x",
                target: Target::AtLeast(6.0),
            });
        }
    }
}

/// Files that are written to in turns by nobody but the kernel: what a line costs without us.
struct Bare {
    dir: std::path::PathBuf,
    files: Vec<File>,
}

impl Bare {
    fn new(dir: &Path, files: usize) -> Self {
        let dir = dir.join(format!("bare-{files}"));
        std::fs::create_dir_all(&dir).expect("a directory");
        let open = |n: usize| {
            let mut options = File::options();
            options
                .create(true)
                .append(true)
                .open(dir.join(n.to_string()))
                .expect("a file")
        };
        let files = (0..files).map(open).collect();
        Self { dir, files }
    }

    /// The two lines of a tool call, about as long as ours.
    fn call(&self, n: usize) {
        let lines = [b'x'; 700];
        for line in [&lines[..580], &lines] {
            let mut file = &self.files[n % self.files.len()];
            file.write_all(line).expect("room");
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// One session that grows, and its resident memory. All along, another ledger begins new
/// sessions: should the machine itself become slower meanwhile, it does so for both.
fn flat_over_spans(plan: &Plan, dir: &Path, report: &mut Report) {
    const CHUNK: usize = 1_000;
    let ids = call_ids();
    let chunk = || timed(CHUNK, |n| macro_call(&ids[n % ids.len()])).wall;
    let others = Ledger::new(dir);
    let begin = |id: usize| {
        dispatcher::with_default(&others.dispatch, || {
            let id = format!("new-{id}");
            let run = info_span!(parent: None, "session.run", session_id = id, agent = "bench");
            let _turn = info_span!(parent: &run, "session.turn", turn_index = 1).entered();
            chunk()
        })
    };
    let mut long = Vec::new();
    let mut to_new = Vec::new();
    let grown = Ledger::new(dir).round(|| {
        let _run = info_span!("session.run", session_id = "long", agent = "bench").entered();
        let _turn = info_span!("session.turn", turn_index = 1).entered();
        chunk();
        begin(0);
        let before = resident_bytes();
        for n in 1..plan.long / CHUNK {
            long.push(chunk());
            if n % 5 == 0 {
                to_new.push(long[n - 1] / begin(n));
            }
        }
        resident_bytes() - before
    });
    let ends = |all: &[f64]| {
        let edge = (all.len() / 10).max(1);
        let (first, last) = (&all[..edge], &all[all.len() - edge..]);
        (median(first.to_vec()), median(last.to_vec()))
    };
    let (first, last) = ends(&long);
    report.notes.push(format!(
        "the long session by the clock: {first:.0} ns/span at first, {last:.0} at last"
    ));
    let (first, last) = ends(&to_new);
    let spans = grouped(plan.long);
    report.figures.push(Figure {
        name: format!("1,000 to {spans} spans: last against first"),
        value: last / first,
        unit: "x",
        target: Target::AtMost(1.3),
    });
    report.figures.push(Figure {
        name: format!("resident memory grown over {spans} spans"),
        value: grown / 1e6,
        unit: "MB",
        target: Target::AtMost(16.0),
    });
}

/// What a span costs, and what the kernel takes for as many bytes.
#[derive(Clone)]
struct Lap {
    ours: f64,
    kernel: f64,
}

/// Sessions open side by side, their spans one after the other.
fn flat_over_sessions(plan: &Plan, dir: &Path, report: &mut Report) {
    struct Open {
        turns: Vec<Span>,
        _runs: Vec<Span>,
        bare: Bare,
    }
    let ledger = Ledger::new(dir);
    ledger.round(|| {
        let ids = call_ids();
        let call = |open: &Open, n: usize| {
            let span = info_span!(
                parent: &open.turns[n % open.turns.len()],
                "tool.call",
                tool_id = "bash",
                tool_call_id = ids[n % ids.len()],
                tool_type = "function",
                args = ARGS,
                result = Empty,
                exit_code = Empty,
                truncated = Empty,
            );
            macro_result(&span);
        };
        let mut many = vec![1, 10, 100, plan.sessions];
        many.dedup();
        let open: Vec<Open> = many
            .iter()
            .map(|count| {
                let run = |n| {
                    let id = format!("{n}-of-{count}");
                    info_span!(parent: None, "session.run", session_id = id, agent = "bench")
                };
                let runs: Vec<_> = (0..*count).map(run).collect();
                let turn = |run| info_span!(parent: run, "session.turn", turn_index = 1);
                let turns = runs.iter().map(turn).collect();
                Open {
                    turns,
                    _runs: runs,
                    bare: Bare::new(dir, *count),
                }
            })
            .collect();
        for open in &open {
            (0..2 * open.turns.len()).for_each(|n| call(open, n));
            (0..20 * open.turns.len()).for_each(|n| open.bare.call(n));
        }
        let mut costs: Vec<Vec<Lap>> = vec![Vec::new(); many.len()];
        for _ in 0..ROUNDS {
            for (costs, open) in costs.iter_mut().zip(&open) {
                let ours = timed(plan.spans / 2, |n| call(open, n)).wall;
                let kernel = timed(plan.spans / 2, |n| open.bare.call(n)).wall;
                costs.push(Lap { ours, kernel });
            }
        }
        for (count, theirs) in many.iter().zip(&costs).skip(1) {
            let mut figure = |how: &str, cost: fn(&Lap) -> f64| {
                let pairs = theirs.iter().zip(&costs[0]);
                report.figures.push(Figure {
                    name: format!("{} sessions in turns{how}: against one", grouped(*count)),
                    value: median(pairs.map(|(many, one)| cost(many) / cost(one))),
                    unit: "x",
                    target: Target::AtMost(1.3),
                });
            };
            figure("", |lap| lap.ours);
            figure(", the kernel's writes aside", |lap| lap.ours - lap.kernel);
        }
        let kernel = |of: &[Lap]| median(of.iter().map(|lap| lap.kernel));
        report.notes.push(format!(
            "the kernel takes {:.0} ns for a span's two writes to one file, {:.0} ns to {} files in turns",
            kernel(&costs[0]),
            kernel(&costs[costs.len() - 1]),
            grouped(plan.sessions),
        ));
    });
}

/// A span of somebody else's, inside a session: what we add to it, looking for the spans of other
/// libraries that we know and not; and what such a span costs.
fn foreign_span(plan: &Plan, dir: &Path, report: &mut Report) {
    let inside = |one: &dyn Fn(usize)| {
        let _run = info_span!("session.run", session_id = "bench", agent = "bench").entered();
        let _turn = info_span!("session.turn", turn_index = 1).entered();
        (0..WARM_UP).for_each(one);
        timed(plan.spans, one).wall
    };
    let foreign = || {
        inside(&|n| {
            let span = info_span!(target: "http", "request", method = "GET", attempt = n);
            span.in_scope(|| black_box(()));
        })
    };
    let ids = call_ids();
    let recognised = || inside(&|n| recognised_call(&ids[n % ids.len()]));
    let off = |builder: Builder| builder.recognise_gen_ai(false);
    let mut costs: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        let round = [
            with(Dispatch::new(registry()), foreign),
            Ledger::with(dir, off).round(foreign),
            Ledger::new(dir).round(foreign),
            Ledger::with(dir, off).round(recognised),
            Ledger::new(dir).round(recognised),
        ];
        costs
            .iter_mut()
            .zip(round)
            .for_each(|(all, one)| all.push(one));
    }
    let [alone, off, on, unknown, known] = &costs;
    let cost = |of: &[f64]| median(of.to_vec());
    let added = |to: &[f64]| median(to.iter().zip(alone).map(|(to, alone)| to - alone));
    for (how, value) in [("without recognition", added(off)), ("with it", added(on))] {
        report.figures.push(Figure {
            name: format!("a foreign INFO span in a session, {how}: added"),
            value,
            unit: "ns",
            target: Target::AtMost(300.0),
        });
    }
    report.notes.push(format!(
        "a foreign span costs {:.0} ns with the registry only",
        cost(alone)
    ));
    report.notes.push(format!(
        "a tool call as rig makes it, five fields recorded late: {:.0} ns, {:.0} ns where it is not recognised",
        cost(known),
        cost(unknown)
    ));
}

/// A tool call as rig makes it.
fn recognised_call(id: &str) {
    let span = info_span!(
        "execute_tool",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.type = "function",
        gen_ai.tool.name = Empty,
        gen_ai.tool.call.id = Empty,
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        gen_ai.tool.call.outcome = Empty,
        gen_ai.tool.error.type = Empty
    );
    span.in_scope(|| {
        span.record("gen_ai.tool.name", "bash");
        span.record("gen_ai.tool.call.id", id);
        span.record("gen_ai.tool.call.arguments", ARGS);
    });
    span.record("gen_ai.tool.call.outcome", "success");
    span.record("gen_ai.tool.call.result", RESULT);
}

// ---- what is printed

struct Row {
    name: &'static str,
    wall: f64,
    cpu: f64,
    to_opentelemetry: f64,
    to_json: f64,
}

#[derive(Default)]
struct Report {
    rows: Vec<Row>,
    figures: Vec<Figure>,
    notes: Vec<String>,
}

impl Report {
    fn print(&self, plan: &Plan) {
        println!(
            "a tool.call span with seven fields, {} rounds of {} spans, medians\n",
            ROUNDS,
            grouped(plan.spans)
        );
        let heads = ["ns/span", "CPU ns", "x OTel", "x json"];
        println!(
            "{:<46}{:>9}{:>9}{:>9}{:>9}",
            "", heads[0], heads[1], heads[2], heads[3]
        );
        for row in &self.rows {
            println!(
                "{:<46}{:>9.0}{:>9.0}{:>9.2}{:>9.2}",
                row.name, row.wall, row.cpu, row.to_opentelemetry, row.to_json
            );
        }
        println!();
        for figure in &self.figures {
            figure.print();
        }
        println!();
        for note in &self.notes {
            println!("{note}");
        }
    }

    fn to_json(&self, plan: &Plan) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "name": row.name,
                "ns_per_span": row.wall,
                "cpu_ns_per_span": row.cpu,
                "times_opentelemetry": row.to_opentelemetry,
                "times_fmt_json_new_close": row.to_json,
            })
        });
        let figures = self.figures.iter().map(Figure::to_json);
        json!({
            "rounds": ROUNDS,
            "spans_per_round": plan.spans,
            "per_span": rows.collect::<Vec<_>>(),
            "figures": figures.collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

// ---- tools

/// What one span took, in nanoseconds: by the clock, and of this thread's processor time.
struct Cost {
    wall: f64,
    cpu: f64,
}

fn timed(count: usize, mut one: impl FnMut(usize)) -> Cost {
    let (start, cpu) = (Instant::now(), thread_cpu_ns());
    (0..count).for_each(&mut one);
    Cost {
        wall: start.elapsed().as_nanos() as f64 / count as f64,
        cpu: (thread_cpu_ns() - cpu) / count as f64,
    }
}

fn thread_cpu_ns() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// `VmRSS`, where there is a `/proc`.
fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kb| kb * 1024.0)
}

/// A thousand sessions are a thousand files: takes all that the system allows, and says so.
fn raise_open_files() -> String {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the answer, and then a valid limit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let before = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        let raised = libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0;
        match raised && before != limit.rlim_max {
            true => format!(
                "open files allowed: raised from {before} to {}",
                limit.rlim_max
            ),
            false => format!("open files allowed: {before}"),
        }
    }
}

/// Where `$TMPDIR` says, else in the target directory.
fn temp_dir() -> TempDir {
    let base = std::env::var_os("TMPDIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    tempfile::Builder::new()
        .prefix("spanledger-bench-")
        .tempdir_in(base)
        .expect("a directory for the traces")
}
