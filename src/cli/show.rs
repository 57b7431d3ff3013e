//! `show`: what a session did, turn by turn.

mod json;

use std::io;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::context::{Context, Failed, parse_age};
use crate::reader::{Address, Damage, Found, SessionReader};
use crate::session::{self, Chapter, Chapters, Entry, Node};
use crate::view::{self, Style, Timeline, TurnFacts};
use json::Json;

/// Show what an agent did, turn by turn
///
/// The header says how the session stands and where to look first; then comes each turn as a
/// tree: what was said, called, allowed and returned, with a bar for when and how long. The
/// numbers at the end of a row are addresses: `--event 1:17` prints that line.
#[derive(Args, Debug, Default)]
#[command(after_help = "Examples:
  spanledger show                    the most recently active session
  spanledger show ses_0193 --turn 2  one turn: tokens, cost, prompt, model, tools, permissions
  spanledger show last --errors      only what went wrong
  spanledger show last --event 1:17  one line, decoded, with its blob
  spanledger show last --json | jq 'select(.kind == \"tool_call\") | .payload.args'")]
pub(crate) struct Show {
    /// The session: its id, the beginning of it, or `last`
    #[arg(default_value = "last")]
    session: String,
    /// One turn, with everything that was in force in it
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    /// The system prompt alone: of --turn, else the newest
    #[arg(long, conflicts_with_all = ["tools", "permissions"])]
    prompt: bool,
    /// The tool catalog alone, and which tools were called
    #[arg(long, conflicts_with = "permissions")]
    tools: bool,
    /// The permission rules alone, and each decision
    #[arg(long)]
    permissions: bool,
    /// Only what went wrong, and what it happened in
    #[arg(long)]
    errors: bool,
    /// Only the N-th run of the session, from 1
    #[arg(long, value_name = "N", conflicts_with = "turn")]
    run: Option<usize>,
    /// Only what began in the last while, such as 30m, 2h or 7d
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    since: Option<u64>,
    /// Only what happened around a line
    #[arg(long, value_name = "ADDRESS")]
    around: Option<Address>,
    /// One line, decoded, with its blobs
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = [
        "turn", "prompt", "tools", "permissions", "errors", "run", "since", "around", "recursive",
    ])]
    event: Option<Address>,
    /// Show subagents inside the turn that started them, each once; with --json their nodes follow
    /// the one that started them, with their own session_id
    #[arg(long)]
    recursive: bool,
    /// Cut nothing
    #[arg(long)]
    full: bool,
}

impl Show {
    /// A whole session, as by default.
    pub fn of(session: &str) -> Self {
        Self {
            session: session.to_owned(),
            ..Self::default()
        }
    }

    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let dir = context.store.resolve(&self.session)?;
        context.style.full = self.full;
        if let Some(address) = self.event {
            return show_event(context, &dir, address);
        }
        if self.prompt || self.tools || self.permissions {
            return self.facts(context, &dir);
        }
        if let Some(turn) = self.turn {
            return self.one_turn(context, &dir, turn);
        }
        let entry = context.store.read(&dir)?;
        if entry.summary.last == 0 {
            // Not one line can be read: there is nothing to show but why.
            context.damaged(&entry.damages)?;
            return Err(Failed::Usage(format!("no lines in {}", dir.display())));
        }
        header(context, &entry)?;
        let style = context.style.clone();
        let now = style.now;
        let mut pick = Pick::new(self, now);
        let mut json = Json::new(self.recursive, self.full);
        let mut shown = 0;
        each_chapter(&dir, |chapter| {
            let title = timeline(&style, &entry).title(&chapter);
            let Some(chapter) = pick.chapter(chapter) else {
                return Ok(());
            };
            shown += 1;
            self.print(context, &style, &entry, &title, chapter, &mut json)
        })?;
        let missing = (shown == 0).then(|| self.nothing(&entry)).flatten();
        let missing = missing.or(pick.short_of_runs(&entry));
        if let Some(missing) = missing {
            return Err(context.not_found(missing, &entry.damages, &[]));
        }
        if shown == 0 && !context.json {
            context.line(match self.errors {
                true => "Nothing went wrong.",
                false => "Nothing happened then.",
            })?;
        }
        context.damaged(&entry.damages)
    }

    /// Why nothing is shown, where what was asked for isn't there.
    fn nothing(&self, entry: &Entry) -> Option<String> {
        let id = &entry.summary.session_id;
        let around = self.around?;
        Some(format!("{id} has nothing around {around}"))
    }

    fn print(
        &self,
        context: &mut Context,
        style: &Style,
        entry: &Entry,
        title: &[String],
        mut chapter: Chapter,
        json: &mut Json,
    ) -> Result<(), Failed> {
        if self.full {
            for node in &mut chapter.nodes {
                context.lost.extend(node.fetch_blobs(&entry.dir));
            }
        }
        let chapter = &chapter;
        if context.json {
            return json.print(context, &entry.summary.session_id, chapter);
        }
        json.begin(&entry.summary.session_id);
        let begun = |id: &str| !json.begin(id);
        let nested = |id: &str, indent: usize| nested(context, style, &begun, id, indent);
        let timeline = timeline(style, entry);
        let lines = if self.recursive {
            timeline.with_subagents(&nested).rows(chapter)
        } else {
            timeline.rows(chapter)
        };
        context.lines(title)?;
        context.lines(&lines)
    }

    fn one_turn(&self, context: &mut Context, dir: &Path, turn: u32) -> Result<(), Failed> {
        // The first and last lines will do for the header: a turn of a long session comes at once.
        let entry = context.store.glance(dir)?;
        let (chapter, damages) = excerpt(&entry, dir, turn)?;
        let Some(chapter) = chapter else {
            let missing = format!("{} has no turn {turn}", entry.summary.session_id);
            return Err(context.not_found(missing, &damages, &[]));
        };
        let style = context.style.clone();
        header(context, &entry)?;
        let title = timeline(&style, &entry).title(&chapter);
        let mut narrowed = chapter.clone();
        Pick::new(self, style.now).narrow(&mut narrowed);
        let mut json = Json::new(self.recursive, self.full);
        self.print(context, &style, &entry, &title, narrowed, &mut json)?;
        context.flush()?;
        let facts = TurnFacts::gather(dir, &chapter)?;
        if context.json {
            let mut facts = facts.to_json();
            facts["type"] = "turn_facts".into();
            context.object(&facts)?;
        } else {
            context.line("")?;
            context.lines(&facts.lines(&style))?;
            if !entry.whole {
                context.line("")?;
                context.line(&style.dim(&format!(
                    "Damage elsewhere would not show: only this turn and the session's ends were read ({} in all).",
                    view::text::size(entry.bytes),
                )))?;
            }
        }
        context.damaged(&damages)
    }

    /// One of the texts in force, by itself: of a turn, else of the last one that had it.
    fn facts(&self, context: &mut Context, dir: &Path) -> Result<(), Failed> {
        let (chapter, damages) = match self.turn {
            Some(turn) => {
                let (chapter, damages) = excerpt(&context.store.glance(dir)?, dir, turn)?;
                let Some(chapter) = chapter else {
                    let missing = format!("there is no turn {turn}");
                    return Err(context.not_found(missing, &damages, &[]));
                };
                (chapter, damages)
            }
            None => {
                let mut all = Chapter::default();
                let damages = each_chapter(dir, |chapter| {
                    all.digests = chapter.digests;
                    all.nodes.extend(chapter.nodes.into_iter().filter(|node| {
                        matches!(node.kind.as_ref(), "tool_call" | "permission_request")
                    }));
                    Ok(())
                })?;
                (all, damages)
            }
        };
        let facts = TurnFacts::gather(dir, &chapter)?;
        if context.json {
            let all = facts.to_json();
            let names: &[&str] = match (self.prompt, self.tools) {
                (true, _) => &["system_prompt"],
                (_, true) => &["tool_catalog", "tools_called"],
                _ => &["permission_rules", "decisions"],
            };
            let picked: Value = names
                .iter()
                .map(|name| (*name, all[*name].clone()))
                .collect();
            context.document(&picked)?;
        } else {
            let style = &context.style;
            let lines = match (self.prompt, self.tools) {
                (true, _) => facts.prompt_lines(style),
                (_, true) => facts.tool_lines(style),
                _ => facts.permission_lines(style),
            };
            context.lines(&lines)?;
        }
        context.damaged(&damages)
    }
}

/// The chapters of a subagent, as lines to stand under the row that started it. Nothing of one that
/// was `begun` before: one that is resumed is named again, and a damaged one may name itself.
fn nested(
    context: &Context,
    style: &Style,
    begun: &dyn Fn(&str) -> bool,
    id: &str,
    indent: usize,
) -> Vec<String> {
    // Deeper than this the columns are gone.
    if indent > 5 || begun(id) {
        return Vec::new();
    }
    let mut inner = style.clone();
    inner.width = style.width.saturating_sub(4).max(40);
    let mut lines = Vec::new();
    let deeper = |id: &str, _: usize| nested(context, &inner, begun, id, indent + 1);
    let dir = context.store.dir(id);
    let read = context.store.glance(&dir).map_err(Failed::from);
    let read = read.and_then(|entry| {
        each_chapter(&dir, |chapter| {
            let timeline = timeline(&inner, &entry).with_subagents(&deeper);
            lines.extend(timeline.chapter(&chapter));
            Ok(())
        })
    });
    if let Err(failed) = read {
        lines.push(style.red(&format!("can't be read: {failed}")));
    }
    let indented = lines.into_iter().map(|line| format!("    {line}"));
    indented.collect()
}

fn timeline<'a>(style: &'a Style, entry: &Entry) -> Timeline<'a> {
    Timeline::new(style).left(!entry.status.is_live())
}

/// How the session stands.
fn header(context: &mut Context, entry: &Entry) -> Result<(), Failed> {
    if context.json {
        let mut header = entry.summary.to_json(entry.status);
        header["type"] = "session".into();
        header["whole"] = entry.whole.into();
        return context.object(&header);
    }
    context.lines(&view::header(entry, &context.style))?;
    context.line("")
}

/// A turn, and what is damaged in it and in the ends of its session.
fn excerpt(entry: &Entry, dir: &Path, turn: u32) -> Result<(Option<Chapter>, Vec<Damage>), Failed> {
    let excerpt = session::turn(dir, turn)?;
    let mut damages = entry.damages.clone();
    let known = |damage: &Damage| {
        let same = |d: &Damage| d.path == damage.path && d.offset == damage.offset;
        damages.iter().any(same)
    };
    let new: Vec<_> = excerpt.damages.into_iter().filter(|d| !known(d)).collect();
    damages.extend(new);
    Ok((excerpt.chapter, damages))
}

/// Narrows chapters to what was asked for.
struct Pick<'a> {
    show: &'a Show,
    after: Option<u64>,
    runs: usize,
}

impl<'a> Pick<'a> {
    fn new(show: &'a Show, now: u64) -> Self {
        Self {
            show,
            after: show.since.map(|age| now.saturating_sub(age)),
            runs: 0,
        }
    }

    /// What is wrong with a run that was asked for and never came.
    fn short_of_runs(&self, entry: &Entry) -> Option<String> {
        let wanted = self
            .show
            .run
            .filter(|wanted| !(1..=self.runs).contains(wanted))?;
        let (id, runs) = (&entry.summary.session_id, self.runs);
        let runs = format!("{runs} run{}", if runs == 1 { "" } else { "s" });
        Some(format!("{id} has {runs}, and no run {wanted}"))
    }

    fn chapter(&mut self, mut chapter: Chapter) -> Option<Chapter> {
        if let Some(wanted) = self.show.run {
            chapter.nodes.retain(|node| {
                if matches!(node.kind.as_ref(), "session_start" | "session_resume") {
                    self.runs += 1;
                }
                self.runs == wanted
            });
            if self.runs != wanted && chapter.nodes.is_empty() {
                return None;
            }
        }
        let narrowed = self.narrow(&mut chapter);
        (!narrowed || !chapter.nodes.is_empty()).then_some(chapter)
    }

    /// Takes out of a chapter what was not asked for. Whether anything could be.
    fn narrow(&self, chapter: &mut Chapter) -> bool {
        if let Some(after) = self.after {
            chapter
                .nodes
                .retain(|node| node.start.saturating_add(node.duration.unwrap_or(0)) >= after);
        }
        if let Some(address) = self.show.around {
            let near = |node: &Node| {
                node.address.seg == address.seg && node.address.seq.abs_diff(address.seq) <= 12
            };
            chapter.nodes.retain(near);
        }
        if self.show.errors {
            keep_errors(chapter);
        }
        self.after.is_some() || self.show.around.is_some() || self.show.errors
    }
}

/// Keeps what went wrong, and the spans it happened in.
fn keep_errors(chapter: &mut Chapter) {
    let bad = |node: &Node| {
        matches!(node.kind.as_ref(), "error" | "gap" | "interrupted")
            || node
                .outcome()
                .is_some_and(|o| matches!(o.as_ref(), "error" | "interrupted" | "cancelled"))
            || node.get("error").is_some()
            || (node.kind.as_ref() == "log" && node.text("level").as_deref() == Some("ERROR"))
    };
    let mut keep: std::collections::HashSet<u64> = std::collections::HashSet::new();
    // A parent stands before what it holds, so going backwards reaches it later.
    for node in chapter.nodes.iter().rev() {
        if bad(node) || node.span_id.is_some_and(|id| keep.contains(&id)) {
            keep.extend(node.within());
            keep.extend(node.span_id);
        }
    }
    chapter
        .nodes
        .retain(|node| bad(node) || node.span_id.is_some_and(|id| keep.contains(&id)));
}

fn show_event(context: &mut Context, dir: &Path, address: Address) -> Result<(), Failed> {
    let line = session::line(dir, address).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Failed::Damaged(error.to_string()),
        _ => error.into(),
    })?;
    let Some(line) = line else {
        // It may be one of those that can't be read.
        let missing = format!("there is no line {address} in {}", dir.display());
        let damages = context.store.read(dir)?.damages;
        return Err(context.not_found(missing, &damages, &[]));
    };
    let mut blobs = serde_json::Map::new();
    let mut lost = Ok(());
    for value in line.payload.values() {
        if let Some(sha256) = value.get("$blob").and_then(Value::as_str) {
            match session::blob(dir, sha256) {
                Ok(text) => drop(blobs.insert(sha256.to_owned(), text.into())),
                // The line is shown all the same: it has the beginning of what is gone.
                Err(error) => lost = Err(Failed::Damaged(error.to_string())),
            }
        }
    }
    let mut value = json!({
        "address": line.address(),
        "ts": line.ts,
        "kind": line.kind,
        "session_id": line.session_id,
        "turn": line.turn,
        "trace_id": line.trace_id,
        "span_id": line.span_id,
        "parent_span_id": line.parent_span_id,
        "payload": line.payload,
    });
    if context.json {
        value["blobs"] = blobs.into();
        context.document(&value)?;
        return context.flush().and(lost);
    }
    // JSON escapes control characters itself; what else could move a terminal is escaped here.
    let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
    for text in pretty.lines() {
        context.line(&view::text::line(text))?;
    }
    for (sha256, text) in &blobs {
        context.line("")?;
        context.line(&context.style.bold(&format!("blob {sha256}")).clone())?;
        for text in text.as_str().unwrap_or_default().lines() {
            context.line(&view::text::line(text))?;
        }
    }
    context.flush().and(lost)
}

/// Calls `take` with each chapter of a session, in order. What is damaged.
pub(crate) fn each_chapter(
    dir: &Path,
    mut take: impl FnMut(Chapter) -> Result<(), Failed>,
) -> Result<Vec<Damage>, Failed> {
    let mut reader = SessionReader::open(dir)?;
    let mut chapters = Chapters::default();
    let mut damages = Vec::new();
    while let Some(found) = reader.next()? {
        match found {
            Found::Line(line) => chapters.take(&line),
            Found::Damaged(damage) => damages.push(damage),
        }
        while let Some(chapter) = chapters.ready() {
            take(chapter)?;
        }
    }
    chapters.finish().into_iter().try_for_each(take)?;
    Ok(damages)
}
