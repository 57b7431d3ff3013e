//! Records a request as it was sent, and its answer: each message once, prompt and tools by digest, parameters on
//! the call.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::recorder::{Recorder, Update};
use super::span_data::{SpanData, Target};
use crate::gen_ai::Content;
use crate::record::raw_fields::RawFields;
use crate::record::sanitize::redact_json;
use crate::record::session::ContextAsset;
use crate::redact::{Limits, Tally};
use crate::request::{self, Message, Request, Response};
use crate::trace::{Failure, SpanKind, Usage, lock};

impl Recorder {
    /// Records the body of the request that a model call sends.
    pub(super) fn request(&self, data: &SpanData, body: &str) {
        let Some(target) = self.model_call(data) else {
            return;
        };
        let body = self.redacted(field!(ModelCall.request), body);
        let request = Request::read(&body);
        let mut raw = RawFields::new();
        self.prompt_and_tools(target, &request, &mut raw);
        self.record_input(data, target, &request.messages, request.leading);
        self.store_request(target, &body, &request, &mut raw);
        parameters(&request, &mut raw);
        self.record_at(target, Update::fields(&raw));
        raw.recycle();
    }

    /// Records the body of the answer.
    pub(super) fn response(&self, data: &SpanData, body: &str) {
        let Some(target) = self.model_call(data) else {
            return;
        };
        let body = self.redacted(field!(ModelCall.output_messages), body);
        let response = Response::read(&body);
        let content = Content {
            output: response.messages,
            ..Content::default()
        };
        self.record_answers(data, target, &content.output, true);
        self.record_answers(data, target, &response.alternatives, false);
        let mut raw = RawFields::new();
        let texts = [
            (field!(ModelCall.finish_reason), &response.finish_reason),
            (field!(ModelCall.response_id), &response.id),
            (field!(ModelCall.response_model), &response.model),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                raw.text(name, text);
            }
        }
        if let Some(error) = &response.error {
            raw.failure(field!(ModelCall.error), &failure(error));
        }
        let usage = Some(&response.usage).filter(|usage| **usage != Usage::default());
        let update = Update {
            usage,
            ..Update::fields(&raw)
        };
        self.record_at(target, update);
        raw.recycle();
    }

    /// Records the request of a recognized model call: its messages, prompt and tools, and the parameters among
    /// its fields. They may be recorded one after the other; the last line of the span has all of them.
    pub(super) fn recognized_request(
        &self,
        data: &SpanData,
        target: &Target,
        content: &Content,
        fields: &RawFields,
    ) {
        if data.kind() != SpanKind::Model {
            return;
        }
        let given = recognized_members(content, fields);
        let mut conversation = lock(&data.conversation);
        let known = &mut conversation.get_or_insert_default().body;
        let is_new = !given.is_empty();
        known.extend(given);
        if !is_new || !known.contains_key("messages") {
            return;
        }
        let body = Value::Object(known.clone()).to_string();
        drop(conversation);
        let body = self.redacted(field!(ModelCall.request), &body);
        let request = Request::read(&body);
        let mut raw = RawFields::new();
        self.store_request(target, &body, &request, &mut raw);
        self.record_at(target, Update::fields(&raw));
        raw.recycle();
    }

    /// Where a model call is.
    fn model_call<'a>(&self, data: &'a SpanData) -> Option<&'a Arc<Target>> {
        let target = self.target_of(data)?;
        let is_model = target.span.as_ref()?.kind == SpanKind::Model;
        is_model.then_some(target)
    }

    /// A body with its secrets masked. A text that holds JSON is read as that.
    fn redacted(&self, name: &str, body: &str) -> Value {
        let (redactor, mut tally) = (&self.process.redactor, Tally::default());
        let inner = serde_json::from_str::<String>(body).ok();
        let body = inner.as_deref().unwrap_or(body);
        let clean = redact_json(redactor, &Limits::NONE, (name, body), &mut tally);
        self.process.counters.add(tally);
        // JSON that is too deep for the parser stays a text.
        serde_json::from_slice(&clean)
            .unwrap_or_else(|_| String::from_utf8_lossy(&clean).into_owned().into())
    }

    /// Records the prompt and the tools if they changed, and sets their digests.
    fn prompt_and_tools(&self, target: &Target, request: &Request, raw: &mut RawFields) {
        let mut assets = Vec::new();
        if let Some(system) = &request.system {
            let mut body = RawFields::new();
            body.redacted(ContextAsset::SystemPrompt.body(), system, 0);
            assets.push((ContextAsset::SystemPrompt, body));
        }
        if !request.tools.is_empty() {
            let (mut body, tools) = (RawFields::new(), request.tools.iter().cloned());
            body.redacted_json(ContextAsset::ToolCatalog.body(), &tools.collect());
            assets.push((ContextAsset::ToolCatalog, body));
        }
        for (asset, body) in assets {
            let span = target.span.as_ref();
            let digest = self.asset(&target.log, span, asset, body, false);
            raw.text(asset.stamp(), &digest);
        }
    }

    /// Sets the request, its parts by digest, and its own digest. Stores the parts that no other line has.
    fn store_request(&self, target: &Target, body: &Value, request: &Request, raw: &mut RawFields) {
        let (rest, parts) = request::split(body, request);
        for (index, (digest, part)) in parts.iter().enumerate() {
            let message = request.messages.get(index);
            let has_line = match message {
                Some(message) if index < request.leading => {
                    request.leading == 1
                        && message.text_of_parts() == request.system
                        && is_simple("system", message, part)
                }
                Some(message) => is_simple(&message.role, message, part),
                None => part
                    .as_str()
                    .is_some_and(|text| Some(text) == request.system.as_deref()),
            };
            if !has_line {
                self.store_part(target, digest, part);
            }
        }
        raw.redacted_json(field!(ModelCall.request), &rest);
        raw.text(field!(ModelCall.request_digest), &request::digest(body));
    }

    fn store_part(&self, target: &Target, digest: &str, part: &Value) {
        let (process, log) = (&self.process, &target.log);
        if !log.lock(process).is_new_part(digest) {
            return;
        }
        let mut raw = RawFields::new();
        raw.text(field!(RequestPart.digest), digest);
        raw.redacted_json(field!(RequestPart.body), part);
        let fields = process.sanitize_fields(log, &raw);
        raw.recycle();
        log.lock(process)
            .request_part(target.span.as_ref(), digest, &fields);
    }
}

/// The members of a request that a recognized span has recorded, in the form of the GenAI conventions.
fn recognized_members(content: &Content, fields: &RawFields) -> Map<String, Value> {
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
    if let Some(model) = fields.get(field!(ModelCall.model_id)) {
        put("model", model.into());
    }
    for name in [field!(ModelCall.temperature), field!(ModelCall.max_tokens)] {
        let number = fields
            .get(name)
            .and_then(|text| serde_json::from_str(text).ok());
        if let Some(number @ Value::Number(_)) = number {
            put(name, number);
        }
    }
    if let Some(system) = &content.system {
        put("system_instructions", system.as_str().into());
    }
    if let Some(tools) = &content.tools {
        put("tools", serde_json::from_str(tools).unwrap_or_default());
    }
    if !content.input.is_empty() {
        let messages = content.input.iter().map(Message::to_json);
        put("messages", messages.collect());
    }
    body
}

/// Whether the line of a message, or the prompt's, has all of it.
fn is_simple(role: &str, message: &Message, part: &Value) -> bool {
    matches!(role, "user" | "assistant" | "system")
        && message.parts.len() == 1
        && message
            .text_of_parts()
            .is_some_and(|text| request::simple_parts(role, &text).contains(part))
}

/// The parameters of a request as fields of its call.
fn parameters(request: &Request, raw: &mut RawFields) {
    if let Some(model) = &request.model {
        raw.text(field!(ModelCall.model_id), model);
    }
    if let Some(variant) = &request.variant {
        raw.text(field!(ModelCall.variant), variant);
    }
    if let Some(temperature) = request.temperature {
        raw.f64(field!(ModelCall.temperature), temperature);
    }
    if let Some(limit) = request.max_tokens {
        raw.json(field!(ModelCall.max_tokens), &limit);
    }
    if let Some(stream) = request.stream {
        raw.json(field!(ModelCall.stream), &stream);
    }
    if !request.params.is_empty() {
        let params = Value::Object(request.params.clone());
        raw.redacted_json(field!(ModelCall.params), &params);
    }
}

/// The error that a provider reports.
fn failure(error: &Value) -> Failure {
    let text = |name: &str| error.get(name).and_then(Value::as_str);
    let message = text("message").or_else(|| error.as_str());
    let message = message.map_or_else(|| error.to_string(), str::to_owned);
    match text("type").or_else(|| text("code")) {
        Some(of) => Failure::new(of, message),
        None => Failure::message(message),
    }
}
