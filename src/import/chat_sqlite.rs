//! `chat-sqlite`: one database of all conversations, as our export, the debugging guide and Grida have it.

use std::io;
use std::path::Path;

use serde_json::Value;

use super::chat::{ASSETS, Chat, member_object, text};
use super::database::Database;
use super::history::{Fields, History};
use super::{Import, ImportError};
use crate::trace::Kind;

const FORMAT: &str = "chat-sqlite";
/// The newest version of the tables.
const VERSION: i64 = 3;
/// So much of the source is kept for each session, at most.
const LONGEST_SOURCE: usize = 256 << 20;

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    let database = Database::open(import, path)?;
    let version = database.version()?;
    if version > VERSION {
        let why = format!("its user_version is {version}; up to {VERSION} can be imported");
        return Err(ImportError::new(path, why));
    }
    database.need("chat_sessions", &["id", "agent", "created_at"])?;
    database.need("chat_messages", &["id", "session_id", "role", "created_at"])?;
    database.need("chat_parts", &["message_id", "index", "data_json"])?;
    let mut sessions = Vec::new();
    let all = "SELECT * FROM chat_sessions ORDER BY created_at, rowid";
    database.each(all, &[], |row| {
        sessions.push(row);
        Ok(())
    })?;
    if sessions.is_empty() {
        return Err(ImportError::new(path, "no session is in it"));
    }
    let sessions = sessions.into_iter();
    let read = sessions.map(|row| session(import, path, &database, row));
    read.collect()
}

/// The rows of a session, redacted.
#[derive(Default)]
struct Source(Vec<u8>);

impl Source {
    fn add(&mut self, history: &History<'_>, table: &str, row: &Fields) {
        if self.0.len() >= LONGEST_SOURCE {
            return;
        }
        let mut kept = Fields::from_iter([("table".to_owned(), Value::from(table))]);
        for (name, value) in row {
            // Secrets in JSON are found by the names of their members.
            let parsed = value.as_str().filter(|_| name.ends_with("_json"));
            let parsed = parsed.and_then(|text| serde_json::from_str(text).ok());
            kept.insert(name.clone(), parsed.unwrap_or_else(|| value.clone()));
        }
        history.redacted_row(&kept, &mut self.0);
    }
}

fn session<'a>(
    import: &'a Import,
    path: &Path,
    database: &Database,
    row: Fields,
) -> Result<History<'a>, ImportError> {
    let failed = |error: io::Error| ImportError::new(path, error);
    let id = text(&row, "id").unwrap_or_default().to_owned();
    let is_subagent = is_subagent(database, &row, &id)?;
    let mut chat = Chat::new(import, FORMAT, row.clone(), is_subagent).map_err(failed)?;
    let mut source = Source::default();
    source.add(&chat.history, "chat_sessions", &row);
    let messages = "SELECT * FROM chat_messages WHERE session_id = ?1 ORDER BY created_at, rowid";
    let parts = "SELECT * FROM chat_parts WHERE message_id = ?1 ORDER BY \"index\"";
    let error = std::cell::RefCell::new(None);
    let read = database.each(messages, &[&id], |message| {
        let its = text(&message, "id").unwrap_or_default();
        let mut all = Vec::new();
        let found = database.each(parts, &[its], |part| {
            all.push(part);
            Ok(())
        });
        let found = found.and_then(|()| assets(database, &mut chat, &mut source, &message));
        if let Err(inner) = found {
            *error.borrow_mut() = Some(inner);
            return Err(io::Error::other("stopped"));
        }
        source.add(&chat.history, "chat_messages", &message);
        all.iter()
            .for_each(|part| source.add(&chat.history, "chat_parts", part));
        chat.message(&message, &all)
    });
    if let Some(error) = error.take() {
        return Err(error);
    }
    read?;
    let finished = chat.finish(|history| history.keep_redacted(&source.0));
    finished.map_err(failed)
}

/// Whether a message of the parent has started this session.
fn is_subagent(database: &Database, row: &Fields, id: &str) -> Result<bool, ImportError> {
    let Some(parent) = text(row, "parent_id") else {
        return Ok(false);
    };
    let mut is = false;
    let query = "SELECT p.data_json FROM chat_parts p JOIN chat_messages m ON m.id = p.message_id
        WHERE m.session_id = ?1 AND p.type = 'data-subagent'";
    database.each(query, &[parent], |part| {
        let data = member_object(&part, "data_json")?;
        is |= data
            .get("data")
            .is_some_and(|data| data["session_id"] == id);
        Ok(())
    })?;
    Ok(is)
}

/// The prompts, catalogs and rules that a message refers to.
fn assets(
    database: &Database,
    chat: &mut Chat<'_>,
    source: &mut Source,
    message: &Fields,
) -> Result<(), ImportError> {
    let metadata = member_object(message, "metadata_json").unwrap_or_default();
    for (name, kind) in ASSETS {
        let table = match kind {
            Kind::ToolCatalog => "tool_catalogs",
            Kind::PermissionRules => "permission_rules",
            _ => "system_prompts",
        };
        let Some(digest) = text(&metadata, name).filter(|digest| !chat.has_asset(kind, digest))
        else {
            continue;
        };
        if database.columns(table)?.is_empty() {
            continue;
        }
        let query = format!("SELECT * FROM {table} WHERE digest = ?1");
        database.each(&query, &[digest], |row| {
            source.add(&chat.history, table, &row);
            chat.asset(kind, &row)
        })?;
    }
    Ok(())
}
