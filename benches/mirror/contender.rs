//! Those who are measured, each in a process of its own.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use serde_json::{Value, json};
use spanledger::Builder;
use spanledger::mirror::{CatchUp, Otlp, Protocol};
use tracing::{Dispatch, Span, dispatcher, info_span};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use super::load::{CALLS_A_TURN, Turns, call, call_ids, call_in, raise_open_files, turn};
use super::server::{Arrived, clock_ns, now_ns};

/// How long anybody has to send what is left.
const LONG: Duration = Duration::from_secs(60);
/// How often a paced agent works.
const BURSTS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Who {
    /// `tracing-opentelemetry` with the SDK's batch processor, its queue as it comes.
    Default,
    /// The same with a queue as large as the load.
    Large,
    Mirror,
    /// Records while there is no server. Nobody looks at what that takes.
    Backlog,
    /// Sends a backlog: a pass, as the `mirror` command does it.
    Pass,
    /// Sends a backlog: an agent that starts where another one died.
    NextStart,
}

impl Who {
    pub const RECORDING: [Self; 3] = [Self::Default, Self::Large, Self::Mirror];
    const ALL: [Self; 6] = [
        Self::Default,
        Self::Large,
        Self::Mirror,
        Self::Backlog,
        Self::Pass,
        Self::NextStart,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "OTel SDK, default queue",
            Self::Large => "OTel SDK, large queue",
            Self::Mirror => "spanledger",
            Self::Backlog => "spanledger, no server",
            Self::Pass => "spanledger, a pass",
            Self::NextStart => "spanledger, next start",
        }
    }
}

/// What is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub spans: usize,
    /// Spans a second; as fast as it goes where there is none.
    pub pace: Option<usize>,
    pub sessions: usize,
}

impl Load {
    /// How many spans there are, with those around the tool calls.
    pub fn due(&self) -> u64 {
        let turns = match self.sessions {
            1 => self.spans.div_ceil(CALLS_A_TURN),
            many => many,
        };
        (self.spans + self.sessions + turns) as u64
    }
}

/// What a contender says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said {
    began_ns: u64,
    /// On the calling thread, in all.
    wall_ns: u64,
    thread_cpu_ns: u64,
    cpu_ns: u64,
    peak_bytes: u64,
}

/// One round, from both sides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// On the calling thread, in all.
    pub wall_ns: f64,
    pub thread_cpu_ns: f64,
    pub arrived: f64,
    pub requests: f64,
    /// Spans a second, from the first one recorded to the last one that arrived.
    pub rate: f64,
    pub cpu_seconds: f64,
    pub peak_mb: f64,
}

impl Measured {
    pub fn new(said: Said, arrived: Arrived) -> Self {
        let seconds = arrived.last_ns.saturating_sub(said.began_ns) as f64 / 1e9;
        Self {
            wall_ns: said.wall_ns as f64,
            thread_cpu_ns: said.thread_cpu_ns as f64,
            arrived: arrived.spans as f64,
            requests: arrived.requests as f64,
            rate: arrived.spans as f64 / seconds,
            cpu_seconds: said.cpu_ns as f64 / 1e9,
            peak_mb: said.peak_bytes as f64 / 1e6,
        }
    }
}

/// Runs a contender: what it says when it has ended.
pub fn run(who: Who, load: Load, port: u16, dir: &Path) -> Said {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["contend", who.name(), &port.to_string()]);
    let numbers = [load.spans, load.pace.unwrap_or(0), load.sessions];
    command.args(numbers.map(|number| number.to_string()));
    command.arg(dir);
    // The user's own settings are for the user's own server.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("OTEL_") {
            command.env_remove(name);
        }
    }
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.expect("a contender");
    let said: Value = serde_json::from_slice(&output.stdout).expect("what it measured");
    let number = |name: &str| said[name].as_u64().expect("a number");
    Said {
        began_ns: number("began_ns"),
        wall_ns: number("wall_ns"),
        thread_cpu_ns: number("thread_cpu_ns"),
        cpu_ns: number("cpu_ns"),
        peak_bytes: number("peak_bytes"),
    }
}

/// The contender itself.
pub fn contend(args: &[String]) {
    let [who, port, spans, pace, sessions, dir] = args else {
        panic!("contend WHO PORT SPANS PACE SESSIONS DIR");
    };
    let who = Who::ALL.into_iter().find(|one| one.name() == who);
    let number = |text: &String| text.parse::<usize>().expect("a number");
    let load = Load {
        spans: number(spans),
        pace: Some(number(pace)).filter(|pace| *pace > 0),
        sessions: number(sessions),
    };
    let endpoint = format!("http://127.0.0.1:{port}");
    let dir = Path::new(dir);
    raise_open_files();
    let said = match who.expect("a contender's name") {
        Who::Default => sdk(&endpoint, load, 2048),
        Who::Large => sdk(&endpoint, load, load.due() as usize),
        Who::Mirror => mirror(ours(dir, &endpoint).shutdown_timeout(LONG), load),
        Who::Backlog => mirror(ours(dir, &endpoint).shutdown_timeout(Duration::ZERO), load),
        Who::Pass => pass(dir, &endpoint),
        Who::NextStart => next_start(ours(dir, &endpoint), load),
    };
    let said = json!({
        "began_ns": said.began_ns,
        "wall_ns": said.wall_ns,
        "thread_cpu_ns": said.thread_cpu_ns,
        "cpu_ns": clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID),
        "peak_bytes": peak_bytes(),
    });
    println!("{said}");
}

fn sdk(endpoint: &str, load: Load, queue: usize) -> Said {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let _within = runtime.enter();
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .build()
        .expect("an exporter");
    let config = BatchConfigBuilder::default().with_max_queue_size(queue);
    let processor = BatchSpanProcessor::builder(exporter)
        .with_batch_config(config.build())
        .build();
    let provider = SdkTracerProvider::builder()
        .with_span_processor(processor)
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("mirror"));
    let said = agent(Dispatch::new(registry().with(layer)), load);
    let _ = provider.shutdown_with_timeout(LONG);
    said
}

fn to(endpoint: &str) -> Otlp {
    Otlp::new().endpoint(endpoint).protocol(Protocol::Grpc)
}

fn ours(dir: &Path, endpoint: &str) -> Builder {
    spanledger::builder()
        .root(dir)
        .disabled(false)
        .otlp(to(endpoint))
}

fn mirror(builder: Builder, load: Load) -> Said {
    let (layer, guard) = builder.build().expect("a ledger");
    let said = agent(Dispatch::new(registry().with(layer)), load);
    let health = guard.shutdown().expect("every event is written");
    if health.failed > 0 {
        eprintln!("mirror: spanledger lost lines; its figure means nothing");
    }
    said
}

fn pass(dir: &Path, endpoint: &str) -> Said {
    let to = Otlp::resolve(Some(to(endpoint)), |_| None);
    let to = to.expect("an endpoint").expect("an endpoint");
    let began_ns = now_ns();
    let sent = CatchUp::new(dir, to).run(&mut |_, _| {}).expect("a pass");
    if let Some(why) = sent.stopped {
        eprintln!("mirror: the pass stopped: {why}");
    }
    Said {
        began_ns,
        ..Said::default()
    }
}

fn next_start(builder: Builder, load: Load) -> Said {
    let began_ns = now_ns();
    let (layer, guard) = builder.build().expect("a ledger");
    let _dispatch = Dispatch::new(registry().with(layer));
    let until = Instant::now() + LONG;
    let sent = || {
        guard
            .health()
            .mirror
            .is_some_and(|mirror| mirror.sent >= load.due())
    };
    while !sent() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    Said {
        began_ns,
        ..Said::default()
    }
}

// ---- the load

/// A run whose turns come one after the other; or many with a turn each, called in turns.
fn agent(dispatch: Dispatch, load: Load) -> Said {
    let ids = call_ids();
    dispatcher::with_default(&dispatch, || {
        let began_ns = now_ns();
        let run = |n| {
            let id = format!("bench-{n}");
            info_span!(parent: None, "session.run", session_id = id, agent = "bench")
        };
        let runs: Vec<Span> = (0..load.sessions).map(run).collect();
        let alone = load.sessions == 1;
        let _within = alone.then(|| runs[0].enter());
        let mut turns = Turns::default();
        let turn_in = |run| info_span!(parent: run, "session.turn", turn_index = 1);
        let side_by_side: Vec<Span> = match alone {
            true => Vec::new(),
            false => runs.iter().map(turn_in).collect(),
        };
        let mut said = Said {
            began_ns,
            ..Said::default()
        };
        let burst = load.pace.map_or(load.spans, |pace| pace / BURSTS);
        let started = Instant::now();
        let mut done = 0;
        while done < load.spans {
            if load.pace.is_some() {
                let due = Duration::from_secs(1) * (done / burst) as u32 / BURSTS as u32;
                std::thread::sleep(due.saturating_sub(started.elapsed()));
            }
            let next = (done + burst).min(load.spans);
            let (clock, cpu) = (Instant::now(), clock_ns(libc::CLOCK_THREAD_CPUTIME_ID));
            for n in done..next {
                let id = &ids[n % ids.len()];
                if alone {
                    turns.before(n, turn);
                    call(id);
                } else {
                    call_in(&side_by_side[n % side_by_side.len()], id);
                }
            }
            said.wall_ns += clock.elapsed().as_nanos() as u64;
            said.thread_cpu_ns += clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - cpu;
            done = next;
        }
        said
    })
}

// ---- tools

/// `VmHWM`, where there is a `/proc`.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
