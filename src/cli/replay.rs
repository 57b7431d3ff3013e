//! `replay`: whether the turns of a session can be run again, and with which inputs.

use std::path::Path;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::context::{Context, Failed, warn};
use spanledger::inspect::diff::Inputs;
use spanledger::inspect::replay::{CallInputs, Which, inputs, turns};
use spanledger::request::Api;
use spanledger::view;
use spanledger::view::text::{plural, safe_json};

/// Say whether a session can be run again, and print what its model calls were sent
///
/// A turn can be run again if the trace has what the user said, the model, the system prompt, the
/// tool catalog and the conversation before it; what is missing is named. A request that was
/// recorded with `request()` has all of that.
///
/// With --inputs, prints the body of the request of one model call: as recorded, with secrets
/// masked, or else reconstructed from what was recorded, which a note on stderr says. Exit codes: 0,
/// or with --check 1 if a turn can't be run again.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  spanledger replay last
  spanledger replay last --check
  spanledger replay last --turn 2 --inputs > request.json
  spanledger replay last --turn 2 --call 3 --inputs --as curl")]
pub(crate) struct Replay {
    /// The session: its id, a prefix of it, its directory, or `last`
    #[arg(default_value = "last")]
    session: String,
    /// Only this turn
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    /// Print the inputs of a model call: the first of --turn, else the last of the session
    #[arg(long)]
    inputs: bool,
    /// Which model call, from 1, in the turn or the session
    #[arg(long, value_name = "N", requires = "inputs")]
    call: Option<usize>,
    /// Print the inputs as a body for another API, or as a command
    #[arg(long = "as", value_name = "FORM", requires = "inputs")]
    form: Option<Form>,
    /// Exit with 1 if a turn can't be run again
    #[arg(long, conflicts_with = "inputs")]
    check: bool,
}

/// How inputs are printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// A body for OpenAI's chat completions
    Openai,
    /// A body for Anthropic's messages
    Anthropic,
    /// A curl command that sends the body; keys come from the environment
    Curl,
}

impl Replay {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let dir = context.resolve(&self.session)?;
        match self.inputs {
            true => self.print_inputs(context, &dir),
            false => self.judge(context, &dir),
        }
    }

    fn judge(&self, context: &mut Context, dir: &Path) -> Result<(), Failed> {
        let (mut judged, mut eligible) = (0, 0);
        context.damages = turns(dir, |turn| -> Result<(), Failed> {
            if self.turn.is_some() && turn.turn != self.turn {
                return Ok(());
            }
            judged += 1;
            eligible += u64::from(turn.is_eligible());
            context.print(|| turn.to_json(), |style| view::replay_turn(&turn, style))
        })?;
        if judged == 0 {
            let missing = match self.turn {
                Some(turn) => format!("turn {turn} has no model call, or there is no such turn"),
                None => "the session has no model call".to_owned(),
            };
            return Err(Failed::NotFound(missing));
        }
        let is_eligible = judged == eligible;
        context.print(
            || {
                json!({"type": "session", "eligible": is_eligible, "turns": judged,
                    "eligible_turns": eligible})
            },
            |_| {
                let turns = plural(judged, "turn");
                vec![format!("{eligible} of {turns} can be run again")]
            },
        )?;
        Failed::unless(is_eligible || !self.check)
    }

    fn print_inputs(&self, context: &mut Context, dir: &Path) -> Result<(), Failed> {
        let which = Which {
            turn: self.turn,
            call: self.call,
        };
        let Some(found) = inputs(dir, which)? else {
            return Err(Failed::Usage("there is no such model call".to_owned()));
        };
        let body = match self.form {
            Some(Form::Openai) => found.openai(),
            Some(Form::Anthropic) => found.anthropic(),
            Some(Form::Curl) | None => found.body.clone(),
        };
        if context.json {
            return context.document(&found.to_json(&body));
        }
        warn(&note(&found));
        match self.form {
            Some(Form::Curl) => context.lines(&curl(&found)),
            _ => context.document(&body),
        }
    }
}

/// Where the inputs come from, for people.
fn note(found: &CallInputs) -> String {
    let mut note = match (found.inputs, &found.digest) {
        (Inputs::Recorded, Some((digest, true))) => format!("inputs recorded, digest {digest}"),
        (Inputs::Recorded, _) => {
            "inputs recorded, but the body does not have the recorded digest".to_owned()
        }
        _ => "inputs reconstructed from what was recorded, not recorded as sent".to_owned(),
    };
    note.push_str(&format!("; model call {}", found.address));
    if let Some(masks @ 1..) = Some(found.masked()) {
        note.push_str(&format!(
            "; {} in it",
            plural(masks as u64, "masked secret")
        ));
    }
    note
}

/// A command that sends the body.
fn curl(found: &CallInputs) -> Vec<String> {
    let (body, url, headers): (Value, _, &[&str]) = match found.api() {
        Api::Anthropic => (
            found.anthropic(),
            "${ANTHROPIC_BASE_URL:-https://api.anthropic.com}/v1/messages",
            &[
                "x-api-key: $ANTHROPIC_API_KEY",
                "anthropic-version: 2023-06-01",
            ],
        ),
        Api::OpenAiResponses => (
            found.body.clone(),
            "${OPENAI_BASE_URL:-https://api.openai.com/v1}/responses",
            &["authorization: Bearer $OPENAI_API_KEY"],
        ),
        _ => (
            found.openai(),
            "${OPENAI_BASE_URL:-https://api.openai.com/v1}/chat/completions",
            &["authorization: Bearer $OPENAI_API_KEY"],
        ),
    };
    let mut out = vec![format!("curl -sS \"{url}\" \\")];
    for header in ["content-type: application/json"].iter().chain(headers) {
        out.push(format!("  -H \"{header}\" \\"));
    }
    // JSON on one line holds no line that is the delimiter alone.
    out.push("  --data-binary @- <<'JSON'".to_owned());
    out.push(safe_json(&body.to_string()).into_owned());
    out.push("JSON".to_owned());
    out
}
