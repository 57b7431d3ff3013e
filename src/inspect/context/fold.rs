//! How each line changes the context.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

use super::history::{History, Meter, ResultSource};
use super::sizes::{
    ASSISTANT, SYSTEM, Sizes, TOOLS, USER, messages, request, result_size, size, size_of,
};
use super::{Compaction, ContextCall, ContextItem, Parts};
use crate::cost;
use crate::session::{Item, whole};
use crate::trace::typed::{self, ContextAsset, ModelCall, owned};
use crate::trace::{Kind, RawLine, RawValue, Usage, parse_time};

/// A text of four bytes is taken for a token.
const BYTES_PER_TOKEN: f64 = 4.0;

/// A token has no fewer bytes than this on average; what remains is something else.
const LEAST_BYTES_PER_TOKEN: f64 = 3.0;

/// More calls or prompts than this are never open at once; a damaged trace may suggest so.
const MOST: usize = 1_024;

/// A call that has begun.
#[derive(Debug)]
struct OpenCall {
    number: u64,
    sizes: Sizes,
}

/// The context, line by line.
#[derive(Debug, Default)]
pub(super) struct ContextFold {
    /// The session's directory, for requests that are in blobs.
    session: PathBuf,
    pub history: History,
    /// The sizes of prompts and catalogs, by digest.
    assets: HashMap<Box<str>, u64>,
    /// Those of the prompt and the catalog in force.
    in_force: Sizes,
    /// By span id.
    open: HashMap<Box<str>, OpenCall>,
    provider: Option<String>,
    model: Option<String>,
    compacted: bool,
}

fn tokens(bytes: u64) -> u64 {
    (bytes as f64 / BYTES_PER_TOKEN).round() as u64
}

impl ContextFold {
    pub fn new(session: PathBuf) -> Self {
        Self {
            session,
            ..Self::default()
        }
    }

    pub fn add_line(&mut self, line: &RawLine<'_>) {
        match line.kind() {
            Kind::SystemPrompt | Kind::ToolCatalog => self.asset(line),
            Kind::MessageUser => self.message(line, USER),
            Kind::MessageAssistant => self.message(line, ASSISTANT),
            Kind::MessageSystem => self.message(line, SYSTEM),
            Kind::MessageTool => {
                let message: typed::Message<'_> = line.into();
                self.history.sent(size_of(message.content()));
            }
            Kind::ModelCall => self.call_begins(line),
            Kind::SessionStart | Kind::SessionResume => {
                let run: typed::Run<'_> = line.into();
                self.provider = owned(run.provider_id()).or(self.provider.take());
                self.model = owned(run.model_id()).or(self.model.take());
            }
            Kind::Rewind => {
                let rewind: typed::Rewind<'_> = line.into();
                if let Some(to) = rewind.to_message_id() {
                    self.history.rewind(&to);
                }
            }
            kind if kind.is_close() => self.close(line),
            _ => {}
        }
    }

    pub fn finish(&mut self) {
        self.history.finish();
    }

    fn asset(&mut self, line: &RawLine<'_>) {
        let asset: ContextAsset<'_> = line.into();
        let part = match line.kind() {
            Kind::SystemPrompt => SYSTEM,
            _ => TOOLS,
        };
        let digest = asset.digest().unwrap_or_default();
        if let Some(body) = asset.text()
            && self.assets.len() < MOST
        {
            self.assets.insert((*digest).into(), size(body));
        }
        self.put_in_force(part, &digest);
    }

    fn put_in_force(&mut self, part: usize, digest: &str) {
        if let Some(bytes) = self.assets.get(digest) {
            self.in_force[part] = *bytes;
        }
    }

    fn message(&mut self, line: &RawLine<'_>, part: usize) {
        let message: typed::Message<'_> = line.into();
        let content = size_of(message.content());
        let bytes = match content {
            0 => size_of(message.parts()),
            _ => content,
        };
        let id = message.message_id();
        self.history.message(part, bytes, id.as_deref());
    }

    fn call_begins(&mut self, line: &RawLine<'_>) {
        let call: ModelCall<'_> = line.into();
        for (part, digest) in digests(&call) {
            self.put_in_force(part, &digest);
        }
        let number = self.history.begin_call();
        let mut sizes = self.history.sizes();
        sizes[SYSTEM] += self.in_force[SYSTEM];
        sizes[TOOLS] += self.in_force[TOOLS];
        if let Some(id) = line.span_id
            && self.open.len() < MOST
        {
            self.open.insert(id.into(), OpenCall { number, sizes });
        }
    }

    fn close(&mut self, line: &RawLine<'_>) {
        match Item::of(line) {
            Item::ModelCall(call) => self.call_ends(line, &call),
            Item::ToolCall(call) => {
                let source = ResultSource {
                    address: line.address(),
                    turn: line.turn,
                    tool: call.tool_id().unwrap_or_default().into(),
                };
                let (args, result) = (size_of(call.args()), result_size(&call));
                self.history.tool_call(args, result, source);
            }
            Item::Compaction(compaction) => self.compact(line, &compaction),
            _ => {}
        }
    }

    fn compact(&mut self, line: &RawLine<'_>, compaction: &typed::Compaction<'_>) {
        let before: u64 = self.history.sizes().iter().sum();
        let by_tokens = || compaction.summary_tokens().map(|tokens| tokens * 4);
        let summary = compaction.summary().map(size).or_else(by_tokens);
        let tail = compaction.tail_start_id();
        let keep = compaction.messages_after();
        let summary = summary.unwrap_or(0);
        self.history.compact(
            tail.as_deref(),
            compaction.summarized_message_count(),
            // One of those that are left is the summary.
            keep.map(|keep| keep.saturating_sub(u64::from(summary > 0))),
            summary,
        );
        self.compacted = true;
        let after: u64 = self.history.sizes().iter().sum();
        self.history.found.push(ContextItem::Compaction(Compaction {
            address: line.address(),
            turn: line.turn,
            trigger: owned(compaction.trigger()),
            before: tokens(before),
            after: tokens(after),
        }));
    }

    fn call_ends(&mut self, line: &RawLine<'_>, call: &ModelCall<'_>) {
        let open = line.span_id.and_then(|id| self.open.remove(id));
        let usage = call.usage().unwrap_or_default();
        let purpose = owned(call.purpose());
        let is_main = matches!(purpose.as_deref(), None | Some("main" | "subagent"));
        let recorded = self.request(call).or_else(|| self.input_messages(call));
        let of_history = open.as_ref().filter(|_| is_main).map(|open| open.sizes);
        let sizes = recorded.or(of_history);
        let parts = sizes.map(|sizes| estimate(&sizes, usage.input_tokens));
        let at = call.start().or_else(|| parse_time(line.ts)).unwrap_or(0);
        if let (true, Some(sizes), Some(open)) = (is_main, sizes, &open) {
            let share = self.share(call, &sizes, &usage, at);
            self.history.end_call(open.number, &share);
        }
        let model = owned(call.model_id()).or_else(|| self.model.clone());
        self.history
            .found
            .push(ContextItem::Call(Box::new(ContextCall {
                address: line.address(),
                turn: line.turn,
                start: at,
                model,
                purpose,
                input_tokens: usage.input_tokens.or(parts.as_ref().map(Parts::sum)),
                estimated: usage.input_tokens.is_none(),
                cached_tokens: usage.cache_read_tokens,
                window: call.context_window(),
                parts,
                recorded: recorded.is_some(),
                compacted: is_main && std::mem::take(&mut self.compacted),
            })));
    }

    /// The sizes of the request that a call recorded. A prompt or catalog that is not part of it may be in force.
    fn request(&self, call: &ModelCall<'_>) -> Option<Sizes> {
        call.request_digest()?;
        let body = call.request()?;
        let mut sizes = match body.marker() {
            Some(_) => request(RawValue::new(&whole(&self.session, body).ok()?))?,
            None => request(body)?,
        };
        for (part, digest) in digests(call) {
            if sizes[part] == 0 {
                sizes[part] = self.assets.get(&*digest).copied().unwrap_or(0);
            }
        }
        Some(sizes)
    }

    /// The sizes of the messages that a call recorded, with the prompt and the catalog in force.
    fn input_messages(&self, call: &ModelCall<'_>) -> Option<Sizes> {
        let mut sizes = messages(call.input_messages()?);
        sizes[SYSTEM] = sizes[SYSTEM].max(self.in_force[SYSTEM]);
        sizes[TOOLS] = self.in_force[TOOLS];
        Some(sizes)
    }

    /// What one byte of the context took of a call's input.
    fn share(&self, call: &ModelCall<'_>, sizes: &Sizes, usage: &Usage, at: u64) -> Meter {
        let tokens = tokens_per_byte(sizes, usage.input_tokens);
        let input = Usage {
            output_tokens: Some(0),
            reasoning_tokens: None,
            cost_usd: None,
            ..usage.clone()
        };
        let provider = owned(call.provider_id()).or_else(|| self.provider.clone());
        let model = owned(call.model_id()).or_else(|| self.model.clone());
        let usd = cost::price(provider.as_deref(), &model.unwrap_or_default(), &input, at);
        let all = usage.input_tokens.filter(|tokens| *tokens > 0);
        let per_token = usd.zip(all).map(|(usd, all)| usd / all as f64);
        Meter {
            calls: 1,
            tokens,
            usd: per_token.map_or(0.0, |usd| usd * tokens),
            priced: u64::from(per_token.is_some()),
        }
    }
}

/// The prompt and the catalog of a call, by digest, as far as it names them.
fn digests<'a>(call: &ModelCall<'a>) -> impl Iterator<Item = (usize, Cow<'a, str>)> {
    let digests = [
        (SYSTEM, call.system_prompt_digest()),
        (TOOLS, call.tool_catalog_digest()),
    ];
    let digests = digests.into_iter();
    digests.filter_map(|(part, digest)| Some((part, digest?)))
}

/// How many tokens a byte of the recorded texts is taken for.
fn tokens_per_byte(sizes: &Sizes, input: Option<u64>) -> f64 {
    let bytes: u64 = sizes.iter().sum();
    match input {
        Some(input) if bytes > 0 => (input as f64 / bytes as f64).min(1.0 / LEAST_BYTES_PER_TOKEN),
        _ => 1.0 / BYTES_PER_TOKEN,
    }
}

fn estimate(sizes: &Sizes, input: Option<u64>) -> Parts {
    let rate = tokens_per_byte(sizes, input);
    let [system, tools, user, assistant, tool_results, summary] =
        sizes.map(|bytes| (bytes as f64 * rate).round() as u64);
    let mut parts = Parts {
        system,
        tools,
        user,
        assistant,
        tool_results,
        summary,
        other: 0,
    };
    parts.other = input.unwrap_or(0).saturating_sub(parts.sum());
    parts
}
