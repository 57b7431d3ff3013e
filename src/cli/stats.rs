//! `stats`: calls, tokens, cost, durations and errors, over one session or many.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::context::{Context, Failed, one_of, or_last, parse_age};
use spanledger::inspect::stats::{By, Stats as Fold, StatsReport};
use spanledger::view;

/// Count calls, tokens, cost, durations, errors and waiting
///
/// Over the most recently active session by default, over the sessions given, or over all with --all or
/// --since. Subagents are counted to the sessions that started them.
///
/// A recorded cost counts; else a call is priced at the time it was made, by a table inside the command. Calls
/// of unknown cost make a sum a lower bound, shown as ≥. P50 and P95 are durations of calls, within 1 %, without
/// calls whose process died; TTFT is the median time to the first token; WAITED is the time that a person was
/// waited for.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger stats last --by model\n  spanledger stats --since 7d --by day\n  spanledger stats --all --by tool --csv > tools.csv"
)]
pub(crate) struct Stats {
    /// Sessions: an id, a prefix of it, a directory, or `last`
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// All sessions
    #[arg(long, conflicts_with = "sessions")]
    all: bool,
    /// Only what ended since, such as 30m, 2h or 7d; over all sessions unless some are given
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    since: Option<u64>,
    /// A row for each of these; days are in UTC
    #[arg(long, value_name = "WHAT", value_parser = one_of::<By>(By::ALL.map(By::as_str)))]
    by: Option<By>,
    /// Print CSV; no cell is taken for a formula
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

impl Stats {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let since = self.since.map(|age| context.style.now.saturating_sub(age));
        let mut fold = Fold::new(self.by).since(since.unwrap_or(0));
        if self.all || (self.sessions.is_empty() && since.is_some()) {
            let dirs = all(context, since)?;
            context.unreadable.extend(fold.add_all(dirs));
        } else {
            for session in or_last(&self.sessions) {
                let dir = context.resolve(&session)?;
                let lost = fold.add_family(&context.store, &dir)?;
                context.unreadable.extend(lost);
            }
        }
        let report = fold.finish();
        self.print(context, &report)?;
        context.damages = report.damages;
        Ok(())
    }

    fn print(&self, context: &mut Context, report: &StatsReport) -> Result<(), Failed> {
        if self.csv {
            return context.lines(&view::stats_csv(report));
        }
        let document = || {
            let rows = report.rows.iter().map(|(key, row)| {
                let mut object = row.to_json();
                object["key"] = key.as_str().into();
                object
            });
            json!({
                "by": report.by.map(By::as_str),
                "total": report.total.to_json(),
                "rows": rows.collect::<Vec<_>>(),
            })
        };
        context.show(document, |style| view::stats(report, style))
    }
}

/// The directories of all sessions that were active since.
fn all(context: &mut Context, since: Option<u64>) -> Result<Vec<PathBuf>, Failed> {
    let Some(since) = since else {
        return Ok(context.store.dirs()?);
    };
    let mut newest = context.store.newest()?;
    let active = newest.by_ref().take_while(|one| one.summary.last >= since);
    let dirs = active.map(|entry| entry.dir).collect();
    context.unreadable.extend(newest.into_unreadable());
    Ok(dirs)
}
