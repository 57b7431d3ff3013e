//! `list`: the sessions there are.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::context::{Context, Failed, parse_age, quoted};
use spanledger::session::{SessionFilter, Status, Survey, tree};
use spanledger::view;
use spanledger::view::text::plural;

/// List sessions, the most recently active first
///
/// An implicit session holds spans and events that were recorded outside every run, often because a task was
/// spawned without a span; its row says which process recorded it. --json has the trace id (`trace_id`), the
/// directory (`dir`) and `implicit`, too.
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
    #[arg(long, value_parser = parse_status)]
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
        let Survey {
            mut entries,
            unreadable,
        } = context.store.survey()?;
        let total = entries.len();
        entries.retain(|entry| filter.matches(entry));
        entries.truncate(self.limit.unwrap_or(usize::MAX));
        if context.json {
            for entry in &entries {
                context.object(&entry.to_json())?;
            }
            for session in &unreadable {
                context.object(&json!({"dir": session.dir, "error": session.why}))?;
            }
            return context.report_damage(&[], &unreadable);
        }
        if entries.is_empty() {
            let root = context.store.root().display().to_string();
            match total {
                0 if !unreadable.is_empty() => {}
                0 => context.line(&format!("No sessions in {root}. Try `spanledger demo`."))?,
                n => {
                    let (n, filters) = (plural(n as u64, "session"), self.filters());
                    let text = format!("No session in {root} matches {filters}; there are {n}.");
                    context.line(&text)?;
                }
            }
            return context.report_damage(&[], &unreadable);
        }
        let rows = match self.tree {
            true => tree(&entries),
            false => entries.iter().map(|entry| (0, entry)).collect(),
        };
        let lines = view::list(&rows, self.long, &context.style);
        context.lines(&lines)?;
        context.report_damage(&[], &unreadable)
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

fn parse_status(text: &str) -> Result<Status, String> {
    let names = Status::ALL.map(Status::as_str).join(", ");
    Status::parse(text).ok_or_else(|| format!("use one of {names}"))
}
