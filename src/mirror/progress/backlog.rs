//! The backlog: the part of a session or a root that was not sent yet.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::Path;

use super::cursor::ProgressDir;
use super::dead_letters::{DeadLetter, DeadLetters};
use super::ownership::{Owner, Ownership, unreadable};
use crate::error::Error;
use crate::ledger::{marked, marker};
use crate::session::Store;
use crate::trace::{ReadItem, SegmentReader, about, if_exists, parse_time, segments};

/// The part of a session that was not sent yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// Bytes of its segments that were not sent.
    pub bytes: u64,
    /// How many of these were recorded with no endpoint configured;
    /// [`CatchUp`](crate::mirror::CatchUp) sends them too.
    pub no_endpoint: u64,
    /// The endpoints that what was not sent was recorded for.
    pub endpoints: BTreeSet<String>,
    /// Spans that servers accepted, at once or when sent again.
    pub sent: u64,
    /// What servers refused for good.
    pub dead_letters: u64,
    /// The last of them.
    pub last_dead: Option<DeadLetter>,
    /// Segments whose writer is alive.
    pub live: u64,
    /// Segments that were recorded for an endpoint and not sent completely, or that have open spans.
    pub marked: u64,
    /// When the first unsent line was written, in nanoseconds since 1970; of the lines recorded for an
    /// endpoint, if there are any.
    pub since: Option<u64>,
}

/// The backlog of a session, by its directory; for a mirror with a state directory, see
/// [`CatchUp::state`](crate::mirror::CatchUp::state), what is left for that one.
pub fn backlog(store: &Store, session: &Path, state: Option<&Path>) -> Result<Backlog, Error> {
    let state = state.map_or_else(ProgressDir::default, |dir| {
        ProgressDir::in_dir(dir.to_owned())
    });
    state.check(store.root())?;
    of_session(&state, store, session).map_err(Error::at(session))
}

fn of_session(state: &ProgressDir, store: &Store, session: &Path) -> io::Result<Backlog> {
    let ownership = Ownership::new(store, None);
    let mut backlog = Backlog::default();
    let (mut since, mut no_endpoint_since) = (None, None);
    for (seg, path) in segments(session)? {
        let (cursor, size) = state.cursor(session, seg)?;
        let unsent = size - cursor.offset;
        let DeadLetters {
            unresolved,
            accepted_later,
        } = state.dead_letters(session, seg)?;
        let (owner, header) = ownership.owner_of(&path)?;
        let is_live = matches!(owner, Owner::LiveWriter | Owner::LiveUnassigned);
        let is_marked = marker(store.layout(), session, seg).is_some_and(|marker| marker.exists());
        backlog.bytes += unsent;
        backlog.sent += cursor.sent + accepted_later;
        backlog.dead_letters += unresolved.len() as u64;
        backlog.last_dead = latest(backlog.last_dead, unresolved);
        backlog.live += u64::from(is_live);
        backlog.marked += u64::from(is_marked);
        let first = match is_marked {
            true => &mut since,
            false => {
                backlog.no_endpoint += unsent;
                &mut no_endpoint_since
            }
        };
        if unsent > 0 {
            let endpoint = header.and_then(|header| header.endpoint.ok());
            backlog.endpoints.extend(endpoint.flatten());
            *first = earlier(*first, time_of_line_at(&path, cursor.offset)?);
        }
    }
    backlog.since = since.or(no_endpoint_since);
    Ok(backlog)
}

/// The backlog of all sessions under a root that were recorded for an endpoint or have dead letters. A
/// session that can't be read is left out.
pub fn backlog_in(store: &Store) -> io::Result<Backlog> {
    let marked = marked(store.layout()).map_err(about(store.root()))?;
    let marked: HashSet<_> = marked.into_iter().map(|(name, _)| name).collect();
    let mut sum = Backlog::default();
    for dir in store.dirs()? {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let found = match has_dead_letters(&dir) {
            Ok(letters) if letters || marked.contains(&*name) => {
                of_session(&ProgressDir::default(), store, &dir).map(Some)
            }
            other => other.map(|_| None),
        };
        let found = match found {
            Err(_) if unreadable(&dir).is_some() => None,
            found => if_exists(found)?.flatten(),
        };
        if let Some(found) = found {
            let bytes = found.bytes - found.no_endpoint;
            sum.bytes += bytes;
            sum.endpoints.extend(found.endpoints);
            sum.sent += found.sent;
            sum.dead_letters += found.dead_letters;
            sum.last_dead = latest(sum.last_dead, found.last_dead);
            sum.live += found.live;
            sum.marked += found.marked;
            sum.since = earlier(sum.since, found.since.filter(|_| bytes > 0));
        }
    }
    Ok(sum)
}

fn latest(
    one: Option<DeadLetter>,
    others: impl IntoIterator<Item = DeadLetter>,
) -> Option<DeadLetter> {
    one.into_iter().chain(others).max_by_key(|letter| letter.at)
}

fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    [one, other].into_iter().flatten().min()
}

fn has_dead_letters(session: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(session)? {
        if entry?.file_name().to_string_lossy().starts_with("dead.") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// When the first line at or after `offset` was written.
fn time_of_line_at(path: &Path, offset: u64) -> io::Result<Option<u64>> {
    let mut reader = SegmentReader::open(path)?;
    reader.seek(offset)?;
    while let Some(found) = reader.next()? {
        if let ReadItem::Line(line) = found {
            return Ok(parse_time(line.ts));
        }
    }
    Ok(None)
}
