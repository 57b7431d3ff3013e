//! Whether the turns of a session can be run again, and the inputs of its model calls.

mod inputs;

use std::collections::HashSet;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::diff::Inputs;
use super::request_parts::{is_whole, parts_of, refs, request_of};
use crate::read::SessionReader;
use crate::session::{Digests, Item, Node, Turn, Turns};
use crate::trace::typed::{ContextAsset, Message, ModelCall};
use crate::trace::{Address, Damage, Kind, RawLine, ReadItem, named_enum};

pub use inputs::{CallInputs, Which, inputs};

/// What a turn needs to be run again, and what of it the session has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnReplay {
    /// The turn's index.
    pub turn: Option<u32>,
    /// Its model calls.
    pub calls: Vec<Address>,
    /// Where the inputs of its calls come from.
    pub inputs: Inputs,
    /// The models that were called.
    pub models: Vec<String>,
    /// Their variants.
    pub variants: Vec<String>,
    /// What is missing, in words. Nothing is missing of a turn that can be run again.
    pub missing: Vec<Missing>,
}

/// Something that is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// Which of the inputs.
    pub what: Need,
    /// What about it.
    pub why: String,
}

impl Missing {
    fn new(what: Need, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { what, why }
    }
}

named_enum! {
    /// An input of a turn.
    #[non_exhaustive]
    pub enum Need {
        /// What the user said, with its files.
        UserInput = "user_input",
        /// The model and its variant.
        Model = "model",
        /// The system prompt.
        SystemPrompt = "system_prompt",
        /// The tool catalog.
        ToolCatalog = "tool_catalog",
        /// The conversation before.
        History = "history",
    }
}

impl TurnReplay {
    /// Whether it can be run again.
    pub fn is_eligible(&self) -> bool {
        self.missing.is_empty()
    }

    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        let mut object = json!({
            "type": "turn",
            "turn": self.turn,
            "eligible": self.is_eligible(),
            "inputs": self.inputs.to_string(),
            "model_calls": self.calls.iter().map(Address::to_string).collect::<Vec<_>>(),
            "models": self.models,
            "variants": self.variants,
        });
        for need in Need::ALL {
            let has = self.missing.iter().all(|missing| missing.what != need);
            object[need.as_str()] = has.into();
        }
        let missing = self.missing.iter();
        let missing = missing.map(|one| json!({"what": one.what.as_str(), "why": one.why}));
        object["missing"] = missing.collect();
        object
    }
}

/// Passes each turn with model calls to `each`, in order. Returns what is damaged.
///
/// ```no_run
/// spanledger::inspect::replay::turns("sessions/ses_1", |turn| {
///     println!("turn {:?} can be run again: {}", turn.turn, turn.is_eligible());
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn turns<E: From<io::Error>>(
    session: impl AsRef<Path>,
    mut each: impl FnMut(TurnReplay) -> Result<(), E>,
) -> Result<Vec<Damage>, E> {
    let session = session.as_ref();
    let mut reader = SessionReader::open(session)?;
    let (mut turns, mut damages) = (Turns::default(), Vec::new());
    let mut known = Known::default();
    let mut judge = |turn: Turn, known: &mut Known| match known.turn(session, turn) {
        Some(turn) => each(turn),
        None => Ok(()),
    };
    while let Some(found) = reader.next()? {
        match found {
            ReadItem::Line(line) => {
                known.line(session, &line);
                turns.take(&line);
            }
            ReadItem::Damaged(damage) => {
                known
                    .lost
                    .push(format!("{} is damaged", damage.path.display()));
                damages.push(damage);
            }
        }
        while let Some(turn) = turns.ready() {
            judge(turn, &mut known)?;
        }
    }
    for turn in turns.finish() {
        judge(turn, &mut known)?;
    }
    Ok(damages)
}

/// What a session has recorded so far.
#[derive(Default)]
struct Known {
    /// The digests of prompts and catalogs whose text is there.
    assets: HashSet<String>,
    parts: HashSet<String>,
    /// What of the conversation is not there.
    lost: Vec<String>,
}

impl Known {
    fn line(&mut self, session: &Path, line: &RawLine<'_>) {
        match line.kind() {
            Kind::SystemPrompt | Kind::ToolCatalog => {
                let asset: ContextAsset<'_> = line.payload().into();
                if let (Some(digest), Some(text)) = (asset.digest(), asset.text())
                    && is_whole(session, text)
                {
                    self.assets.insert(digest.into_owned());
                }
            }
            Kind::Gap => self
                .lost
                .push(format!("events were lost at {}", line.address())),
            _ => {}
        }
        let parts = parts_of(session, line).into_iter();
        self.parts.extend(parts.map(|(digest, _)| digest));
    }

    fn turn(&mut self, session: &Path, mut turn: Turn) -> Option<TurnReplay> {
        turn.fetch_requests(session);
        let calls = turn.nodes.iter();
        let calls: Vec<_> = calls.filter(|node| node.kind == Kind::ModelCall).collect();
        let requests: Vec<_> = calls.iter().map(|call| request_of(call)).collect();
        let is_recorded = !calls.is_empty() && requests.iter().all(Option::is_some);
        let mut missing = self.lost_parts(requests.iter().flatten());
        let model = |call: &&&Node| call.view::<ModelCall<'_>>().model_id().map(String::from);
        if calls
            .iter()
            .any(|call| model(&call).is_none_or(|id| id.is_empty()))
        {
            missing.push(Missing::new(
                Need::Model,
                "a model call does not name its model",
            ));
        }
        let lost = lost_input(session, &turn, is_recorded).into_iter();
        missing.extend(lost.map(|why| Missing::new(Need::UserInput, why)));
        if !is_recorded {
            missing.extend(self.lost_assets(&turn.digests));
            let lost = self.lost.iter();
            missing.extend(lost.map(|why| Missing::new(Need::History, why)));
        }
        let names = |get: fn(&ModelCall<'_>) -> Option<String>| {
            let mut names: Vec<_> = calls.iter().filter_map(|call| get(&call.view())).collect();
            names.dedup();
            names
        };
        let replay = TurnReplay {
            turn: turn.index,
            calls: calls.iter().map(|call| call.address).collect(),
            inputs: match is_recorded {
                true => Inputs::Recorded,
                false => Inputs::Reconstructed,
            },
            models: names(|call| call.model_id().map(String::from)),
            variants: names(|call| call.variant().map(String::from)),
            missing,
        };
        self.lost.extend(lost_history(&turn));
        (!replay.calls.is_empty()).then_some(replay)
    }

    /// Parts of recorded requests that are not in the trace: one for each request.
    fn lost_parts<'a>(&self, requests: impl Iterator<Item = &'a Value>) -> Vec<Missing> {
        let absent = |digest: &String| !self.parts.contains(digest);
        let lost = requests.filter_map(|rest| refs(rest).into_iter().find(absent));
        let why = |part: String| format!("part {part} of a request is not in the trace");
        lost.map(|part| Missing::new(Need::History, why(part)))
            .collect()
    }

    /// The prompt or the catalog, if it is not known.
    fn lost_assets(&self, digests: &Digests) -> Vec<Missing> {
        let assets = [
            (Need::SystemPrompt, &digests.system_prompt),
            (Need::ToolCatalog, &digests.tool_catalog),
        ];
        let lost = assets.into_iter().filter_map(|(what, digest)| {
            let why = match digest {
                None => {
                    let event = what.as_str();
                    format!("none was recorded: use events::{event}, or request()")
                }
                Some(digest) if !self.assets.contains(digest) => {
                    format!("the text of {digest} is not in the trace")
                }
                Some(_) => return None,
            };
            Some(Missing::new(what, why))
        });
        lost.collect()
    }
}

/// What of the turn's user input is missing.
fn lost_input(session: &Path, turn: &Turn, is_recorded: bool) -> Vec<String> {
    let mut lost = Vec::new();
    let users = turn
        .nodes
        .iter()
        .filter(|node| node.kind == Kind::MessageUser);
    let mut has_any = false;
    for node in users {
        has_any = true;
        let message: Message<'_> = node.view();
        if message
            .content()
            .is_some_and(|content| !is_whole(session, content))
        {
            lost.push(format!("the message at {} was cut", node.address));
        }
        let files = message.attachments();
        for file in files.iter().flat_map(|files| files.items()) {
            if file.get("blob").is_none() && file.get("url").is_none() {
                let name = file
                    .get("name")
                    .and_then(|name| name.text())
                    .unwrap_or_default();
                lost.push(format!("the bytes of the file {name} at {}", node.address));
            }
        }
    }
    if !has_any && !is_recorded {
        lost.push("no message of the user was recorded in this turn".to_owned());
    }
    lost
}

/// What of a turn later turns would miss.
fn lost_history(turn: &Turn) -> Vec<String> {
    let mut lost = Vec::new();
    let says = |call: &Node| {
        let is_answer = |node: &&Node| {
            matches!(
                node.kind,
                Kind::MessageAssistant | Kind::ToolCall | Kind::MessageReasoning
            )
        };
        let mut nodes = turn.nodes.iter().rev().filter(is_answer);
        call.is_failure() || nodes.any(|node| node.start >= call.start)
    };
    for node in &turn.nodes {
        match node.item() {
            Item::ModelCall(call) if !says(node) && call.output_messages().is_none() => {
                lost.push(format!("the answer of the model call at {}", node.address));
            }
            Item::Compaction(compaction)
                if compaction.summary().is_none() || compaction.tail_start_id().is_none() =>
            {
                let why = "has no summary, or not the first message that was kept";
                lost.push(format!("the compaction at {} {why}", node.address));
            }
            _ => {}
        }
    }
    lost
}
