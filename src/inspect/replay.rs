//! Whether the turns of a session can be run again, and the inputs of its model calls.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::diff::Inputs;
use crate::export::request_before;
use crate::read::SessionReader;
use crate::request::{self, Api, Request};
use crate::session::{Item, Node, Turn, Turns, body, whole};
use crate::trace::typed::{ContextAsset, Message, ModelCall, RequestPart};
use crate::trace::{Address, Damage, Kind, RawLine, RawValue, ReadItem};

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

/// An input of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// What the user said, with its files.
    UserInput,
    /// The model and its variant.
    Model,
    /// The system prompt.
    SystemPrompt,
    /// The tool catalog.
    ToolCatalog,
    /// The conversation before.
    History,
}

impl Need {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::UserInput,
        Self::Model,
        Self::SystemPrompt,
        Self::ToolCatalog,
        Self::History,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserInput => "user_input",
            Self::Model => "model",
            Self::SystemPrompt => "system_prompt",
            Self::ToolCatalog => "tool_catalog",
            Self::History => "history",
        }
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
                let text = asset.body().or_else(|| asset.tools());
                if let (Some(digest), Some(text)) = (asset.digest(), text)
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
        let is_call = |node: &&mut Node| node.kind == Kind::ModelCall;
        for call in turn.nodes.iter_mut().filter(is_call) {
            call.fetch_blobs(session);
        }
        let calls: Vec<_> = turn
            .nodes
            .iter()
            .filter(|node| node.kind == Kind::ModelCall)
            .collect();
        let mut missing = Vec::new();
        let mut need = |what, why: &str| {
            missing.push(Missing {
                what,
                why: why.to_owned(),
            })
        };
        let requests: Vec<_> = calls.iter().map(|call| request_of(call)).collect();
        let is_recorded = !calls.is_empty() && requests.iter().all(Option::is_some);
        for rest in requests.iter().flatten() {
            let absent = |digest: &String| !self.parts.contains(digest);
            if let Some(part) = refs(rest).into_iter().find(absent) {
                need(
                    Need::History,
                    &format!("part {part} of a request is not in the trace"),
                );
            }
        }
        if calls.iter().any(|call| {
            call.view::<ModelCall<'_>>()
                .model_id()
                .is_none_or(|id| id.is_empty())
        }) {
            need(Need::Model, "a model call does not name its model");
        }
        for why in lost_input(session, &turn, is_recorded) {
            need(Need::UserInput, &why);
        }
        if !is_recorded {
            let digests = &turn.digests;
            let assets = [
                (Need::SystemPrompt, &digests.system_prompt, "system_prompt"),
                (Need::ToolCatalog, &digests.tool_catalog, "tool_catalog"),
            ];
            for (what, digest, event) in assets {
                match digest {
                    None => need(
                        what,
                        &format!("none was recorded: use events::{event}, or request()"),
                    ),
                    Some(digest) if !self.assets.contains(digest) => {
                        need(what, &format!("the text of {digest} is not in the trace"));
                    }
                    Some(_) => {}
                }
            }
            self.lost.iter().for_each(|why| need(Need::History, why));
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
        let mut nodes = turn.nodes.iter().filter(is_answer);
        call.is_failure() || nodes.any(|node| node.start >= call.start)
    };
    for node in &turn.nodes {
        match node.item() {
            Item::ModelCall(call) => {
                if !says(node) && call.output_messages().is_none() {
                    lost.push(format!("the answer of the model call at {}", node.address));
                }
            }
            Item::Compaction(compaction) => {
                if compaction.summary().is_none() || compaction.tail_start_id().is_none() {
                    let why = "has no summary, or not the first message that was kept";
                    lost.push(format!("the compaction at {} {why}", node.address));
                }
            }
            _ => {}
        }
    }
    lost
}

/// Whether nothing of a value was cut, and its blob is there.
fn is_whole(session: &Path, value: RawValue<'_>) -> bool {
    match value.marker() {
        Some(marker) => {
            marker.cut.is_none() && marker.blob.is_some() && whole(session, value).is_ok()
        }
        None => true,
    }
}

/// The request of a call as recorded: without its parts.
fn request_of(call: &Node) -> Option<Value> {
    let view: ModelCall<'_> = call.view();
    view.request_digest()?;
    let request = view.request()?.value()?;
    // One that comes from a blob is a text.
    let read = request
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok());
    Some(read.unwrap_or(request))
}

/// The digests of all parts of a request.
fn refs(rest: &Value) -> Vec<String> {
    match request::join(rest, |_| None) {
        Ok(_) => Vec::new(),
        Err(request::Missing(digests)) => digests,
    }
}

/// The parts of requests that a line has, by digest.
fn parts_of(session: &Path, line: &RawLine<'_>) -> Vec<(String, Value)> {
    let text = |value: Option<RawValue<'_>>| value.and_then(|value| whole(session, value).ok());
    let kind = line.kind();
    let role = match kind {
        Kind::RequestPart => {
            let part: RequestPart<'_> = line.payload().into();
            let body = text(part.body()).and_then(|text| {
                let is_text = part.body()?.text().is_some();
                match is_text {
                    true => Some(text.into()),
                    false => serde_json::from_str(&text).ok(),
                }
            });
            let digest = part.digest().map(String::from);
            return digest.zip(body).into_iter().collect();
        }
        Kind::SystemPrompt | Kind::MessageSystem => "system",
        Kind::MessageUser => "user",
        Kind::MessageAssistant => "assistant",
        _ => return Vec::new(),
    };
    let said = match kind {
        Kind::SystemPrompt => ContextAsset::from(line.payload()).body(),
        _ => Message::from(line.payload()).content(),
    };
    let Some(said) = text(said) else {
        return Vec::new();
    };
    let parts = request::simple_parts(role, &said).into_iter();
    parts
        .map(|part| (request::part_digest(&part), part))
        .collect()
}

/// The inputs of a model call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallInputs {
    /// The call.
    pub address: Address,
    /// Its turn.
    pub turn: Option<u32>,
    /// Whether the body was recorded, or follows from what was.
    pub inputs: Inputs,
    /// The digest that was recorded, and whether the body has it.
    pub digest: Option<(String, bool)>,
    /// The provider of the model.
    pub provider: Option<String>,
    /// The body as it was sent, redacted; a reconstructed one is for the API of the provider.
    pub body: Value,
    /// The same in one form for all APIs.
    pub request: Request,
}

impl CallInputs {
    /// The API that the body is for.
    pub fn api(&self) -> Api {
        match self.provider.as_deref() {
            // A conversation of plain texts fits both.
            Some("anthropic") if self.request.api == Api::OpenAiChat => Api::Anthropic,
            _ => self.request.api,
        }
    }

    /// The body for OpenAI's chat completions.
    pub fn openai(&self) -> Value {
        match (self.inputs, self.request.api) {
            (Inputs::Recorded, Api::OpenAiChat) => self.body.clone(),
            _ => request::openai(&self.request),
        }
    }

    /// The body for Anthropic's messages.
    pub fn anthropic(&self) -> Value {
        match (self.inputs, self.api()) {
            (Inputs::Recorded, Api::Anthropic) => self.body.clone(),
            _ => request::anthropic(&self.request),
        }
    }

    /// How many secrets are masked in the body.
    pub fn masked(&self) -> usize {
        self.body.to_string().matches("[masked rule=").count()
    }

    /// As JSON, with stable names.
    pub fn to_json(&self, body: &Value) -> Value {
        json!({
            "address": self.address.to_string(),
            "turn": self.turn,
            "inputs": self.inputs.to_string(),
            "request_digest": self.digest.as_ref().map(|(digest, _)| digest),
            "verified": self.digest.as_ref().map(|(_, is_same)| is_same),
            "api": self.api().to_string(),
            "masked": self.masked(),
            "body": body,
        })
    }
}

/// Which model call of a session is meant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Which {
    /// The turn.
    pub turn: Option<u32>,
    /// The number of the call in the turn or the session, from 1. By default the first of a turn, the last of a
    /// session.
    pub call: Option<usize>,
}

/// The inputs of a model call: as recorded, or else reconstructed. `None`: there is no such call.
pub fn inputs(session: impl AsRef<Path>, which: Which) -> io::Result<Option<CallInputs>> {
    let session = session.as_ref();
    let Some(mut call) = find(session, which)? else {
        return Ok(None);
    };
    call.fetch_blobs(session);
    let view: ModelCall<'_> = call.view();
    let provider = view.provider_id().map(String::from);
    let mut found = CallInputs {
        address: call.address,
        turn: call.turn,
        inputs: Inputs::Recorded,
        digest: None,
        provider,
        body: Value::Null,
        request: Request::default(),
    };
    if let Some(rest) = request_of(&call) {
        let parts = collect(session, &rest)?;
        if let Ok(body) = request::join(&rest, |digest| parts.get(digest).cloned()) {
            let digest = view.request_digest().unwrap_or_default();
            let is_same = request::digest(&body) == digest;
            found.digest = Some((digest.into_owned(), is_same));
            found.request = Request::read(&body);
            if found.request.api == Api::GenAi {
                complete(session, &view, &mut found.request)?;
            }
            found.body = body;
            return Ok(Some(found));
        }
    }
    found.inputs = Inputs::Reconstructed;
    found.request = request_before(session, &call)?;
    let is_anthropic = found.provider.as_deref() == Some("anthropic");
    found.request.api = match is_anthropic {
        true => Api::Anthropic,
        false => Api::OpenAiChat,
    };
    found.body = match is_anthropic {
        true => request::anthropic(&found.request),
        false => request::openai(&found.request),
    };
    Ok(Some(found))
}

/// Adds the prompt and the tools in force to a request of the GenAI conventions, which may be recorded elsewhere.
fn complete(session: &Path, call: &ModelCall<'_>, request: &mut Request) -> io::Result<()> {
    if let (None, Some(digest)) = (&request.system, call.system_prompt_digest()) {
        request.system = body(session, &digest)?.map(|(_, text)| text);
    }
    if let (true, Some(digest)) = (request.tools.is_empty(), call.tool_catalog_digest()) {
        let tools = body(session, &digest)?.map(|(_, text)| serde_json::from_str(&text));
        request.tools = tools.and_then(Result::ok).unwrap_or_default();
    }
    Ok(())
}

fn find(session: &Path, which: Which) -> io::Result<Option<Node>> {
    let (mut found, mut count) = (None, 0);
    let wanted = which.call.or(which.turn.map(|_| 1));
    crate::session::each_turn(session, |turn| {
        if which.turn.is_some() && turn.index != which.turn {
            return Ok(());
        }
        for node in turn
            .nodes
            .into_iter()
            .filter(|node| node.kind == Kind::ModelCall)
        {
            count += 1;
            if wanted.is_none_or(|wanted| wanted == count) {
                found = Some(node);
            }
        }
        Ok::<(), io::Error>(())
    })?;
    Ok(found)
}

/// The parts of a request, by digest.
fn collect(session: &Path, rest: &Value) -> io::Result<HashMap<String, Value>> {
    let wanted: HashSet<_> = refs(rest).into_iter().collect();
    let mut parts = HashMap::new();
    let mut reader = SessionReader::open(session)?;
    while parts.len() < wanted.len()
        && let Some(item) = reader.next()?
    {
        if let ReadItem::Line(line) = item {
            let known = parts_of(session, &line).into_iter();
            parts.extend(known.filter(|(digest, _)| wanted.contains(digest)));
        }
    }
    Ok(parts)
}
