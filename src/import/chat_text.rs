//! `chat-json` and `chat-jsonl`: the rows of `chat-sqlite` as text.
//!
//! A source is read twice: first for what says how messages are written, then for the messages. In a file of
//! lines, later rows correct earlier ones, so the first reading also notes where the newest rows are.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::iter::Peekable;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

use super::chat::{Chat, member_object, text};
use super::document::{Members, Want, parse, read_members};
use super::history::{Fields, History};
use super::lines::{JsonLines, Place};
use super::{Import, ImportError, json};
use crate::trace::Kind;

/// A prompt, a catalog or rules.
type Asset = (Kind, Fields);

/// Writes a session's messages, and the assets that were recorded before each.
struct Writer<'a> {
    chat: Chat<'a>,
    assets: Peekable<std::vec::IntoIter<Asset>>,
}

fn created(row: &Fields) -> u64 {
    row.get("created_at").and_then(Value::as_u64).unwrap_or(0)
}

fn row_of(value: Value) -> io::Result<Fields> {
    match value {
        Value::Object(row) => Ok(row),
        _ => Err(io::Error::other("a row is no JSON object")),
    }
}

fn index_of(part: &Fields) -> io::Result<u64> {
    let index = part.get("index").and_then(Value::as_u64);
    index.ok_or_else(|| io::Error::other("a part has no `index`"))
}

impl<'a> Writer<'a> {
    fn new(
        import: &'a Import,
        format: &'static str,
        row: Option<Fields>,
        mut assets: Vec<Asset>,
    ) -> io::Result<Self> {
        let row = row.ok_or_else(|| io::Error::other("no row of a session is in it"))?;
        assets.sort_by_key(|(_, row)| created(row));
        Ok(Self {
            // A branch is named by its message; a subagent's is not known.
            chat: Chat::new(import, format, row, false)?,
            assets: assets.into_iter().peekable(),
        })
    }

    fn message(&mut self, row: &Fields, parts: &[Fields]) -> io::Result<()> {
        let now = created(row);
        while let Some((kind, row)) = self.assets.next_if(|(_, row)| created(row) <= now) {
            self.chat.asset(kind, &row)?;
        }
        self.chat.message(row, parts)
    }

    /// `keep` keeps the source.
    fn finish(
        mut self,
        keep: impl FnOnce(&mut History<'a>) -> io::Result<()>,
    ) -> io::Result<History<'a>> {
        for (kind, row) in self.assets {
            self.chat.asset(kind, &row)?;
        }
        self.chat.finish(keep)
    }
}

pub(super) fn read_document<'a>(
    import: &'a Import,
    path: &Path,
) -> Result<Vec<History<'a>>, ImportError> {
    let failed = |error: io::Error| ImportError::new(path, error);
    let mut head = Head::default();
    read_members(path, &mut head)?;
    let writer = Writer::new(import, "chat-json", head.row, head.assets);
    let mut messages = Messages(writer.map_err(failed)?);
    read_members(path, &mut messages)?;
    let finished = messages.0.finish(|history| history.keep_files(&[path]));
    Ok(vec![finished.map_err(failed)?])
}

/// What a document has beside its messages.
#[derive(Default)]
struct Head {
    row: Option<Fields>,
    assets: Vec<Asset>,
}

fn asset_kind(list: &str) -> Option<Kind> {
    match list {
        "system_prompts" => Some(Kind::SystemPrompt),
        "tool_catalogs" => Some(Kind::ToolCatalog),
        "permission_rules" => Some(Kind::PermissionRules),
        _ => None,
    }
}

impl Members for Head {
    fn want(&mut self, name: &str) -> Want {
        match name {
            "session" => Want::Value,
            name if asset_kind(name).is_some() => Want::Items,
            _ => Want::Nothing,
        }
    }

    fn value(&mut self, name: &str, json: &str) -> io::Result<()> {
        let row = row_of(parse(json)?)?;
        match asset_kind(name) {
            Some(kind) => self.assets.push((kind, row)),
            None => self.row = Some(row),
        }
        Ok(())
    }
}

/// The messages of a document.
struct Messages<'a>(Writer<'a>);

impl Members for Messages<'_> {
    fn want(&mut self, name: &str) -> Want {
        match name {
            "messages" => Want::Items,
            _ => Want::Nothing,
        }
    }

    fn value(&mut self, _: &str, message: &str) -> io::Result<()> {
        let mut message = row_of(parse(message)?)?;
        let row = row_of(message.remove("message").unwrap_or_default())?;
        let mut parts = Vec::new();
        if let Some(Value::Array(rows)) = message.remove("parts") {
            for row in rows {
                let part = row_of(row)?;
                parts.push((index_of(&part)?, part));
            }
        }
        parts.sort_by_key(|(index, _)| *index);
        let parts: Vec<_> = parts.into_iter().map(|(_, part)| part).collect();
        self.0.message(&row, &parts)
    }
}

pub(super) fn read_lines<'a>(
    import: &'a Import,
    path: &Path,
) -> Result<Vec<History<'a>>, ImportError> {
    let mut lines = JsonLines::open(import, path)?;
    let mut sessions: Vec<Session> = Vec::new();
    while let Some(line) = lines.next()? {
        let added = add(&mut sessions, line, lines.place());
        added.map_err(|error| lines.error(error))?;
        if let Some(session) = sessions.last_mut() {
            session.add_place(lines.place());
        }
    }
    if sessions.is_empty() {
        return Err(ImportError::new(path, "no session is in it"));
    }
    let file = File::open(path).map_err(|error| ImportError::new(path, error))?;
    let source = Lines { file: &file, path };
    let sessions = sessions.into_iter();
    let written = sessions.map(|mut session| {
        let own = std::mem::take(&mut session.lines);
        let written = session.write(import, &source)?;
        let finished = written.finish(|history| history.keep_lines(path, &own));
        finished.map_err(|error| ImportError::new(path, error))
    });
    written.collect()
}

/// A session of a file of lines.
#[derive(Default)]
struct Session {
    row: Option<Fields>,
    /// The line of that row.
    place: Option<Place>,
    assets: Vec<Asset>,
    /// Where its lines begin and end. Lines one behind the other are one range.
    lines: Vec<Range<u64>>,
    /// The newest row of each message.
    messages: Vec<Place>,
    /// Parts, by message and index.
    parts: Vec<(u32, u64, Place)>,
    /// When messages were hidden that had been written.
    hidden: HashMap<u32, Value>,
    /// Messages by the hashes of their ids.
    known: HashMap<u64, u32>,
    hasher: RandomState,
}

/// Adds a line. All rows after a session's row belong to it.
fn add(sessions: &mut Vec<Session>, mut line: Fields, place: Place) -> io::Result<()> {
    let data = row_of(line.remove("data").unwrap_or_default())?;
    let kind = text(&line, "type").unwrap_or_default();
    if kind == "session" {
        let known = |session: &Session| {
            session
                .row
                .as_ref()
                .is_some_and(|row| row.get("id") == data.get("id"))
        };
        // The totals of a row that is repeated are newer.
        let mut session = match sessions.iter().position(known) {
            Some(at) => sessions.remove(at),
            None => Session::default(),
        };
        session.row = Some(data);
        session.place = Some(place);
        sessions.push(session);
        return Ok(());
    }
    let Some(session) = sessions.last_mut() else {
        return Err(io::Error::other("a row before the row of its session"));
    };
    match kind {
        "message" => session.message(&data, place),
        "part" => {
            let message = session.find(&data, "message_id")?;
            session.parts.push((message, index_of(&data)?, place));
        }
        "update" => {
            let message = session.find(&data, "id")?;
            let hidden = data.get("hidden_at").cloned().unwrap_or_default();
            session.hidden.insert(message, hidden);
        }
        "system_prompt" => session.assets.push((Kind::SystemPrompt, data)),
        "tool_catalog" => session.assets.push((Kind::ToolCatalog, data)),
        "permission_rules" => session.assets.push((Kind::PermissionRules, data)),
        other => return Err(io::Error::other(format!("unknown type {other:?}"))),
    }
    Ok(())
}

impl Session {
    fn add_place(&mut self, place: Place) {
        let start = place.offset;
        let end = start + u64::from(place.length);
        match self.lines.last_mut().filter(|last| last.end == start) {
            Some(last) => last.end = end,
            None => self.lines.push(start..end),
        }
    }

    /// The last row with an id counts.
    fn message(&mut self, row: &Fields, place: Place) {
        let id = text(row, "id").unwrap_or_default();
        let next = self.messages.len();
        let at = *self
            .known
            .entry(self.hasher.hash_one(id))
            .or_insert(next as u32);
        match self.messages.get_mut(at as usize) {
            Some(known) => *known = place,
            None => self.messages.push(place),
        }
        self.hidden.remove(&at);
    }

    /// The message that a member of a row names.
    fn find(&self, row: &Fields, name: &str) -> io::Result<u32> {
        let id = text(row, name).unwrap_or_default();
        let known = self.known.get(&self.hasher.hash_one(id)).copied();
        known.ok_or_else(|| io::Error::other(format!("no message {id:?} before this row")))
    }

    fn write<'a>(
        mut self,
        import: &'a Import,
        lines: &Lines<'_>,
    ) -> Result<Writer<'a>, ImportError> {
        self.known = HashMap::new();
        let writer = Writer::new(import, "chat-jsonl", self.row.take(), self.assets);
        let mut writer = writer.map_err(|error| match self.place {
            Some(place) => place.error(lines.path, error),
            None => ImportError::new(lines.path, error),
        })?;
        // Of rows with the same index the last one counts.
        self.parts.reverse();
        self.parts
            .sort_by_key(|(message, index, _)| (*message, *index));
        self.parts
            .dedup_by_key(|(message, index, _)| (*message, *index));
        let mut parts = self.parts.chunk_by(|one, next| one.0 == next.0).peekable();
        for (at, place) in self.messages.into_iter().enumerate() {
            let at = at as u32;
            let mut row = lines.row(place)?;
            if let Some(hidden) = self.hidden.remove(&at) {
                row.insert("hidden_at".into(), hidden);
            }
            let its = parts.next_if(|parts| parts[0].0 == at).unwrap_or_default();
            let rows = its.iter().map(|(_, _, place)| lines.row(*place));
            let rows: Vec<_> = rows.collect::<Result<_, _>>()?;
            let written = writer.message(&row, &rows);
            written.map_err(|error| {
                // A part that can't be read, else the message.
                let is_bad = |part: &Fields| member_object(part, "data_json").is_err();
                let part = rows.iter().position(is_bad).map(|part| its[part].2);
                part.unwrap_or(place).error(lines.path, error)
            })?;
        }
        Ok(writer)
    }
}

/// The file, to read its lines again.
struct Lines<'a> {
    file: &'a File,
    path: &'a Path,
}

impl Lines<'_> {
    /// The row on a line.
    fn row(&self, place: Place) -> Result<Fields, ImportError> {
        let read = || {
            let mut line = vec![0; place.length as usize];
            self.file.read_exact_at(&mut line, place.offset)?;
            let mut line = row_of(json::from_slice(&line)?)?;
            row_of(line.remove("data").unwrap_or_default())
        };
        read().map_err(|error: io::Error| place.error(self.path, error))
    }
}
