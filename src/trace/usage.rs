//! Token counts and cost, and the totals that ride on `turn_end`, `session_end` and checkpoints.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use serde_json::{Map, Value};

use super::put;
use super::typed::Fields;

/// What a model call, a turn or a run used. A number that isn't known stays `None` and is
/// left out of the trace: unknown is never 0.
///
/// ```
/// use spanledger::Usage;
/// let usage = Usage { input_tokens: Some(1200), output_tokens: Some(80), ..Usage::default() };
/// assert_eq!(usage.cost_usd, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// All input, cached tokens included.
    pub input_tokens: Option<u64>,
    /// The input that no cache served.
    pub input_uncached_tokens: Option<u64>,
    /// All output, reasoning included.
    pub output_tokens: Option<u64>,
    /// The output that is not reasoning.
    pub output_text_tokens: Option<u64>,
    /// The reasoning part of the output.
    pub reasoning_tokens: Option<u64>,
    /// The input that was read from a cache.
    pub cache_read_tokens: Option<u64>,
    /// The input that was written to a cache.
    pub cache_write_tokens: Option<u64>,
    /// The provider's own total.
    pub total_tokens: Option<u64>,
    /// What it cost, in US dollars.
    pub cost_usd: Option<f64>,
    /// What the provider reported, verbatim.
    pub usage_details: Option<Value>,
}

/// The counts, in the order in which they are written.
macro_rules! define_counts {
    ($($count:ident),+) => {
        impl Usage {
            pub(crate) const COUNTS: [&'static str; 8] = [$( stringify!($count) ),+];

            pub(crate) fn counts(&self) -> [Option<u64>; 8] {
                [$( self.$count ),+]
            }

            pub(crate) fn counts_mut(&mut self) -> [&mut Option<u64>; 8] {
                [$( &mut self.$count ),+]
            }
        }
    };
}
define_counts!(
    input_tokens,
    input_uncached_tokens,
    output_tokens,
    output_text_tokens,
    reasoning_tokens,
    cache_read_tokens,
    cache_write_tokens,
    total_tokens
);

impl Usage {
    /// A usage with these counts, by their names.
    pub(crate) fn from_counts(count: impl Fn(&str) -> Option<u64>) -> Self {
        let mut usage = Self::default();
        for (name, slot) in Self::COUNTS.iter().zip(usage.counts_mut()) {
            *slot = count(name);
        }
        usage
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.cost_usd.is_none()
            && self.usage_details.is_none()
            && self.counts().iter().all(Option::is_none)
    }

    /// Takes over the values that `newer` has.
    pub(crate) fn merge(&mut self, newer: &Usage) {
        for (slot, count) in self.counts_mut().into_iter().zip(newer.counts()) {
            *slot = count.or(*slot);
        }
        self.cost_usd = newer.cost_usd.or(self.cost_usd);
        if newer.usage_details.is_some() {
            self.usage_details.clone_from(&newer.usage_details);
        }
    }

    pub(crate) fn add(&mut self, other: &Usage) {
        for (sum, count) in self.counts_mut().into_iter().zip(other.counts()) {
            if let Some(count) = count {
                *sum = Some(sum.unwrap_or(0).saturating_add(count));
            }
        }
        if let Some(cost) = other.cost_usd.filter(|c| c.is_finite()) {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        }
    }

    /// The usage among these fields. Values that aren't numbers are ignored.
    pub fn of(fields: &Fields<'_>) -> Self {
        Self {
            cost_usd: fields.get("cost_usd").and_then(|value| value.f64()),
            usage_details: fields.get("usage_details").and_then(|value| value.value()),
            ..Self::from_counts(|name| fields.get(name)?.u64())
        }
    }

    /// Reads a `usage` object of a line. Values that aren't numbers are ignored.
    pub(crate) fn from_json(map: &Map<String, Value>) -> Self {
        Self {
            cost_usd: map.get("cost_usd").and_then(Value::as_f64),
            usage_details: map.get("usage_details").cloned(),
            ..Self::from_counts(|name| map.get(name)?.as_u64())
        }
    }

    /// As an object; an unknown value is null.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        for (name, count) in Self::COUNTS.iter().zip(self.counts()) {
            map.insert((*name).to_owned(), count.into());
        }
        map.insert("cost_usd".to_owned(), self.cost_usd.into());
        Value::Object(map)
    }

    /// Appends the members, without braces. `details` are the redacted details, as JSON.
    pub(crate) fn write_members(&self, details: Option<&str>, out: &mut Vec<u8>) {
        let mut comma = false;
        let mut member = |name: &str, value: &str, out: &mut Vec<u8>| {
            let quote = match std::mem::replace(&mut comma, true) {
                true => b",\"".as_slice(),
                false => b"\"",
            };
            put(out, [quote, name.as_bytes(), b"\":", value.as_bytes()]);
        };
        for (name, count) in Self::COUNTS.iter().zip(self.counts()) {
            if let Some(n) = count {
                member(name, &n.to_string(), out);
            }
        }
        if let Some(cost) = self.cost_usd.filter(|c| c.is_finite()) {
            member("cost_usd", &Value::from(cost).to_string(), out);
        }
        if let Some(details) = details {
            member("usage_details", details, out);
        }
    }
}

/// A usage whose provider details have passed redaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsageText {
    pub usage: Usage,
    pub details: Option<String>,
}

impl UsageText {
    pub fn is_empty(&self) -> bool {
        self.usage.is_empty() && self.details.is_none()
    }

    pub fn merge(&mut self, newer: UsageText) {
        self.usage.merge(&newer.usage);
        if newer.details.is_some() {
            self.details = newer.details;
        }
    }

    pub fn write_members(&self, out: &mut Vec<u8>) {
        self.usage.write_members(self.details.as_deref(), out);
    }
}

/// What one writer added to a session so far, in all its segments there. Two processes in one session never
/// share a counter; a reader adds up those of all writers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Turns that were opened.
    pub turns: u64,
    /// Model calls that were closed.
    pub model_calls: u64,
    /// Tool calls that were closed.
    pub tool_calls: u64,
    /// Spans closed as an error, and `error` events. An error that `?` passes to the spans around counts once.
    pub errors: u64,
    /// Counted once: a model call's usage takes precedence over its turn's, and a turn's over its run's.
    pub usage: Usage,
}

impl Totals {
    pub(crate) fn add(&mut self, other: &Totals) {
        self.turns = self.turns.saturating_add(other.turns);
        self.model_calls = self.model_calls.saturating_add(other.model_calls);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.errors = self.errors.saturating_add(other.errors);
        self.usage.add(&other.usage);
    }

    pub(crate) fn add_usage(&mut self, usage: &Usage) {
        self.usage.add(usage);
    }

    pub(crate) fn write(&self, marks: &Marks, out: &mut Vec<u8>) {
        out.extend_from_slice(
            format!(
                "{{\"turns\":{},\"model_calls\":{},\"tool_calls\":{},\"errors\":{},\"usage\":{{",
                self.turns, self.model_calls, self.tool_calls, self.errors
            )
            .as_bytes(),
        );
        self.usage.write_members(None, out);
        let marks = format!(
            "}},\"marks\":{{\"masked\":{},\"cut\":{},\"gaps\":{},\"missing\":{}}}}}",
            marks.masked, marks.cut, marks.gaps, marks.missing
        );
        out.extend_from_slice(marks.as_bytes());
    }

    /// Reads the `totals` of a line.
    pub fn from_json(value: &Value) -> Option<Self> {
        let count = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
        Some(Self {
            turns: count("turns"),
            model_calls: count("model_calls"),
            tool_calls: count("tool_calls"),
            errors: count("errors"),
            usage: Usage::from_json(value.get("usage")?.as_object()?),
        })
    }
}

/// How much lines withhold, or lost. They are written with the totals, so that a reader does not need the whole
/// trace; the line that has them is not counted in them.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// for entry in spanledger::session::Store::new(dir.path()).list()? {
///     let (marks, all) = entry.summary.marks();
///     println!("{} masks{}", marks.masked, if all { "" } else { " at least" });
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Masks that stand for secrets, in each line that has them.
    pub masked: u64,
    /// Values of which a part was cut.
    pub cut: u64,
    /// `gap` lines.
    pub gaps: u64,
    /// The events that they count.
    pub missing: u64,
}

impl Marks {
    /// Counts the masks and cuts of one line.
    pub(crate) fn count(&mut self, line: &[u8]) {
        static MASK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("[masked rule="));
        static CUT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"$cut\""));
        let times = |finder: &Finder<'_>| finder.find_iter(line).count() as u64;
        self.masked = self.masked.saturating_add(times(&MASK));
        self.cut = self.cut.saturating_add(times(&CUT));
    }

    /// Counts a `gap` line.
    pub(crate) fn gap(&mut self, missing: u64) {
        self.gaps = self.gaps.saturating_add(1);
        self.missing = self.missing.saturating_add(missing);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.masked = self.masked.saturating_add(other.masked);
        self.cut = self.cut.saturating_add(other.cut);
        self.gaps = self.gaps.saturating_add(other.gaps);
        self.missing = self.missing.saturating_add(other.missing);
    }

    /// Reads the marks in a line's `totals`; older traces have none.
    pub(crate) fn from_totals(totals: &Value) -> Option<Self> {
        let marks = totals.get("marks")?;
        let count = |name: &str| marks.get(name)?.as_u64();
        Some(Self {
            masked: count("masked")?,
            cut: count("cut")?,
            gaps: count("gaps")?,
            missing: count("missing")?,
        })
    }
}
