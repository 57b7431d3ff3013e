//! Removes whole sessions.
//!
//! A removal holds the session's `lock`, renames the directory to a hidden name beside it and removes that. So a
//! reader sees all of a session or none of it, also after a crash. The next removal removes what a crash left under a
//! hidden name.
//!
//! A writer takes no lock when it creates a segment, so it can do so between the check and the rename. Then the new
//! segment is found in the renamed directory, and the directory is renamed back.
//!
//! All sessions of a family are checked before the first is removed. Then they are removed one after the other,
//! subagents first: to lock and rename them all at once would take a file descriptor for each.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::dead_spans::is_written;
use super::marker;
use super::recovery::lock_session;
use crate::trace::{Dir, Root, if_exists, is_own, segments, wall_ns};

const GONE: &str = ".gone-";

/// What became of a session that was to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removal {
    /// It is gone.
    Removed {
        /// How many bytes it had.
        bytes: u64,
    },
    /// A process that wrote to it lives and may go on at any time.
    Live,
    /// The mirror still has to send so many of its segments.
    Owed {
        /// How many.
        segments: usize,
    },
    /// Another process holds its lock: a recovery, or another removal.
    Locked,
    /// It stays because another session of its family stays.
    Family,
    /// Removing it failed.
    Failed {
        /// What went wrong.
        why: String,
    },
    /// It is not there (any more).
    NotFound,
}

/// Removes a session, by its directory's path or name under `root`. One with a living writer
/// stays; so does one that the mirror still owes, unless `force`.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use spanledger::ledger::{Removal, remove_session};
/// assert_eq!(remove_session(dir.path(), "ses_1", false)?, Removal::NotFound);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn remove_session(
    root: impl AsRef<Path>,
    session: impl AsRef<Path>,
    force: bool,
) -> io::Result<Removal> {
    remove(root.as_ref(), session.as_ref(), force, || {})
}

/// Removes the sessions of a family, in the order given: all of them, or none. Give subagents before the session
/// that started them, which is then still there if this is interrupted. Returns what became of each, in the
/// same order.
///
/// All are checked before the first is removed, and the last one again before each, because an agent may resume
/// it. If a writer opens any of them meanwhile, or a removal fails ([`Removal::Failed`], where [`remove_session`]
/// returns the error), those that are not removed by then stay.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use spanledger::ledger::{Removal, remove_sessions};
/// let done = remove_sessions(dir.path(), &["ses_1.reviewer", "ses_1"], false)?;
/// assert_eq!(done, [Removal::NotFound, Removal::NotFound]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn remove_sessions(
    root: impl AsRef<Path>,
    sessions: &[impl AsRef<Path>],
    force: bool,
) -> io::Result<Vec<Removal>> {
    remove_together(root.as_ref(), sessions, force, |_| {})
}

/// A test changes the sessions in `meanwhile`, before each removal.
fn remove_together(
    root: &Path,
    sessions: &[impl AsRef<Path>],
    force: bool,
    mut meanwhile: impl FnMut(&Path),
) -> io::Result<Vec<Removal>> {
    // Its removal checks it.
    if let [session] = sessions {
        return Ok(vec![attempt(root, session.as_ref(), force)]);
    }
    let mut done = can_remove_sessions(root, sessions, force)?;
    let dirs = Root::new(root.to_owned());
    let dir = |session: &Path| Some(dirs.sessions().join(name_of(session)?));
    if !done.iter().any(stays) {
        for (session, done) in sessions.iter().zip(&mut done) {
            let Some(dir) = dir(session.as_ref()) else {
                continue;
            };
            match lock_session(&dir) {
                Ok(None) => *done = Removal::Locked,
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let why = error.to_string();
                    *done = Removal::Failed { why };
                }
                _ => {}
            }
        }
    }
    if done.iter().any(stays) {
        stay_together(&mut done);
        return Ok(done);
    }
    let last = sessions.last().and_then(|last| dir(last.as_ref()));
    for at in 0..sessions.len() {
        meanwhile(sessions[at].as_ref());
        let is_live = |last: &PathBuf| matches!(dead_segments(&dirs, last, None), Ok(None));
        let resumed = last.as_ref().is_some_and(is_live);
        let (which, removal) = match resumed {
            true => (sessions.len() - 1, Removal::Live),
            false => (at, attempt(root, sessions[at].as_ref(), force)),
        };
        let stays = stays(&removal);
        done[which] = removal;
        if stays {
            stay_together(&mut done[at..]);
            break;
        }
    }
    Ok(done)
}

/// Returns an error as [`Removal::Failed`], beside the removals that were done before.
fn attempt(root: &Path, session: &Path, force: bool) -> Removal {
    remove(root, session, force, || {}).unwrap_or_else(|error| Removal::Failed {
        why: error.to_string(),
    })
}

fn stays(removal: &Removal) -> bool {
    !matches!(removal, Removal::Removed { .. } | Removal::NotFound)
}

/// Those that could be removed stay because others do.
fn stay_together(done: &mut [Removal]) {
    let could = |removal: &&mut Removal| matches!(removal, Removal::Removed { .. });
    for removal in done.iter_mut().filter(could) {
        *removal = Removal::Family;
    }
}

/// A session that can be removed.
struct Candidate<'a> {
    name: &'a str,
    dir: PathBuf,
    segments: HashSet<u32>,
    /// The markers of what the mirror still has to send of it.
    markers: Vec<PathBuf>,
}

/// Looks whether a session can be removed. The inner error is the reason why it stays.
fn candidate<'a>(
    root: &Root,
    session: &'a Path,
    force: bool,
) -> io::Result<Result<Candidate<'a>, Removal>> {
    let Some(name) = name_of(session) else {
        return Ok(Err(Removal::NotFound));
    };
    let dir = root.sessions().join(name);
    let Some(looked) = if_exists(dead_segments(root, &dir, None))? else {
        return Ok(Err(Removal::NotFound));
    };
    let Some(segments) = looked else {
        return Ok(Err(Removal::Live));
    };
    let markers = segments
        .iter()
        .filter_map(|seg| marker::marker(root, &dir, *seg));
    let markers: Vec<_> = markers.filter(|marker| marker.exists()).collect();
    if !markers.is_empty() && !force {
        let segments = markers.len();
        return Ok(Err(Removal::Owed { segments }));
    }
    Ok(Ok(Candidate {
        name,
        dir,
        segments,
        markers,
    }))
}

/// A test changes the session in `meanwhile`, between the check and the rename.
fn remove(
    root: &Path,
    session: &Path,
    force: bool,
    meanwhile: impl FnOnce(),
) -> io::Result<Removal> {
    let root = Root::new(root.to_owned());
    let found = match candidate(&root, session, force)? {
        Ok(found) => found,
        Err(stays) => return Ok(stays),
    };
    let Some(_lock) = lock_session(&found.dir)? else {
        return Ok(Removal::Locked);
    };
    let hidden = |prefix: &str| format!("{prefix}{}-{:x}", found.name, wall_ns());
    let sessions = Dir::open(&root.sessions(), 1)?;
    let rename = |from: &str, to: &str| sessions.rename(from, &sessions, to);
    let name = hidden(GONE);
    meanwhile();
    rename(found.name, &name)?;
    let gone = root.sessions().join(&name);
    if dead_segments(&root, &gone, Some(&found.segments))?.is_none() {
        let Err(error) = rename(&name, found.name) else {
            return Ok(Removal::Live);
        };
        // The writer has started the session again. Under this name no removal touches the old one.
        let kept = hidden(".kept-");
        rename(&name, &kept)?;
        let kept = root.sessions().join(kept);
        let kept = kept.display();
        let why = format!("a writer came back to it; what it had is in {kept}");
        return Err(io::Error::new(error.kind(), why));
    }
    let bytes = dir_size(&gone);
    for marker in found.markers {
        let _ = marker::unmark(&marker);
    }
    remove_all(&sessions, name.as_ref())?;
    Ok(Removal::Removed { bytes })
}

/// The name of a session's directory. A hidden directory is not a session.
fn name_of(session: &Path) -> Option<&str> {
    let name = session.file_name()?.to_str()?;
    (!name.starts_with('.')).then_some(name)
}

/// Whether [`remove_session`] would remove it, now.
pub fn can_remove_session(
    root: impl AsRef<Path>,
    session: impl AsRef<Path>,
    force: bool,
) -> io::Result<Removal> {
    let root = Root::new(root.as_ref().to_owned());
    let found = candidate(&root, session.as_ref(), force)?;
    Ok(match found {
        Ok(Candidate { dir, .. }) => Removal::Removed {
            bytes: dir_size(&dir),
        },
        Err(stays) => stays,
    })
}

/// Whether [`remove_sessions`] would remove them, now.
pub fn can_remove_sessions(
    root: impl AsRef<Path>,
    sessions: &[impl AsRef<Path>],
    force: bool,
) -> io::Result<Vec<Removal>> {
    let root = root.as_ref();
    let each = sessions.iter();
    let done = each.map(|session| can_remove_session(root, session, force));
    let mut done: Vec<Removal> = done.collect::<io::Result<_>>()?;
    if done.iter().any(stays) {
        stay_together(&mut done);
    }
    Ok(done)
}

/// Removes what an interrupted removal left under hidden names. Returns how many sessions that were, and their
/// size in bytes.
pub fn remove_leftovers(root: impl AsRef<Path>) -> io::Result<(usize, u64)> {
    let (mut count, mut bytes) = (0, 0);
    let sessions = Root::new(root.as_ref().to_owned()).sessions();
    let Some(dir) = if_exists(Dir::open(&sessions, 1))? else {
        return Ok((0, 0));
    };
    let names = dir.names()?.into_iter();
    for name in names.filter(|name| is_leftover(&dir, name)) {
        let path = sessions.join(&name);
        // Another process is removing it.
        let Ok(Some(_lock)) = lock_session(&path) else {
            continue;
        };
        bytes += dir_size(&path);
        remove_all(&dir, &name)?;
        count += 1;
    }
    Ok((count, bytes))
}

/// Whether a removal of this user's left it: a directory `.gone-<session>-<hex digits>`.
fn is_leftover(sessions: &Dir, name: &OsStr) -> bool {
    let is_hex = |digits: &str| digits.bytes().all(|b| b.is_ascii_hexdigit());
    let gone = name.to_str().and_then(|name| name.strip_prefix(GONE));
    let parts = gone.and_then(|gone| gone.rsplit_once('-'));
    let is_named = parts
        .is_some_and(|(session, time)| !session.is_empty() && !time.is_empty() && is_hex(time));
    let meta = || sessions.dir(name).and_then(|dir| dir.metadata());
    is_named && meta().is_ok_and(|meta| is_own(&meta))
}

/// The segments of a session, if all of their writers are dead. `None`: a writer lives. So does the writer of a
/// segment that is not among those `before`, if they are given.
fn dead_segments(
    root: &Root,
    dir: &Path,
    before: Option<&HashSet<u32>>,
) -> io::Result<Option<HashSet<u32>>> {
    let mut numbers = HashSet::new();
    for (number, path) in segments(dir)? {
        let is_new = before.is_some_and(|before| !before.contains(&number));
        if is_new || is_written(root, &path)? {
            return Ok(None);
        }
        numbers.insert(number);
    }
    Ok(Some(numbers))
}

/// Removes a session's directory, if it is there.
fn remove_all(sessions: &Dir, name: &OsStr) -> io::Result<()> {
    if_exists(sessions.remove_all(name)).map(drop)
}

/// The size of all files below a directory.
pub(crate) fn dir_size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => dir_size(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests;
