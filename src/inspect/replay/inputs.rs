//! The inputs of a model call.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::export::request_before;
use crate::inspect::diff::Inputs;
use crate::inspect::request_parts::{parts_of, refs, request_of};
use crate::read::SessionReader;
use crate::request::{self, Api, Request};
use crate::session::{Node, body, each_turn};
use crate::trace::typed::ModelCall;
use crate::trace::{Address, Kind, ReadItem};

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
    (found.request.api, found.body) = match found.provider.as_deref() {
        Some("anthropic") => (Api::Anthropic, request::anthropic(&found.request)),
        _ => (Api::OpenAiChat, request::openai(&found.request)),
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
    each_turn(session, |turn| {
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
