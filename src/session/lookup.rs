//! One turn, one text, one line out of a long session, without reading all of it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::store::push_damage;
use super::turns::{Turn, Turns};
use crate::trace::{Address, Damage, RawValue, ReadItem, SegmentReader, about};
use crate::trace::{Line, hex_digest, segments};

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
    let mut found: Option<Turn> = None;
    let mut damages = Vec::new();
    for (_, path) in segments(session.as_ref())? {
        let mut reader = SegmentReader::open(&path)?;
        reader.halve(|line| Some(line.turn? < index))?;
        let mut turns = Turns::default();
        let mut begun = false;
        let mut here = None;
        while let Some(item) = reader.next()? {
            let line = match item {
                ReadItem::Line(line) => line,
                ReadItem::Damaged(damage) => {
                    push_damage(damage, &mut damages);
                    continue;
                }
            };
            match line.turn {
                Some(turn) if turn == index => begun = true,
                Some(turn) if turn > index && begun => {
                    turns.take(&line);
                    here = here.or_else(|| ready(&mut turns, index));
                    // A later turn is over: nothing more of this one is waited for.
                    if line.kind == "turn_end" && here.is_some() {
                        break;
                    }
                    continue;
                }
                Some(_) => continue,
                None => {}
            }
            turns.take(&line);
            here = here.or_else(|| ready(&mut turns, index));
            if here.is_some() {
                break;
            }
        }
        let here = here.or_else(|| turns.finish().into_iter().find(|c| c.index == Some(index)));
        // Two processes can have written the same turn: the one that has its span tells more.
        if here
            .as_ref()
            .is_some_and(|c| c.span.is_some() || found.is_none())
        {
            found = here;
        }
    }
    Ok(Excerpt {
        turn: found,
        damages,
    })
}

fn ready(turns: &mut Turns, index: u32) -> Option<Turn> {
    while let Some(turn) = turns.ready() {
        if turn.index == Some(index) {
            return Some(turn);
        }
    }
    None
}

/// The whole text behind a digest of a system prompt, tool catalog or permission rules, and the
/// line that holds it.
pub fn body(session: impl AsRef<Path>, digest: &str) -> io::Result<Option<(Address, String)>> {
    let needle = format!("\"digest\":\"{digest}\"");
    let finder = memchr::memmem::Finder::new(needle.as_bytes());
    for (_, path) in segments(session.as_ref())? {
        let mut reader = SegmentReader::open(&path)?;
        while let Some(item) = reader.next_where(|bytes| finder.find(bytes).is_some())? {
            let ReadItem::Line(line) = item else { continue };
            let payload = line.payload();
            let is_it = payload.get("digest").and_then(|v| v.text()).as_deref() == Some(digest);
            let body = ["body", "tools", "rules"]
                .into_iter()
                .find_map(|name| payload.get(name));
            if let Some(body) = body.filter(|_| is_it) {
                return Ok(Some((line.address(), whole(session.as_ref(), body)?)));
            }
        }
    }
    Ok(None)
}

/// A value in full: a text as it is, other JSON as text, what was moved out from its blob.
pub fn whole(session: impl AsRef<Path>, value: RawValue<'_>) -> io::Result<String> {
    if let Some(sha256) = value.get("$blob").and_then(|v| v.text()) {
        return blob(session, &sha256);
    }
    Ok(value
        .text()
        .map_or_else(|| value.json().to_owned(), std::borrow::Cow::into_owned))
}

/// A blob's text, its digest checked.
pub fn blob(session: impl AsRef<Path>, sha256: &str) -> io::Result<String> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if sha256.len() != 64 || !sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(invalid(format!("{sha256:?} is no digest of a blob")));
    }
    let path = session.as_ref().join("blobs").join(sha256);
    let mut bytes = Vec::new();
    let is_file = path.metadata().map_err(about(&path))?.is_file();
    if !is_file {
        // To open a pipe is to wait for who writes to it.
        return Err(invalid(format!("{}: not a file", path.display())));
    }
    File::open(&path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(about(&path))?;
    if hex_digest(&bytes) != sha256 {
        return Err(invalid(format!(
            "{}: its digest is another",
            path.display()
        )));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// One line by its address, parsed. One that is there and can't be parsed is an error.
pub fn line(session: impl AsRef<Path>, address: Address) -> io::Result<Option<Line>> {
    for (number, path) in segments(session.as_ref())? {
        if number != address.seg {
            continue;
        }
        let mut reader = SegmentReader::open(&path)?;
        reader.halve(|line| Some(line.seq <= address.seq))?;
        while let Some(item) = reader.next()? {
            match item {
                ReadItem::Line(line) if line.seq == address.seq => {
                    let why = |why| {
                        let why = format!("{}: line {address}: {why}", path.display());
                        io::Error::new(io::ErrorKind::InvalidData, why)
                    };
                    return line.to_line().map(Some).map_err(why);
                }
                ReadItem::Line(line) if line.seq > address.seq => return Ok(None),
                _ => {}
            }
        }
    }
    Ok(None)
}
