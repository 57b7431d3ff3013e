//! From an id to the lines that have it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;

use super::lookup::{self, find_line};
use super::store::Unreadable;
use crate::trace::typed::{ContextAsset, Delta, Hitl, ModelCall};
use crate::trace::{Address, Damage, Kind, RawLine, named_enum};

named_enum! {
    /// What an id identifies.
    #[non_exhaustive]
    pub enum IdKind {
        /// A session.
        Session = "session",
        /// A trace: all spans of a run, its subagents' included.
        Trace = "trace",
        /// A span.
        Span = "span",
        /// A tool call, by the model's id.
        ToolCall = "tool_call",
        /// A message.
        Message = "message",
        /// A question to a person.
        Interrupt = "interrupt",
        /// A provider's response.
        Response = "response",
        /// A system prompt, tool catalog or permission rules, by the digest of the text.
        Digest = "digest",
        /// A line, by its address.
        Line = "line",
    }
}

/// How many addresses an [`IdHits`] holds.
const ADDRESSES: usize = 1_000;
/// How many ids a prefix may match in one session.
const CANDIDATES: usize = 100;
/// The shortest prefix that is searched for, in bytes.
pub const SHORTEST_PREFIX: usize = 4;

/// Searches sessions for an id. It searches bytes before it parses a line, so a session without the id
/// is read quickly.
///
/// ```no_run
/// use spanledger::session::{FindId, IdSearch, Store};
/// let store = Store::new("/var/lib/agent");
/// let find = FindId::new("4BF92F35-77B3-4DA6-A3CE-929D0E0E4736").show(8);
/// if let IdSearch::Found(found) = find.search(&store.dirs()?) {
///     for hits in &found.hits {
///         println!("{} in session {}: {} lines", hits.what, hits.session_id, hits.lines);
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FindId {
    exact: String,
    /// The id as trace and span ids are written, if it can be one.
    hex: Option<String>,
    is_prefix: bool,
    finders: Vec<Finder<'static>>,
    /// How many lines are kept; all of them, deltas included, without a limit.
    show: Option<usize>,
}

/// The result of [`FindId::search`].
#[derive(Debug)]
pub enum IdSearch {
    /// The lines that have the id. None, if there are no hits.
    Found(IdFound),
    /// Several ids start with the given one.
    Ambiguous(BTreeSet<String>),
}

/// The lines that have an id, and what could not be searched.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct IdFound {
    /// By session and meaning of the id, the oldest first.
    pub hits: Vec<IdHits>,
    /// What is damaged.
    pub damages: Vec<Damage>,
    /// The sessions that can't be read.
    pub unreadable: Vec<Unreadable>,
}

/// The lines of one session that have an id with one meaning.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IdHits {
    /// What the id identifies.
    pub what: IdKind,
    /// The session.
    pub session_id: String,
    /// How many lines have it.
    pub lines: u64,
    /// The oldest of them.
    pub first: Vec<u8>,
    /// The address of the newest.
    pub last: Address,
    /// The addresses, at most a thousand.
    pub addresses: Vec<Address>,
    /// The first lines, as many as are to be shown.
    pub shown: Vec<Vec<u8>>,
    /// Deltas of a streamed text that are left out, because a line has the whole text.
    pub deltas: u64,
}

impl IdHits {
    fn new(what: IdKind, line: &RawLine<'_>) -> Self {
        Self {
            what,
            session_id: line.session_id.to_string(),
            lines: 0,
            first: line.as_bytes().to_owned(),
            last: line.address(),
            addresses: Vec::new(),
            shown: Vec::new(),
            deltas: 0,
        }
    }

    fn add(&mut self, line: &RawLine<'_>, show: Option<usize>) {
        self.lines += 1;
        self.last = line.address();
        if self.addresses.len() < ADDRESSES {
            self.addresses.push(self.last);
        }
        if show.is_none_or(|show| self.shown.len() < show) {
            self.shown.push(line.as_bytes().to_owned());
        }
    }

    fn merge(&mut self, other: Self, show: Option<usize>) {
        let key = |line: &Vec<u8>| RawLine::parse(line).map(|line| (line.ts.to_owned(), line.seq));
        if key(&other.first).ok() < key(&self.first).ok() {
            self.first = other.first;
        }
        self.lines += other.lines;
        self.last = self.last.max(other.last);
        self.addresses.extend(other.addresses);
        self.addresses.sort_unstable();
        self.addresses.truncate(ADDRESSES);
        self.shown.extend(other.shown);
        let address = |line: &Vec<u8>| RawLine::parse(line).map(|line| line.address()).ok();
        self.shown.sort_by_cached_key(address);
        self.shown.truncate(show.unwrap_or(usize::MAX));
    }
}

impl FindId {
    /// Searches for an id: a trace or span id in any case, a trace id also with dashes, any other id
    /// as it is.
    pub fn new(id: &str) -> Self {
        Self::make(id, false)
    }

    /// Searches for all ids that start like this.
    fn prefix(id: &str) -> Self {
        Self::make(id, true)
    }

    /// Keeps so many lines of each session, and leaves out deltas of a text that a line has whole.
    pub fn show(mut self, lines: usize) -> Self {
        self.show = Some(lines);
        self
    }

    fn make(id: &str, is_prefix: bool) -> Self {
        let exact = id.trim();
        let plain = exact.strip_prefix("0x").unwrap_or(exact);
        let hex: String = plain.chars().filter(|c| *c != '-').collect();
        let fits = matches!(hex.len(), 16 | 32) || (is_prefix && (1..32).contains(&hex.len()));
        let is_hex = fits && hex.bytes().all(|b: u8| b.is_ascii_hexdigit());
        let hex = is_hex.then(|| hex.to_ascii_lowercase());
        // As a line has it, with quotes and escapes, so that no id is found inside another.
        let quoted = serde_json::Value::from(exact).to_string();
        let mut needles = vec![quoted];
        needles.extend(hex.as_ref().map(|hex| format!("\"{hex}\"")));
        needles.dedup();
        let finders = needles
            .iter()
            .map(|needle| &needle[..needle.len() - usize::from(is_prefix)])
            .map(|needle| Finder::new(needle.as_bytes()).into_owned())
            .collect();
        Self {
            exact: exact.to_owned(),
            hex,
            is_prefix,
            finders,
            show: None,
        }
    }

    /// What the id identifies in a line, if the line has it.
    pub fn matches(&self, line: &RawLine<'_>) -> Option<IdKind> {
        ids_of(line)
            .find(|(what, id)| self.is(*what, id))
            .map(|(what, _)| what)
    }

    fn is(&self, what: IdKind, id: &str) -> bool {
        let wanted = match what {
            IdKind::Span | IdKind::Trace => self.hex.as_deref(),
            _ => Some(self.exact.as_str()),
        };
        wanted.is_some_and(|wanted| match self.is_prefix {
            true => id.starts_with(wanted),
            false => id == wanted,
        })
    }

    /// Searches sessions, by their directories. If none has the id, searches for the one id that
    /// starts with it.
    pub fn search(&self, dirs: &[PathBuf]) -> IdSearch {
        let found = self.search_exact(dirs);
        if !found.hits.is_empty() || self.exact.len() < SHORTEST_PREFIX {
            return IdSearch::Found(found);
        }
        let prefix = Self::prefix(&self.exact);
        let ids = dirs.iter().filter_map(|dir| prefix.ids(dir).ok());
        let ids: BTreeSet<String> = ids.flatten().collect();
        match (ids.first(), ids.len()) {
            (Some(only), 1) => {
                let find = Self {
                    show: self.show,
                    ..Self::new(only)
                };
                IdSearch::Found(find.search_exact(dirs))
            }
            (None, _) => IdSearch::Found(found),
            _ => IdSearch::Ambiguous(ids),
        }
    }

    fn search_exact(&self, dirs: &[PathBuf]) -> IdFound {
        let mut all = IdFound::default();
        for dir in dirs {
            let found = Unreadable::or_gone(self.hits(dir), dir, &mut all.unreadable);
            if let Some((hits, damages)) = found {
                all.hits.extend(hits);
                all.damages.extend(damages);
            }
        }
        all.hits.sort_by_cached_key(|hits| {
            let ts = RawLine::parse(&hits.first).map(|line| line.ts.to_owned());
            (ts.unwrap_or_default(), hits.session_id.clone())
        });
        all
    }

    fn hits(&self, dir: &Path) -> io::Result<(Vec<IdHits>, Vec<Damage>)> {
        let mut found: BTreeMap<IdKind, IdHits> = BTreeMap::new();
        let mut deltas: BTreeMap<(IdKind, Option<u64>), IdHits> = BTreeMap::new();
        let mut whole = BTreeSet::new();
        let damages = self.in_session(dir, |what, line| {
            let part = Delta::from(line.payload()).part_index();
            let new = || IdHits::new(what, line);
            let is_delta = match line.kind() {
                Kind::MessageDelta => what == IdKind::Message,
                Kind::ToolInputDelta => what == IdKind::ToolCall,
                _ => false,
            };
            let hits = if is_delta && self.show.is_some() {
                deltas.entry((what, part)).or_insert_with(new)
            } else {
                if matches!(
                    line.kind(),
                    Kind::MessageAssistant | Kind::MessageReasoning | Kind::ToolCall
                ) {
                    whole.insert((what, part));
                }
                found.entry(what).or_insert_with(new)
            };
            hits.add(line, self.show);
        })?;
        for ((what, part), its) in deltas {
            match found.get_mut(&what) {
                Some(hits) if whole.contains(&(what, part)) => hits.deltas += its.lines,
                Some(hits) => hits.merge(its, self.show),
                None => drop(found.insert(what, its)),
            }
        }
        // Every line of a session has its id: other hits are more specific.
        if found.len() > 1 {
            found.remove(&IdKind::Session);
        }
        Ok((found.into_values().collect(), damages))
    }

    /// The ids of a session that match, at most a hundred of them.
    fn ids(&self, session: &Path) -> io::Result<BTreeSet<String>> {
        let mut ids = BTreeSet::new();
        self.in_session(session, |_, line| {
            for (_, id) in ids_of(line).filter(|(what, id)| self.is(*what, id)) {
                if ids.len() < CANDIDATES {
                    ids.insert(id.into_owned());
                }
            }
        })?;
        Ok(ids)
    }

    /// Calls `take` with each line of a session that has the id, segment after segment. Returns the
    /// damage on the way.
    pub fn in_session(
        &self,
        session: impl AsRef<Path>,
        mut take: impl FnMut(IdKind, &RawLine<'_>),
    ) -> io::Result<Vec<Damage>> {
        let mut damages = Vec::new();
        let has_id = |bytes: &[u8]| {
            let found = |finder: &Finder<'_>| finder.find(bytes).is_some();
            self.finders.iter().any(found)
        };
        find_line(session.as_ref(), has_id, &mut damages, |line| {
            if let Some(what) = self.matches(line) {
                take(what, line);
            }
            Ok::<Option<()>, io::Error>(None)
        })?;
        Ok(damages)
    }
}

/// The line at an address of a session, as a search returns it.
pub fn hits_at(session: impl AsRef<Path>, address: Address) -> io::Result<Option<IdHits>> {
    lookup::at(session.as_ref(), address, |_, line| {
        let mut hits = IdHits::new(IdKind::Line, line);
        hits.add(line, None);
        Ok(hits)
    })
}

/// The ids of a line, the most specific first.
fn ids_of<'a>(line: &'a RawLine<'_>) -> impl Iterator<Item = (IdKind, Cow<'a, str>)> {
    let span = line.span_id.map(|id| (IdKind::Span, Cow::Borrowed(id)));
    let trace = line.trace_id.map(|id| (IdKind::Trace, Cow::Borrowed(id)));
    // Lines of several kinds have these fields.
    let call: ModelCall<'_> = line.payload().into();
    let hitl: Hitl<'_> = line.payload().into();
    let asset: ContextAsset<'_> = line.payload().into();
    let fields = [
        (IdKind::ToolCall, hitl.tool_call_id()),
        (IdKind::Message, call.message_id()),
        (IdKind::Interrupt, hitl.interrupt_id()),
        (IdKind::Response, call.response_id()),
        (IdKind::Digest, asset.digest()),
        (IdKind::Digest, call.system_prompt_digest()),
        (IdKind::Digest, call.tool_catalog_digest()),
        (IdKind::Digest, call.permission_rules_digest()),
    ];
    let fields = fields
        .into_iter()
        .filter_map(|(what, id)| Some((what, id?)));
    let session = (IdKind::Session, Cow::Borrowed(line.session_id.as_ref()));
    span.into_iter().chain(trace).chain(fields).chain([session])
}

#[cfg(test)]
mod tests;
