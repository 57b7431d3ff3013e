//! `show`: what a session did, turn by turn.

mod event;
mod marks;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use serde_json::{Value, json};

use self::event::show_event;
use self::marks::Marks;
use super::context::{Context, EventAddress, Failed, parse_age};
use spanledger::session::{self, Branch, Entry, Hidden, Turn, TurnFacts, TurnFilter, each_turn};
use spanledger::trace::{Address, Damage, Kind};
use spanledger::view::{self, Related, Style, Timeline};

/// Options of the timeline, which `--prompt`, `--tools` and `--permissions` don't print.
const TIMELINE: [&str; 5] = ["errors", "since", "around", "recursive", "hidden"];

/// Show what an agent did, turn by turn
///
/// The header shows the session's status and its first and last error. Then comes each turn as a tree
/// of messages, calls, permissions and results, with a bar for when and how long. What lies in no turn
/// has the time of day. The numbers at the end of a row are addresses: `--event 1:17` prints that line.
///
/// A `?` after a duration: no outcome was set, since the span was dropped without one. `≥` before one:
/// the process died, at an unknown time after its last line. `~` before a cost: by list prices, as none
/// was recorded; `≥` before one: the cost of some calls is not known.
#[derive(Args, Debug, Default)]
#[command(after_help = "Examples:
  spanledger show                    the most recently active session
  spanledger show ses_0193 --turn 2  one turn, and what was in force in it
  spanledger show last --errors      only errors
  spanledger show last --event 1:17  one line, decoded, with its blob
  spanledger show --json | jq 'select(.kind == \"tool_call\") | .payload.args'")]
pub(crate) struct Show {
    /// The session: its id, a prefix of it, its directory, or `last`, the default; or an address in a
    /// session, as `agent.trace.address` has it: shows that line
    session: Option<String>,
    /// One turn, with everything that was in force in it
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    /// The system prompt alone: of --turn, else the newest
    #[arg(long, conflicts_with_all = TIMELINE)]
    prompt: bool,
    /// The tool catalog alone, and which tools were called
    #[arg(long, conflicts_with_all = TIMELINE)]
    tools: bool,
    /// The permission rules alone, and each decision
    #[arg(long, conflicts_with_all = TIMELINE)]
    permissions: bool,
    /// Only errors, and the spans that they happened in
    #[arg(long)]
    errors: bool,
    /// Only the N-th run of the session, from 1
    #[arg(long, value_name = "N")]
    run: Option<usize>,
    /// Only what ended since, such as 30m, 2h or 7d, or is open
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    since: Option<u64>,
    /// Only what is near a line
    #[arg(long, value_name = "ADDRESS")]
    around: Option<Address>,
    /// One line, decoded, with its blobs
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = [
        "turn", "prompt", "tools", "permissions", "errors", "run", "since", "around", "recursive",
    ])]
    event: Option<EventAddress>,
    /// Show each subagent once, inside the turn that started it; with --json its nodes follow the one
    /// that started it, with their own session_id
    #[arg(long)]
    recursive: bool,
    /// Show what rewinds and edits have hidden, too, and mark it; --errors and --around do so as well
    #[arg(long)]
    hidden: bool,
    /// Truncate nothing
    #[arg(long)]
    full: bool,
}

impl Show {
    /// A whole session, as by default.
    pub fn of(session: &str) -> Self {
        Self {
            session: Some(session.to_owned()),
            ..Self::default()
        }
    }

    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let (dir, event) = self.target(context)?;
        context.style.full = self.full;
        if let Some(address) = event {
            return show_event(context, &dir, address);
        }
        if self.prompt || self.tools || self.permissions {
            return self.facts(context, &dir);
        }
        if let Some(index) = self.turn {
            return self.one_turn(context, &dir, index);
        }
        let entry = context.store.read(&dir)?;
        context.damages.clone_from(&entry.damages);
        if entry.summary.last == 0 {
            // Not one line can be read: there is nothing to show but why.
            context.report_damage()?;
            return Err(Failed::Usage(format!("no lines in {}", dir.display())));
        }
        let marks = self.marks(context, &entry)?;
        let style = context.style.clone();
        let nested = |id: &str, indent| marks.nested(&style, id, indent);
        let timeline = self.timeline(&entry, &marks, &nested, &style);
        let mut filter = self.filter(&style);
        let mut shown = 0;
        each_turn(&dir, |turn| {
            let title = timeline.title(&turn);
            filter.failed_subagents = marks.failed_subagents(&turn);
            let Some(turn) = filter.apply(turn) else {
                return Ok(());
            };
            shown += 1;
            self.print(context, &dir, &timeline, &title, turn, &marks)
        })?;
        if let Some(missing) = self.missing(&entry, shown, filter.runs()) {
            return Err(Failed::NotFound(missing));
        }
        if shown == 0 && !context.json {
            context.line(match self.errors {
                true => "Nothing went wrong.",
                false => "Nothing happened in that time.",
            })?;
        }
        Ok(())
    }

    /// The session, and the line of it that is wanted alone.
    fn target(&self, context: &mut Context) -> Result<(PathBuf, Option<Address>), Failed> {
        let name = self.session.as_deref();
        let event = self.event.as_ref();
        let address = event.map(|event| event.address);
        if let Some(session) = event.and_then(|event| event.session.as_deref()) {
            let dir = context.resolve(session)?;
            match name.map(|name| context.resolve(name)).transpose()? {
                Some(other) if other != dir => {
                    let why =
                        format!("--event {session}/… is in another session than the one given");
                    return Err(Failed::Usage(why));
                }
                _ => return Ok((dir, address)),
            }
        }
        let name = name.unwrap_or("last");
        match context.resolve(name) {
            Ok(dir) => Ok((dir, address)),
            Err(failed) => match context.resolve_address(name) {
                Some((dir, own)) => Ok((dir, address.or(Some(own)))),
                None => Err(failed),
            },
        }
    }

    /// Prints the header, and reads what the turns are shown with.
    fn marks(&self, context: &mut Context, entry: &Entry) -> Result<Marks, Failed> {
        let id = &entry.summary.session_id;
        Ok(Marks {
            store: Rc::clone(&context.store),
            session_id: id.clone(),
            branches: header(context, entry)?,
            hidden: Hidden::read(&entry.dir)?,
            errors: self.errors,
            shows_hidden: self.hidden || self.errors || self.around.is_some(),
            shown: RefCell::new(HashSet::from([id.clone()])),
        })
    }

    /// What renders the turns of the session. `nested`: the lines of a subagent.
    fn timeline<'a>(
        &self,
        entry: &Entry,
        marks: &'a Marks,
        nested: &'a dyn Fn(&str, usize) -> Vec<String>,
        style: &'a Style,
    ) -> Timeline<'a> {
        let timeline = Timeline::of(entry, &marks.store, style);
        let timeline = timeline.with_hidden(&marks.hidden);
        let timeline = timeline.with_branches(&marks.branches);
        match self.recursive {
            true => timeline.with_subagents(nested),
            false => timeline,
        }
    }

    fn filter(&self, style: &Style) -> TurnFilter {
        let mut filter = TurnFilter::default();
        filter.run = self.run;
        filter.since = self.since.map(|age| style.now.saturating_sub(age));
        filter.around = self.around;
        filter.errors = self.errors;
        filter
    }

    /// What was asked for and isn't there.
    fn missing(&self, entry: &Entry, shown: usize, runs: usize) -> Option<String> {
        let id = &entry.summary.session_id;
        if let Some(around) = self.around.filter(|_| shown == 0) {
            return Some(format!("{id} has nothing around {around}"));
        }
        let wanted = self.run.filter(|wanted| !(1..=runs).contains(wanted))?;
        let runs = view::text::plural(runs as u64, "run");
        Some(format!("{id} has {runs}, and no run {wanted}"))
    }

    fn print(
        &self,
        context: &mut Context,
        dir: &Path,
        timeline: &Timeline<'_>,
        title: &[String],
        mut turn: Turn,
        marks: &Marks,
    ) -> Result<(), Failed> {
        let hidden = marks.remove_hidden(&marks.hidden, &mut turn);
        if context.json {
            return self.print_json(context, dir, &marks.session_id, turn, marks);
        }
        if self.full {
            context.lost.extend(turn.fetch_blobs(dir));
        }
        context.lines(title)?;
        context.lines(&timeline.rows(&turn))?;
        let hidden = hidden.map(|hidden| timeline.hidden_row(hidden));
        hidden.map_or(Ok(()), |row| context.line(&row))
    }

    /// One object a node. The nodes of a subagent follow the one that started it.
    fn print_json(
        &self,
        context: &mut Context,
        dir: &Path,
        session_id: &str,
        mut turn: Turn,
        marks: &Marks,
    ) -> Result<(), Failed> {
        if self.full {
            context.lost.extend(turn.fetch_blobs(dir));
        }
        for node in turn.span.iter().chain(&turn.nodes) {
            let mut object = node.to_json(session_id);
            if session_id == marks.session_id {
                marks.add_to(&mut object, node);
            }
            if node.kind == Kind::ModelCall {
                object["cost"] = node.cost().to_json();
            }
            let child = node.subagent();
            if let Some(child) = &child {
                let result = context.store.subagent(child).unwrap_or_default();
                object["usage"] = result.usage.to_json();
                object["outcome"] = json!(result.outcome);
                object["duration_ns"] = json!(result.duration_since(node.start));
                object["errors"] = json!(result.errors);
            }
            context.object(&object)?;
            let child = child.filter(|_| self.recursive);
            let Some(child) = child.filter(|id| marks.is_first(id)) else {
                continue;
            };
            let dir = context.store.dir(&child);
            let done = each_turn(&dir, |turn| match marks.narrow(turn) {
                Some(turn) => self.print_json(context, &dir, &child, turn, marks),
                None => Ok(()),
            });
            match done {
                Err(Failed::Io(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
                    let why = error.to_string();
                    let object = json!({"type": "unreadable", "session_id": child, "why": why});
                    context.object(&object)?;
                }
                done => drop(done?),
            }
        }
        Ok(())
    }

    fn one_turn(&self, context: &mut Context, dir: &Path, index: u32) -> Result<(), Failed> {
        // The header needs only the first and last lines, so a turn of a long session comes at once.
        let (entry, turn) = self.find_turn(context, dir, index)?;
        let style = context.style.clone();
        let marks = self.marks(context, &entry)?;
        let nested = |id: &str, indent| marks.nested(&style, id, indent);
        let timeline = self.timeline(&entry, &marks, &nested, &style);
        let mut narrowed = turn.clone();
        let mut filter = self.filter(&style);
        filter.failed_subagents = marks.failed_subagents(&turn);
        filter.narrow(&mut narrowed);
        let title = timeline.title(&turn);
        self.print(context, dir, &timeline, &title, narrowed, &marks)?;
        context.flush()?;
        let mut facts = TurnFacts::gather(dir, &turn)?;
        facts.complete(&entry.summary);
        if context.json {
            let mut facts = facts.to_json();
            facts["type"] = "turn_facts".into();
            context.object(&facts)?;
        } else {
            context.line("")?;
            context.lines(&view::facts(&facts, &style))?;
            if !entry.whole {
                context.line("")?;
                let checked = "Only this turn and the session's first and last lines were checked";
                let note = format!("{checked} for damage; `status --deep` checks everything.");
                context.line(&style.dim(&note))?;
            }
        }
        Ok(())
    }

    /// A turn by its index, of the wanted run, with its session.
    fn find_turn(
        &self,
        context: &mut Context,
        dir: &Path,
        index: u32,
    ) -> Result<(Entry, Turn), Failed> {
        let entry = context.store.peek(dir)?;
        let found = match self.run {
            None => {
                let excerpt = session::turn(dir, index)?;
                context.damages.clone_from(&entry.damages);
                for damage in excerpt.damages {
                    let is_same =
                        |known: &Damage| known.path == damage.path && known.offset == damage.offset;
                    if !entry.damages.iter().any(is_same) {
                        context.damages.push(damage);
                    }
                }
                excerpt.turn
            }
            Some(_) => {
                let mut filter = TurnFilter::default();
                filter.run = self.run;
                let mut found = None;
                context.damages = each_turn(dir, |turn| {
                    let turn = filter.apply(turn);
                    let turn = turn.filter(|turn| turn.index == Some(index));
                    found = found.take().or(turn);
                    Ok::<(), Failed>(())
                })?;
                found
            }
        };
        if let Some(turn) = found {
            return Ok((entry, turn));
        }
        let run = self.run.map(|run| format!(" in run {run}"));
        let (id, run) = (&entry.summary.session_id, run.unwrap_or_default());
        let missing = format!("{id} has no turn {index}{run}");
        Err(Failed::NotFound(missing))
    }

    /// Some of the texts in force, by themselves: of a turn, else of the last one that had them.
    fn facts(&self, context: &mut Context, dir: &Path) -> Result<(), Failed> {
        let turn = match self.turn {
            Some(index) => self.find_turn(context, dir, index)?.1,
            None => {
                let mut all = Turn::default();
                let mut filter = TurnFilter::default();
                filter.run = self.run;
                context.damages = each_turn(dir, |turn| {
                    let Some(turn) = filter.apply(turn) else {
                        return Ok::<(), Failed>(());
                    };
                    all.digests = turn.digests;
                    all.nodes.extend(turn.nodes.into_iter().filter(|node| {
                        matches!(
                            node.kind,
                            Kind::ToolCall
                                | Kind::PermissionRequest
                                | Kind::HitlRequest
                                | Kind::HitlResponse
                        )
                    }));
                    Ok(())
                })?;
                all
            }
        };
        let facts = TurnFacts::gather(dir, &turn)?;
        type Lines = fn(&TurnFacts<'_>, &Style) -> Vec<String>;
        let sections: [(bool, &[&str], Lines); 3] = [
            (self.prompt, &["system_prompt"], view::prompt),
            (self.tools, &["tool_catalog", "tools_called"], view::tools),
            (
                self.permissions,
                &["permission_rules", "decisions"],
                view::permissions,
            ),
        ];
        let wanted = || sections.iter().filter(|(wanted, ..)| *wanted);
        if context.json {
            let all = facts.to_json();
            let names = wanted().flat_map(|(_, names, _)| *names);
            let picked = names.map(|name| (*name, all[*name].clone()));
            context.document(&picked.collect::<Value>())?;
        } else {
            let lines = wanted().flat_map(|(.., lines)| lines(&facts, &context.style));
            context.lines(&lines.collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// Prints the header. Returns the sessions that were branched from this one.
fn header(context: &mut Context, entry: &Entry) -> Result<Vec<Branch>, Failed> {
    let related = Related::of(entry, &context.store);
    if context.json {
        let mut header = entry.to_json();
        let mut branches: BTreeSet<_> = entry.summary.branches.iter().collect();
        branches.extend(related.branches.iter().map(|branch| &branch.session_id));
        header["type"] = "session".into();
        header["whole"] = entry.whole.into();
        header["branches"] = json!(branches);
        header["cost"] = related.cost.to_json();
        header["subagents"] = related.subagents.to_json();
        header["subagents"]["cost"] = related.subagents_cost.to_json();
        header["implicit_beside"] = json!(related.implicit);
        context.object(&header)?;
    } else {
        context.lines(&view::header(entry, &related, &context.style))?;
        context.line("")?;
    }
    Ok(related.branches)
}
