//! Whether those who write still live.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde_json::{Value, json};

use super::family::Family;
use super::name_of;
use super::rows::Rows;
use crate::cli::context::{Context, Failed};
use crate::ledger::time_text;
use crate::reader::RawLine;
use crate::session::{Entry, OpenSpan, Status, Summary};
use crate::view::named_span;
use crate::view::text::line;

/// The sessions that are followed, by their directories' names.
#[derive(Debug, Default)]
pub(super) struct Lives(HashMap<String, Life>);

#[derive(Debug)]
struct Life {
    summary: Summary,
    /// The writers that lived when last looked at, by segment.
    alive: BTreeMap<u32, String>,
    /// A writer died over something and nobody has resumed.
    dead: bool,
}

impl Lives {
    pub fn add(&mut self, context: &Context, entry: Entry) {
        let dead = entry.status == Status::Interrupted && !entry.summary.open.is_empty();
        let alive = entry
            .summary
            .writers
            .iter()
            .filter(|(_, writer)| context.store.is_alive(&writer.id))
            .map(|(seg, writer)| (*seg, writer.id.clone()))
            .collect();
        self.0.insert(
            name_of(&entry.dir),
            Life {
                summary: entry.summary,
                alive,
                dead,
            },
        );
    }

    /// Whether any session is live.
    pub fn any(&self) -> bool {
        self.0.values().any(|life| !life.alive.is_empty())
    }

    /// When something last happened in any of them.
    pub fn newest(&self) -> u64 {
        let last = self.0.values().map(|life| life.summary.last);
        last.max().unwrap_or(0)
    }

    /// Says of those that were dead from the start that they are.
    pub fn say_dead(&self, context: &mut Context, rows: &mut Rows) -> Result<(), Failed> {
        for life in self.0.values().filter(|life| life.dead) {
            let writer = life.summary.deepest().map(|open| open.seg);
            say_died(context, rows, &life.summary, writer.unwrap_or(0))?;
        }
        Ok(())
    }

    /// Takes a line that came just now, before it is shown.
    pub fn take(
        &mut self,
        context: &mut Context,
        rows: &mut Rows,
        dir: &Path,
        line: &RawLine<'_>,
        family: &Family,
    ) -> Result<(), Failed> {
        let begins = line.kind == "segment";
        if begins {
            // Whoever wrote before may be dead, and we have not looked since.
            context.store.forget_writers();
        }
        let life = self.0.entry(name_of(dir)).or_insert_with(|| Life {
            // Of a session that slept until now: nothing that it left open is news.
            summary: Summary::default(),
            alive: BTreeMap::new(),
            dead: false,
        });
        if begins {
            life.check(context, rows, family)?;
        }
        life.summary.take(line);
        let Some(writer) = life.summary.writers.get(&line.seg) else {
            return Ok(());
        };
        if begins {
            life.alive.insert(line.seg, writer.id.clone());
        }
        // A segment alone may be a recovery's: it is a run that resumes.
        let runs = matches!(line.kind.as_ref(), "session_start" | "session_resume");
        if runs && std::mem::take(&mut life.dead) {
            let pid = writer.process().get("pid").and_then(Value::as_u64);
            let by = pid.map_or_else(String::new, |pid| format!(" by pid {pid}"));
            let id = &life.summary.session_id;
            let text = format!("{} is resumed{by}", crate::view::text::line(id));
            let object = json!({
                "notice": "resumed",
                "session_id": id,
                "writer": writer.id,
                "pid": pid,
                "address": line.address().to_string(),
            });
            rows.notice(context, &text, object)?;
        }
        Ok(())
    }

    /// Looks whether the writers still live, and says of those that don't.
    pub fn check(
        &mut self,
        context: &mut Context,
        rows: &mut Rows,
        family: &Family,
    ) -> Result<(), Failed> {
        context.store.forget_writers();
        for life in self.0.values_mut() {
            life.check(context, rows, family)?;
        }
        Ok(())
    }
}

impl Life {
    fn check(
        &mut self,
        context: &mut Context,
        rows: &mut Rows,
        family: &Family,
    ) -> Result<(), Failed> {
        let store = &context.store;
        let is_dead = |(_, writer): &(&u32, &String)| !store.is_alive(writer);
        let died: Vec<u32> = self
            .alive
            .iter()
            .filter(is_dead)
            .map(|(seg, _)| *seg)
            .collect();
        for seg in died {
            self.alive.remove(&seg);
            // One that had closed everything has just ended.
            let left_open = self.summary.open.values().any(|span| span.seg == seg);
            if left_open && family.has_id(&self.summary.session_id) {
                self.dead = true;
                say_died(context, rows, &self.summary, seg)?;
            }
        }
        Ok(())
    }
}

fn say_died(
    context: &mut Context,
    rows: &mut Rows,
    summary: &Summary,
    seg: u32,
) -> Result<(), Failed> {
    let writer = summary.writers.get(&seg);
    let pid = writer.and_then(|writer| writer.process().get("pid")?.as_u64());
    let open: Option<&OpenSpan> = summary.deepest();
    let id = &summary.session_id;
    let who = pid.map_or_else(
        || "its process".into(),
        |pid| format!("its process (pid {pid})"),
    );
    let mut text = format!("{}: {who} died", line(id));
    if let Some(open) = open {
        text.push_str(&format!(
            " with {} open since {} at {}",
            named_span(&open.kind, &open.name),
            context.style.clock(open.since),
            open.address,
        ));
    }
    let object = json!({
        "notice": "writer_died",
        "session_id": id,
        "writer": writer.map(|writer| &writer.id),
        "pid": pid,
        "open": open.map(|open| json!({
            "kind": open.kind,
            "name": open.name,
            "address": open.address.to_string(),
            "since": time_text(open.since, 6),
        })),
    });
    rows.notice(context, &text, object)
}
