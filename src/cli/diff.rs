//! `diff`: what differs between two sessions, and why.

use clap::Args;
use serde_json::Value;

use super::context::{Context, Failed};
use spanledger::inspect::diff::{AssetChange, Cause, DiffVerdict, asset_change, compare};
use spanledger::view;

/// Compare two sessions: what differs, where it starts, and why
///
/// Turns are aligned by what the user said, model calls by their order, and the tools between two
/// model calls by name and arguments. Times, ids, tokens and the order of parallel tools are no
/// differences; retries and another order are shown as such. The verdict names the first
/// divergence and its cause: system_prompt, tool_catalog, permission_rules, user_input,
/// tool_result, model, parameters, or none: the same request has another answer. That last one
/// needs requests that were recorded with `request()`; without them the inputs are reconstructed
/// from what was recorded, and where all of that is the same, the cause is unknown. Subagents are
/// compared as well: a difference in one is a difference of the turn that started it, and its
/// lines are named with their session.
///
/// Exit codes: 0 if the sessions are equal, 1 if they differ. With --expect-cause, 0 if they differ
/// for that cause, 1 if not.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  spanledger diff ses_0193 ses_0194
  spanledger diff ses_0193 last --only-differences
  spanledger diff before after --expect-cause system_prompt
  spanledger diff before after --json | jq .first_divergence")]
pub(crate) struct Diff {
    /// The first session: its id, a prefix of it, its directory, or `last`
    a: String,
    /// The second session
    b: String,
    /// Leave out what is equal
    #[arg(long)]
    only_differences: bool,
    /// Exit with 0 only if the sessions differ, and for this cause
    #[arg(long, value_name = "CAUSE")]
    expect_cause: Option<Cause>,
    /// Truncate nothing
    #[arg(long)]
    full: bool,
}

impl Diff {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let (a, b) = (context.resolve(&self.a)?, context.resolve(&self.b)?);
        context.style.full = self.full;
        let style = context.style.clone();
        let mut comma = "";
        if context.json {
            context.line("{\"turns\":[")?;
        }
        let verdict = compare(&a, &b, |turn| -> Result<(), Failed> {
            if !context.json {
                return context.lines(&view::diff_turn(&turn, self.only_differences, &style));
            }
            if self.only_differences && turn.is_equal() {
                return Ok(());
            }
            let json = turn.to_json().to_string();
            let done = context.line(&format!("{comma}{}", view::text::safe_json(&json)));
            comma = ",";
            done
        })?;
        if context.json {
            context.line(&rest(&verdict.to_json()))?;
        } else {
            let change = match &verdict.first {
                Some(first) => asset_change(&a, &b, first)?,
                None => AssetChange::default(),
            };
            context.lines(&view::diff_verdict(&verdict, &change, &style))?;
        }
        context.damages.clone_from(&verdict.damages);
        self.judge(&verdict)
    }

    fn judge(&self, verdict: &DiffVerdict) -> Result<(), Failed> {
        let found = verdict.first.as_ref().map(|first| first.cause);
        match (self.expect_cause, found) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(Failed::Finding(String::new())),
            (Some(expected), Some(found)) if expected == found => Ok(()),
            (Some(expected), Some(found)) => Err(Failed::Finding(format!(
                "the cause is {found}, not {expected}"
            ))),
            (Some(expected), None) => Err(Failed::Finding(format!(
                "the sessions are equal, and {expected} was expected to differ"
            ))),
        }
    }
}

/// The end of the document: the members that are known after all turns.
fn rest(verdict: &Value) -> String {
    let json = verdict.to_string();
    let members = json.strip_prefix('{').unwrap_or_default();
    format!("],{}", view::text::safe_json(members))
}
