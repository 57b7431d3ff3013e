//! Tries limits on recorded sessions: which would have been stopped, where, and what that would have saved.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::read::SessionReader;
use crate::session::{Entry, Store};
use crate::trace::typed::Subagent;
use crate::trace::{Outcome, RawLine, ReadItem, Refused, parse_time};
use crate::watch::{Counts, Limits, LoopPolicy, LoopWarning, Replay, Stop};

/// Limits, tried on sessions.
///
/// ```no_run
/// use spanledger::{Limits, inspect::backtest::Backtest, session::Store};
/// let store = Store::new("/var/lib/agent");
/// let mut backtest = Backtest::new(Limits::new().tool_calls(50).cost_usd(2.0));
/// for entry in store.newest()? {
///     if Backtest::is_top(&store, &entry) {
///         backtest.add(&store, &entry)?;
///     }
/// }
/// println!("{} of {} stopped", backtest.stopped.len(), backtest.sessions);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Backtest {
    /// The limits.
    pub limits: Limits,
    /// How many sessions were read, each with its subagents.
    pub sessions: u64,
    /// How many of them ended well.
    pub ended_well: u64,
    /// The sessions that would have been stopped.
    pub stopped: Vec<Stopped>,
    /// How often each sort of loop was found, by [`LoopKind`](crate::watch::LoopKind).
    pub loops: [u64; 4],
    /// The models whose price is not known.
    pub unpriced_models: Vec<String>,
    /// Sessions that ended well and were in a loop which stops.
    good_loops: u64,
    /// What the sessions that ended well did.
    good: Vec<Counts>,
}

/// A session that limits would have stopped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stopped {
    /// The session, which its subagents count for.
    pub session_id: String,
    /// Its agent.
    pub agent: Option<String>,
    /// The first call that would have been refused.
    pub stop: Stop,
    /// How the session ended without the limits; `None` if it did not.
    pub outcome: Option<String>,
    /// Whether that was well: then the stop is a false one.
    pub ended_well: bool,
    /// What happened from that call on: in the whole family, or where a subagent was in a loop, in that subagent.
    pub saved: Counts,
}

impl Backtest {
    /// No sessions yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Whether a session is no subagent of a session that is there: its calls count for itself.
    pub fn is_top(store: &Store, entry: &Entry) -> bool {
        let parents = entry.summary.parents();
        !parents.iter().any(|parent| store.dir(parent).is_dir())
    }

    /// Adds a session and its subagents. Damage is passed over.
    pub fn add(&mut self, store: &Store, entry: &Entry) -> io::Result<()> {
        let top = &entry.summary.session_id;
        let mut replay = Replay::new(&self.limits, top);
        let mut after: Option<(Stop, u64, Replay)> = None;
        let mut last = 0;
        each_line(store, &entry.dir, |line| {
            let time = parse_time(line.ts).unwrap_or(last);
            last = last.max(time);
            let stop = replay.take(line);
            if let (Some(stop), None) = (stop, &after) {
                // Nothing is stopped after the first stop.
                let rest = Replay::new(&Limits::new().on_loop(LoopPolicy::Off), top);
                after = Some((stop, time, rest));
            }
            if let Some((stop, _, rest)) = &mut after {
                let is_loop = matches!(stop.refused, Refused::Stopped { limit: "loop", .. });
                let is_one = is_loop && stop.session_id != *top;
                if !is_one || stop.session_id == *line.session_id {
                    rest.take(line);
                }
            }
        })?;
        let outcome = entry.summary.ended.as_ref().map(|(outcome, _)| outcome);
        let ended_well = outcome.is_some_and(|outcome| outcome == Outcome::Ok.as_str());
        self.count(&replay, ended_well);
        if let Some((stop, since, rest)) = after {
            self.stopped.push(Stopped {
                session_id: top.clone(),
                agent: entry.summary.agent.clone(),
                stop,
                outcome: outcome.cloned(),
                ended_well,
                saved: Counts::at(&rest.counts(), last.saturating_sub(since)),
            });
        }
        Ok(())
    }

    fn count(&mut self, replay: &Replay, ended_well: bool) {
        self.sessions += 1;
        let mut in_loop = false;
        for (_, LoopWarning { kind, .. }) in replay.warnings() {
            self.loops[*kind as usize] += 1;
            in_loop |= kind.stops();
        }
        for model in replay.unpriced_models() {
            if !self.unpriced_models.contains(model) {
                self.unpriced_models.push(model.clone());
            }
        }
        if ended_well {
            self.ended_well += 1;
            self.good_loops += u64::from(in_loop);
            self.good.push(replay.counts());
        }
    }

    /// How many of the stopped sessions ended well without the limits.
    pub fn false_stops(&self) -> usize {
        let well = self.stopped.iter().filter(|stopped| stopped.ended_well);
        well.count()
    }

    /// What the stops would have saved together.
    pub fn saved(&self) -> Counts {
        let mut sum = Counts::default();
        for stopped in &self.stopped {
            sum.add(&stopped.saved);
        }
        sum
    }

    /// Limits for such sessions: a fifth above what 95 of 100 sessions that ended well needed, rounded up. `None`: no
    /// session ended well.
    pub fn suggest(&self) -> Option<Suggestion> {
        if self.good.is_empty() {
            return None;
        }
        let of = |value: fn(&Counts) -> f64| Spread::of(self.good.iter().map(value).collect());
        let tool_calls = of(|counts| counts.tool_calls as f64);
        let model_calls = of(|counts| counts.model_calls as f64);
        let turns = of(|counts| counts.turns as f64);
        let tokens = of(|counts| counts.tokens as f64);
        let cost_usd = of(|counts| counts.cost_usd);
        let seconds = of(|counts| counts.active_ns as f64 / 1e9);
        let mut limits = Limits::new()
            .tool_calls(tool_calls.limit() as u64)
            .model_calls(model_calls.limit() as u64)
            .turns(turns.limit() as u64)
            .duration(Duration::from_secs(seconds.limit() as u64));
        if tokens.most > 0.0 {
            limits = limits.tokens(tokens.limit() as u64);
        }
        if cost_usd.most > 0.0 {
            limits = limits.cost_usd(cost_usd.cents());
        }
        limits = limits.on_loop(match self.good_loops {
            0 => LoopPolicy::Stop,
            _ => LoopPolicy::Warn,
        });
        Some(Suggestion {
            limits,
            sessions: self.ended_well,
            good_loops: self.good_loops,
            spreads: [
                ("tool_calls", tool_calls),
                ("model_calls", model_calls),
                ("turns", turns),
                ("duration", seconds),
                ("tokens", tokens),
                ("cost_usd", cost_usd),
            ],
        })
    }

    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        let loops = crate::watch::LoopKind::ALL.into_iter().zip(self.loops);
        let loops = loops.map(|(kind, n)| (kind.as_str().to_owned(), json!(n)));
        let stopped = self.stopped.iter().map(Stopped::to_json);
        json!({
            "limits": self.limits.to_json(),
            "sessions": self.sessions,
            "ended_well": self.ended_well,
            "stopped": self.stopped.len(),
            "false_stops": self.false_stops(),
            "saved": counts_json(&self.saved()),
            "loops": Value::Object(loops.collect()),
            "unpriced_models": self.unpriced_models,
            "stops": stopped.collect::<Vec<_>>(),
        })
    }
}

impl Stopped {
    fn to_json(&self) -> Value {
        let mut object = json!({
            "session_id": self.session_id,
            "agent": self.agent,
            "outcome": self.outcome,
            "ended_well": self.ended_well,
            "stopped_session_id": self.stop.session_id,
            "address": self.stop.address.to_string(),
            "kind": self.stop.kind.as_str(),
            "why": self.stop.refused.to_string(),
            "saved": counts_json(&self.saved),
        });
        if let Refused::Stopped {
            limit,
            threshold,
            actual,
            ..
        } = &self.stop.refused
        {
            object["guardrail"] = json!(limit);
            object["threshold"] = json!(threshold);
            object["actual"] = json!(actual);
        }
        object
    }
}

/// The cost is null if it is not known of any call.
fn counts_json(counts: &Counts) -> Value {
    json!({
        "turns": counts.turns,
        "model_calls": counts.model_calls,
        "tool_calls": counts.tool_calls,
        "tokens": counts.tokens,
        "cost_usd": counts.known_cost(),
        "unpriced_calls": counts.unpriced,
        "seconds": counts.active_ns as f64 / 1e9,
    })
}

/// Limits by what sessions needed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Suggestion {
    /// The limits.
    pub limits: Limits,
    /// How many sessions ended well: they were measured.
    pub sessions: u64,
    /// How many of them were in a loop that stops.
    pub good_loops: u64,
    /// What the sessions needed, by the name of the limit.
    pub spreads: [(&'static str, Spread); 6],
}

impl Suggestion {
    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        let spreads = self.spreads.iter().map(|(name, spread)| {
            let Spread { median, p95, most } = spread;
            let spread = json!({"median": median, "p95": p95, "max": most});
            ((*name).to_owned(), spread)
        });
        json!({
            "limits": self.limits.to_json(),
            "sessions": self.sessions,
            "sessions_in_loops": self.good_loops,
            "needed": Value::Object(spreads.collect()),
        })
    }
}

/// How much sessions needed of something.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Half of them needed no more.
    pub median: f64,
    /// 95 of 100 needed no more.
    pub p95: f64,
    /// What one of them needed.
    pub most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (share * values.len() as f64).ceil() as usize;
            values.get(rank.max(1) - 1).copied().unwrap_or(0.0)
        };
        Self {
            median: at(0.5),
            p95: at(0.95),
            most: at(1.0),
        }
    }

    /// A fifth above the 95th percentile, rounded up to two digits; at least 1.
    fn limit(&self) -> f64 {
        let wanted = (self.p95 * 1.2).max(1.0);
        let unit = 10f64.powf(wanted.log10().floor() - 1.0).max(1.0);
        (wanted / unit).ceil() * unit
    }

    /// The same in whole cents.
    fn cents(&self) -> f64 {
        let cents = Self {
            p95: self.p95 * 100.0,
            ..*self
        };
        cents.limit() / 100.0
    }
}

/// A session whose lines are read.
struct Stream {
    reader: SessionReader,
    /// The next line.
    line: Vec<u8>,
    ts: String,
    done: bool,
}

impl Stream {
    fn open(dir: &Path) -> io::Result<Self> {
        let mut stream = Self {
            reader: SessionReader::open(dir)?,
            line: Vec::new(),
            ts: String::new(),
            done: false,
        };
        stream.advance()?;
        Ok(stream)
    }

    fn advance(&mut self) -> io::Result<()> {
        loop {
            match self.reader.next()? {
                Some(ReadItem::Line(line)) => {
                    self.line.clear();
                    self.line.extend_from_slice(line.as_bytes());
                    // Lines of one session stay in order even where a clock was set back.
                    if *line.ts > *self.ts {
                        line.ts.clone_into(&mut self.ts);
                    }
                    return Ok(());
                }
                Some(_) => {}
                None => {
                    self.done = true;
                    return Ok(());
                }
            }
        }
    }
}

/// Calls `take` with each line of a session and of its subagents, by time.
fn each_line(store: &Store, dir: &Path, mut take: impl FnMut(&RawLine<'_>)) -> io::Result<()> {
    let mut known = HashSet::new();
    let mut streams = vec![Stream::open(dir)?];
    loop {
        let next = streams.iter_mut().filter(|stream| !stream.done);
        let Some(stream) = next.min_by(|a, b| a.ts.cmp(&b.ts)) else {
            return Ok(());
        };
        let mut child = None;
        if let Ok(line) = RawLine::parse(&stream.line) {
            known.insert(line.session_id.to_string());
            take(&line);
            let subagent = Subagent::of(&line).and_then(|it| it.child_session_id());
            child = subagent.map(|id| id.into_owned());
        }
        stream.advance()?;
        let is_new = |id: &String| known.insert(id.clone());
        // A subagent whose session was removed is passed over.
        if let Some(child) = child.filter(is_new)
            && let Ok(stream) = Stream::open(&store.dir(&child))
        {
            streams.push(stream);
        }
    }
}

#[cfg(test)]
mod tests;
