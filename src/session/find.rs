//! From an id, as copied from somewhere, to the lines that bear it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;

use memchr::memmem::Finder;

use crate::ledger::segments;
use crate::reader::{Damage, Found, RawLine, SegmentReader, about};

/// What an id is an id of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum IdOf {
    /// A session.
    Session,
    /// A trace: all spans of a run, its subagents' included.
    Trace,
    /// A span.
    Span,
    /// A tool call, as the model names it.
    ToolCall,
    /// A message.
    Message,
    /// A question to a person.
    Interrupt,
    /// A provider's response.
    Response,
}

impl IdOf {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Trace => "trace",
            Self::Span => "span",
            Self::ToolCall => "tool_call",
            Self::Message => "message",
            Self::Interrupt => "interrupt",
            Self::Response => "response",
        }
    }

    /// The same for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::ToolCall => "tool call",
            other => other.as_str(),
        }
    }
}

impl fmt::Display for IdOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Looks for an id in sessions. Bytes are searched before anything is parsed, so that what does
/// not have it costs little.
///
/// ```no_run
/// use spanledger::session::FindId;
/// let find = FindId::new("4BF92F35-77B3-4DA6-A3CE-929D0E0E4736");
/// find.in_session("sessions/ses_1", |what, line| {
///     println!("{what} at {}", line.address());
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FindId {
    exact: String,
    /// As a trace's or a span's id is written, if it can be one.
    hex: Option<String>,
    /// Only how it begins is known.
    begins: bool,
    finders: Vec<Finder<'static>>,
}

impl FindId {
    /// An id as it was given: a trace or span id in any case, a trace id also with dashes, any
    /// other as it is.
    pub fn new(id: &str) -> Self {
        Self::make(id, false)
    }

    /// All ids that begin like this, written the same ways.
    ///
    /// ```no_run
    /// let ids = spanledger::session::FindId::beginning("4bf92f35").ids("sessions/ses_1")?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn beginning(id: &str) -> Self {
        Self::make(id, true)
    }

    fn make(id: &str, begins: bool) -> Self {
        let exact = id.trim();
        let plain = exact.strip_prefix("0x").unwrap_or(exact);
        let hex: String = plain.chars().filter(|c| *c != '-').collect();
        let fits = matches!(hex.len(), 16 | 32) || (begins && (1..32).contains(&hex.len()));
        let is_hex = fits && hex.bytes().all(|b: u8| b.is_ascii_hexdigit());
        let hex = is_hex.then(|| hex.to_ascii_lowercase());
        // As it stands in a line, quotes and escapes included: no id is found inside another.
        let quoted = serde_json::Value::from(exact).to_string();
        let mut needles = vec![quoted];
        needles.extend(hex.as_ref().map(|hex| format!("\"{hex}\"")));
        needles.dedup();
        let finders = needles
            .iter()
            .map(|needle| &needle[..needle.len() - usize::from(begins)])
            .map(|needle| Finder::new(needle.as_bytes()).into_owned())
            .collect();
        Self {
            exact: exact.to_owned(),
            hex,
            begins,
            finders,
        }
    }

    /// What a line has it as.
    pub fn matches(&self, line: &RawLine<'_>) -> Option<IdOf> {
        ids_of(line)
            .find(|(what, id)| self.is(*what, id))
            .map(|(what, _)| what)
    }

    fn is(&self, what: IdOf, id: &str) -> bool {
        let wanted = match what {
            IdOf::Span | IdOf::Trace => self.hex.as_deref(),
            _ => Some(self.exact.as_str()),
        };
        wanted.is_some_and(|wanted| match self.begins {
            true => id.starts_with(wanted),
            false => id == wanted,
        })
    }

    /// The ids of a session that it can be, at most a hundred of them.
    pub fn ids(&self, session: impl AsRef<Path>) -> io::Result<BTreeSet<String>> {
        let mut ids = BTreeSet::new();
        self.in_session(session, |_, line| {
            for (_, id) in ids_of(line).filter(|(what, id)| self.is(*what, id)) {
                if ids.len() < 100 {
                    ids.insert(id.into_owned());
                }
            }
            Ok::<(), io::Error>(())
        })?;
        Ok(ids)
    }

    /// Calls `take` with each line of a session that has it, segment after segment. What in the
    /// way was damaged.
    pub fn in_session<E: From<io::Error>>(
        &self,
        session: impl AsRef<Path>,
        mut take: impl FnMut(IdOf, &RawLine<'_>) -> Result<(), E>,
    ) -> Result<Vec<Damage>, E> {
        let mut damages = Vec::new();
        let has_it = |bytes: &[u8]| {
            let found = |finder: &Finder<'_>| finder.find(bytes).is_some();
            self.finders.iter().any(found)
        };
        let session = session.as_ref();
        for (_, path) in segments(session).map_err(about(session))? {
            let mut reader = SegmentReader::open(path)?;
            while let Some(found) = reader.next_where(has_it)? {
                match found {
                    Found::Line(line) => {
                        if let Some(what) = self.matches(&line) {
                            take(what, &line)?;
                        }
                    }
                    Found::Damaged(damage) => damages.push(damage),
                }
            }
        }
        Ok(damages)
    }
}

/// The ids that a line bears, those that say most first.
fn ids_of<'a>(line: &'a RawLine<'_>) -> impl Iterator<Item = (IdOf, Cow<'a, str>)> {
    let span = line.span_id.map(|id| (IdOf::Span, Cow::Borrowed(id)));
    let trace = line.trace_id.map(|id| (IdOf::Trace, Cow::Borrowed(id)));
    let said = line.payload().members().filter_map(|(key, value)| {
        let what = match key {
            "tool_call_id" => IdOf::ToolCall,
            "message_id" => IdOf::Message,
            "interrupt_id" => IdOf::Interrupt,
            "response_id" => IdOf::Response,
            _ => return None,
        };
        Some((what, value.text()?))
    });
    let session = (IdOf::Session, Cow::Borrowed(line.session_id.as_ref()));
    span.into_iter().chain(trace).chain(said).chain([session])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hex_id_is_known_in_any_case_and_with_dashes_and_another_is_not_touched() {
        let hex = |id: &str| FindId::new(id).hex;
        let trace = Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned());
        assert_eq!(hex("4BF92F3577B34DA6A3CE929D0E0E4736"), trace);
        assert_eq!(hex("4bf92f35-77b3-4da6-a3ce-929d0e0e4736"), trace);
        assert_eq!(
            hex("0xB7AD6B7169203331").as_deref(),
            Some("b7ad6b7169203331")
        );
        assert_eq!(hex("call_1"), None);
        assert_eq!(FindId::new(" Call-A1 ").exact, "Call-A1");
    }
}
