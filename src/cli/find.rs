//! `find`: from an id to its session and address.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::context::{Context, Failed, quoted};
use spanledger::session::{FindId, IdHits, IdSearch, SHORTEST_PREFIX, hits_at};
use spanledger::trace::{Address, RawLine};
use spanledger::view::text::{cut, line, pad, plural, size};
use spanledger::view::{Style, brief};

/// Find the session and address of an id, as copied from Jaeger, Grafana or a log
///
/// Takes a trace id (any case, with or without dashes), a span id, a tool call id, a message id,
/// an interrupt id, a provider's response id, a session id or the digest of a prompt, tool catalog or
/// permission rules, or a prefix of at least 4 characters that only one id has; also the name or path of a
/// session's directory, and an address in a session, as `agent.trace.address` has it. Of a streamed
/// message, shows the line with the whole text; its deltas only if there is no such line. Exits 2 if
/// nothing has the id.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger find 4BF92F35-77B3-4DA6-A3CE-929D0E0E4736\n  spanledger find call_1 --json"
)]
pub(crate) struct Find {
    /// The id
    id: String,
    /// Show every line that has it, not just the first few, and the deltas of streamed messages
    #[arg(long)]
    all: bool,
}

/// How many lines are shown unless all are asked for.
const SHOWN: usize = 8;

impl Find {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let dirs = context.store.dirs()?;
        let mut search = self.search(&self.id, &dirs);
        if let IdSearch::Found(found) = &search
            && found.hits.is_empty()
            && context.store.find_dir(&self.id).is_some()
        {
            let dir = context.resolve(&self.id)?;
            let id = context.store.peek(&dir)?.summary.session_id;
            search = self.search(&id, &[dir]);
        }
        let found = match search {
            IdSearch::Found(found) => found,
            IdSearch::Ambiguous(ids) => {
                let shown: Vec<_> = ids.iter().take(10).map(|id| line(id)).collect();
                let more = if ids.len() > 10 { ", …" } else { "" };
                return Err(Failed::Usage(format!(
                    "{:?} could be any of {}{more}",
                    self.id,
                    shown.join(", ")
                )));
            }
        };
        if found.hits.is_empty()
            && let Some((dir, address)) = context.resolve_address(&self.id)
        {
            return self.line(context, &dir, address);
        }
        context.damages = found.damages;
        context.unreadable = found.unreadable;
        if found.hits.is_empty() {
            let read = dirs.len() - context.unreadable.len();
            let sessions = plural(read as u64, "session");
            let bytes = size(context.store.segment_bytes()?);
            let root = context.store.root().display();
            let kinds = "trace, span, tool call, message, interrupt, response, digest and session";
            let mut missing = format!(
                "nothing has the id {:?}: looked for it as a {kinds} in {sessions} ({bytes}) under {root}",
                self.id,
            );
            missing.push_str(&match self.id.trim().len() {
                0..SHORTEST_PREFIX => {
                    format!("; a prefix needs at least {SHORTEST_PREFIX} characters")
                }
                _ => "; no id starts with it either".to_owned(),
            });
            return Err(Failed::NotFound(missing));
        }
        for hits in &found.hits {
            let command = context.command();
            context.print(
                || to_json(hits, &self.id),
                |style| lines(hits, &command, style),
            )?;
        }
        Ok(())
    }

    /// The line at an address.
    fn line(&self, context: &mut Context, dir: &Path, address: Address) -> Result<(), Failed> {
        let Some(hits) = hits_at(dir, address)? else {
            let missing = format!("there is no line {address} in {}", dir.display());
            context.damages = context.store.read(dir)?.damages;
            return Err(Failed::NotFound(missing));
        };
        let command = context.command();
        context.print(
            || to_json(&hits, &self.id),
            |style| lines(&hits, &command, style),
        )
    }

    fn search(&self, id: &str, dirs: &[PathBuf]) -> IdSearch {
        let find = FindId::new(id);
        match self.all {
            true => find.search(dirs),
            false => find.show(SHOWN).search(dirs),
        }
    }
}

fn lines(hits: &IdHits, command: &str, style: &Style) -> Vec<String> {
    let first = &hits.addresses[0];
    let mut range = match hits.lines {
        1 => format!("at {first}"),
        n => format!("{n} lines, {first} to {}", hits.last),
    };
    if hits.deltas > 0 {
        let deltas = plural(hits.deltas, "delta");
        range.push_str(&format!(", and {deltas} of it (--all)"));
    }
    let (what, id) = (hits.what.as_str().replace('_', " "), line(&hits.session_id));
    let mut out = vec![style.bold(&format!("{what} in session {id}: {range}"))];
    for raw in hits.shown.iter().filter_map(|raw| RawLine::parse(raw).ok()) {
        let brief = brief(&raw);
        let room = style.width.saturating_sub(2 + 8 + 20 + 2);
        let row = format!(
            "  {} {} {}",
            style.dim(&pad(&raw.address().to_string(), 8)),
            brief.tone.paint(style, &pad(&line(&raw.kind), 20)),
            cut(&brief.text, room),
        );
        out.push(row.trim_end().to_owned());
    }
    let hidden = hits.lines - hits.shown.len() as u64;
    if hidden > 0 {
        let hidden = plural(hidden, "more line");
        out.push(style.dim(&format!("  … {hidden} (--all)")));
    }
    let id = quoted(&hits.session_id);
    out.push(style.dim(&format!("  {command} show {id} --around {first}")));
    out
}

fn to_json(hits: &IdHits, id: &str) -> Value {
    let first = RawLine::parse(&hits.first).ok().map(|line| {
        json!({
            "address": line.address().to_string(),
            "kind": line.kind,
            "ts": line.ts,
            "trace_id": line.trace_id,
            "span_id": line.span_id,
        })
    });
    json!({
        "id": id,
        "type": hits.what.as_str(),
        "session_id": hits.session_id,
        "lines": hits.lines,
        "first": first,
        "last": hits.last.to_string(),
        "addresses": hits.addresses.iter().map(Address::to_string).collect::<Vec<_>>(),
        "pieces": hits.deltas,
    })
}
