//! `recover`: closes what dead processes left open.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use tracing_subscriber::Registry;

use super::context::{Context, Failed, tell};
use super::interrupt;
use crate::ledger::{lock_file, segments, time_text};
use crate::reader::{Found, SegmentReader};
use crate::session::{Entry, Survey};
use crate::view::named_span;
use crate::view::text::{line, plural};
use crate::{Guard, builder};

/// Close what dead processes left open
///
/// A span whose process was killed has an open line and no close line. This appends the missing
/// ones, in a segment of its own, as `interrupted`, ending when the process was last heard of.
/// Nothing that is there is changed, and nothing of a living process is touched. The next run of a
/// session does the same by itself.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  spanledger recover --dry-run\n  spanledger recover ses_0193")]
pub(crate) struct Recover {
    /// Only this session: its id, the beginning of it, or `last`; all by default
    session: Option<String>,
    /// Only say what would be closed
    #[arg(long)]
    dry_run: bool,
}

/// A span that was, or would be, closed.
struct Closed {
    span_id: String,
    kind: String,
    name: String,
    since: u64,
}

impl Recover {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        let Survey {
            entries,
            unreadable,
        } = match &self.session {
            Some(session) => {
                let dir = context.store.resolve(session)?;
                Survey {
                    entries: vec![context.store.glance(&dir)?],
                    ..Survey::default()
                }
            }
            None => context.store.survey()?,
        };
        // Made only when there is something to do: it writes.
        let mut guard: Option<Guard> = None;
        let (mut sessions, mut spans) = (0, 0);
        let mut failed = Vec::new();
        for entry in &entries {
            let left = left_open(context, entry);
            if left.is_empty() {
                continue;
            }
            let id = &entry.summary.session_id;
            if let Err(why) = copied(context, entry) {
                failed.push(why.to_string());
                continue;
            }
            let closed = match self.dry_run {
                true => left,
                false => {
                    let writes = match &guard {
                        Some(guard) => guard,
                        None => guard.insert(ledger(context)?),
                    };
                    match close(writes, entry) {
                        Ok(closed) => closed,
                        Err(why) => {
                            failed.push(why.to_string());
                            // What went wrong here is not to be told of the next one.
                            guard = None;
                            continue;
                        }
                    }
                }
            };
            sessions += usize::from(!closed.is_empty());
            spans += closed.len();
            self.say(context, id, &closed)?;
        }
        if let Some(guard) = guard {
            guard
                .shutdown()
                .map_err(|error| Failed::Usage(error.to_string()))?;
        }
        if !context.json {
            let verb = if self.dry_run { "to close" } else { "closed" };
            context.line(&match spans {
                0 if failed.is_empty() => "Nothing was left open by a dead process.".into(),
                _ => format!(
                    "{} {verb} in {}",
                    plural(spans as u64, "span"),
                    plural(sessions as u64, "session")
                ),
            })?;
        }
        if let Some(last) = failed.pop() {
            context.flush()?;
            let unreadable = unreadable.iter().map(ToString::to_string);
            unreadable.chain(failed).for_each(|text| tell(&text));
            return Err(Failed::Usage(last));
        }
        context.unreadable(&unreadable)
    }

    fn say(&self, context: &mut Context, id: &str, closed: &[Closed]) -> Result<(), Failed> {
        if context.json {
            let closed: Vec<Value> = closed.iter().map(Closed::to_json).collect();
            let object = json!({"session_id": id, "dry_run": self.dry_run, "closed": closed});
            return context.object(&object);
        }
        let style = context.style.clone();
        context.line(&style.bold(&line(id)))?;
        if closed.is_empty() {
            return context.line("  somebody else is at it, or was quicker");
        }
        for span in closed {
            let verb = if self.dry_run {
                "would close"
            } else {
                "closed"
            };
            context.line(&format!(
                "  {verb} {} {}, open since {}",
                style.dim(&line(&span.span_id)),
                named_span(&span.kind, &span.name),
                style.moment(span.since),
            ))?;
        }
        Ok(())
    }
}

impl Closed {
    fn to_json(&self) -> Value {
        json!({
            "span_id": self.span_id,
            "kind": self.kind,
            "name": self.name,
            "since": time_text(self.since, 6),
        })
    }
}

/// What dead writers left open, children first.
fn left_open(context: &Context, entry: &Entry) -> Vec<Closed> {
    let summary = &entry.summary;
    let is_dead = |seg: u32| {
        let writer = summary.writers.get(&seg);
        !writer.is_some_and(|writer| context.store.is_alive(&writer.id))
    };
    let open = summary.open.iter().filter(|(_, span)| is_dead(span.seg));
    let mut left: Vec<_> = open
        .map(|(id, span)| Closed {
            span_id: id.clone(),
            kind: span.kind.clone(),
            name: span.name.clone(),
            since: span.since,
        })
        .collect();
    left.sort_by(|a, b| (b.since, &b.span_id).cmp(&(a.since, &a.span_id)));
    left
}

/// What could not be closed.
#[derive(Default)]
pub(super) struct Left {
    /// How many spans.
    pub spans: u64,
    /// Why, where that isn't only that nothing may be written there.
    pub failed: Vec<String>,
}

/// Closes what dead processes left open, of one session, by its directory, or all, and says nothing.
/// One that can't be closed keeps none of the others.
pub(super) fn quietly(context: &Context, session: Option<&Path>) -> Result<Left, Failed> {
    let entries = match session.map(|session| context.store.glance(session)) {
        // Removed meanwhile, it has nothing open.
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Some(entry) => vec![entry?],
        None => context.store.list()?,
    };
    let mut guard: Option<Guard> = None;
    let mut left = Left::default();
    for entry in &entries {
        let spans = left_open(context, entry).len() as u64;
        if spans == 0 || interrupt::asked() {
            continue;
        }
        // Asked before a ledger is made, which would try to write elsewhere in the root.
        if lock_file(&entry.dir).is_err_and(|error| is_forbidden(&error)) {
            left.spans += spans;
            continue;
        }
        let closed = copied(context, entry).and_then(|()| {
            let writes = match &guard {
                Some(guard) => guard,
                None => guard.insert(ledger(context)?),
            };
            close(writes, entry)
        });
        match closed {
            Ok(_) => {}
            Err(Failed::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(why) => {
                left.spans += spans;
                left.failed.push(why.to_string());
                // What went wrong here is not to be told of the next one.
                guard = None;
            }
        }
    }
    Ok(left)
}

/// Fails for a session in a directory that is not its own.
fn copied(context: &Context, entry: &Entry) -> Result<(), Failed> {
    let id = &entry.summary.session_id;
    match context.store.dir(id).file_name() == entry.dir.file_name() {
        true => Ok(()),
        false => Err(Failed::Usage(format!(
            "{} says that it is session {id:?}, whose directory is another: \
             a copy can't be recovered",
            entry.dir.display(),
        ))),
    }
}

/// Whether it is not for us to write there.
pub(super) fn is_forbidden(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

fn ledger(context: &Context) -> Result<Guard, Failed> {
    let built = builder()
        .root(context.store.root())
        .disabled(false)
        .mirror(false)
        .build::<Registry>();
    let (_, guard) = built.map_err(|error| Failed::Usage(error.to_string()))?;
    Ok(guard)
}

/// Recovers a session, and reads back what that wrote.
fn close(guard: &Guard, entry: &Entry) -> Result<Vec<Closed>, Failed> {
    let numbers = |dir: &Path| -> Result<HashSet<u32>, Failed> {
        Ok(segments(dir)?
            .into_iter()
            .map(|(number, _)| number)
            .collect())
    };
    let before = numbers(&entry.dir)?;
    let id = &entry.summary.session_id;
    let count = guard.handle().session(id).recover();
    let health = guard.health();
    if let Some(error) = health
        .last_error
        .filter(|_| count == 0 || health.failed > 0)
    {
        return Err(Failed::Usage(format!("session {id:?}: {error}")));
    }
    let mut closed = Vec::new();
    for (number, path) in segments(&entry.dir)? {
        if count == 0 || before.contains(&number) {
            continue;
        }
        let mut reader = SegmentReader::open(path)?;
        while let Some(found) = reader.next()? {
            let Found::Line(line) = found else { continue };
            if line.kind != "interrupted" {
                continue;
            }
            let span_id = line.span_id.unwrap_or_default().to_owned();
            let known = entry.summary.open.get(&span_id);
            let text = |name: &str| Some(line.payload().get(name)?.text()?.into_owned());
            let start = text("start").and_then(|start| crate::ledger::parse_time(&start));
            closed.push(Closed {
                kind: known
                    .map_or_else(|| text("closes"), |span| Some(span.kind.clone()))
                    .unwrap_or_default(),
                name: known.map(|span| span.name.clone()).unwrap_or_default(),
                since: start.unwrap_or(0),
                span_id,
            });
        }
    }
    Ok(closed)
}
