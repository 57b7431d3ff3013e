//! Limits from the environment and from a file.
//!
//! The file is TOML: tables, and values that are numbers, strings or lists of strings on one line. A `toml` crate
//! would be a dependency of every program that records.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::limits::{Limits, LoopPolicy};
use super::loops::LoopKind;

/// A limit that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file and line, the variable, or the setter.
    pub place: String,
    /// What is wrong there.
    pub why: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

impl std::error::Error for ConfigError {}

/// The variables, and the settings that they stand for.
const VARIABLES: [(&str, &str); 8] = [
    ("SPANLEDGER_MAX_TOOL_CALLS", "tool_calls"),
    ("SPANLEDGER_MAX_MODEL_CALLS", "model_calls"),
    ("SPANLEDGER_MAX_TURNS", "turns"),
    ("SPANLEDGER_MAX_DURATION", "duration"),
    ("SPANLEDGER_MAX_TOKENS", "tokens"),
    ("SPANLEDGER_MAX_COST_USD", "cost_usd"),
    ("SPANLEDGER_ON_LOOP", "on_loop"),
    ("SPANLEDGER_VOLATILE", "volatile"),
];

const SETTINGS: &str =
    "tool_calls, model_calls, turns, duration, tokens, cost_usd, on_loop or volatile";

/// A value as a file or a variable has it.
enum Value {
    /// A number, or all that a variable holds.
    Bare(String),
    Text(String),
    List(Vec<String>),
}

impl Limits {
    /// The limits that variables set. `None`: none is set. `get` returns the value of a variable.
    pub(crate) fn from_env(
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, ConfigError> {
        let mut limits = None;
        for (variable, setting) in VARIABLES {
            let Some(text) = get(variable) else { continue };
            let value = match setting {
                "volatile" => Value::List(text.split(',').map(|name| name.trim().into()).collect()),
                _ => Value::Bare(text.clone()),
            };
            let set = limits
                .get_or_insert_with(Self::default)
                .set(setting, &value);
            set.map_err(|why| ConfigError {
                place: format!("{variable}={text:?}"),
                why,
            })?;
        }
        Ok(limits)
    }

    /// The limits in a TOML file.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let file = dir.path().join("spanledger.toml");
    /// std::fs::write(&file, "[limits]\ntool_calls = 50\nduration = \"15m\"\n")?;
    /// let limits = spanledger::Limits::from_file(&file)?;
    /// assert_eq!(limits, spanledger::Limits::new().tool_calls(50).duration(std::time::Duration::from_secs(900)));
    ///
    /// std::fs::write(&file, "[limits]\ntool_cals = 50\n")?;
    /// let error = spanledger::Limits::from_file(&file).unwrap_err();
    /// assert!(error.to_string().contains("spanledger.toml:2: `tool_cals` is no setting"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
            place: path.display().to_string(),
            why: error.to_string(),
        })?;
        let at = |line: usize, why: String| ConfigError {
            place: format!("{}:{}", path.display(), line + 1),
            why,
        };
        let mut limits = Self::default();
        let mut table = String::new();
        for (number, line) in text.lines().enumerate() {
            let line = without_comment(line).trim();
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
            {
                table = name.trim().to_owned();
                if !matches!(&*table, "limits" | "limits.repetitions") {
                    let why = format!(
                        "`[{table}]` is no table; expected [limits] or [limits.repetitions]"
                    );
                    return Err(at(number, why));
                }
                continue;
            }
            let set = limits.set_line(&table, line);
            set.map_err(|why| at(number, why))?;
        }
        Ok(limits)
    }

    fn set_line(&mut self, table: &str, line: &str) -> Result<(), String> {
        let (key, value) = line
            .split_once('=')
            .ok_or_else(|| format!("expected `name = value`, found `{line}`"))?;
        let key = key.trim();
        let value = parse_value(value.trim()).ok_or_else(|| {
            format!("the value of `{key}` is no number, string or list of strings")
        })?;
        match table {
            "limits" => self.set(key, &value),
            "limits.repetitions" => self.set_repetitions(key, &value),
            _ => Err(format!("`{key}` belongs in the table [limits]")),
        }
    }

    fn set_repetitions(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let kind = LoopKind::parse(name).ok_or_else(|| {
            format!("`{name}` is no loop; expected no_progress, cycle, polling or drifting")
        })?;
        let count = count(value)?;
        let count = u32::try_from(count).ok().filter(|n| *n >= 2);
        self.repetitions[kind as usize] =
            Some(count.ok_or("expected a number of repetitions, at least 2")?);
        Ok(())
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), String> {
        match name {
            "tool_calls" => self.tool_calls = Some(count(value)?),
            "model_calls" => self.model_calls = Some(count(value)?),
            "turns" => self.turns = Some(count(value)?),
            "tokens" => self.tokens = Some(count(value)?),
            "cost_usd" => self.cost_usd = Some(money(value)?),
            "duration" => self.duration = Some(duration(value)?),
            "on_loop" => self.on_loop = Some(policy(value)?),
            "volatile" => match value {
                Value::List(names) => self.volatile = names.clone(),
                _ => return Err("expected a list of names, such as [\"timestamp\"]".into()),
            },
            _ => return Err(format!("`{name}` is no setting; expected {SETTINGS}")),
        }
        Ok(())
    }
}

impl Limits {
    /// As JSON, with the names of the settings.
    pub fn to_json(&self) -> serde_json::Value {
        let repetitions = LoopKind::ALL.into_iter();
        let repetitions = repetitions.filter_map(|kind| {
            let n = self.repetitions[kind as usize]?;
            Some((kind.as_str().to_owned(), n.into()))
        });
        serde_json::json!({
            "tool_calls": self.tool_calls,
            "model_calls": self.model_calls,
            "turns": self.turns,
            "duration": self.duration.map(|limit| limit.as_secs_f64()),
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "on_loop": self.loop_policy().as_str(),
            "repetitions": serde_json::Value::Object(repetitions.collect()),
            "volatile": self.volatile,
        })
    }

    /// The settings of the table `[limits]`, a line each.
    #[cfg(feature = "cli")]
    pub(crate) fn to_toml(&self) -> Vec<String> {
        let mut out = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            out.extend(value.map(|value| format!("{name} = {value}")));
        };
        let count = |limit: Option<u64>| limit.map(|limit| limit.to_string());
        add("tool_calls", count(self.tool_calls));
        add("model_calls", count(self.model_calls));
        add("turns", count(self.turns));
        add(
            "duration",
            self.duration.map(|limit| limit.as_secs().to_string()),
        );
        add("tokens", count(self.tokens));
        add("cost_usd", self.cost_usd.map(|limit| limit.to_string()));
        let policy = self
            .on_loop
            .map(|policy| format!("\"{}\"", policy.as_str()));
        add("on_loop", policy);
        out
    }
}

fn count(value: &Value) -> Result<u64, String> {
    let number = match value {
        Value::Bare(text) => text.replace('_', "").parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| "expected a whole number that is not negative".into())
}

fn money(value: &Value) -> Result<f64, String> {
    let amount = match value {
        Value::Bare(text) => text.parse().ok(),
        _ => None,
    };
    let amount = amount.filter(|amount: &f64| amount.is_finite() && *amount >= 0.0);
    amount.ok_or_else(|| "expected an amount of US dollars that is not negative".into())
}

fn duration(value: &Value) -> Result<Duration, String> {
    let parsed = match value {
        Value::Bare(text) | Value::Text(text) => parse_duration(text),
        Value::List(_) => None,
    };
    parsed.ok_or_else(|| "expected seconds, or a time such as \"90s\", \"15m\" or \"2h\"".into())
}

fn parse_duration(text: &str) -> Option<Duration> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = text[..text.len() - unit.len()].parse().ok()?;
    let seconds = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * seconds).ok()
}

fn policy(value: &Value) -> Result<LoopPolicy, String> {
    let policy = match value {
        Value::Bare(text) | Value::Text(text) => LoopPolicy::parse(text),
        Value::List(_) => None,
    };
    policy.ok_or_else(|| "expected \"off\", \"warn\" or \"stop\"".into())
}

/// A line up to its comment. A `#` inside quotes begins none.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') => return &line[..at],
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    line
}

fn parse_value(text: &str) -> Option<Value> {
    if let Some(inside) = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        let items = inside.split(',').map(str::trim);
        let items = items.filter(|item| !item.is_empty());
        let texts = items.map(|item| parse_string(item).map(str::to_owned));
        return texts.collect::<Option<_>>().map(Value::List);
    }
    if let Some(string) = parse_string(text) {
        return Some(Value::Text(string.to_owned()));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '+');
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+'));
    (is_number && text.chars().all(plain)).then(|| Value::Bare(text.to_owned()))
}

/// A string in quotes, without escapes.
fn parse_string(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inside.contains([quote, '\\'])).then_some(inside)
}

#[cfg(test)]
mod tests;
