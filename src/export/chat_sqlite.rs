//! `chat-sqlite`: one database of all conversations, which the debugging guide's queries and Grida's own
//! store read. The rows of a message that is not complete are removed and written again as it grows.

use serde_json::{Value, json};

use super::chat::{Change, Chat, Message};
use super::feed::Fed;
use super::{Exporter, Rows, Schema};
use crate::trace::Kind;

pub(super) const SCHEMA: Schema = Schema {
    version: 3,
    tables: include_str!("chat.sql"),
};

const SESSION: &str = "INSERT INTO chat_sessions (
    id, title, agent, workspace_id, workspace_root, model_json, mode, parent_id, parent_message_id, permissions_json,
    metadata_json, prompt_tokens, completion_tokens, reasoning_tokens, cache_read, cache_write, total_tokens,
    cost_usd, created_at, updated_at, archived_at
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, coalesce(?9, (
        SELECT message_id FROM chat_parts
        WHERE type = 'data-subagent' AND session_id = ?8 AND json_extract(data_json, '$.data.session_id') = ?1
    )), ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
ON CONFLICT (id) DO UPDATE SET
    title = excluded.title, agent = excluded.agent, workspace_root = excluded.workspace_root,
    model_json = excluded.model_json, parent_id = excluded.parent_id,
    parent_message_id = coalesce(excluded.parent_message_id, parent_message_id),
    permissions_json = excluded.permissions_json, metadata_json = excluded.metadata_json,
    prompt_tokens = excluded.prompt_tokens, completion_tokens = excluded.completion_tokens,
    reasoning_tokens = excluded.reasoning_tokens, cache_read = excluded.cache_read,
    cache_write = excluded.cache_write, total_tokens = excluded.total_tokens, cost_usd = excluded.cost_usd,
    created_at = excluded.created_at, updated_at = excluded.updated_at, archived_at = excluded.archived_at";

const MESSAGE: &str =
    "INSERT INTO chat_messages (id, session_id, role, metadata_json, hidden_at, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (id) DO UPDATE SET
    metadata_json = excluded.metadata_json, hidden_at = excluded.hidden_at, updated_at = excluded.updated_at";

const PART: &str = "INSERT INTO chat_parts (
    id, message_id, session_id, \"index\", type, data_json, tool_call_id, tool_state, continuation_run_id,
    created_at, updated_at
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (id) DO UPDATE SET
    type = excluded.type, data_json = excluded.data_json, tool_call_id = excluded.tool_call_id,
    tool_state = excluded.tool_state, created_at = excluded.created_at, updated_at = excluded.updated_at";

/// Removes our messages after a complete one, and their parts.
const REMOVE: &str = "DELETE FROM chat_messages
WHERE session_id = ?1 AND created_at > ?2 AND substr(id, 1, length(?1) + 1) = ?1 || '/'";

/// The message that a subagent was started in, if the subagent's row is there.
const SUBAGENT: &str =
    "UPDATE chat_sessions SET parent_message_id = ?2 WHERE id = ?1 AND parent_message_id IS NULL";

const HIDDEN: &str = "UPDATE chat_messages SET hidden_at = ?2, updated_at = ?3,
    metadata_json = CASE WHEN ?2 IS NULL THEN json_remove(metadata_json, '$.hidden_at')
        ELSE json_set(metadata_json, '$.hidden_at', ?2) END
WHERE id = ?1";

const PROMPT: &str = "INSERT INTO system_prompts VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
const CATALOG: &str = "INSERT INTO tool_catalogs VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
const RULES: &str = "INSERT INTO permission_rules VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";

#[derive(Debug, Default)]
pub(super) struct ChatSqlite {
    chat: Chat,
    begun: bool,
    /// When the last complete message was created. Later rows are of messages that are not complete.
    complete: Option<u64>,
}

impl Exporter for ChatSqlite {
    fn add(&mut self, fed: &Fed, rows: &mut Rows) {
        self.chat.add(fed);
        for change in self.chat.changes() {
            self.change(change, rows);
        }
    }

    fn show_unfinished(&mut self, arriving: &[Fed], rows: &mut Rows) {
        if self.chat.session.id.is_empty() {
            // It has no line.
            return;
        }
        self.session(rows);
        self.remove_unfinished(rows);
        for message in self.chat.unfinished(arriving) {
            self.message(&message, rows);
        }
    }
}

impl ChatSqlite {
    fn change(&mut self, change: Change, rows: &mut Rows) {
        // Messages refer to it.
        if !std::mem::replace(&mut self.begun, true) {
            self.session(rows);
        }
        match change {
            Change::Message(message) => {
                self.remove_unfinished(rows);
                self.complete = Some(message.created);
                self.message(&message, rows);
            }
            Change::Part {
                message,
                index,
                part,
            } => {
                rows.sql(
                    PART,
                    cells(self.chat.session.part_row(&message, index, &part)),
                );
            }
            Change::Hidden {
                message, at, now, ..
            } => {
                rows.sql(HIDDEN, vec![message.into(), at.into(), now.into()]);
            }
            Change::Asset(asset) => {
                let statement = match asset.kind {
                    Kind::ToolCatalog => CATALOG,
                    Kind::PermissionRules => RULES,
                    _ => PROMPT,
                };
                rows.sql(
                    statement,
                    vec![asset.digest.into(), asset.body.into(), asset.created.into()],
                );
            }
            Change::RunEnded => {}
        }
    }

    fn session(&self, rows: &mut Rows) {
        rows.sql(SESSION, cells(self.chat.session.row()));
    }

    /// Removes the rows of messages that were not complete when they were written.
    fn remove_unfinished(&self, rows: &mut Rows) {
        let complete = self.complete.map_or(json!(-1), Value::from);
        let session = self.chat.session.id.clone();
        rows.sql(REMOVE, vec![session.into(), complete]);
    }

    fn message(&self, message: &Message, rows: &mut Rows) {
        let session = &self.chat.session;
        let hidden = self.chat.hidden.get(&message.id).copied();
        rows.sql(MESSAGE, cells(session.message_row(message, hidden)));
        for (index, part) in message.parts.iter().enumerate() {
            rows.sql(PART, cells(session.part_row(&message.id, index, part)));
            if part.kind() == "data-subagent" {
                let child = part.data["data"]["session_id"].clone();
                rows.sql(SUBAGENT, vec![child, message.id.clone().into()]);
            }
        }
    }
}

/// The values of a row, in the order of its columns.
fn cells(row: Value) -> Vec<Value> {
    match row {
        Value::Object(row) => row.into_iter().map(|(_, value)| value).collect(),
        other => vec![other],
    }
}
