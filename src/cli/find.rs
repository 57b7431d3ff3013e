//! `find`: from an id to its session and address.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::context::{Context, Failed, quoted};
use crate::reader::{Address, Damage, RawLine};
use crate::session::{FindId, IdOf, Unreadable};
use crate::view::text::{cut, line, pad, plural, size};
use crate::view::{Brief, brief};

/// Find the session and address of an id, as copied from Jaeger, Grafana or a log
///
/// Takes a trace id (any case, with or without dashes), a span id, a tool call id, a message id,
/// an interrupt id, a provider's response id or a session id, or the beginning of one, if only one
/// begins so. Of a message that was streamed the whole is shown, or its pieces where it has none. Exits
/// 2 if nothing has it.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger find 4BF92F35-77B3-4DA6-A3CE-929D0E0E4736\n  spanledger find call_1 --json"
)]
pub(crate) struct Find {
    /// The id
    id: String,
    /// Show every line that has it, not just the first few, and the pieces of what was streamed
    #[arg(long)]
    all: bool,
}

/// How many lines are shown unless all are asked for.
const SHOWN: usize = 8;
/// How many addresses a JSON object holds.
const ADDRESSES: usize = 1_000;

/// From how many characters on the beginning of an id is enough.
const SHORTEST: usize = 4;

/// What has the id, and where it could not be looked for.
#[derive(Default)]
struct Found {
    hits: Vec<Hits>,
    damages: Vec<Damage>,
    unreadable: Vec<Unreadable>,
}

/// The lines of one session that have the id, as one thing.
struct Hits {
    what: IdOf,
    session_id: String,
    lines: u64,
    first: Value,
    first_ts: String,
    last: Address,
    addresses: Vec<Address>,
    shown: Vec<(Address, String, Brief)>,
    /// Lines that are left out, since others of these tell the same as a whole.
    pieces: u64,
}

impl Find {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let dirs = context.store.dirs()?;
        let mut found = self.in_all(&FindId::new(&self.id), &dirs)?;
        if found.hits.is_empty() && self.id.trim().len() >= SHORTEST {
            let ids = beginning(&self.id, &dirs);
            match ids.iter().collect::<Vec<_>>().as_slice() {
                [] => {}
                [only] => found = self.in_all(&FindId::new(only), &dirs)?,
                some => {
                    let shown: Vec<_> = some.iter().take(10).map(|id| line(id)).collect();
                    let (id, shown) = (&self.id, shown.join(", "));
                    let more = if some.len() > 10 { ", …" } else { "" };
                    return Err(Failed::Usage(format!(
                        "{id:?} could be any of {shown}{more}"
                    )));
                }
            }
        }
        let Found {
            mut hits,
            damages,
            unreadable,
        } = found;
        if hits.is_empty() {
            let bytes = dirs.iter().map(|dir| super::status::segment_bytes(dir));
            let missing = format!(
                "nothing has the id {:?}: looked for it as a trace, span, tool call, message, \
                 interrupt, response and session in {} ({}) under {}",
                self.id,
                plural((dirs.len() - unreadable.len()) as u64, "session"),
                size(bytes.sum()),
                context.store.root().display(),
            );
            return Err(context.not_found(missing, &damages, &unreadable));
        }
        hits.sort_by(|a, b| (&a.first_ts, &a.session_id).cmp(&(&b.first_ts, &b.session_id)));
        for hit in &hits {
            if context.json {
                context.object(&hit.to_json(&self.id))?;
            } else {
                self.print(context, hit)?;
            }
        }
        context.damaged_or_unreadable(&damages, &unreadable)
    }

    fn in_all(&self, find: &FindId, dirs: &[PathBuf]) -> Result<Found, Failed> {
        let mut all = Found::default();
        for dir in dirs {
            match self.in_session(find, dir) {
                Ok((found, damaged)) => {
                    all.hits.extend(found);
                    all.damages.extend(damaged);
                }
                // Pruned while we looked.
                Err(Failed::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(Failed::Io(error)) => all.unreadable.push(Unreadable::new(dir, &error)),
                Err(failed) => return Err(failed),
            }
        }
        Ok(all)
    }

    fn in_session(&self, find: &FindId, dir: &Path) -> Result<(Vec<Hits>, Vec<Damage>), Failed> {
        let mut found: BTreeMap<IdOf, Hits> = BTreeMap::new();
        let mut pieces: BTreeMap<(IdOf, Option<u64>), Hits> = BTreeMap::new();
        let mut wholes = BTreeSet::new();
        let damages = find.in_session(dir, |what, line| {
            let part = line.payload().get("part_index");
            let part = part.and_then(|part| part.u64());
            let new = || Hits::new(what, line);
            let hits = match (what, line.kind.as_ref()) {
                (IdOf::Message, "message_delta") | (IdOf::ToolCall, "tool_input_delta")
                    if !self.all =>
                {
                    pieces.entry((what, part)).or_insert_with(new)
                }
                (_, kind) => {
                    if matches!(
                        kind,
                        "message_assistant" | "message_reasoning" | "tool_call"
                    ) {
                        wholes.insert((what, part));
                    }
                    found.entry(what).or_insert_with(new)
                }
            };
            hits.lines += 1;
            hits.last = line.address();
            if hits.addresses.len() < ADDRESSES {
                hits.addresses.push(hits.last);
            }
            if self.all || hits.shown.len() < SHOWN {
                let at = (hits.last, line.kind.to_string(), brief(line));
                hits.shown.push(at);
            }
            Ok::<(), Failed>(())
        })?;
        for ((what, part), its) in pieces {
            match found.get_mut(&what) {
                Some(hits) if wholes.contains(&(what, part)) => hits.pieces += its.lines,
                Some(hits) => hits.absorb(its),
                None => drop(found.insert(what, its)),
            }
        }
        let mut found: Vec<_> = found.into_values().collect();
        // In its own session every line has the session's id: other finds say more.
        if found.len() > 1 {
            found.retain(|hits| hits.what != IdOf::Session);
        }
        Ok((found, damages))
    }

    fn print(&self, context: &mut Context, hits: &Hits) -> Result<(), Failed> {
        let style = context.style.clone();
        let id = line(&hits.session_id).into_owned();
        let first = &hits.addresses[0];
        let mut range = match hits.lines {
            1 => format!("at {first}"),
            n => format!("{n} lines, {first} to {}", hits.last),
        };
        if hits.pieces > 0 {
            let pieces = plural(hits.pieces, "piece");
            range.push_str(&format!(", and the {pieces} it came in (--all)"));
        }
        let head = format!("{} in session {id}: {range}", hits.what.words());
        context.line(&style.bold(&head))?;
        for (address, kind, brief) in &hits.shown {
            let room = style.width.saturating_sub(2 + 8 + 20 + 2);
            let text = cut(&brief.text, room).into_owned();
            let row = format!(
                "  {} {} {}",
                style.dim(&pad(&address.to_string(), 8)),
                brief.tone.paint(&style, &pad(&line(kind), 20)),
                text
            );
            context.line(row.trim_end())?;
        }
        let hidden = hits.lines - hits.shown.len() as u64;
        if hidden > 0 {
            context.line(&style.dim(&format!("  … {hidden} more lines (--all)")))?;
        }
        let (command, id) = (context.command(), quoted(&hits.session_id));
        let next = format!("  {command} show {id} --around {first}");
        context.line(&style.dim(&next))
    }
}

/// All ids that begin like this, in what can be read.
fn beginning(id: &str, dirs: &[PathBuf]) -> BTreeSet<String> {
    let find = FindId::beginning(id);
    let found = dirs.iter().filter_map(|dir| find.ids(dir).ok());
    found.flatten().collect()
}

impl Hits {
    fn new(what: IdOf, line: &RawLine<'_>) -> Self {
        Self {
            what,
            session_id: line.session_id.to_string(),
            lines: 0,
            first: json!({
                "address": line.address().to_string(),
                "kind": line.kind,
                "ts": line.ts,
                "trace_id": line.trace_id,
                "span_id": line.span_id,
            }),
            first_ts: line.ts.to_owned(),
            last: line.address(),
            addresses: Vec::new(),
            shown: Vec::new(),
            pieces: 0,
        }
    }

    /// Takes in what is told of the same thing elsewhere.
    fn absorb(&mut self, other: Self) {
        if other.first_ts < self.first_ts {
            self.first = other.first;
            self.first_ts = other.first_ts;
        }
        self.lines += other.lines;
        self.last = self.last.max(other.last);
        self.addresses.extend(other.addresses);
        self.addresses.sort_unstable();
        self.addresses.truncate(ADDRESSES);
        self.shown.extend(other.shown);
        self.shown.sort_by_key(|(address, ..)| *address);
        self.shown.truncate(SHOWN);
    }

    fn to_json(&self, id: &str) -> Value {
        json!({
            "id": id,
            "type": self.what.as_str(),
            "session_id": self.session_id,
            "lines": self.lines,
            "first": self.first,
            "last": self.last.to_string(),
            "addresses": self.addresses.iter().map(Address::to_string).collect::<Vec<_>>(),
            "pieces": self.pieces,
        })
    }
}
