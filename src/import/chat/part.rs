//! Parts of messages: texts, files, and the events that an export has made parts of.

use std::io;

use serde_json::{Value, json};

use super::{Chat, Fields, Message, member_object, plain_id, text, time};
use crate::import::history::fields;
use crate::trace::{Kind, Outcome, SpanKind, event_kind};

pub(super) struct Part {
    pub kind: String,
    pub data: Fields,
    pub created: u64,
    pub updated: u64,
    /// Names it in the session.
    pub key: String,
}

impl Part {
    pub fn of(row: &Fields, message: &Message, index: usize) -> io::Result<Self> {
        let mut data = member_object(row, "data_json")?;
        let kind = text(&data, "type").or_else(|| text(row, "type"));
        let created = time(row, "created_at").unwrap_or(message.created);
        let kind = kind.unwrap_or_default().to_owned();
        if is_tool(&kind) {
            rename_old_members(&mut data);
        }
        Ok(Self {
            kind,
            created,
            updated: time(row, "updated_at").unwrap_or(created),
            key: format!("{}/{index}", message.id),
            data,
        })
    }

    pub fn is_tool(&self) -> bool {
        is_tool(&self.kind)
    }

    /// Whether the text is all that it has.
    fn is_plain(&self) -> bool {
        let is_known = |(name, value): (&String, &Value)| match name.as_str() {
            "type" | "text" => true,
            "state" => value == "done",
            _ => false,
        };
        self.data.iter().all(is_known)
    }

    /// The attachment that a part was made from.
    fn attachment(&self) -> Option<Value> {
        if self.kind == "data-attachment" {
            return self.data.get("data").cloned();
        }
        let known = ["type", "mediaType", "url", "filename"];
        let is_file =
            self.kind == "file" && self.data.keys().all(|name| known.contains(&name.as_str()));
        let url = text(&self.data, "url").filter(|_| is_file)?;
        let digest = url.strip_prefix("urn:sha256:");
        Some(Value::from(fields(json!({
            "name": self.data.get("filename"),
            "media_type": self.data.get("mediaType"),
            "sha256": digest,
            "url": digest.is_none().then_some(url),
        }))))
    }
}

/// Whether parts of a type are tool calls. Grida writes `tool` for one whose name it does not know.
fn is_tool(kind: &str) -> bool {
    matches!(kind, "dynamic-tool" | "tool") || kind.starts_with("tool-")
}

/// Gives the members of a tool call that Grida's first version has written the names of the AI SDK.
fn rename_old_members(data: &mut Fields) {
    for (old, name) in [
        ("tool_call_id", "toolCallId"),
        ("tool_name", "toolName"),
        ("error_text", "errorText"),
        ("provider_executed", "providerExecuted"),
    ] {
        if !data.contains_key(name)
            && let Some(value) = data.remove(old)
        {
            data.insert(name.into(), value);
        }
    }
}

/// What else a message's metadata has, as fields of its line.
fn described(message: &Message, line: &mut Fields) {
    let of_message = |name: &str| message.metadata.get(name).cloned();
    for name in [
        "abort_reason",
        "snapshot_id",
        "replaces",
        "metadata",
        "complete",
    ] {
        line.extend(of_message(name).map(|value| (name.to_owned(), value)));
    }
    line.extend(of_message("was_queued_at").map(|at| ("queued_at".to_owned(), at)));
    let trigger = of_message("trigger").map(|trigger| match trigger.get("source") {
        Some(source) => source.clone(),
        None => trigger,
    });
    line.extend(trigger.map(|trigger| ("trigger".to_owned(), trigger)));
}

impl Chat<'_> {
    /// A message of the user or of the system: a line for the parts of each moment.
    pub(super) fn simple(
        &mut self,
        kind: Kind,
        message: &Message,
        rows: &[Fields],
    ) -> io::Result<()> {
        let parts: io::Result<Vec<_>> = rows
            .iter()
            .enumerate()
            .map(|(index, row)| Part::of(row, message, index))
            .collect();
        let parts = parts?;
        let mut moments = parts
            .chunk_by(|one, next| one.created == next.created)
            .peekable();
        if moments.peek().is_none() {
            return self.simple_line(kind, message, &[], true);
        }
        while let Some(parts) = moments.next() {
            let is_last = moments.peek().is_none();
            self.simple_line(kind, message, parts, is_last)?;
        }
        Ok(())
    }

    fn simple_line(
        &mut self,
        kind: Kind,
        message: &Message,
        parts: &[Part],
        is_last: bool,
    ) -> io::Result<()> {
        let time = parts.first().map_or(message.created, |part| part.created);
        self.end_tools(time)?;
        let texts = parts.iter().filter(|part| part.kind == "text");
        let texts: Vec<_> = texts.filter_map(|part| text(&part.data, "text")).collect();
        let content = texts.join("\n\n");
        let files: Vec<_> = parts
            .iter()
            .skip_while(|part| part.kind == "text")
            .map(Part::attachment)
            .collect();
        let is_simple =
            texts.len() == 1 && parts[0].is_plain() && files.iter().all(Option::is_some);
        let mut line = fields(json!({"content": content, "message_id": message.id}));
        if is_simple {
            let files: Vec<_> = files.into_iter().flatten().collect();
            line.extend((!files.is_empty()).then(|| ("attachments".to_owned(), files.into())));
        } else if !parts.is_empty() {
            let parts: Vec<_> = parts.iter().map(|part| part.data.clone()).collect();
            line.insert("parts".into(), parts.into());
        }
        if is_last {
            described(message, &mut line);
        }
        self.history.line_in(None, kind.as_str(), time, &line)
    }

    /// A part of a message of the model, other than `step-start`.
    pub(super) fn part(
        &mut self,
        message: &Message,
        part: Part,
        is_last_text: bool,
    ) -> io::Result<()> {
        match part.kind.as_str() {
            _ if part.is_tool() => self.tool(message, &part),
            "text" => self.words(Kind::MessageAssistant, message, part, is_last_text),
            "reasoning" => self.words(Kind::MessageReasoning, message, part, is_last_text),
            "data-compaction" => self.compaction(message, &part),
            "data-subagent" => {
                let data = part.data.get("data").cloned().unwrap_or_default();
                let subagent = json!({"child_session_id": data["session_id"], "agent": data["agent"], "message_id": message.id});
                self.history.event(Kind::Subagent, part.created, subagent)
            }
            kind => {
                let event = kind.strip_prefix("data-").and_then(event_of);
                match (event, part.data.get("data")) {
                    (Some(event), Some(Value::Object(data))) => {
                        let mut data = data.clone();
                        data.entry("message_id")
                            .or_insert_with(|| message.id.clone().into());
                        self.history.totals.errors += u64::from(event == Kind::Error.as_str());
                        self.history
                            .line_in(self.model, &event, part.created, &data)
                    }
                    _ => self.words(Kind::MessageAssistant, message, part, is_last_text),
                }
            }
        }
    }

    /// A text. A part that has more than that is kept whole.
    fn words(
        &mut self,
        kind: Kind,
        message: &Message,
        part: Part,
        is_last: bool,
    ) -> io::Result<()> {
        let mut line = fields(json!({"content": part.data.get("text"), "message_id": message.id}));
        if is_last {
            described(message, &mut line);
        }
        let created = part.created;
        if !part.is_plain() {
            line.insert("parts".into(), json!([part.data]));
        }
        self.history
            .line_in(self.model, kind.as_str(), created, &line)
    }

    fn compaction(&mut self, message: &Message, part: &Part) -> io::Result<()> {
        let data = part.data.get("data").cloned().unwrap_or_default();
        let session = self.history.id().to_owned();
        let tail = data["tail_start_id"]
            .as_str()
            .map(|id| plain_id(&session, id));
        let fields = json!({
            "auto": data["auto"],
            "tail_start_id": tail,
            "summary": data["summary"].as_str().filter(|summary| !summary.is_empty()),
            "summary_tokens": data["summary_tokens"],
            "summarized_message_count": data["summarized_message_count"],
            "message_id": message.id,
        });
        let start = message.created.min(part.created);
        let span = self
            .history
            .open(SpanKind::Compaction, &part.key, start, Value::Null)?;
        self.history.close(span, part.created, Outcome::Ok, fields)
    }
}

/// The kind of event that an export writes as a part of this name.
fn event_of(name: &str) -> Option<String> {
    let known = [
        Kind::Artifact,
        Kind::Attempt,
        Kind::Verdict,
        Kind::Error,
        Kind::LoopWarning,
        Kind::StateUpdate,
        Kind::Other,
    ];
    (known.contains(&Kind::parse(name)) && event_kind(name) == name).then(|| name.to_owned())
}
