//! `chat-sqlite`: one database of all conversations, as our export, the debugging guide and Grida have it.

use std::io;
use std::path::Path;

use serde_json::Value;

use super::chat::{ASSETS, Chat, member_object, text};
use super::database::Database;
use super::history::{Fields, History, SourceBlob};
use super::{Import, ImportError};
use crate::trace::Kind;

const FORMAT: &str = "chat-sqlite";
/// The newest version of the tables.
const VERSION: i64 = 3;

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

/// Keeps a row of the source.
fn keep(
    history: &History<'_>,
    source: &mut SourceBlob,
    table: &str,
    row: &Fields,
) -> io::Result<()> {
    let mut kept = Fields::from_iter([("table".to_owned(), Value::from(table))]);
    for (name, value) in row {
        // Secrets in JSON are found by the names of their members.
        let parsed = value.as_str().filter(|_| name.ends_with("_json"));
        let parsed = parsed.and_then(|text| serde_json::from_str(text).ok());
        kept.insert(name.clone(), parsed.unwrap_or_else(|| value.clone()));
    }
    history.add_row(source, &kept)
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
    let mut source = chat.history.begin_source().map_err(failed)?;
    keep(&chat.history, &mut source, "chat_sessions", &row).map_err(failed)?;
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
        keep(&chat.history, &mut source, "chat_messages", &message)?;
        let mut parts = all.iter();
        parts.try_for_each(|part| keep(&chat.history, &mut source, "chat_parts", part))?;
        chat.message(&message, &all)
    });
    if let Some(error) = error.take() {
        return Err(error);
    }
    read?;
    let finished = chat.finish(|history| history.end_source(source));
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
    source: &mut SourceBlob,
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
            keep(&chat.history, source, table, &row)?;
            chat.asset(kind, &row)
        })?;
    }
    Ok(())
}
