//! The lines of one session, in the order of its file.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::history::{Fields, History, Span};
use super::answer::{Answer, blocks, texts};
use super::{digest, is_true, text};
use crate::trace::{Kind, Outcome, SpanKind};

/// Where a title comes from. A later one counts more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Title {
    Summary,
    Generated,
    Custom,
}

pub(super) struct Session<'a> {
    pub id: String,
    /// The session whose subagent this is.
    pub parent: Option<String>,
    history: History<'a>,
    /// The files that have its lines.
    files: Vec<PathBuf>,
    begun: bool,
    /// The first line that has a working directory.
    origin: Option<Fields>,
    title: Option<(Title, String)>,
    answer: Option<Answer>,
    /// The digests of the ids of answers that were written.
    answered: BTreeSet<u64>,
    /// A compaction that waits for its summary: when it was, its id, and what is known of it.
    compaction: Option<(u64, String, Value)>,
    /// When the line before was written: an answer began then, and a turn ended.
    before: u64,
    outcome_of_turn: Outcome,
    /// Tool calls without a result.
    tools: HashMap<String, (Span, Value)>,
    /// The subagents that its tool calls name.
    pub subagents: HashSet<String>,
}

impl<'a> Session<'a> {
    pub fn new(id: &str, parent: Option<&str>, history: History<'a>) -> Self {
        Self {
            id: id.to_owned(),
            parent: parent.map(str::to_owned),
            history,
            files: Vec::new(),
            begun: false,
            origin: None,
            title: None,
            answer: None,
            answered: BTreeSet::new(),
            compaction: None,
            before: 0,
            outcome_of_turn: Outcome::Ok,
            tools: HashMap::new(),
            subagents: HashSet::new(),
        }
    }

    pub fn has_begun(&self) -> bool {
        self.begun
    }

    pub fn set_title(&mut self, source: Title, title: Option<&str>) {
        let is_new = self
            .title
            .as_ref()
            .is_none_or(|(known, _)| *known <= source);
        if let Some(title) = title.filter(|title| is_new && !title.is_empty()) {
            self.title = Some((source, title.to_owned()));
        }
    }

    pub fn set_title_if_none(&mut self, summary: String) {
        self.title.get_or_insert((Title::Summary, summary));
    }

    /// Adds a line.
    pub fn add(&mut self, mut entry: Fields, time: u64, path: &Path) -> io::Result<()> {
        if self.origin.is_none() && text(&entry, "cwd").is_some() {
            let names = ["cwd", "version", "gitBranch", "forkedFrom"];
            let member = |name: &str| Some((name.to_owned(), entry.get(name)?.clone()));
            self.origin = Some(names.into_iter().filter_map(member).collect());
        }
        match (text(&entry, "type"), text(&entry, "subtype")) {
            (Some("assistant"), _) => {
                self.begin(time, path)?;
                let message = entry.remove("message").unwrap_or_default();
                self.assistant(&entry, message, time)?;
            }
            (Some("user"), _) => {
                self.begin(time, path)?;
                self.user(entry, time)?;
            }
            (Some("system"), Some("compact_boundary")) => {
                self.begin(time, path)?;
                self.compact_boundary(&entry, time)?;
            }
            // It is written when a turn ends.
            (Some("system"), Some("turn_duration")) => {}
            _ => return Ok(()),
        }
        self.before = time;
        Ok(())
    }

    fn begin(&mut self, time: u64, path: &Path) -> io::Result<()> {
        if self.files.last().is_none_or(|last| last != path) {
            self.files.push(path.to_owned());
        }
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        self.before = time;
        let origin = self.origin.clone().unwrap_or_default();
        let origin = |name: &str| origin.get(name).cloned().unwrap_or_default();
        let from = origin("forkedFrom");
        let from = from["sessionId"]
            .as_str()
            .map(|id| json!({"session_id": id, "message_id": from["messageUuid"]}));
        self.history.start_run(time, json!({
            "agent": "claude-code",
            "workspace_root": origin("cwd"),
            "parent_session_id": self.parent,
            "branched_from": from,
            "external_ids": {"claude_code": self.parent.as_ref().unwrap_or(&self.id)},
            "process": {"version": origin("version"), "cwd": origin("cwd"), "git": {"branch": origin("gitBranch")}},
        }))
    }

    fn assistant(&mut self, entry: &Fields, message: Value, time: u64) -> io::Result<()> {
        self.end_compaction(None)?;
        let line = text(entry, "uuid").unwrap_or_default();
        let id = message["id"].as_str().unwrap_or(line).to_owned();
        if self.answer.as_ref().is_some_and(|answer| answer.id != id) {
            self.end_answer()?;
        }
        if self.answer.is_none() && self.answered.contains(&digest(&id)) {
            return self.late_line(&id, line, message, time);
        }
        let answer = self
            .answer
            .get_or_insert_with(|| Answer::new(id, self.before));
        answer.add(entry, message, time);
        Ok(())
    }

    /// A line of an answer that was written: its tokens are counted.
    fn late_line(&mut self, id: &str, line: &str, mut message: Value, time: u64) -> io::Result<()> {
        for block in blocks(message["content"].take()) {
            self.said(None, id, &block, time)?;
            self.call(id, &block, time, Some(line))?;
        }
        Ok(())
    }

    /// Writes the answer that was read.
    pub fn end_answer(&mut self) -> io::Result<()> {
        let Some(mut answer) = self.answer.take() else {
            return Ok(());
        };
        self.answered.insert(digest(&answer.id));
        let span =
            self.history
                .open(SpanKind::Model, &answer.id, answer.began, answer.request())?;
        for (time, block) in &answer.blocks {
            self.said(Some(span), &answer.id, block, *time)?;
        }
        self.outcome_of_turn = match answer.failed() {
            true => Outcome::Error,
            false => Outcome::Ok,
        };
        let result = answer.result();
        self.history
            .close(span, answer.ended, self.outcome_of_turn, result)?;
        for (time, block) in &answer.blocks {
            self.call(&answer.id, block, *time, None)?;
        }
        for (entry, time) in std::mem::take(&mut answer.held) {
            self.user_line(entry, time)?;
        }
        Ok(())
    }

    /// A text or a thought of the model.
    fn said(
        &mut self,
        span: Option<Span>,
        message: &str,
        block: &Value,
        time: u64,
    ) -> io::Result<()> {
        let (kind, content) = match block["type"].as_str() {
            Some("text") => (Kind::MessageAssistant, &block["text"]),
            Some("thinking") => (Kind::MessageReasoning, &block["thinking"]),
            _ => return Ok(()),
        };
        let said = json!({"content": content, "message_id": message});
        self.history.event_in(span, kind, time, said)
    }

    /// Begins a tool call. The id of a call may repeat on a late line.
    fn call(
        &mut self,
        message: &str,
        block: &Value,
        time: u64,
        late: Option<&str>,
    ) -> io::Result<()> {
        if block["type"] != "tool_use" {
            return Ok(());
        }
        let id = block["id"].as_str().unwrap_or_default().to_owned();
        let call = json!({
            "tool_id": block["name"],
            "tool_call_id": id,
            "args": block["input"],
            "message_id": message,
        });
        let key = match late {
            Some(line) => format!("{id}#{line}"),
            None => id.clone(),
        };
        let span = self
            .history
            .open(SpanKind::Tool, &key, time, call.clone())?;
        match self.tools.insert(id, (span, call)) {
            Some((span, call)) => self.history.close(span, time, Outcome::Unset, call),
            None => Ok(()),
        }
    }

    /// A prompt ends the answer before it. Results of tools may come before the last line of their answer.
    fn user(&mut self, entry: Fields, time: u64) -> io::Result<()> {
        let content = entry.get("message").map(|message| &message["content"]);
        let has_results = content
            .and_then(Value::as_array)
            .is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"));
        let entry = match &mut self.answer {
            Some(answer) if has_results || is_true(&entry, "isMeta") => {
                match answer.hold(entry, time) {
                    None => return Ok(()),
                    Some(entry) => entry,
                }
            }
            _ => entry,
        };
        self.end_answer()?;
        self.user_line(entry, time)
    }

    fn user_line(&mut self, mut entry: Fields, time: u64) -> io::Result<()> {
        let mut message = entry.remove("message").unwrap_or_default();
        let all = blocks(message["content"].take());
        let said = texts(&all, "\n\n");
        if is_true(&entry, "isCompactSummary") {
            return self.compact_summary(&entry, said, time);
        }
        self.end_compaction(None)?;
        let is_result = |block: &&Value| block["type"] == "tool_result";
        for block in all.iter().filter(is_result) {
            self.tool_result(&entry, block, time)?;
        }
        if said.is_empty() && all.iter().any(|block| is_result(&block)) {
            return Ok(());
        }
        let is_meta = is_true(&entry, "isMeta");
        if !is_meta {
            self.history.end_turn(self.before, self.outcome_of_turn)?;
            self.outcome_of_turn = Outcome::Ok;
            self.history.start_turn(time, Outcome::Ok)?;
        }
        let message = json!({
            "content": said,
            "message_id": entry.get("uuid"),
            "parts": all.iter().any(|block| block["type"] != "text").then_some(&all),
            "metadata": is_meta.then(|| json!({"is_meta": true})),
        });
        self.history.event(Kind::MessageUser, time, message)
    }

    fn tool_result(&mut self, entry: &Fields, block: &Value, time: u64) -> io::Result<()> {
        let key = block["tool_use_id"].as_str().unwrap_or_default();
        let Some((span, mut call)) = self.tools.remove(key) else {
            return Ok(());
        };
        let output = |name: &str| {
            let result = entry
                .get("toolUseResult")
                .and_then(|result| result.get(name));
            result.cloned().unwrap_or_default()
        };
        if let Some(agent) = output("agentId").as_str() {
            let main = self.parent.as_ref().unwrap_or(&self.id);
            let child = format!("{main}-{agent}");
            self.subagent(Some(span), &child, time)?;
            self.subagents.insert(child);
        }
        let failed = block["is_error"].as_bool() == Some(true);
        let result = texts(&blocks(block["content"].clone()), "\n");
        if failed {
            call["error"] = json!({"message": result});
        }
        call["result"] = result.into();
        call["stdout"] = output("stdout");
        call["stderr"] = output("stderr");
        let outcome = if failed { Outcome::Error } else { Outcome::Ok };
        self.history.close(span, time, outcome, call)
    }

    fn subagent(&mut self, span: Option<Span>, child: &str, time: u64) -> io::Result<()> {
        let subagent = json!({"agent": "claude-code", "child_session_id": child});
        self.history.event_in(span, Kind::Subagent, time, subagent)
    }

    fn compact_boundary(&mut self, entry: &Fields, time: u64) -> io::Result<()> {
        self.end_answer()?;
        self.end_compaction(None)?;
        let data = entry.get("compactMetadata").cloned().unwrap_or_default();
        let manual = data["trigger"].as_str().map(|trigger| trigger == "manual");
        let compaction = json!({
            "trigger": data["trigger"],
            "manual": manual,
            "auto": manual.map(|manual| !manual),
            "input_tokens": data["preTokens"],
        });
        let key = text(entry, "uuid").unwrap_or_default().to_owned();
        self.compaction = Some((time, key, compaction));
        Ok(())
    }

    /// Old versions wrote the summary only.
    fn compact_summary(&mut self, entry: &Fields, summary: String, time: u64) -> io::Result<()> {
        let key = text(entry, "uuid").unwrap_or_default();
        self.compaction
            .get_or_insert_with(|| (time, key.to_owned(), json!({})));
        self.end_compaction(Some((summary, time)))
    }

    /// Writes the compaction that was read, with its summary and when that was written.
    fn end_compaction(&mut self, summary: Option<(String, u64)>) -> io::Result<()> {
        let Some((began, key, mut compaction)) = self.compaction.take() else {
            return Ok(());
        };
        let open = compaction.clone();
        let span = self.history.open(SpanKind::Compaction, &key, began, open)?;
        let mut ended = began;
        if let Some((summary, time)) = summary {
            compaction["summary"] = summary.into();
            ended = time;
        }
        self.history.close(span, ended, Outcome::Ok, compaction)
    }

    /// Closes what is open. `children` are its subagents that no tool call names.
    pub fn finish(mut self, children: Vec<String>) -> io::Result<History<'a>> {
        self.end_answer()?;
        self.end_compaction(None)?;
        let last = self.history.last();
        let mut open: Vec<_> = std::mem::take(&mut self.tools).into_values().collect();
        open.sort_by_key(|(span, _)| (span.start(), span.id()));
        for (span, call) in open {
            self.history.close(span, last, Outcome::Unset, call)?;
        }
        for child in children {
            self.subagent(None, &child, last)?;
        }
        if self.outcome_of_turn.is_error() {
            self.history.end_turn(self.before, self.outcome_of_turn)?;
        }
        if let Some((_, title)) = self.title {
            let title = json!({"title": title});
            self.history.event(Kind::SessionTitle, last, title)?;
        }
        let files: Vec<&Path> = self.files.iter().map(PathBuf::as_path).collect();
        self.history.keep_files(&files)?;
        Ok(self.history)
    }
}
