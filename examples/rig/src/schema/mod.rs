//! Whether a body is a request that OpenAI's chat completions or Anthropic's messages accept, by the descriptions that
//! the two publish: members and their types, roles, content, tools, and results that follow their calls. A member that
//! an API does not know is an error, as it is for the APIs.

mod anthropic;
mod openai;

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

/// What is wrong, and where.
type Checked<T = ()> = Result<T, String>;

/// Checks a body for OpenAI's chat completions.
pub fn openai(body: &Value) -> Result<(), String> {
    openai::check(&At::body(body))
}

/// Checks a body for Anthropic's messages.
pub fn anthropic(body: &Value) -> Result<(), String> {
    anthropic::check(&At::body(body))
}

/// A value of a body, and where it is.
#[derive(Clone)]
struct At<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> At<'a> {
    fn body(value: &'a Value) -> Self {
        let path = "body".to_owned();
        Self { path, value }
    }

    fn wrong<T>(&self, why: &str) -> Checked<T> {
        Err(format!("{}: {why}: {}", self.path, self.value))
    }

    /// A member that is there and not null.
    fn get(&self, name: &str) -> Option<At<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        let path = format!("{}.{name}", self.path);
        Some(At { path, value })
    }

    /// A member that must be there.
    fn need(&self, name: &str) -> Checked<At<'a>> {
        match self.get(name) {
            Some(member) => Ok(member),
            None => self.wrong(&format!("no {name}")),
        }
    }

    /// Checks a member if it is there.
    fn optional(&self, name: &str, check: impl FnOnce(&At<'a>) -> Checked) -> Checked {
        self.get(name).map_or(Ok(()), |member| check(&member))
    }

    /// Checks that it is an object that has no other members than these.
    fn only(&self, names: &[&str]) -> Checked {
        let members = self.object()?;
        match members.keys().find(|name| !names.contains(&name.as_str())) {
            Some(name) => self.wrong(&format!("unknown member {name}")),
            None => Ok(()),
        }
    }

    fn object(&self) -> Checked<&'a Map<String, Value>> {
        match self.value.as_object() {
            Some(members) => Ok(members),
            None => self.wrong("not an object"),
        }
    }

    /// The items of an array that is not empty.
    fn items(&self) -> Checked<Vec<At<'a>>> {
        let Some(items) = self.value.as_array().filter(|items| !items.is_empty()) else {
            return self.wrong("not an array with items");
        };
        let items = items.iter().enumerate().map(|(at, value)| At {
            path: format!("{}[{at}]", self.path),
            value,
        });
        Ok(items.collect())
    }

    fn text(&self) -> Checked<&'a str> {
        match self.value.as_str() {
            Some(text) => Ok(text),
            None => self.wrong("not a text"),
        }
    }

    /// A text that is not empty.
    fn some_text(&self) -> Checked<&'a str> {
        match self.text()?.trim() {
            "" => self.wrong("an empty text"),
            _ => self.text(),
        }
    }

    fn is_text(&self) -> Checked {
        self.text().map(drop)
    }

    fn is_flag(&self) -> Checked {
        match self.value {
            Value::Bool(_) => Ok(()),
            _ => self.wrong("not true or false"),
        }
    }

    fn is_number(&self, range: RangeInclusive<f64>) -> Checked {
        match self.value.as_f64().filter(|number| range.contains(number)) {
            Some(_) => Ok(()),
            None => self.wrong(&format!("not a number in {range:?}")),
        }
    }

    fn is_count(&self) -> Checked {
        match self.value.as_u64().filter(|count| *count > 0) {
            Some(_) => Ok(()),
            None => self.wrong("not a whole number above 0"),
        }
    }

    fn is_one_of(&self, words: &[&str]) -> Checked {
        match words.contains(&self.text()?) {
            true => Ok(()),
            false => self.wrong(&format!("not one of {}", words.join(", "))),
        }
    }

    /// The name of a tool: letters, digits, `_` and `-`.
    fn is_name(&self, longest: usize) -> Checked {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name = self.text()?;
        match !name.is_empty() && name.len() <= longest && name.chars().all(is_letter) {
            true => Ok(()),
            false => self.wrong("not a name of letters, digits, _ and -"),
        }
    }
}

/// A text, or an array of parts.
fn text_or(content: &At<'_>, check: impl Fn(&At<'_>) -> Checked) -> Checked {
    match content.value {
        Value::String(_) => Ok(()),
        _ => content.items()?.iter().try_for_each(check),
    }
}

/// Checks that no two tools have the same name.
fn are_different(mut names: Vec<&str>, tools: &At<'_>) -> Checked {
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => tools.wrong(&format!("two tools are called {}", pair[0])),
        None => Ok(()),
    }
}
