//! `guard`: limits, tried on recorded sessions.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::context::{Context, Failed, or_last, parse_age};
use spanledger::inspect::backtest::Backtest;
use spanledger::session::{Entry, Unreadable};
use spanledger::view::{self, Style};
use spanledger::watch::LoopKind;
use spanledger::{Limits, LoopPolicy};

/// Try limits on recorded sessions
///
/// Shows which sessions the limits would have stopped, at which call, what that would have saved from there on, and
/// how the session ended without the limits. A session that ended well is a false stop. A session counts with
/// its subagents. The code that decides is the one that decides in an agent with these limits, so both stop at the
/// same call.
///
/// --suggest prints limits by what sessions that ended well needed, as a file for SPANLEDGER_CONFIG.
///
/// Calls without a recorded cost are priced by the table inside the program; calls of models that it does not have
/// are counted, but not in the cost.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger guard --all --max-cost 2 --loop no_progress:3\n  spanledger guard last --max-tool-calls 50\n  spanledger guard --all --config limits.toml --json | jq '.stops[] | {session_id, why, ended_well}'\n  spanledger guard --all --suggest > limits.toml"
)]
pub(crate) struct Guard {
    /// The sessions: ids, prefixes of ids, directories, or `last`, the default
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// All sessions
    #[arg(long, conflicts_with = "sessions")]
    all: bool,
    /// Suggest limits by what sessions that ended well needed
    #[arg(long, conflicts_with_all = ["max_tool_calls", "max_model_calls", "max_turns", "max_duration", "max_tokens", "max_cost", "loops", "config"])]
    suggest: bool,
    /// How many tool calls may start
    #[arg(long, value_name = "N")]
    max_tool_calls: Option<u64>,
    /// How many model calls may start
    #[arg(long, value_name = "N")]
    max_model_calls: Option<u64>,
    /// How many turns may start
    #[arg(long, value_name = "N")]
    max_turns: Option<u64>,
    /// How long the runs may take together, such as 90s, 15m or 2h
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    max_duration: Option<u64>,
    /// How many tokens may be used, input and output
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// How much may be spent, in US dollars
    #[arg(long, value_name = "USD", value_parser = parse_money)]
    max_cost: Option<f64>,
    /// Stop on loops, and after how many repetitions: no_progress:3, cycle:3, polling:5, drifting:6 are the defaults.
    /// polling and drifting are counted and never stop
    #[arg(long = "loop", value_name = "KIND[:N]", value_parser = parse_loop)]
    loops: Vec<(LoopKind, Option<u32>)>,
    /// A member of arguments and results that does not count when calls are compared, such as timestamp
    #[arg(long, value_name = "NAME")]
    volatile: Vec<String>,
    /// The limits in this file; options win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Guard {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let (limits, given) = self.limits()?;
        match (self.suggest, given) {
            (true, _) => self.suggest(context, limits),
            (false, true) => self.backtest(context, limits),
            (false, false) => {
                let why = "no limit is given; use --max-tool-calls or another --max option, --loop or --config, or --suggest";
                Err(Failed::Usage(why.into()))
            }
        }
    }

    fn backtest(&self, context: &mut Context, limits: Limits) -> Result<(), Failed> {
        let backtest = self.try_on_sessions(context, limits)?;
        let lines = |style: &Style| view::backtest(&backtest, style);
        context.show(|| backtest.to_json(), lines)
    }

    fn suggest(&self, context: &mut Context, no_limits: Limits) -> Result<(), Failed> {
        let measured = self.try_on_sessions(context, no_limits)?;
        let Some(suggestion) = measured.suggest() else {
            let message = "no session ended well, so there is nothing to measure".into();
            return Err(Failed::NotFound(message));
        };
        // The same sessions can't be read again.
        let unreadable = std::mem::take(&mut context.unreadable);
        let tried = self.try_on_sessions(context, suggestion.limits.clone())?;
        context.unreadable = unreadable;
        let document = || {
            let mut document = suggestion.to_json();
            document["backtest"] = json!({
                "sessions": tried.sessions,
                "stopped": tried.stopped.len(),
                "false_stops": tried.false_stops(),
            });
            document
        };
        context.show(document, |_| view::suggestion(&suggestion, &tried))
    }

    /// The limits, and whether any was given.
    fn limits(&self) -> Result<(Limits, bool), Failed> {
        let mut limits = Limits::new();
        if let Some(file) = &self.config {
            let read = Limits::from_file(file);
            limits = read.map_err(|error| Failed::Usage(error.to_string()))?;
        }
        let mut given = self.config.is_some();
        let mut set = |limits: Limits, value: Option<u64>, set: fn(Limits, u64) -> Limits| {
            given |= value.is_some();
            match value {
                Some(value) => set(limits, value),
                None => limits,
            }
        };
        limits = set(limits, self.max_tool_calls, Limits::tool_calls);
        limits = set(limits, self.max_model_calls, Limits::model_calls);
        limits = set(limits, self.max_turns, Limits::turns);
        limits = set(limits, self.max_tokens, Limits::tokens);
        limits = set(limits, self.max_duration, |limits, ns| {
            limits.duration(Duration::from_nanos(ns))
        });
        if let Some(cost) = self.max_cost {
            (limits, given) = (limits.cost_usd(cost), true);
        }
        for (kind, repetitions) in &self.loops {
            (limits, given) = (limits.on_loop(LoopPolicy::Stop), true);
            if let Some(repetitions) = repetitions {
                limits = limits.repetitions(*kind, *repetitions);
            }
        }
        for name in &self.volatile {
            limits = limits.volatile(name);
        }
        Ok((limits, given))
    }

    fn try_on_sessions(&self, context: &mut Context, limits: Limits) -> Result<Backtest, Failed> {
        let mut backtest = Backtest::new(limits);
        let mut add = |context: &mut Context, entry: Entry| {
            if let Err(error) = backtest.add(&context.store, &entry) {
                let (dir, why) = (entry.dir, error.to_string());
                context.unreadable.push(Unreadable { dir, why });
            }
        };
        if !self.all {
            for session in or_last(&self.sessions) {
                let dir = context.resolve(&session)?;
                let entry = context.store.peek(&dir)?;
                add(context, entry);
            }
            return Ok(backtest);
        }
        let store = Rc::clone(&context.store);
        let mut newest = store.newest()?;
        for entry in newest.by_ref() {
            if Backtest::is_top(&store, &entry) {
                add(context, entry);
            }
        }
        context.unreadable.extend(newest.into_unreadable());
        Ok(backtest)
    }
}

fn parse_money(text: &str) -> Result<f64, String> {
    let amount = text.parse().ok();
    let amount = amount.filter(|amount: &f64| amount.is_finite() && *amount >= 0.0);
    amount.ok_or_else(|| "write an amount of US dollars, such as 2 or 0.5".into())
}

fn parse_loop(text: &str) -> Result<(LoopKind, Option<u32>), String> {
    let wrong = || {
        let names = LoopKind::ALL.map(LoopKind::as_str).join(", ");
        format!("write one of {names}, and after a colon how many repetitions, at least 2")
    };
    let (name, repetitions) = match text.split_once(':') {
        Some((name, repetitions)) => (name, Some(repetitions.parse().map_err(|_| wrong())?)),
        None => (text, None),
    };
    let kind = LoopKind::parse(name).ok_or_else(wrong)?;
    match repetitions {
        Some(0 | 1) => Err(wrong()),
        repetitions => Ok((kind, repetitions)),
    }
}
