//! `chat-json`, `chat-jsonl` and `chat-csv`: the rows of `chat-sqlite` as text.
//!
//! Totals and hidden messages are known at the end only, so a session is read twice. A file of lines that is
//! kept current can't do that: there, later rows correct earlier ones.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::chat::{Asset, Change, Chat, Message, Part};
use super::feed::Fed;
use super::{Exporter, Rows};
use crate::trace::Kind;

const COLUMNS: &str = "session_id,message_id,role,part_id,index,type,tool_call_id,tool_state,created_at,\
provider_id,model_id,prompt_tokens,completion_tokens,reasoning_tokens,cache_read,cache_write,cost_usd,chars,hidden_at";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Lines,
    Csv,
}

/// What the whole session says.
#[derive(Debug)]
struct Ahead {
    session: Value,
    hidden: HashMap<String, u64>,
    /// Tool calls that ended after their messages, by message and index.
    late: HashMap<(String, usize), Part>,
}

#[derive(Debug)]
pub(super) struct ChatText {
    form: Form,
    /// The file is kept current.
    is_live: bool,
    chat: Chat,
    ahead: Option<Ahead>,
    late: HashMap<(String, usize), Part>,
    /// How many messages were written.
    messages: usize,
    begun: bool,
    assets: Vec<Asset>,
}

impl Exporter for ChatText {
    fn add(&mut self, fed: &Fed, rows: &mut Rows) {
        self.chat.add(fed);
        self.write(rows);
    }

    fn end(&mut self, rows: &mut Rows) {
        self.chat.finish();
        self.write(rows);
        if self.ahead.is_none() || self.chat.session.id.is_empty() {
            // It goes on, or it has no line.
            return;
        }
        self.begin(rows);
        if self.form == Form::Json {
            let of = |kind: Kind| -> Vec<Value> {
                let its = self.assets.iter().filter(|asset| asset.kind == kind);
                its.map(asset_row).collect()
            };
            let rest = json!({
                "system_prompts": of(Kind::SystemPrompt),
                "tool_catalogs": of(Kind::ToolCatalog),
                "permission_rules": of(Kind::PermissionRules),
            });
            rows.text(format!("],{}", &rest.to_string()[1..]));
        }
    }

    fn again(&mut self) -> bool {
        let chat = std::mem::take(&mut self.chat);
        let ahead = Ahead {
            session: chat.session.row(),
            hidden: chat.hidden,
            late: std::mem::take(&mut self.late),
        };
        self.ahead.replace(ahead).is_none()
    }
}

impl ChatText {
    pub fn new(form: Form, is_live: bool) -> Self {
        Self {
            form,
            is_live,
            chat: Chat::default(),
            ahead: None,
            late: HashMap::new(),
            messages: 0,
            begun: false,
            assets: Vec::new(),
        }
    }

    fn write(&mut self, rows: &mut Rows) {
        let changes = self.chat.changes();
        if self.ahead.is_none() && !self.is_live {
            for change in changes {
                if let Change::Part {
                    message,
                    index,
                    part,
                } = change
                {
                    self.late.insert((message, index), part);
                }
            }
            return;
        }
        for change in changes {
            self.begin(rows);
            self.change(change, rows);
        }
    }

    /// Writes the session before anything else.
    fn begin(&mut self, rows: &mut Rows) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let session = match &self.ahead {
            Some(ahead) => ahead.session.clone(),
            None => self.chat.session.row(),
        };
        match self.form {
            Form::Json => rows.text(format!("{{\"session\":{session},\"messages\":[")),
            Form::Lines => line("session", session, rows),
            Form::Csv => rows.header(COLUMNS.to_owned()),
        }
    }

    fn change(&mut self, change: Change, rows: &mut Rows) {
        match change {
            Change::Message(mut message) => {
                if let Some(ahead) = &mut self.ahead
                    && !ahead.late.is_empty()
                {
                    for (index, part) in message.parts.iter_mut().enumerate() {
                        if let Some(ended) = ahead.late.remove(&(message.id.clone(), index)) {
                            *part = ended;
                        }
                    }
                }
                let hidden = self.ahead.as_ref().map(|ahead| &ahead.hidden);
                let hidden = hidden.and_then(|hidden| hidden.get(&message.id)).copied();
                self.message(&message, hidden, rows);
                self.messages += 1;
            }
            Change::Asset(asset) if self.form == Form::Lines => {
                line(asset.kind.as_str(), asset_row(&asset), rows);
            }
            Change::Asset(asset) => self.assets.push(asset),
            _ if !self.is_live => {}
            Change::Part {
                message,
                index,
                part,
            } => {
                line(
                    "part",
                    self.chat.session.part_row(&message, index, &part),
                    rows,
                );
            }
            Change::Hidden {
                message,
                at,
                now,
                by,
            } => {
                // Rewinds of one moment differ by their lines.
                let rewind = by.to_string();
                let update =
                    json!({"id": message, "hidden_at": at, "updated_at": now, "rewind": rewind});
                line("update", update, rows);
            }
            Change::RunEnded => line("session", self.chat.session.row(), rows),
        }
    }

    fn message(&self, message: &Message, hidden: Option<u64>, rows: &mut Rows) {
        let session = &self.chat.session;
        let row = session.message_row(message, hidden);
        let parts = message.parts.iter().enumerate();
        let mut parts = parts.map(|(index, part)| session.part_row(&message.id, index, part));
        match self.form {
            Form::Json => {
                let comma = if self.messages > 0 { "," } else { "" };
                let parts: Value = parts.collect();
                rows.text(format!("{comma}{{\"message\":{row},\"parts\":{parts}}}"));
            }
            Form::Lines => {
                line("message", row, rows);
                parts.for_each(|part| line("part", part, rows));
            }
            Form::Csv => {
                for (index, part) in parts.by_ref().enumerate() {
                    rows.text(csv(message, &part, index, hidden));
                }
            }
        }
    }
}

fn asset_row(asset: &Asset) -> Value {
    let body = match asset.kind {
        Kind::ToolCatalog => "tools_json",
        Kind::PermissionRules => "rules_json",
        _ => "body",
    };
    json!({"digest": asset.digest, body: asset.body, "created_at": asset.created})
}

fn line(kind: &str, data: Value, rows: &mut Rows) {
    let mut row = json!({"type": kind});
    row["data"] = data;
    rows.once(&row);
}

/// A part as a row of CSV. The tokens of a message are on its first row only, so that sums are right.
fn csv(message: &Message, part: &Value, index: usize, hidden: Option<u64>) -> String {
    let text = |name: &str| match &part[name] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let model = |name: &str| {
        let model = message
            .metadata
            .get("model")
            .and_then(|model| model.get(name));
        model.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let counts = message.counts.filter(|_| index == 0);
    let counts = counts.map(|counts| counts.cells()).unwrap_or_default();
    let mut cells = vec![
        text("session_id"),
        message.id.clone(),
        message.role.to_owned(),
    ];
    cells.extend(
        [
            "id",
            "index",
            "type",
            "tool_call_id",
            "tool_state",
            "created_at",
        ]
        .map(text),
    );
    cells.extend([model("provider_id"), model("model_id")]);
    cells.extend(counts);
    cells.push(message.parts[index].chars().to_string());
    cells.push(hidden.map(|at| at.to_string()).unwrap_or_default());
    let cells: Vec<_> = cells.iter().map(|cell| quoted(cell)).collect();
    cells.join(",")
}

/// A cell that no spreadsheet takes for a formula.
fn quoted(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let cell = if is_formula {
        format!("'{cell}")
    } else {
        cell.to_owned()
    };
    match cell.contains(['"', ',', '\n', '\r', '\'']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}
