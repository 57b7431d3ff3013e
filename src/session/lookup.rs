//! One turn, one text, one line out of a long session, without reading all of it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;

use super::store::push_damage;
use super::turns::{Turn, Turns};
use crate::trace::typed::ContextAsset;
use crate::trace::{Address, Damage, Kind, Line, RawLine, RawValue, ReadItem, SegmentReader};
use crate::trace::{about, hex_digest, segments};

/// One turn out of a session.
#[derive(Clone, Debug, Default)]
pub struct Excerpt {
    /// The turn, if there is one.
    pub turn: Option<Turn>,
    /// What of the lines that were read on the way is damaged.
    pub damages: Vec<Damage>,
}

/// A turn of a session by its index: found by halving, since a writer's turns only rise.
///
/// ```no_run
/// let excerpt = spanledger::session::turn("sessions/ses_1", 3)?;
/// let turn = excerpt.turn.expect("no such turn");
/// println!("{} nodes, {} damaged places", turn.nodes.len(), excerpt.damages.len());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn turn(session: impl AsRef<Path>, index: u32) -> io::Result<Excerpt> {
    let mut excerpt = Excerpt::default();
    for (_, path) in segments(session.as_ref())? {
        let found = turn_in(&path, index, &mut excerpt.damages)?;
        // Two processes can have written the same turn: the one that has its span has more of it.
        let is_better = |turn: &Turn| turn.span.is_some() || excerpt.turn.is_none();
        if found.as_ref().is_some_and(is_better) {
            excerpt.turn = found;
        }
    }
    Ok(excerpt)
}

/// A turn of one segment.
fn turn_in(path: &Path, index: u32, damages: &mut Vec<Damage>) -> io::Result<Option<Turn>> {
    let mut reader = SegmentReader::open(path)?;
    reader.halve(|line| Some(line.turn? < index))?;
    let mut turns = Turns::default();
    let mut begun = false;
    let mut found = None;
    while let Some(item) = reader.next()? {
        let line = match item {
            ReadItem::Line(line) => line,
            ReadItem::Damaged(damage) => {
                push_damage(damage, damages);
                continue;
            }
        };
        begun |= line.turn == Some(index);
        let is_later = line.turn.is_some_and(|turn| turn > index && begun);
        if line.turn.is_some_and(|turn| turn != index) && !is_later {
            continue;
        }
        turns.take(&line);
        let mut ready = std::iter::from_fn(|| turns.ready());
        found = found.or_else(|| ready.find(|turn| turn.index == Some(index)));
        // Once a later turn is over, nothing more of this one is waited for.
        if found.is_some() && (!is_later || line.kind() == Kind::TurnEnd) {
            return Ok(found);
        }
    }
    let mut rest = turns.finish().into_iter();
    Ok(found.or_else(|| rest.find(|turn| turn.index == Some(index))))
}

/// The whole text behind a digest of a system prompt, tool catalog or permission rules, and the
/// line that holds it.
pub fn body(session: impl AsRef<Path>, digest: &str) -> io::Result<Option<(Address, String)>> {
    let session = session.as_ref();
    let needle = format!("\"digest\":\"{digest}\"");
    let finder = memchr::memmem::Finder::new(needle.as_bytes());
    let has_digest = |bytes: &[u8]| finder.find(bytes).is_some();
    find_line(session, has_digest, &mut Vec::new(), |line| {
        let asset: ContextAsset<'_> = line.payload().into();
        if asset.digest().as_deref() != Some(digest) {
            return Ok(None);
        }
        let text = asset.text().map(|text| whole(session, text)).transpose()?;
        Ok(text.map(|text| (line.address(), text)))
    })
}

/// Calls `take` with each line whose bytes are wanted, segment after segment, until it returns a value.
pub(super) fn find_line<T, E: From<io::Error>>(
    session: &Path,
    wanted: impl Fn(&[u8]) -> bool,
    damages: &mut Vec<Damage>,
    mut take: impl FnMut(&RawLine<'_>) -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    for (_, path) in segments(session).map_err(about(session))? {
        let mut reader = SegmentReader::open(path)?;
        while let Some(item) = reader.next_where(&wanted)? {
            match item {
                ReadItem::Line(line) => {
                    if let Some(value) = take(&line)? {
                        return Ok(Some(value));
                    }
                }
                ReadItem::Damaged(damage) => damages.push(damage),
            }
        }
    }
    Ok(None)
}

/// A value in full: a text as it is, other JSON as text, and a value that was moved to a blob from there.
pub fn whole(session: impl AsRef<Path>, value: RawValue<'_>) -> io::Result<String> {
    let marker = value.marker().unwrap_or_default();
    if let Some(sha256) = marker.blob {
        return blob(session, &sha256, marker.bytes);
    }
    let text = value.text().unwrap_or_else(|| value.json().into());
    Ok(text.into_owned())
}

/// A blob's text, its digest checked. `size` is what the line that names the blob says of it: a file of any
/// other size is not read.
pub fn blob(session: impl AsRef<Path>, sha256: &str, size: Option<u64>) -> io::Result<String> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if sha256.len() != 64 || !sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(invalid(format!("{sha256:?} is no digest of a blob")));
    }
    let path = session.as_ref().join("blobs").join(sha256);
    // To open a pipe would wait for a writer.
    let meta = path.metadata().map_err(about(&path))?;
    if !meta.is_file() {
        return Err(invalid(format!("{}: not a file", path.display())));
    }
    let size = size.unwrap_or(0);
    if meta.len() != size {
        let (path, found) = (path.display(), meta.len());
        let why = format!("{path}: the blob has {found} bytes, its line names {size}");
        return Err(invalid(why));
    }
    let mut bytes = Vec::new();
    let file = File::open(&path).map_err(about(&path))?;
    let read = file.take(size).read_to_end(&mut bytes);
    read.map_err(about(&path))?;
    if hex_digest(&bytes) != sha256 {
        return Err(invalid(format!("{}: blob digest mismatch", path.display())));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The digests and sizes of the blobs that a line names.
pub fn blobs(line: &Line) -> impl Iterator<Item = (&str, Option<u64>)> {
    line.payload.values().filter_map(blob_of)
}

/// The digest and size of the blob that a value was moved to.
pub(super) fn blob_of(value: &Value) -> Option<(&str, Option<u64>)> {
    let size = value.get("bytes").and_then(Value::as_u64);
    Some((value.get("$blob")?.as_str()?, size))
}

/// One line by its address, parsed. One that is there and can't be parsed is an error.
pub fn line(session: impl AsRef<Path>, address: Address) -> io::Result<Option<Line>> {
    at(session.as_ref(), address, |path, line| {
        line.to_line().map_err(|why| {
            let why = format!("{}: line {address}: {why}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, why)
        })
    })
}

/// Passes the line at an address to `read`, with its segment.
pub(super) fn at<T>(
    session: &Path,
    address: Address,
    read: impl FnOnce(&Path, &RawLine<'_>) -> io::Result<T>,
) -> io::Result<Option<T>> {
    for (number, path) in segments(session)? {
        if number != address.seg {
            continue;
        }
        let mut reader = SegmentReader::open(&path)?;
        reader.halve(|line| Some(line.seq <= address.seq))?;
        while let Some(item) = reader.next()? {
            match item {
                ReadItem::Line(line) if line.seq == address.seq => {
                    return read(&path, &line).map(Some);
                }
                ReadItem::Line(line) if line.seq > address.seq => return Ok(None),
                _ => {}
            }
        }
    }
    Ok(None)
}
