//! `chat-json` and `chat-jsonl`: the rows of `chat-sqlite` as text. A session is held in memory, because later
//! lines may correct earlier ones.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use serde_json::Value;

use super::chat::{Chat, text};
use super::document;
use super::history::{Fields, History, fields};
use super::lines::{JsonLines, read_text};
use super::{Import, ImportError};
use crate::trace::Kind;

/// A session as its rows.
#[derive(Default)]
struct Session {
    row: Option<Fields>,
    assets: Vec<(Kind, Fields)>,
    messages: Vec<Message>,
    /// Where messages are, by id.
    known: HashMap<String, usize>,
}

#[derive(Default)]
struct Message {
    row: Fields,
    parts: BTreeMap<u64, Fields>,
}

pub(super) fn read_document<'a>(
    import: &'a Import,
    path: &Path,
) -> Result<Vec<History<'a>>, ImportError> {
    let (raw, document) = document::read_document(path)?;
    let failed = |error: io::Error| ImportError::new(path, error);
    let session = of_document(&mut fields(document)).map_err(failed)?;
    let written = session.write(import, "chat-json", &raw);
    Ok(vec![written.map_err(failed)?])
}

fn of_document(document: &mut Fields) -> io::Result<Session> {
    let mut list = |name: &str| match document.remove(name) {
        Some(Value::Array(rows)) => rows,
        _ => Vec::new(),
    };
    let mut session = Session::default();
    let assets = [
        ("system_prompts", Kind::SystemPrompt),
        ("tool_catalogs", Kind::ToolCatalog),
        ("permission_rules", Kind::PermissionRules),
    ];
    for (name, kind) in assets {
        for row in list(name) {
            session.assets.push((kind, row_of(row)?));
        }
    }
    for mut message in list("messages") {
        let parts = message["parts"].take();
        let row = row_of(message["message"].take())?;
        let id = text(&row, "id").unwrap_or_default().to_owned();
        session.message(row);
        for part in parts.as_array().into_iter().flatten() {
            session.part(&id, row_of(part.clone())?)?;
        }
    }
    session.row = Some(row_of(document.remove("session").unwrap_or_default())?);
    Ok(session)
}

fn row_of(value: Value) -> io::Result<Fields> {
    match value {
        Value::Object(row) => Ok(row),
        _ => Err(io::Error::other("a row is no JSON object")),
    }
}

pub(super) fn read_lines<'a>(
    import: &'a Import,
    path: &Path,
) -> Result<Vec<History<'a>>, ImportError> {
    let mut lines = JsonLines::open(path)?;
    let mut sessions: Vec<Session> = Vec::new();
    while let Some(line) = lines.next()? {
        add(&mut sessions, line).map_err(|error| lines.error(error))?;
    }
    if sessions.is_empty() {
        return Err(ImportError::new(path, "no session is in it"));
    }
    let raw = read_text(path)?;
    let written = sessions
        .into_iter()
        .map(|session| session.write(import, "chat-jsonl", &raw));
    let written: io::Result<Vec<_>> = written.collect();
    written.map_err(|error| ImportError::new(path, error))
}

/// Adds a line. All rows after a session's row belong to it.
fn add(sessions: &mut Vec<Session>, mut line: Fields) -> io::Result<()> {
    let data = row_of(line.remove("data").unwrap_or_default())?;
    let kind = text(&line, "type").unwrap_or_default();
    if kind == "session" {
        let known = |session: &Session| {
            session
                .row
                .as_ref()
                .is_some_and(|row| row.get("id") == data.get("id"))
        };
        match sessions.iter().position(known) {
            // Its totals are newer.
            Some(at) => {
                let mut session = sessions.remove(at);
                session.row = Some(data);
                sessions.push(session);
            }
            None => sessions.push(Session {
                row: Some(data),
                ..Session::default()
            }),
        }
        return Ok(());
    }
    let Some(session) = sessions.last_mut() else {
        return Err(io::Error::other("a row before the row of its session"));
    };
    match kind {
        "message" => session.message(data),
        "part" => {
            let message = text(&data, "message_id").unwrap_or_default().to_owned();
            session.part(&message, data)?;
        }
        "update" => session.update(&data)?,
        "system_prompt" => session.assets.push((Kind::SystemPrompt, data)),
        "tool_catalog" => session.assets.push((Kind::ToolCatalog, data)),
        "permission_rules" => session.assets.push((Kind::PermissionRules, data)),
        other => return Err(io::Error::other(format!("unknown type {other:?}"))),
    }
    Ok(())
}

impl Session {
    /// The last row with an id counts.
    fn message(&mut self, row: Fields) {
        let id = text(&row, "id").unwrap_or_default().to_owned();
        let at = *self.known.entry(id).or_insert(self.messages.len());
        match self.messages.get_mut(at) {
            Some(known) => known.row = row,
            None => self.messages.push(Message {
                row,
                ..Message::default()
            }),
        }
    }

    fn of_id(&mut self, id: &str) -> io::Result<&mut Message> {
        let known = self.known.get(id).and_then(|at| self.messages.get_mut(*at));
        known.ok_or_else(|| io::Error::other(format!("no message {id:?} before this row")))
    }

    fn part(&mut self, message: &str, row: Fields) -> io::Result<()> {
        let index = row.get("index").and_then(Value::as_u64);
        let index = index.ok_or_else(|| io::Error::other("a part has no `index`"))?;
        self.of_id(message)?.parts.insert(index, row);
        Ok(())
    }

    fn update(&mut self, row: &Fields) -> io::Result<()> {
        let message = self.of_id(text(row, "id").unwrap_or_default())?;
        let hidden = row.get("hidden_at").cloned().unwrap_or_default();
        message.row.insert("hidden_at".into(), hidden);
        Ok(())
    }

    fn write<'a>(
        self,
        import: &'a Import,
        format: &'static str,
        raw: &str,
    ) -> io::Result<History<'a>> {
        let row = self
            .row
            .ok_or_else(|| io::Error::other("no row of a session is in it"))?;
        // A branch is named by its message; a subagent's is not known.
        let mut chat = Chat::new(import, format, row, false)?;
        let time = |row: &Fields| row.get("created_at").and_then(Value::as_u64).unwrap_or(0);
        let mut assets = self.assets;
        assets.sort_by_key(|(_, row)| time(row));
        let mut assets = assets.into_iter().peekable();
        for message in &self.messages {
            let now = time(&message.row);
            while let Some((kind, row)) = assets.next_if(|(_, row)| time(row) <= now) {
                chat.asset(kind, &row)?;
            }
            let parts: Vec<_> = message.parts.values().cloned().collect();
            chat.message(&message.row, &parts)?;
        }
        for (kind, row) in assets {
            chat.asset(kind, &row)?;
        }
        chat.finish(|history| history.keep_source(raw))
    }
}
