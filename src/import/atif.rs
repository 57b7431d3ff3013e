//! `atif`: a trajectory of Harbor, with the trajectories of its subagents. Each is a session.

mod agent;
mod heads;
mod members;

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::document::{Members, Want, parse, read_members};
use super::history::History;
use super::{Import, ImportError};
use crate::trace::{Kind, Outcome, SpanKind, hex_digest};
use agent::step_metadata;
use heads::{Head, Heads, step_time, want};
use members::{attachments, content, filled};

const FORMAT: &str = "atif";

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    let mut heads = Heads::default();
    read_members(path, &mut heads)?;
    heads.date(path);
    let ids = heads.ids(path);
    let mut steps = Steps {
        import,
        path,
        heads: heads.all,
        ids: ids.map_err(|error| ImportError::new(path, error))?,
        next: 0,
        open: Vec::new(),
        written: Vec::new(),
    };
    read_members(path, &mut steps)?;
    let mut written = steps.written;
    written.sort_by_key(|(number, _)| *number);
    Ok(written.into_iter().map(|(_, history)| history).collect())
}

/// Writes the steps of all trajectories.
struct Steps<'a, 'p> {
    import: &'a Import,
    path: &'p Path,
    heads: Vec<Head>,
    ids: Vec<String>,
    /// The number of the next trajectory.
    next: usize,
    open: Vec<Trajectory<'a>>,
    written: Vec<(usize, History<'a>)>,
}

impl Members for Steps<'_, '_> {
    fn want(&mut self, name: &str) -> Want {
        want(name)
    }

    fn begin(&mut self) -> io::Result<()> {
        let number = self.next;
        self.next += 1;
        let (Some(head), Some(id)) = (self.heads.get(number), self.ids.get(number)) else {
            return Err(io::Error::other("it changed while it was read"));
        };
        let mut trajectory = Trajectory {
            history: History::new(self.import, FORMAT, id),
            number,
            model: head.get("agent")["model_name"].clone(),
            compactions: Vec::new(),
            kept: None,
            hidden: Vec::new(),
            before: None,
            steps: 0,
            calls: 0,
        };
        let parent = head.parent.map(|parent| self.ids[parent].as_str());
        trajectory.begin(head, parent)?;
        self.open.push(trajectory);
        Ok(())
    }

    fn value(&mut self, _: &str, step: &str) -> io::Result<()> {
        let Some(trajectory) = self.open.last_mut() else {
            return Ok(());
        };
        let step = parse(step)?;
        trajectory.steps += 1;
        let is_only = self.heads[trajectory.number].steps == 1;
        trajectory.step(&step, is_only).map_err(|error| {
            let (step, id) = (trajectory.steps, &self.ids[trajectory.number]);
            io::Error::other(format!("step {step} of {id:?}: {error}"))
        })
    }

    fn end(&mut self) -> io::Result<()> {
        if let Some(trajectory) = self.open.pop() {
            let number = trajectory.number;
            self.written.push((number, trajectory.finish(self.path)?));
        }
        Ok(())
    }
}

struct Trajectory<'a> {
    history: History<'a>,
    number: usize,
    /// The model of steps that name none.
    model: Value,
    /// Compactions that are not written yet: when they happened, and their summaries.
    compactions: Vec<(u64, Value)>,
    /// The first step that they kept, once it is known.
    kept: Option<String>,
    /// Steps that are hidden, until one is not.
    hidden: Vec<String>,
    /// The last step that is not hidden.
    before: Option<String>,
    steps: usize,
    calls: usize,
}

impl<'a> Trajectory<'a> {
    fn begin(&mut self, head: &Head, parent: Option<&str>) -> io::Result<()> {
        let start = head.start;
        let agent = head.get("agent");
        let text = |value: &Value, name: &str| {
            let text = value[name].as_str();
            text.filter(|text| *text != "unknown").map(str::to_owned)
        };
        let version = text(agent, "version").map(|version| json!({"version": version}));
        self.history.start_run(
            start,
            json!({
                "agent": text(agent, "name"),
                "model_id": agent["model_name"],
                "process": version,
                "parent_session_id": parent,
                "metadata": head.metadata(),
            }),
        )?;
        if let Some(tools) = agent["tool_definitions"].as_array() {
            let tools = Value::from(tools.clone());
            let digest = hex_digest(tools.to_string().as_bytes());
            self.history.event(
                Kind::ToolCatalog,
                start,
                json!({"digest": digest, "tools": tools}),
            )?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Value, is_only: bool) -> io::Result<()> {
        let number = self.steps;
        let time = step_time(step).unwrap_or(self.history.last());
        let extra = &step["extra"];
        let id = format!("step-{number}");
        let text = content(&step["message"]);
        if extra["summary"] == true {
            if self.kept.is_some() {
                self.compact()?;
            }
            self.compactions.push((time, text.into()));
            return Ok(());
        }
        let is_hidden = extra["hidden"] == true;
        if !is_hidden {
            self.continue_conversation()?;
        }
        let message = json!({
            "content": text,
            "message_id": id,
            "attachments": attachments(step),
            "complete": (extra["incomplete"] == true).then_some(false),
            "metadata": filled(step_metadata(step)),
        });
        let is_copied = step["is_copied_context"] == true;
        match step["source"].as_str() {
            Some("system") if number == 1 && extra["address"].is_null() => {
                let digest = hex_digest(text.as_bytes());
                // A trajectory has at least one step.
                if !text.is_empty() || !is_only {
                    self.history.event(
                        Kind::SystemPrompt,
                        time,
                        json!({"digest": digest, "body": text}),
                    )?;
                }
                return self.observe_step(step, time, None);
            }
            Some("system") => self.system(step, time, &id, message)?,
            Some("user") => {
                if !is_copied {
                    self.history.start_turn(time, Outcome::Unset)?;
                }
                self.history.event(Kind::MessageUser, time, message)?;
                self.observe_step(step, time, None)?;
            }
            Some("agent") if is_copied => self.copied(step, time, &id, message)?,
            Some("agent") => self.agent(step, time, &id, message)?,
            source => return Err(io::Error::other(format!("unknown source {source:?}"))),
        }
        if self.is_kept_next() {
            // The compaction hides what came before.
            self.hidden.clear();
            self.kept = Some(id.clone());
        }
        match is_hidden {
            true => self.hidden.push(id),
            false => self.before = Some(id),
        }
        Ok(())
    }

    /// A step of the system: a message, what was observed, or both.
    fn system(&mut self, step: &Value, time: u64, id: &str, message: Value) -> io::Result<()> {
        let observes =
            !step["observation"].is_null() || !step["extra"]["unread_subagents"].is_null();
        if message["content"] == "" && observes {
            return self.observe_step(step, time, Some(id));
        }
        self.history.event(Kind::MessageSystem, time, message)?;
        self.observe_step(step, time, None)
    }

    /// Whether the next step is the first one that a compaction kept.
    fn is_kept_next(&self) -> bool {
        self.kept.is_none() && !self.compactions.is_empty()
    }

    /// Writes the rewind and the compactions that happened before a step that is visible, or before the end.
    fn continue_conversation(&mut self) -> io::Result<()> {
        if self.is_kept_next() {
            return Ok(());
        }
        self.rewind()?;
        // After the rewind, which would undo them.
        self.compact()
    }

    fn compact(&mut self) -> io::Result<()> {
        let kept = self.kept.take();
        let compactions = std::mem::take(&mut self.compactions);
        for (at, (time, summary)) in compactions.into_iter().enumerate() {
            let fields = json!({"summary": summary, "tail_start_id": kept});
            let key = format!("{time}-{at}");
            let span = self
                .history
                .open(SpanKind::Compaction, &key, time, Value::Null)?;
            self.history.close(span, time, Outcome::Ok, fields)?;
        }
        Ok(())
    }

    /// Hides the steps since the last one that was not hidden.
    fn rewind(&mut self) -> io::Result<()> {
        if self.hidden.is_empty() {
            return Ok(());
        }
        let ids = std::mem::take(&mut self.hidden);
        let rewind = json!({"to_message_id": self.before, "hidden_ids": ids});
        self.history
            .event(Kind::Rewind, self.history.last(), rewind)
    }

    fn finish(mut self, source: &Path) -> io::Result<History<'a>> {
        self.rewind()?;
        self.compact()?;
        self.history.keep_files(&[source])?;
        Ok(self.history)
    }
}
