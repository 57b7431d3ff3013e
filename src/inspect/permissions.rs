//! Permission decisions: what was decided, and what other rules would have decided.
//!
//! [`Rules`] are the rules of a host. `Rules::decide` is the one definition of what they mean; a host can call it before
//! a tool runs, and [`WhatIf`] calls it on what was recorded.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::read::SessionReader;
use crate::session::{Action, Item, PermissionDecision, Step, Turn, Turns};
use crate::trace::typed::{ToolCall, owned};
use crate::trace::{Address, Damage, Outcome, RawValue};

mod rules;

pub use rules::{Decided, Rule, Rules, RulesError, matches};

/// A permission that was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedDecision {
    /// The session's id.
    pub session_id: String,
    /// Its line.
    pub address: Address,
    /// Its turn.
    pub turn: Option<u32>,
    /// The tool.
    pub tool: String,
    /// The permission that was requested, if it is not the tool's name.
    pub permission: Option<String>,
    /// What the call would have touched: its command, its file, or its only argument. None if it is not in the line.
    pub subject: Option<String>,
    /// What the rules decided: `ask` if a person was asked. None if that was not recorded.
    pub action: Option<Action>,
    /// The pattern of the rule.
    pub pattern: Option<String>,
    /// Where the rule comes from.
    pub source: Option<String>,
    /// A person was asked.
    pub asked: bool,
    /// The person who decided.
    pub decided_by: Option<String>,
    /// The person's answer.
    pub answer: Option<String>,
    /// Whether the call was allowed in the end; none if it is not known.
    pub allowed: Option<bool>,
    /// How long the decision took, in nanoseconds.
    pub duration: Option<u64>,
}

impl RecordedDecision {
    fn of(session_id: &str, decision: &PermissionDecision<'_>, guarded: &Guarded) -> Self {
        let permission = &decision.permission;
        let id = owned(permission.tool_id()).or_else(|| guarded.tool.clone());
        let asked = decision.is_asked();
        Self {
            session_id: session_id.to_owned(),
            address: decision.node.address,
            turn: decision.node.turn,
            tool: id.unwrap_or_default(),
            permission: owned(permission.permission()),
            subject: guarded.subject.clone(),
            action: match asked {
                true => Some(Action::Ask),
                false => decision.action(),
            },
            pattern: owned(decision.pattern()),
            source: owned(decision.source()),
            asked,
            decided_by: owned(decision.decided_by()),
            answer: owned(decision.answer_text()),
            allowed: allowed(decision),
            duration: decision.node.duration,
        }
    }

    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        json!({
            "session_id": self.session_id,
            "address": self.address.to_string(),
            "turn": self.turn,
            "tool_id": self.tool,
            "permission": self.permission,
            "subject": self.subject,
            "action": self.action.map(Action::as_str),
            "pattern": self.pattern,
            "source": self.source,
            "asked": self.asked,
            "decided_by": self.decided_by,
            "answer": self.answer,
            "allowed": self.allowed,
            "duration_ms": self.duration.map(|ns| ns as f64 / 1e6),
        })
    }
}

/// Whether a call was allowed in the end.
fn allowed(decision: &PermissionDecision<'_>) -> Option<bool> {
    match (decision.node.outcome(), decision.action()) {
        (Some(Outcome::Denied), _) | (_, Some(Action::Deny)) => Some(false),
        (_, Some(Action::Allow)) => Some(true),
        _ => {
            let answer = decision.answer_text()?;
            match answer.to_ascii_lowercase() {
                word if word.starts_with("allow") || word.starts_with("accept") => Some(true),
                word if word.starts_with("approve") || word == "yes" => Some(true),
                word if word.starts_with("den") || word.starts_with("reject") => Some(false),
                word if word == "no" => Some(false),
                _ => None,
            }
        }
    }
}

/// The text that patterns are matched with: the command, else the only file, else the only text among the arguments.
fn subject(call: &ToolCall<'_>) -> Option<String> {
    let text = |value: RawValue<'_>| value.text().map(Cow::into_owned);
    if let Some(command) = call.command() {
        return text(command);
    }
    let mut places = call.locations().into_iter().flat_map(|list| list.items());
    if let (Some(only), None) = (places.next(), places.next()) {
        return text(only).or_else(|| text(only.get("path")?));
    }
    let args = call.args()?;
    if let Some(plain) = text(args) {
        return Some(plain);
    }
    for name in ["command", "path", "file_path", "url"] {
        if let Some(value) = args.get(name) {
            return text(value);
        }
    }
    let mut members = args.members();
    match (members.next(), members.next()) {
        (Some((name, only)), None) if !name.starts_with('$') => text(only),
        _ => None,
    }
}

/// Calls `take` with each decision of a session, in order. Holds a turn at a time. Returns what is damaged.
pub fn each<E: From<io::Error>>(
    session: &Path,
    mut take: impl FnMut(RecordedDecision) -> Result<(), E>,
) -> Result<Vec<Damage>, E> {
    let mut turns = Turns::default();
    let mut id = String::new();
    let damages = SessionReader::open(session)?.each_line(|line| {
        if id.is_empty() {
            id = line.session_id.clone().into_owned();
        }
        turns.take(line);
        let ready = std::iter::from_fn(|| turns.ready());
        let mut decided = ready.flat_map(|turn| of_turn(&id, &turn));
        decided.try_for_each(&mut take)
    })?;
    let rest = turns.finish().into_iter();
    let mut decided = rest.flat_map(|turn| of_turn(&id, &turn));
    decided.try_for_each(take)?;
    Ok(damages)
}

fn of_turn(id: &str, turn: &Turn) -> Vec<RecordedDecision> {
    let mut found = Vec::new();
    for step in turn.steps() {
        gather(id, &step, &Guarded::default(), &mut found);
    }
    found.sort_by_key(|one| one.address);
    found
}

/// The tool call that a permission guards.
#[derive(Default)]
struct Guarded {
    tool: Option<String>,
    subject: Option<String>,
}

fn gather(id: &str, step: &Step<'_>, guarded: &Guarded, found: &mut Vec<RecordedDecision>) {
    if let Some(decision) = &step.decision {
        found.push(RecordedDecision::of(id, decision, guarded));
    }
    let own = match step.node.item() {
        Item::ToolCall(call) => Some(Guarded {
            tool: owned(call.tool_id()),
            subject: subject(&call),
        }),
        _ => None,
    };
    let guarded = own.as_ref().unwrap_or(guarded);
    for inner in &step.inside {
        gather(id, inner, guarded, found);
    }
}

/// A recorded decision, and what other rules decide.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flip {
    /// What was recorded.
    pub recorded: RecordedDecision,
    /// What the other rules decide.
    pub decided: Decided,
}

/// Counts of what would be different.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WhatIf {
    /// Decisions that were recorded.
    pub decisions: u64,
    /// Those that the other rules decide otherwise.
    pub flips: u64,
    /// Questions to a person that would not be asked.
    pub saved: u64,
    /// Questions that would be asked in addition.
    pub added: u64,
    /// Calls that would run without a question, and did not before: they were asked for, or denied.
    pub unasked: u64,
    /// Calls that a person denied and that would run without a question.
    pub unasked_denied: u64,
    /// Calls that were allowed in the end and would be denied.
    pub denied: u64,
    /// Decisions that can't be compared: the action was not recorded, or a pattern needs a text that was not.
    pub undecided: u64,
}

impl WhatIf {
    /// Evaluates one recorded decision. Returns it if it would be decided otherwise.
    ///
    /// ```no_run
    /// use spanledger::inspect::permissions::{Rules, WhatIf, each};
    /// let rules = Rules::parse(r#"[{"permission": "bash", "pattern": "cargo *", "action": "allow"}]"#)?;
    /// let mut what_if = WhatIf::default();
    /// each("sessions/ses_1".as_ref(), |recorded| {
    ///     if let Some(flip) = what_if.evaluate(&rules, recorded) {
    ///         println!("{} {:?}", flip.recorded.tool, flip.decided);
    ///     }
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// println!("{} questions saved", what_if.saved);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn evaluate(&mut self, rules: &Rules, recorded: RecordedDecision) -> Option<Flip> {
        self.decisions += 1;
        let permission = recorded.permission.as_deref();
        let names = [Some(recorded.tool.as_str()), permission];
        let decided = rules.decide_any(&names, recorded.subject.as_deref());
        let (Some(before), Some(decided)) = (recorded.action, decided) else {
            self.undecided += 1;
            return None;
        };
        if before == decided.action {
            return None;
        }
        self.flips += 1;
        self.saved += u64::from(before == Action::Ask);
        self.added += u64::from(decided.action == Action::Ask);
        if decided.action == Action::Allow {
            self.unasked += 1;
            let by_person = recorded.asked && recorded.allowed == Some(false);
            self.unasked_denied += u64::from(by_person);
        }
        let is_denied = decided.action == Action::Deny && recorded.allowed == Some(true);
        self.denied += u64::from(is_denied);
        Some(Flip { recorded, decided })
    }

    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        json!({
            "decisions": self.decisions,
            "flips": self.flips,
            "questions_saved": self.saved,
            "questions_added": self.added,
            "would_run_unasked": self.unasked,
            "would_run_unasked_denied_by_person": self.unasked_denied,
            "would_be_denied": self.denied,
            "undecided": self.undecided,
        })
    }
}

impl Flip {
    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        let mut object = self.recorded.to_json();
        object["would_be"] = self.decided.action.as_str().into();
        object["rule"] = json!(self.decided.rule);
        object
    }
}
