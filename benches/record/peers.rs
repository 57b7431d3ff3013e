//! Those who record the same spans, and what that costs each of them.

use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanData, SpanExporter,
};
use spanledger::{Builder, Guard, SpanExt, spans};
use tempfile::TempDir;
use tracing::{Dispatch, dispatcher, info_span};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use super::common::{Figure, Target, median};
use super::load::{ARGS, CALLS_A_TURN, RESULT, Turns, call, call_ids, turn};
use super::report::{Report, Row};
use super::tools::{Cost, timed};
use super::{Plan, ROUNDS, WARM_UP};

/// Who records the spans.
#[derive(Clone, Copy, PartialEq)]
pub enum Peer {
    Registry,
    OpenTelemetry,
    JsonNewClose,
    JsonFull,
    Macros,
    Constructors,
}

impl Peer {
    pub const ALL: [Self; 6] = [
        Self::Registry,
        Self::OpenTelemetry,
        Self::JsonNewClose,
        Self::JsonFull,
        Self::Macros,
        Self::Constructors,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Registry => "registry only",
            Self::OpenTelemetry => "tracing-opentelemetry, batch, null exporter",
            Self::JsonNewClose => "fmt::json to a file, span events NEW|CLOSE",
            Self::JsonFull => "fmt::json to a file, span events FULL",
            Self::Macros => "spanledger, by macros",
            Self::Constructors => "spanledger, by constructors",
        }
    }

    /// One round: a run, its turns, `count` tool calls in them; in files of its own, gone afterwards.
    pub fn round(self, dir: &Path, count: usize) -> Cost {
        match self {
            Self::Registry => with(Dispatch::new(registry()), || macro_turns(count)),
            Self::OpenTelemetry => opentelemetry_round(count),
            Self::JsonNewClose => json_round(FmtSpan::NEW | FmtSpan::CLOSE, dir, count),
            Self::JsonFull => json_round(FmtSpan::FULL, dir, count),
            Self::Macros => Ledger::new(dir).round(|| macro_turns(count)),
            Self::Constructors => Ledger::new(dir).round(|| constructor_turns(count)),
        }
    }
}

pub fn with<T>(dispatch: Dispatch, agent: impl FnOnce() -> T) -> T {
    dispatcher::with_default(&dispatch, agent)
}

fn json_round(events: FmtSpan, dir: &Path, count: usize) -> Cost {
    let path = dir.join("fmt.jsonl");
    let file = File::create(&path).expect("a file for fmt::json");
    let layer = tracing_subscriber::fmt::layer()
        .json()
        .with_span_events(events)
        .with_writer(Arc::new(file));
    let cost = with(Dispatch::new(registry().with(layer)), || macro_turns(count));
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
    let all = WARM_UP + count + (WARM_UP + count).div_ceil(CALLS_A_TURN) + 1;
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
    let cost = with(Dispatch::new(registry().with(layer)), || macro_turns(count));
    let _ = provider.shutdown();
    warn_unless(
        exported.load(Ordering::Relaxed) == all as u64,
        "the batch processor dropped spans",
    );
    cost
}

/// A ledger of ours in a directory of its own.
pub struct Ledger {
    pub dispatch: Dispatch,
    guard: Guard,
    dir: TempDir,
}

impl Ledger {
    pub fn new(dir: &Path) -> Self {
        Self::with(dir, |builder| builder)
    }

    pub fn with(dir: &Path, configure: impl FnOnce(Builder) -> Builder) -> Self {
        let dir = tempfile::tempdir_in(dir).expect("a directory for the trace");
        let builder = spanledger::builder().root(dir.path()).disabled(false);
        let (layer, guard) = configure(builder).build().expect("a ledger");
        Self {
            dispatch: Dispatch::new(registry().with(layer)),
            guard,
            dir,
        }
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn round<T>(self, agent: impl FnOnce() -> T) -> T {
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

fn macro_turns(count: usize) -> Cost {
    let ids = call_ids();
    let _run = info_span!("session.run", session_id = "bench", agent = "bench").entered();
    let mut turns = Turns::default();
    let mut one = |n: usize| {
        turns.before(n, turn);
        call(&ids[n % ids.len()]);
    };
    (0..WARM_UP).for_each(&mut one);
    timed(count, |n| one(WARM_UP + n))
}

fn constructor_turns(count: usize) -> Cost {
    let ids = call_ids();
    let _run = spans::session_run("bench", "bench").start().entered();
    let mut turns = Turns::default();
    let mut one = |n: usize| {
        turns.before(n, |index| spans::session_turn().turn_index(index).start());
        constructor_call(&ids[n % ids.len()]);
    };
    (0..WARM_UP).for_each(&mut one);
    timed(count, |n| one(WARM_UP + n))
}

pub fn per_span(plan: &Plan, dir: &Path, report: &mut Report) {
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
