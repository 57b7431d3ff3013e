//! What limits and the search for loops add to a tool call.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use spanledger::{Builder, Limits, SpanExt, spans};

use super::common::{Figure, Target, median};
use super::load::{ARGS, RESULT, Turns, call_ids};
use super::peers::Ledger;
use super::report::Report;
use super::tools::timed;
use super::{Plan, ROUNDS, WARM_UP};

/// All limits, none of which is reached.
fn all(builder: Builder) -> Builder {
    let limits = Limits::new()
        .tool_calls(u64::MAX)
        .model_calls(u64::MAX)
        .turns(u64::MAX)
        .duration(Duration::MAX)
        .tokens(u64::MAX)
        .cost_usd(f64::MAX);
    builder.limits(limits)
}

/// How a tool call is limited.
#[derive(Clone, Copy, PartialEq)]
pub enum Limited {
    Off,
    On,
    /// It asks whether it may run.
    Asked,
}

impl Limited {
    pub const ALL: [Self; 3] = [Self::Off, Self::On, Self::Asked];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "limits off",
            Self::On => "limits on",
            Self::Asked => "limits asked",
        }
    }

    /// What a tool call takes, in nanoseconds, in one round.
    pub fn round(self, dir: &Path, count: usize) -> f64 {
        let ledger = match self {
            Self::Off => Ledger::new(dir),
            Self::On | Self::Asked => Ledger::with(dir, all),
        };
        ledger.round(|| calls(self == Self::Asked, count))
    }
}

fn calls(ask: bool, count: usize) -> f64 {
    let ids = call_ids();
    // Each call has arguments of its own, so that no loop ends the search early.
    let args: Vec<_> = ids
        .iter()
        .map(|id| ARGS.replacen("{", &format!("{{\"id\":\"{id}\","), 1))
        .collect();
    let _run = spans::session_run("bench", "bench").start().entered();
    let mut turns = Turns::default();
    let mut one = |n: usize| {
        turns.before(n, |index| spans::session_turn().turn_index(index).start());
        let at = n % ids.len();
        let span = spans::tool_call("bash", &ids[at])
            .tool_type("function")
            .args(&args[at])
            .start();
        if ask {
            assert!(span.allowed().is_ok());
        }
        span.in_scope(|| black_box(()));
        span.record_result(RESULT);
        span.set("exit_code", 0);
        span.set("truncated", false);
    };
    (0..WARM_UP).for_each(&mut one);
    timed(count, |n| one(WARM_UP + n)).wall
}

/// A tool call without limits, with them, and with the question whether it may run.
pub fn limits(plan: &Plan, dir: &Path, report: &mut Report) {
    let mut costs: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (costs, limited) in costs.iter_mut().zip(Limited::ALL) {
            costs.push(limited.round(dir, plan.spans));
        }
    }
    let [off, on, asked] = &costs;
    let more = |of: &[f64]| median(of.iter().zip(off).map(|(of, off)| (of / off - 1.0) * 100.0));
    report.figures.push(Figure {
        name: "a tool.call with all limits and the search for loops: more".into(),
        value: more(on),
        unit: "%",
        target: Target::AtMost(10.0),
    });
    report.notes.push(format!(
        "a tool.call without limits: {:.0} ns; with all limits {:.0} ns; and with the question `allowed()` {:.0} ns",
        median(off.clone()),
        median(on.clone()),
        median(asked.clone()),
    ));
}
