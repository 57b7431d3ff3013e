//! The messages that spans carry, each written once although every call brings the whole history.

use std::collections::HashMap;
use std::io;

use serde_json::{Value, json};

use crate::gen_ai::{self, ChainTip, Content, History as Chain, MessageKey};
use crate::import::history::{GivenSpan, History};
use crate::request::Message;
use crate::trace::Kind;

/// The conversations of a session.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    chain: Chain,
    /// Where the requests of open spans ended.
    ends: HashMap<u64, ChainTip>,
    /// The digests of the prompt and the catalog in force.
    in_force: [Option<String>; 2],
}

impl Conversation {
    /// Writes what a call was given and no call before it was.
    pub fn request(
        &mut self,
        history: &mut History<'_>,
        span: &GivenSpan,
        content: &Content,
    ) -> io::Result<()> {
        self.assets(history, span, content)?;
        if content.input.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = content.input.iter().map(MessageKey::of).collect();
        let digest = |bytes: &[u8]| history.keyed_digest(bytes);
        let (new, end) = self.chain.observe_request(&keys, digest);
        self.ends.insert(span.ids.span, end);
        for (at, _) in new {
            self.message(history, span, span.start, &content.input[at])?;
        }
        Ok(())
    }

    /// Writes the answers.
    pub fn answer(
        &mut self,
        history: &mut History<'_>,
        span: &GivenSpan,
        content: &Content,
    ) -> io::Result<()> {
        let end = self.ends.remove(&span.ids.span);
        for (at, message) in content.output.iter().enumerate() {
            // Of several answers, the first continues the conversation.
            if let Some(end) = end.filter(|_| at == 0) {
                let digest = |bytes: &[u8]| history.keyed_digest(bytes);
                self.chain.answer(end, message.key(), digest);
            }
            self.message(history, span, span.end, message)?;
        }
        Ok(())
    }

    fn message(
        &self,
        history: &mut History<'_>,
        span: &GivenSpan,
        time: u64,
        message: &Message,
    ) -> io::Result<()> {
        // Some libraries send their instructions as a message too.
        if message.is_system()
            && let Some(text) = message.text_of_parts()
            && self.in_force[0] == Some(history.digest_of(&text))
        {
            return Ok(());
        }
        for (kind, fields) in gen_ai::events(message) {
            history.event_given(span, kind.as_str(), time, fields)?;
        }
        Ok(())
    }

    /// The instructions and the tools, if they changed.
    fn assets(
        &mut self,
        history: &mut History<'_>,
        span: &GivenSpan,
        content: &Content,
    ) -> io::Result<()> {
        let tools = content.tools.as_deref();
        let tools = tools.and_then(|text| Some((text, serde_json::from_str(text).ok()?)));
        let system = content.system.as_deref();
        let system = system.map(|text| (text, Value::from(text)));
        let assets = [
            (Kind::SystemPrompt, "body", system),
            (Kind::ToolCatalog, "tools", tools),
        ];
        for (slot, (kind, name, asset)) in self.in_force.iter_mut().zip(assets) {
            let Some((text, body)) = asset else {
                continue;
            };
            let digest = history.digest_of(text);
            if slot.as_ref() == Some(&digest) {
                continue;
            }
            let fields = json!({"digest": digest, name: body});
            let fields = crate::import::history::fields(fields);
            history.event_given(span, kind.as_str(), span.start, fields)?;
            *slot = Some(digest);
        }
        Ok(())
    }
}
