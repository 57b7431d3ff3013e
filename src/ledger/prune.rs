//! Removing whole sessions.
//!
//! Under the session's `lock`, by renaming its directory to a hidden name beside it and removing
//! that: a reader sees all of a session or none of it, and so does whoever comes after a crash.
//! What a crash left behind under a hidden name is removed by the next removal.
//!
//! A writer takes no lock when it begins a segment, so it can come in between the look and the
//! rename. Then its segment is in the renamed directory, is seen there, and everything is renamed
//! back.
//!
//! Sessions that belong together are looked at all before the first is touched, and go one after
//! the other, subagents first: locking and renaming them all at once would take a file handle for
//! each.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::dead_spans::writer_of;
use super::file_lock::FileLock;
use super::marker;
use super::recovery::lock_path;
use super::writer;
use crate::trace::wall_ns;
use crate::trace::{Root, segment_name, segments};

const GONE: &str = ".gone-";
/// A segment whose first line isn't whole says nothing of its writer. If it is younger than
/// this, its writer may be about to write it.
const YOUNG: Duration = Duration::from_secs(60);

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
    /// Somebody else holds its lock: a recovery, or another removal.
    Locked,
    /// Another one stays that it was to go together with.
    Family,
    /// It could not be removed when its turn came.
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

/// Removes sessions that belong together, in the order given: all of them, or none. Give subagents
/// before what started them, which is then still there if this is cut short. What became of each,
/// in the same order.
///
/// All are looked at before the first goes, and the last one again before each: that is the one
/// that somebody may resume. Should a writer come to any of them in between, or one fail to go
/// ([`Removal::Failed`], where [`remove_session`] returns the error), what is not gone by then stays.
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

/// `meanwhile` is what a test lets happen before one goes.
fn remove_together(
    root: &Path,
    sessions: &[impl AsRef<Path>],
    force: bool,
    mut meanwhile: impl FnMut(&Path),
) -> io::Result<Vec<Removal>> {
    // Nothing to look at but itself, which its removal does.
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
            match lock(&dir) {
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
        let is_live = |last: &PathBuf| matches!(look(&dirs, last, None), Ok(Look::Live));
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

/// What goes wrong is told with what went well before.
fn attempt(root: &Path, session: &Path, force: bool) -> Removal {
    remove(root, session, force, || {}).unwrap_or_else(|error| Removal::Failed {
        why: error.to_string(),
    })
}

fn stays(removal: &Removal) -> bool {
    !matches!(removal, Removal::Removed { .. } | Removal::NotFound)
}

/// What could go stays for the sake of those that can't.
fn stay_together(done: &mut [Removal]) {
    let could = |removal: &&mut Removal| matches!(removal, Removal::Removed { .. });
    for removal in done.iter_mut().filter(could) {
        *removal = Removal::Family;
    }
}

/// `meanwhile` is what a test lets happen between the look and the rename.
fn remove(
    root: &Path,
    session: &Path,
    force: bool,
    meanwhile: impl FnOnce(),
) -> io::Result<Removal> {
    let root = Root::new(root.to_owned());
    let Some(name) = name_of(session) else {
        return Ok(Removal::NotFound);
    };
    let dir = root.sessions().join(name);
    let first = match look(&root, &dir, None) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Removal::NotFound),
        first => first?,
    };
    let Look::Dead(before) = first else {
        return Ok(Removal::Live);
    };
    let owed = owed(&root, &dir);
    if !owed.is_empty() && !force {
        let segments = owed.len();
        return Ok(Removal::Owed { segments });
    }
    let Some(_lock) = lock(&dir)? else {
        return Ok(Removal::Locked);
    };
    let gone = root
        .sessions()
        .join(format!("{GONE}{name}-{:x}", wall_ns()));
    meanwhile();
    std::fs::rename(&dir, &gone)?;
    if look(&root, &gone, Some(&before))? == Look::Live {
        return match std::fs::rename(&gone, &dir) {
            Ok(()) => Ok(Removal::Live),
            Err(error) => {
                // The writer has begun the session anew. Under another name nothing removes it.
                let kept = root
                    .sessions()
                    .join(format!(".kept-{name}-{:x}", wall_ns()));
                std::fs::rename(&gone, &kept)?;
                let why = format!(
                    "a writer came back to it; what it had is in {}",
                    kept.display()
                );
                Err(io::Error::new(error.kind(), why))
            }
        };
    }
    let bytes = dir_size(&gone);
    for marker in owed {
        let _ = marker::unmark(&marker);
    }
    remove_all(&gone)?;
    Ok(Removal::Removed { bytes })
}

/// The name of a session's directory. What is hidden is none.
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
    let Some(name) = name_of(session.as_ref()) else {
        return Ok(Removal::NotFound);
    };
    let dir = root.sessions().join(name);
    match look(&root, &dir, None) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Removal::NotFound),
        Ok(Look::Live) => return Ok(Removal::Live),
        found => found?,
    };
    let segments = owed(&root, &dir).len();
    Ok(match segments {
        n if n > 0 && !force => Removal::Owed { segments },
        _ => Removal::Removed {
            bytes: dir_size(&dir),
        },
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

/// Removes what a removal that was cut short left under hidden names. How many sessions that
/// were, and their bytes.
pub fn remove_leftovers(root: impl AsRef<Path>) -> io::Result<(usize, u64)> {
    let (mut count, mut bytes) = (0, 0);
    for dir in leftovers(root.as_ref())? {
        // One that is being removed right now is its remover's.
        let Ok(Some(_lock)) = lock(&dir) else {
            continue;
        };
        bytes += dir_size(&dir);
        remove_all(&dir)?;
        count += 1;
    }
    Ok((count, bytes))
}

fn leftovers(root: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(Root::new(root.to_owned()).sessions()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let dirs = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with(GONE)
    });
    Ok(dirs.map(|entry| entry.path()).collect())
}

#[derive(Debug, PartialEq)]
enum Look {
    Live,
    /// The segments there are, all of dead writers.
    Dead(HashSet<u32>),
}

/// Whether a writer of the session lives. `before`: the segments that were there at the first
/// look; one that has come since has a writer that lives.
fn look(root: &Root, dir: &Path, before: Option<&HashSet<u32>>) -> io::Result<Look> {
    let mut numbers = HashSet::new();
    for (number, path) in segments(dir)? {
        if before.is_some_and(|before| !before.contains(&number)) {
            return Ok(Look::Live);
        }
        let live = match writer_of(&path)? {
            Some(id) => writer::is_alive(root, &id),
            None => {
                let age = path.metadata()?.modified()?.elapsed();
                age.is_ok_and(|age| age < YOUNG)
            }
        };
        if live {
            return Ok(Look::Live);
        }
        numbers.insert(number);
    }
    Ok(Look::Dead(numbers))
}

/// The session's lock, unless somebody has it.
fn lock(dir: &Path) -> io::Result<Option<FileLock>> {
    FileLock::try_new(&lock_path(dir))
}

/// The markers of what the mirror still has to send of a session. One of a segment that is gone
/// owes nothing.
fn owed(root: &Root, dir: &Path) -> Vec<PathBuf> {
    let marked = marker::marked(root).unwrap_or_default().into_iter();
    let its = marked.filter(|(session, seg)| {
        dir.file_name().is_some_and(|name| name == session.as_str())
            && dir.join(segment_name(*seg)).exists()
    });
    its.filter_map(|(_, seg)| marker::marker(root, dir, seg))
        .collect()
}

/// Gone already is as good.
fn remove_all(dir: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
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
