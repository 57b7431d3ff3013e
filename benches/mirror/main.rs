//! What the mirror costs and how fast it is, beside the SDK's batch processor.
//!
//! ```text
//! cargo bench --features mirror --bench mirror                      a table
//! cargo bench --features mirror --bench mirror -- --json            one JSON document
//! cargo bench --features mirror --bench mirror -- --quick           a tenth of everything, for trying
//! cargo bench --features mirror --bench mirror -- --only "<row>"    one round of one row, for a profiler
//! ```
//!
//! Whoever is measured has a process of its own, so that its peak memory and its processor time are
//! its own, and so has the server that counts what arrives. Contenders take turns, so that a busy
//! machine slows all of them alike. Nothing is asserted: a target is printed beside what was
//! measured.

#[path = "../common/mod.rs"]
mod common;
mod contender;
#[path = "../common/load.rs"]
mod load;
mod report;
mod server;

use std::path::Path;

use common::{Figure, Target, grouped, median};
use contender::{Load, Measured, Who};
use report::{Report, Row};
use server::Server;
use tempfile::TempDir;

const ROUNDS: usize = 3;
/// Spans a second of an agent that doesn't hurry.
const PACE: usize = 5_000;

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("serve") => return server::serve(&args[1..]),
        Some("contend") => return contender::contend(&args[1..]),
        _ => {}
    }
    let plan = Plan::from_args(&args);
    if let Some(name) = &plan.only {
        match plan.rows().into_iter().find(|row| row.name() == *name) {
            Some(job) => report::print_rows(&[job.round()]),
            None => {
                let names: Vec<_> = plan.rows().iter().map(Job::name).collect();
                println!("rows: {names:#?}");
            }
        }
        return;
    }
    let report = measure(&plan);
    if plan.json {
        println!("{:#}", report.to_json());
    } else {
        report.print();
    }
}

/// How much is measured.
struct Plan {
    json: bool,
    only: Option<String>,
    /// Spans of a round at full blast, and of a backlog.
    spans: usize,
    /// Spans of a paced round.
    paced: usize,
    sessions: usize,
}

impl Plan {
    fn from_args(args: &[String]) -> Self {
        // Cargo adds `--bench`.
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        let only = args.iter().position(|arg| arg == "--only");
        let scale = if has("--quick") { 10 } else { 1 };
        Self {
            json: has("--json"),
            only: only.map(|at| args.get(at + 1).cloned().unwrap_or_default()),
            spans: 200_000 / scale,
            paced: 10 * PACE / scale,
            sessions: 1_000 / scale,
        }
    }

    fn blast(&self, who: Who) -> Job {
        self.job(who, self.spans, None, 1)
    }

    fn paced(&self, who: Who) -> Job {
        self.job(who, self.paced, Some(PACE), 1)
    }

    fn many(&self) -> Job {
        self.job(Who::Mirror, self.spans, None, self.sessions)
    }

    fn backlog(&self, who: Who, times: usize) -> Job {
        self.job(who, times * self.spans, None, 1)
    }

    fn job(&self, who: Who, spans: usize, pace: Option<usize>, sessions: usize) -> Job {
        let load = Load {
            spans,
            pace,
            sessions,
        };
        Job { who, load }
    }

    fn rows(&self) -> Vec<Job> {
        let mut rows: Vec<_> = Who::RECORDING.map(|who| self.blast(who)).into();
        rows.extend(Who::RECORDING.map(|who| self.paced(who)));
        rows.push(self.many());
        rows.push(self.backlog(Who::Pass, 1));
        rows.push(self.backlog(Who::NextStart, 1));
        rows.push(self.backlog(Who::Pass, 10));
        rows
    }
}

/// One row: who, and what it is given to do.
#[derive(Clone, Copy)]
struct Job {
    who: Who,
    load: Load,
}

impl Job {
    fn name(&self) -> String {
        let (who, load) = (self.who.name(), &self.load);
        let spans = grouped(load.spans);
        match (self.who, load.pace) {
            (Who::Pass | Who::NextStart, _) => format!("{who}: a backlog of {spans}"),
            (_, Some(pace)) => format!("{who}: {} a second", grouped(pace)),
            _ if load.sessions > 1 => format!("{who}: {} sessions", grouped(load.sessions)),
            _ => format!("{who}: full blast"),
        }
    }

    /// One round, with a server and in files of its own, gone afterwards.
    fn round(&self) -> Row {
        let dir = temp_dir();
        let measured = match self.who {
            Who::Pass | Who::NextStart => self.catch_up(dir.path()),
            _ => {
                let server = Server::start(None);
                let contender = contender::run(self.who, self.load, server.port(), dir.path());
                Measured::new(contender, server.stop())
            }
        };
        Row {
            name: self.name(),
            due: self.load.due(),
            measured,
        }
    }

    /// The backlog is recorded while there is no server, by a process that is dead when it is sent.
    fn catch_up(&self, dir: &Path) -> Measured {
        let port = server::free_port();
        contender::run(Who::Backlog, self.load, port, dir);
        let server = Server::start(Some(port));
        let contender = contender::run(self.who, self.load, port, dir);
        Measured::new(contender, server.stop())
    }
}

fn measure(plan: &Plan) -> Report {
    let mut report = Report::default();
    let mut blast: [Vec<Row>; Who::RECORDING.len()] = Default::default();
    for round in 0..ROUNDS {
        for turn in 0..blast.len() {
            // Nobody always comes after the same neighbour.
            let at = (turn + round) % blast.len();
            blast[at].push(plan.blast(Who::RECORDING[at]).round());
        }
    }
    let ratio = |of: fn(&Measured) -> f64| {
        let [_, large, mirror] = &blast;
        let pairs = mirror.iter().zip(large);
        median(pairs.map(|(a, b)| of(&a.measured) / of(&b.measured)))
    };
    let wall = ratio(|measured| measured.wall_ns);
    let cpu = ratio(|measured| measured.thread_cpu_ns);
    report
        .rows
        .extend(blast.iter().map(|rounds| Row::median(rounds)));
    report
        .rows
        .extend(Who::RECORDING.map(|who| plan.paced(who).round()));
    let ours = |report: &Report, name: String| {
        let row = report.rows.iter().find(|row| row.name == name);
        row.map(|row| row.measured).unwrap_or_default()
    };
    let blasted = ours(&report, plan.blast(Who::Mirror).name());
    report.rows.push(plan.many().round());
    let many = ours(&report, plan.many().name());
    for job in [
        plan.backlog(Who::Pass, 1),
        plan.backlog(Who::NextStart, 1),
        plan.backlog(Who::Pass, 10),
    ] {
        report.rows.push(job.round());
    }
    let [.., pass, next, tenfold] = &report.rows[..] else {
        return report;
    };
    let (pass, next, tenfold) = (pass.measured, next.measured, tenfold.measured);
    let of_ours = report.rows.iter().filter(|row| row.is_ours());
    let least = of_ours.map(|row| row.share()).fold(f64::INFINITY, f64::min);

    use Target::{AtLeast, AtMost};
    let live = format!("{} live sessions", grouped(plan.sessions));
    let figures = [
        (
            "spanledger: spans that arrived, least",
            least,
            "%",
            AtLeast(100.0),
        ),
        (
            "calling thread, by the clock: the SDK's with the large queue",
            wall,
            "x",
            AtMost(1.5),
        ),
        (
            "calling thread, processor time: the same",
            cpu,
            "x",
            AtMost(1.5),
        ),
        (
            "while recording: spans a second",
            blasted.rate,
            "",
            AtLeast(100_000.0),
        ),
        (
            "catching up: spans a second",
            pass.rate,
            "",
            AtLeast(200_000.0),
        ),
        (
            "catching up at the next start: spans a second",
            next.rate,
            "",
            AtLeast(200_000.0),
        ),
        (
            "peak memory while recording",
            blasted.peak_mb,
            "MB",
            AtMost(32.0),
        ),
        (
            "peak memory when catching up",
            pass.peak_mb.max(next.peak_mb),
            "MB",
            AtMost(32.0),
        ),
        (
            "peak memory with ten times the backlog",
            tenfold.peak_mb,
            "MB",
            AtMost(32.0),
        ),
        (
            &format!("{live}: spans a second"),
            many.rate,
            "",
            AtLeast(100_000.0),
        ),
        (
            &format!("{live}: peak memory"),
            many.peak_mb,
            "MB",
            AtMost(32.0),
        ),
    ];
    for (name, value, unit, target) in figures {
        report.figures.push(Figure {
            name: name.to_owned(),
            value,
            unit,
            target,
        });
    }
    report.notes.push(format!(
        "full blast: medians of {ROUNDS} rounds, and the highest peak; everything else once"
    ));
    report.notes.push(
        "1,000 sessions are 1,000 new files: ext4 takes longer to make them when it has just deleted many"
            .into(),
    );
    report.notes.push(
        "the SDK's spans have all their fields; ours, by default, digests of args and result"
            .into(),
    );
    report
}

/// Where `$TMPDIR` says, else in the target directory.
fn temp_dir() -> TempDir {
    let base = std::env::var_os("TMPDIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    tempfile::Builder::new()
        .prefix("spanledger-bench-")
        .tempdir_in(base)
        .expect("a directory for the traces")
}
