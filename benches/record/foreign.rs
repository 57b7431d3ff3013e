//! What we add to the spans of others.

use std::hint::black_box;
use std::path::Path;

use spanledger::Builder;
use tracing::field::Empty;
use tracing::{Dispatch, info_span};
use tracing_subscriber::registry;

use super::common::{Figure, Target, median};
use super::load::{ARGS, RESULT, call_ids};
use super::peers::{Ledger, with};
use super::report::Report;
use super::tools::timed;
use super::{Plan, ROUNDS, WARM_UP};

/// A span of somebody else's, inside a session: what we add to it, looking for the spans of other
/// libraries that we know and not; and what such a span costs.
pub fn foreign_span(plan: &Plan, dir: &Path, report: &mut Report) {
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
    let recognized = || inside(&|n| recognised_call(&ids[n % ids.len()]));
    let off = |builder: Builder| builder.recognize_gen_ai(false);
    let mut costs: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        let round = [
            with(Dispatch::new(registry()), foreign),
            Ledger::with(dir, off).round(foreign),
            Ledger::new(dir).round(foreign),
            Ledger::with(dir, off).round(recognized),
            Ledger::new(dir).round(recognized),
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
        "a tool call as rig makes it, five fields recorded late: {:.0} ns, {:.0} ns where it is not recognized",
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
