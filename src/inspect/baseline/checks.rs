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

/// The number of a session that a check is about.
fn measured(kind: CheckKind, session: &Measures) -> Option<f64> {
    Some(match kind {
        CheckKind::Steps => session.steps as f64,
        CheckKind::Calls => session.calls as f64,
        CheckKind::Tokens => session.tokens? as f64,
        CheckKind::Cost => session.cost_usd?,
        CheckKind::Duration => session.duration_ms,
        CheckKind::Loops => session.loops as f64,
        CheckKind::Errors => session.errors as f64,
        CheckKind::NewTools | CheckKind::Status | CheckKind::Divergence => return None,
    })
}

/// Whether that is all of it: the cost of some calls may be unknown.
fn is_whole(kind: CheckKind, session: &Measures) -> bool {
    kind != CheckKind::Cost || !session.cost_partial
}

/// The limit of such a number that was given.
fn given(kind: CheckKind, limits: &CheckLimits) -> Option<f64> {
    let count = match kind {
        CheckKind::Steps => limits.steps,
        CheckKind::Calls => limits.calls,
        CheckKind::Tokens => limits.tokens,
        CheckKind::Loops => limits.loops,
        CheckKind::Errors => limits.errors,
        CheckKind::Cost => return limits.cost_usd,
        CheckKind::Duration => return limits.duration_ms,
        CheckKind::NewTools | CheckKind::Status | CheckKind::Divergence => None,
    };
    count.map(|count| count as f64)
}

impl Checker<'_> {
    fn check(&self, kind: CheckKind) -> Option<Check> {
        match kind {
            CheckKind::NewTools => self.new_tools(),
            CheckKind::Status => self.status(),
            CheckKind::Divergence => self.divergence(),
            kind => self.number(kind),
        }
    }

    /// The most of the baseline, for some checks with the tolerance. None if a session of it lacks the number.
    fn most(&self, kind: CheckKind) -> Option<f64> {
        let of = |one: &Measures| measured(kind, one).filter(|_| is_whole(kind, one));
        let all: Option<Vec<f64>> = self.known.iter().map(of).collect();
        let most = all?.into_iter().reduce(f64::max)?;
        Some(match kind {
            CheckKind::Loops | CheckKind::Errors => most,
            _ => most * (1.0 + self.limits.tolerance),
        })
    }

    fn number(&self, kind: CheckKind) -> Option<Check> {
        let actual = measured(kind, self.session);
        let limit = given(kind, self.limits).or_else(|| self.most(kind))?;
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
            Some(actual) if !is_whole(kind, self.session) => Some(format!(
                "at least {}, and not wholly known; at most {most} was expected",
                shown(actual)
            )),
            Some(_) => None,
        };
        Some(Check::new(kind, actual.map(number), number(limit), why))
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
