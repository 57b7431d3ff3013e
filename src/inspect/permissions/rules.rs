//! Permission rules, and what they mean.

use std::fmt;

use serde_json::Value;

use crate::session::Action;

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The tool or the permission that it is about; may have wildcards.
    pub permission: String,
    /// What the command, file or argument has to match; may have wildcards.
    pub pattern: String,
    /// allow, ask or deny.
    pub action: Action,
}

/// Rules in their order.
///
/// - **Wildcards**: `*` stands for any text, also none, also with `/` and line breaks; `?` for one character. Everything
///   else stands for itself, in the same case. A pattern matches the whole text: `git *` matches `git log` and not `git`.
/// - **Precedence**: the last rule that matches decides, regardless of its action. So general rules come first and exceptions
///   after them.
/// - **Default**: a call that no rule matches is asked for.
/// - A rule without a `pattern` matches every text.
///
/// ```
/// use spanledger::inspect::permissions::Rules;
/// use spanledger::session::Action;
/// let rules = Rules::parse(r#"[
///     {"permission": "*", "action": "ask"},
///     {"permission": "bash", "pattern": "git *", "action": "allow"},
///     {"permission": "bash", "pattern": "git push*", "action": "deny"}
/// ]"#)?;
/// assert_eq!(rules.decide("bash", "git log").action, Action::Allow);
/// assert_eq!(rules.decide("bash", "git push --force").action, Action::Deny);
/// assert_eq!(rules.decide("edit", "src/main.rs").rule, Some(0));
/// # Ok::<(), spanledger::inspect::permissions::RulesError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(pub Vec<Rule>);

/// What rules decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decided {
    /// allow, ask or deny.
    pub action: Action,
    /// The index of the rule that decided; none if no rule matches.
    pub rule: Option<usize>,
}

impl Decided {
    /// What no rule matches is asked for.
    const BY_DEFAULT: Self = Self {
        action: Action::Ask,
        rule: None,
    };
}

/// Why a text has no rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesError(String);

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RulesError {}

impl Rules {
    /// Reads rules: a JSON list of `{permission, pattern, action}` as `permission_rules` records it, or an object with
    /// such a list under `rules`. `tool` is read as `permission`; other members are ignored.
    pub fn parse(json: &str) -> Result<Self, RulesError> {
        let wrong = |why: String| RulesError(format!("not a list of permission rules: {why}"));
        let value: Value = serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
        let list = value.get("rules").unwrap_or(&value).as_array();
        let list =
            list.ok_or_else(|| wrong("expected `[{permission, pattern, action}, …]`".into()))?;
        let rule = |(at, rule): (usize, &Value)| {
            let text = |name: &str| rule.get(name).and_then(Value::as_str);
            let permission = text("permission").or_else(|| text("tool"));
            let permission = permission
                .ok_or_else(|| wrong(format!("rule {at} has no text `permission` or `tool`")))?;
            let action = text("action").and_then(Action::parse);
            let action = action.filter(|action| *action != Action::Other);
            let action = action
                .ok_or_else(|| wrong(format!("`action` of rule {at} is not allow, ask or deny")))?;
            let pattern = match rule.get("pattern") {
                None | Some(Value::Null) => "*",
                Some(Value::String(pattern)) => pattern,
                Some(_) => return Err(wrong(format!("`pattern` of rule {at} is not a text"))),
            };
            Ok(Rule {
                permission: permission.to_owned(),
                pattern: pattern.to_owned(),
                action,
            })
        };
        list.iter()
            .enumerate()
            .map(rule)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// What the rules decide about a call: the tool or permission, and its command, file or argument.
    pub fn decide(&self, permission: &str, subject: &str) -> Decided {
        let decided = self.decide_any(&[Some(permission)], Some(subject));
        decided.unwrap_or(Decided::BY_DEFAULT)
    }

    /// The same, for a call that has several names. `None` if a pattern would decide and the subject is not known.
    pub(super) fn decide_any(
        &self,
        names: &[Option<&str>],
        subject: Option<&str>,
    ) -> Option<Decided> {
        for (at, rule) in self.0.iter().enumerate().rev() {
            let mut known = names.iter().flatten();
            if !known.any(|name| matches(&rule.permission, name)) {
                continue;
            }
            let is_any = !rule.pattern.is_empty() && rule.pattern.bytes().all(|byte| byte == b'*');
            let applies = match subject {
                Some(subject) => matches(&rule.pattern, subject),
                None if is_any => true,
                None => return None,
            };
            if applies {
                return Some(Decided {
                    action: rule.action,
                    rule: Some(at),
                });
            }
        }
        Some(Decided::BY_DEFAULT)
    }
}

/// Whether a pattern matches a whole text: `*` stands for any text, `?` for one character.
///
/// ```
/// use spanledger::inspect::permissions::matches;
/// assert!(matches("git *", "git log") && !matches("git *", "git"));
/// assert!(matches("src/?.rs", "src/a.rs") && !matches("src/*.RS", "src/a.rs"));
/// ```
pub fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // Where to go on if the newest `*` has to stand for one character more.
    let mut again = None;
    loop {
        let at = text.clone();
        match (pattern.next(), text.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                text = at.clone();
                again = Some((pattern.clone(), at));
            }
            (Some('?'), Some(_)) => {}
            (Some(wanted), Some(found)) if wanted == found => {}
            _ => {
                let Some((rest, mut from)) = again.take() else {
                    return false;
                };
                if from.next().is_none() {
                    return false;
                }
                (pattern, text) = (rest.clone(), from.clone());
                again = Some((rest, from));
            }
        }
    }
}

#[cfg(test)]
mod tests;
