//! Whether a span costs the same however many there are, in however many sessions.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use tracing::{Span, dispatcher, info_span};

use super::common::{Figure, Target, grouped, median};
use super::load::{call, call_ids, call_in};
use super::peers::Ledger;
use super::report::Report;
use super::tools::{Spent, resident_bytes, timed};
use super::{Plan, ROUNDS};

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

/// What the file system takes for the lines of a span alone, whoever writes them.
struct Bare {
    files: Vec<File>,
    lines: Vec<Vec<u8>>,
}

impl Bare {
    fn new(dir: &Path, count: usize, lines: &[Vec<u8>]) -> Self {
        let open = |n| {
            let path = dir.join(format!("bare-{n}-of-{count}"));
            let mut options = File::options();
            options.append(true).create(true);
            options.open(path).expect("a file")
        };
        Self {
            files: (0..count).map(open).collect(),
            lines: lines.to_vec(),
        }
    }

    fn span(&mut self, n: usize) {
        let count = self.files.len();
        for line in &self.lines {
            self.files[n % count].write_all(line).expect("a line");
        }
    }
}

/// The last two lines of a session: those of a call.
fn last_lines(root: &Path, session: &str) -> Vec<Vec<u8>> {
    let segment = root.join("sessions").join(session).join("trace.0001.jsonl");
    let text = std::fs::read(segment).expect("a segment");
    let lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').collect();
    lines[lines.len() - 2..]
        .iter()
        .map(|line| line.to_vec())
        .collect()
}

/// Sessions open side by side, their spans one after the other; beside them bare writes of as much
/// to as many files.
pub fn flat_over_sessions(plan: &Plan, dir: &Path, report: &mut Report) {
    struct Open {
        turns: Vec<Span>,
        _runs: Vec<Span>,
    }
    let ledger = Ledger::new(dir);
    let root = ledger.root().to_owned();
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
                Open { turns, _runs: runs }
            })
            .collect();
        for open in &open {
            (0..2 * open.turns.len()).for_each(|n| call(open, n));
        }
        let lines = last_lines(&root, "0-of-1");
        let mut bare: Vec<_> = many.iter().map(|n| Bare::new(&root, *n, &lines)).collect();
        for bare in &mut bare {
            (0..2 * bare.files.len()).for_each(|n| bare.span(n));
        }
        let mut bare_costs: Vec<Vec<f64>> = vec![Vec::new(); many.len()];
        let mut costs: Vec<Vec<f64>> = vec![Vec::new(); many.len()];
        let mut spent = vec![Spent::default(); many.len()];
        for _ in 0..ROUNDS {
            for ((costs, spent), open) in costs.iter_mut().zip(&mut spent).zip(&open) {
                let before = Spent::so_far();
                costs.push(timed(plan.spans, |n| call(open, n)).wall);
                spent.add(Spent::so_far() - before);
            }
            for (costs, bare) in bare_costs.iter_mut().zip(&mut bare) {
                costs.push(timed(plan.spans, |n| bare.span(n)).wall);
            }
        }
        for (at, count) in many.iter().enumerate().skip(1) {
            let growth = |costs: &[Vec<f64>]| {
                let pairs = costs[at].iter().zip(&costs[0]);
                median(pairs.map(|(many, one)| many / one))
            };
            // Where the file system itself takes longer for many files, that is what flat can be.
            let flat = growth(&bare_costs).max(1.3);
            report.figures.push(Figure {
                name: format!("{} sessions in turns: against one", grouped(*count)),
                value: growth(&costs),
                unit: "x",
                target: Target::AtMost((flat * 100.0).round() / 100.0),
            });
        }
        let per_span = |spent: &Spent| {
            let spans = (ROUNDS * plan.spans) as f64;
            let (user, kernel) = (spent.user / spans, spent.kernel / spans);
            format!("{user:.0} ns outside the kernel and {kernel:.0} ns in it")
        };
        report.notes.push(format!(
            "a span takes {} in one session, {} in {} in turns",
            per_span(&spent[0]),
            per_span(&spent[spent.len() - 1]),
            grouped(plan.sessions),
        ));
        let last = many.len() - 1;
        report.notes.push(format!(
            "bare writes of its two lines take {:.0} ns to one file, {:.0} to {} in turns; the \
             sessions may grow by as much as these, or by 1.3 x",
            median(bare_costs[0].clone()),
            median(bare_costs[last].clone()),
            grouped(plan.sessions),
        ));
    });
}
