//! The checks of a session: against limits, and against a baseline.

use serde_json::{Value, json};

use super::{Baseline, Measures, divergence};
use crate::inspect::summary::Ending;
use crate::trace::named_enum;

named_enum! {
    /// What is checked.
    #[non_exhaustive]
    pub enum CheckKind {
        /// Model calls.
        Steps = "steps",
        /// Tool calls.
        Calls = "calls",
        /// Input and output tokens.
        Tokens = "tokens",
        /// US dollars.
        Cost = "cost",
        /// How long it took.
        Duration = "duration",
        /// Tools that no session of the baseline called.
        NewTools = "new-tools",
        /// `loop_warning` lines.
        Loops = "loops",
        /// Model and tool calls that failed.
        Errors = "errors",
        /// How it ended.
        Status = "status",
        /// How far its tool calls are from those of the nearest session of the baseline.
        Divergence = "divergence",
    }
}

/// The limits of a check. One that is given replaces that of the baseline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckLimits {
    /// Model calls.
    pub steps: Option<u64>,
    /// Tool calls.
    pub calls: Option<u64>,
    /// Input and output tokens.
    pub tokens: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Milliseconds.
    pub duration_ms: Option<f64>,
    /// `loop_warning` lines.
    pub loops: Option<u64>,
    /// Model and tool calls that failed.
    pub errors: Option<u64>,
    /// How it must end.
    pub status: Option<Ending>,
    /// How far its tool calls may be from the baseline's, from 0 to 1. Needs a baseline.
    pub divergence: Option<f64>,
    /// How much more than the most of the baseline is accepted, as a part of it: 0.25 for a quarter more. For
    /// steps, calls, tokens, cost and duration.
    pub tolerance: f64,
    /// Checks that are left out.
    pub ignore: Vec<CheckKind>,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Check {
    /// What was checked.
    pub kind: CheckKind,
    /// Whether it holds.
    pub passed: bool,
    /// What was found.
    pub actual: Value,
    /// What was accepted.
    pub limit: Value,
    /// Both in words, if it does not hold.
    pub why: Option<String>,
}

impl Check {
    /// One that holds unless there is a reason why not.
    fn new(
        kind: CheckKind,
        actual: impl Into<Value>,
        limit: impl Into<Value>,
        why: Option<String>,
    ) -> Self {
        Self {
            kind,
            passed: why.is_none(),
            actual: actual.into(),
            limit: limit.into(),
            why,
        }
    }

    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        json!({
            "check": self.kind.as_str(),
            "passed": self.passed,
            "actual": self.actual,
            "limit": self.limit,
            "why": self.why,
        })
    }
}

/// Checks a session. Without a baseline, only the given limits count. With one, the most of its sessions is the limit:
/// with the tolerance for steps, calls, tokens, cost and duration; as it is for loops and errors; and no new tools and no
/// ending that none of them had. A cost that is not wholly known exceeds every limit, since it can't be compared.
///
/// ```no_run
/// use spanledger::inspect::baseline::{Baseline, CheckLimits, Measures, check};
/// use spanledger::session::Store;
/// let store = Store::new("/var/lib/agent");
/// let (measures, ..) = Measures::read(&store, &store.resolve("last")?)?;
/// let baseline = Baseline::read("baseline.json".as_ref())?;
/// let limits = CheckLimits { tolerance: 0.25, ..CheckLimits::default() };
/// for check in check(&measures, Some(&baseline), &limits) {
///     if let Some(why) = &check.why {
///         println!("{}: {why}", check.kind.as_str());
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check(session: &Measures, baseline: Option<&Baseline>, limits: &CheckLimits) -> Vec<Check> {
    let known = baseline.map_or(&[][..], |baseline| &baseline.sessions);
    let checker = Checker {
        session,
        known,
        limits,
    };
    let wanted = CheckKind::ALL.into_iter();
    let wanted = wanted.filter(|kind| !limits.ignore.contains(kind));
    wanted.filter_map(|kind| checker.check(kind)).collect()
}

struct Checker<'a> {
    session: &'a Measures,
    known: &'a [Measures],
    limits: &'a CheckLimits,
}

impl Checker<'_> {
    fn check(&self, kind: CheckKind) -> Option<Check> {
        let (session, limits) = (self.session, self.limits);
        match kind {
            CheckKind::Steps => self.count(kind, session.steps, limits.steps, |one| one.steps),
            CheckKind::Calls => self.count(kind, session.calls, limits.calls, |one| one.calls),
            CheckKind::Tokens => {
                let actual = session.tokens.map(|tokens| tokens as f64);
                let most = self.most(|one| one.tokens.map(|tokens| tokens as f64));
                let limit = limits.tokens.map(|tokens| tokens as f64).or(most)?;
                Some(self.number(kind, actual, true, limit))
            }
            CheckKind::Cost => {
                let known = |one: &Measures| one.cost_usd.filter(|_| !one.cost_partial);
                let limit = limits.cost_usd.or_else(|| self.most(known))?;
                Some(self.number(kind, session.cost_usd, !session.cost_partial, limit))
            }
            CheckKind::Duration => {
                let most = self.most(|one| Some(one.duration_ms));
                let limit = limits.duration_ms.or(most)?;
                Some(self.number(kind, Some(session.duration_ms), true, limit))
            }
            CheckKind::NewTools => self.new_tools(),
            CheckKind::Loops => self.exact(kind, session.loops, limits.loops, |one| one.loops),
            CheckKind::Errors => self.exact(kind, session.errors, limits.errors, |one| one.errors),
            CheckKind::Status => self.status(),
            CheckKind::Divergence => self.divergence(),
        }
    }

    /// The most of the baseline, with the tolerance. None if a session of it lacks the number.
    fn most(&self, of: impl Fn(&Measures) -> Option<f64>) -> Option<f64> {
        let all: Option<Vec<f64>> = self.known.iter().map(of).collect();
        let most = all?.into_iter().reduce(f64::max)?;
        Some(most * (1.0 + self.limits.tolerance))
    }

    fn count(
        &self,
        kind: CheckKind,
        actual: u64,
        given: Option<u64>,
        of: impl Fn(&Measures) -> u64,
    ) -> Option<Check> {
        let most = self.most(|one| Some(of(one) as f64));
        let limit = given.map(|given| given as f64).or(most)?;
        Some(self.number(kind, Some(actual as f64), true, limit))
    }

    /// A count without tolerance.
    fn exact(
        &self,
        kind: CheckKind,
        actual: u64,
        given: Option<u64>,
        of: impl Fn(&Measures) -> u64,
    ) -> Option<Check> {
        let limit = given.or_else(|| self.known.iter().map(of).max())?;
        Some(self.number(kind, Some(actual as f64), true, limit as f64))
    }

    fn number(&self, kind: CheckKind, actual: Option<f64>, whole: bool, limit: f64) -> Check {
        let shown = |number: f64| match kind {
            CheckKind::Cost => format!("${number:.4}"),
            CheckKind::Duration => format!("{number:.0} ms"),
            _ => format!("{number:.0}"),
        };
        let most = shown(limit);
        let why = match actual {
            None => Some(format!("unknown, and at most {most} was expected")),
            Some(actual) if actual > limit => Some(format!(
                "{}, and at most {most} was expected",
                shown(actual)
            )),
            Some(actual) if !whole => Some(format!(
                "at least {}, and not wholly known; at most {most} was expected",
                shown(actual)
            )),
            Some(_) => None,
        };
        Check::new(kind, actual.map(number), number(limit), why)
    }

    fn new_tools(&self) -> Option<Check> {
        if self.known.is_empty() {
            return None;
        }
        let is_known = |tool: &str| self.known.iter().any(|one| one.tools.contains(tool));
        let tools = self.session.tools.iter();
        let new: Vec<&str> = tools.map(String::as_str).filter(|t| !is_known(t)).collect();
        let why = (!new.is_empty()).then(|| {
            let names = new.join(", ");
            format!("{names}, which the baseline did not call")
        });
        Some(Check::new(CheckKind::NewTools, new, json!([]), why))
    }

    fn status(&self) -> Option<Check> {
        let mut accepted: Vec<&str> = match self.limits.status {
            Some(given) => vec![given.as_str()],
            None => self.known.iter().map(|one| one.ending.as_str()).collect(),
        };
        accepted.dedup();
        if accepted.is_empty() {
            return None;
        }
        let actual = self.session.ending.as_str();
        let expected = accepted.join(" or ");
        let why = || format!("{actual}, and {expected} was expected");
        let why = (!accepted.contains(&actual)).then(why);
        Some(Check::new(CheckKind::Status, actual, accepted, why))
    }

    fn divergence(&self) -> Option<Check> {
        let limit = self.limits.divergence?;
        let distances = self.known.iter();
        let distances = distances.map(|one| divergence(&self.session.sequence, &one.sequence));
        let nearest = distances.reduce(f64::min)?;
        let why = || format!("{nearest:.2}, and at most {limit} was expected");
        let why = (nearest > limit).then(why);
        Some(Check::new(CheckKind::Divergence, nearest, limit, why))
    }
}

/// A number as JSON; a whole one without a fraction.
fn number(number: f64) -> Value {
    match number.fract() == 0.0 && (0.0..9e15).contains(&number) {
        true => (number as u64).into(),
        false => number.into(),
    }
}
