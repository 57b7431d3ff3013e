//! Whether a span costs the same however many there are, in however many sessions.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use tracing::{Span, dispatcher, info_span};

use super::common::{Figure, Target, grouped, median};
use super::load::{call, call_ids, call_in};
use super::peers::Ledger;
use super::report::Report;
use super::tools::{resident_bytes, timed};
use super::{Plan, ROUNDS};

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
pub fn flat_over_spans(plan: &Plan, dir: &Path, report: &mut Report) {
    const CHUNK: usize = 1_000;
    let ids = call_ids();
    let chunk = || timed(CHUNK, |n| call(&ids[n % ids.len()])).wall;
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
pub fn flat_over_sessions(plan: &Plan, dir: &Path, report: &mut Report) {
    struct Open {
        turns: Vec<Span>,
        _runs: Vec<Span>,
        bare: Bare,
    }
    let ledger = Ledger::new(dir);
    ledger.round(|| {
        let ids = call_ids();
        let call = |open: &Open, n: usize| {
            call_in(&open.turns[n % open.turns.len()], &ids[n % ids.len()]);
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
