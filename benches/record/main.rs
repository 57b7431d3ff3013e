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

#[path = "../common/mod.rs"]
mod common;
mod flat;
mod foreign;
mod limits;
#[path = "../common/load.rs"]
mod load;
mod peers;
mod report;
mod tools;

use flat::{flat_over_sessions, flat_over_spans};
use foreign::foreign_span;
use limits::{Limited, limits};
use load::raise_open_files;
use peers::{Peer, per_span};
use report::Report;
use tools::temp_dir;

const ROUNDS: usize = 10;
const WARM_UP: usize = 200;
/// The spans of others: a row for `--only`.
const FOREIGN: &str = "foreign spans";
/// Limits on tool calls: a row for `--only`.
const LIMITS: &str = "limits";

fn main() {
    let plan = Plan::from_args();
    let files = raise_open_files();
    let dir = temp_dir();
    if plan.only.as_deref() == Some(FOREIGN) {
        let mut report = Report::default();
        foreign_span(&plan, dir.path(), &mut report);
        return report.print(&plan);
    }
    if plan.only.as_deref() == Some(LIMITS) {
        let mut report = Report::default();
        limits(&plan, dir.path(), &mut report);
        return report.print(&plan);
    }
    if let Some(name) = &plan.only {
        let peer = Peer::ALL.into_iter().find(|peer| peer.name() == name);
        let limited = Limited::ALL.into_iter().find(|row| row.name() == name);
        let wall = peer.map(|peer| peer.round(dir.path(), plan.spans).wall);
        match wall.or_else(|| Some(limited?.round(dir.path(), plan.spans))) {
            Some(wall) => println!("{name}: {wall:.0} ns"),
            None => println!(
                "rows: {:?}, {:?}, {FOREIGN:?}, {LIMITS:?}",
                Peer::ALL.map(Peer::name),
                Limited::ALL.map(Limited::name)
            ),
        }
        return;
    }
    let mut report = Report::default();
    report.notes.push(files);
    per_span(&plan, dir.path(), &mut report);
    flat_over_spans(&plan, dir.path(), &mut report);
    flat_over_sessions(&plan, dir.path(), &mut report);
    foreign_span(&plan, dir.path(), &mut report);
    limits(&plan, dir.path(), &mut report);
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
