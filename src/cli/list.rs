//! `list`: the sessions there are.

use std::path::PathBuf;
use std::rc::Rc;

use clap::Args;
use serde_json::json;

use super::context::{Context, Failed, parse_age, quoted};
use spanledger::session::{Entry, SessionFilter, Status, tree};
use spanledger::view::SessionTable;
use spanledger::view::text::plural;

/// The column of ids is as wide as those of so many sessions need.
const FIRST: usize = 256;

/// List sessions, the most recently active first
///
/// An implicit session holds spans and events that were recorded outside every run, often because a task was
/// spawned without a span; its row says which process recorded it, and --json has it as `implicit`.
///
/// The trace id to look for in a backend and the directory with the files: --long has a row for each, --json
/// has `trace_id` and `dir`.
///
/// COST is what was recorded; `stats` prices calls without a recorded cost by list prices.
///
/// Reads the first and last lines of each session only, so it is quick however long they are.
///
/// A session that can't be read is reported on stderr, with --json also as an object with an `error`;
/// the command then exits with 3.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger list --status interrupted\n  spanledger list --agent planner --since 2h --tree"
)]
pub(crate) struct List {
    /// Only those of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only those with this status: busy, idle, waiting, retrying, error, ended, interrupted
    #[arg(long)]
    status: Option<Status>,
    /// Only those in this workspace, or below it
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Only those active since, such as 30m, 2h or 7d
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    since: Option<u64>,
    /// Only those with this text in the title or a message, in any case; reads them whole
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Show subagents and branches under their parents
    #[arg(long)]
    tree: bool,
    /// Show the trace id and the directory of each
    #[arg(long)]
    long: bool,
    /// At most this many
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
}

impl List {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let filter = SessionFilter {
            agent: self.agent.clone(),
            status: self.status,
            workspace: self.workspace.clone(),
            since: self.since.map(|age| context.style.now.saturating_sub(age)),
            text: self.text.clone(),
        };
        let store = Rc::clone(&context.store);
        let mut newest = store.newest()?;
        let mut total = 0;
        let limit = self.limit.unwrap_or(usize::MAX);
        let mut matching = newest
            .by_ref()
            .inspect(|_| total += 1)
            .filter(|entry| filter.matches(entry))
            .take(limit);
        if context.json {
            for entry in matching {
                context.object(&entry.to_json())?;
            }
            context.unreadable = newest.into_unreadable();
            for session in context.unreadable.clone() {
                context.object(&json!({"dir": session.dir, "error": session.why}))?;
            }
            return Ok(());
        }
        // A tree can't be printed before all of it is known.
        let most = if self.tree { usize::MAX } else { FIRST };
        let first: Vec<_> = matching.by_ref().take(most).collect();
        if !first.is_empty() {
            self.print(context, &first, matching)?;
            context.unreadable = newest.into_unreadable();
            return Ok(());
        }
        let total = total + newest.by_ref().count();
        context.unreadable = newest.into_unreadable();
        let root = context.store.root().display().to_string();
        match total {
            0 if !context.unreadable.is_empty() => Ok(()),
            0 => context.line(&format!("No sessions in {root}. Try `spanledger demo`.")),
            n => {
                let (n, filters) = (plural(n as u64, "session"), self.filters());
                let text = format!("No session in {root} matches {filters}; there are {n}.");
                context.line(&text)
            }
        }
    }

    fn print(
        &self,
        context: &mut Context,
        first: &[Entry],
        rest: impl Iterator<Item = Entry>,
    ) -> Result<(), Failed> {
        let rows = match self.tree {
            true => tree(first),
            false => first.iter().map(|entry| (0, entry)).collect(),
        };
        let style = context.style.clone();
        let table = SessionTable::new(rows.iter().copied(), self.long, &style);
        context.line(&table.head())?;
        for (depth, entry) in rows {
            context.lines(&table.rows(depth, entry))?;
        }
        for entry in rest {
            context.lines(&table.rows(0, &entry))?;
        }
        context.lines(&table.foot(context.store.root()))
    }

    /// The filters as the user would type them.
    fn filters(&self) -> String {
        let age = |ns: u64| format!("{}s", ns / 1_000_000_000);
        let workspace = self.workspace.as_ref();
        let options = [
            ("--agent", self.agent.clone()),
            ("--status", self.status.map(|status| status.as_str().into())),
            (
                "--workspace",
                workspace.map(|dir| dir.to_string_lossy().into_owned()),
            ),
            ("--since", self.since.map(age)),
        ];
        let options = options
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name} {}", quoted(&value?))));
        let text = self.text.as_ref().map(|text| quoted(text).into_owned());
        let limit = self.limit.map(|limit| format!("--limit {limit}"));
        let all: Vec<_> = options.chain(text).chain(limit).collect();
        all.join(" ")
    }
}
