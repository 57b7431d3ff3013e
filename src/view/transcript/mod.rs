//! A session as a page: HTML or Markdown, from the same rows as the timeline.
//!
//! The page is written turn by turn, so memory does not grow with the session.

mod bundle;
mod escape;
mod figure;
mod html;
mod markdown;
mod page;
mod rows;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use bundle::write_bundle;

use self::page::{Head, Page, TurnHead};
use self::rows::RowMaker;
use super::describer::{Described, Describer, TurnTime};
use super::header::{Related, facts, headline};
use super::stats::cost_sum;
use super::style::Style;
use super::text::{join, line};
use super::title;
use super::turn_facts::{model_text, usage_text};
use crate::inspect::{ArtifactFiles, Attempts, is_digest};
use crate::session::{self, Entry, Hidden, Node, Store, Turn, TurnFacts, each_turn};
use crate::trace::{Damage, Kind, RawValue, named_enum};

/// Subagents deeper than this are named, not shown.
const DEEPEST: usize = 8;

named_enum! {
    /// The format of a transcript.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum TranscriptFormat {
        /// One file that makes no request and needs no script.
        #[default]
        Html = "html",
        /// Markdown in which every text of the session is inert.
        Markdown = "markdown",
    }
}

named_enum! {
    /// How much a transcript shows.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum TranscriptDetail {
        /// The conversation, one row for each tool call, and what went wrong.
        Brief = "brief",
        /// Every row of the timeline, with the beginnings of long texts.
        #[default]
        Normal = "normal",
        /// Every text in full, with those that were moved to blobs, and every field.
        Full = "full",
    }
}

/// Writes a session as a page.
///
/// ```no_run
/// use spanledger::session::Store;
/// use spanledger::view::{Style, Transcript};
/// let store = Store::new("/var/lib/agent");
/// let mut page = std::fs::File::create("session.html")?;
/// let style = Style::plain();
/// let written = Transcript::new(&store, &style).write(&store.resolve("last")?, &mut page)?;
/// println!("{} turns", written.turns);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Transcript<'a> {
    store: &'a Store,
    style: &'a Style,
    /// HTML by default.
    pub format: TranscriptFormat,
    /// Normal by default.
    pub detail: TranscriptDetail,
    /// Only this turn.
    pub turn: Option<u32>,
    /// Show what rewinds and edits have hidden.
    pub hidden: bool,
    /// The page is part of a bundle: it names the files beside it.
    bundled: bool,
}

/// What a transcript contains.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Written {
    /// How many turns of the session itself.
    pub turns: u64,
    /// How many rows, those of subagents included.
    pub rows: u64,
    /// What is damaged in the sessions.
    pub damages: Vec<Damage>,
    /// Blobs that could not be read.
    pub lost: Vec<io::Error>,
    /// The artifacts that the page names, by their names in a bundle, or why they are not there.
    pub artifacts: BTreeMap<String, Result<PathBuf, String>>,
    /// The blobs that the page names: files, by their digests.
    pub blobs: BTreeMap<String, PathBuf>,
    /// The sessions, subagents included.
    pub sessions: BTreeSet<String>,
    /// The names of the files in the bundle, if it is one.
    pub files: Vec<String>,
    /// The artifacts and blobs that are not in the bundle, and why.
    pub missing: Vec<(String, String)>,
}

impl<'a> Transcript<'a> {
    /// A transcript of a session in this store, with the time zone of this style.
    pub fn new(store: &'a Store, style: &'a Style) -> Self {
        Self {
            store,
            style,
            format: TranscriptFormat::default(),
            detail: TranscriptDetail::default(),
            turn: None,
            hidden: false,
            bundled: false,
        }
    }

    /// Writes the page of the session in this directory.
    pub fn write(&self, session: &Path, out: &mut dyn Write) -> io::Result<Written> {
        // One turn of a long session comes at once.
        let entry = match self.turn {
            Some(_) => self.store.peek(session)?,
            None => self.store.read(session)?,
        };
        let related = Related::of(&entry, self.store);
        let head = Head {
            title: headline(&entry.summary),
            facts: facts(&entry, &related, self.style),
            only: self.turn,
        };
        match self.format {
            TranscriptFormat::Html => self.walk(html::Html::new(out), &entry, &related, &head),
            TranscriptFormat::Markdown => {
                self.walk(markdown::Markdown::new(out), &entry, &related, &head)
            }
        }
    }

    /// What makes the rows of a session.
    fn rows(&self, entry: &Entry) -> RowMaker<'a> {
        RowMaker {
            detail: self.detail,
            style: self.style,
            files: ArtifactFiles::new(&entry.dir, entry.summary.output_dir.as_ref()),
            bundled: self.bundled,
        }
    }

    fn walk<P: Page>(
        &self,
        page: P,
        entry: &Entry,
        related: &Related,
        head: &Head,
    ) -> io::Result<Written> {
        let mut walk = Walk {
            options: self,
            page,
            known: HashSet::new(),
            written: Written::default(),
            attempts: Attempts::default(),
            depth: 0,
        };
        walk.page.head(head)?;
        walk.session(entry, related)?;
        if !walk.attempts.all.is_empty() {
            let (rows, written) = (self.rows(entry), &mut walk.written);
            let mut figures = |artifact: &_| figure::of_attempt(artifact, &rows, written);
            walk.page.attempts(&walk.attempts, &mut figures)?;
        }
        walk.page.end(&walk.written.damages)?;
        Ok(walk.written)
    }
}

/// A walk through a session and its subagents.
struct Walk<'a, P> {
    options: &'a Transcript<'a>,
    page: P,
    /// The sessions that were shown. A damaged one may name itself.
    known: HashSet<String>,
    written: Written,
    /// Those of the session itself.
    attempts: Attempts,
    depth: usize,
}

/// What the rows of one session need.
struct Current<'a> {
    dir: &'a Path,
    describer: Describer<'a>,
    rows: RowMaker<'a>,
    hidden: &'a Hidden,
}

impl<P: Page> Walk<'_, P> {
    fn session(&mut self, entry: &Entry, related: &Related) -> io::Result<()> {
        let options = self.options;
        let id = &entry.summary.session_id;
        self.known.insert(id.clone());
        self.written.sessions.insert(id.clone());
        let hidden = Hidden::read(&entry.dir)?;
        let current = Current {
            dir: &entry.dir,
            describer: Describer {
                over: !entry.status.is_live(),
                permission_rows: options.detail == TranscriptDetail::Full,
                asset_rows: options.detail > TranscriptDetail::Brief,
                store: Some(options.store),
                hidden: Some(&hidden),
                branches: &related.branches,
            },
            rows: options.rows(entry),
            hidden: &hidden,
        };
        let damages = match options.turn.filter(|_| self.depth == 0) {
            Some(index) => {
                let excerpt = session::turn(&entry.dir, index)?;
                if let Some(turn) = excerpt.turn {
                    self.turn(&current, turn)?;
                }
                excerpt.damages
            }
            None => each_turn(&entry.dir, |turn| self.turn(&current, turn))?,
        };
        self.written.damages.extend(damages);
        Ok(())
    }

    fn turn(&mut self, current: &Current<'_>, mut turn: Turn) -> io::Result<()> {
        let head = current.title(&turn, self.options.style);
        if self.depth == 0 {
            let nodes = turn.nodes.iter();
            nodes.for_each(|node| self.attempts.take(current.dir, node));
        }
        let removed = match self.options.hidden {
            true => None,
            false => current.hidden.remove_from(&mut turn),
        };
        self.note_blobs(current.dir, &turn);
        if self.options.detail == TranscriptDetail::Full {
            self.written.lost.extend(turn.fetch_blobs(current.dir));
        }
        self.written.turns += u64::from(self.depth == 0 && turn.index.is_some());
        self.page.turn(&head)?;
        let rows = current.rows.of_turn(&turn);
        for described in current.describer.turn(&turn) {
            self.row(current, &rows, described)?;
        }
        self.page.end_turn(removed)
    }

    fn row(
        &mut self,
        current: &Current<'_>,
        rows: &rows::TurnRows<'_>,
        described: Described<'_>,
    ) -> io::Result<()> {
        let Described {
            node,
            description,
            inside,
            ..
        } = described;
        if !current.rows.shows(node) {
            return Ok(());
        }
        self.written.rows += 1;
        let row = rows.row(
            node,
            description,
            current.hidden.by(node),
            &mut self.written,
        );
        self.page.row(&row)?;
        for inner in current.describer.inside(node, inside) {
            self.row(current, rows, inner)?;
        }
        if let Some(id) = node.subagent() {
            self.subagent(&id)?;
        }
        self.page.end_row()
    }

    /// The session of a subagent, inside the row that started it. One that was shown before is not shown again.
    fn subagent(&mut self, id: &str) -> io::Result<()> {
        let brief = self.options.detail == TranscriptDetail::Brief;
        if brief || self.depth >= DEEPEST || !self.known.insert(id.to_owned()) {
            return Ok(());
        }
        let dir = self.options.store.dir(id);
        let entry = match self.options.store.peek(&dir) {
            Ok(entry) => entry,
            Err(error) => {
                return self.page.problem(&format!("can't be read: {error}"));
            }
        };
        self.page.subagent(&headline(&entry.summary))?;
        self.depth += 1;
        let related = Related {
            branches: self.options.store.branches_of(&entry.summary),
            ..Related::default()
        };
        let done = self.session(&entry, &related);
        self.depth -= 1;
        done?;
        self.page.end_subagent()
    }

    /// Remembers the blobs of a turn, for a bundle.
    fn note_blobs(&mut self, dir: &Path, turn: &Turn) {
        if !self.options.bundled {
            return;
        }
        for node in turn.span.iter().chain(&turn.nodes) {
            for blob in node
                .fields()
                .into_iter()
                .filter_map(|(_, value)| blob_of(value))
            {
                let path = dir.join("blobs").join(&blob);
                self.written.blobs.insert(blob, path);
            }
        }
    }
}

/// The digest of the blob that a value was moved to.
fn blob_of(value: RawValue<'_>) -> Option<String> {
    let blob = value.marker()?.blob?;
    is_digest(&blob).then(|| blob.into_owned())
}

impl Current<'_> {
    fn title(&self, turn: &Turn, style: &Style) -> TurnHead {
        if turn.index.is_none() {
            return TurnHead::default();
        }
        let facts = match self.rows.detail {
            TranscriptDetail::Brief => Vec::new(),
            _ => turn_facts(turn),
        };
        TurnHead {
            index: turn.index,
            text: title::head(turn, TurnTime::of(turn).start, self.describer.over, style),
            split: title::split_text(turn, &self.describer),
            facts,
            failure: title::failure(turn),
        }
    }
}

/// Tokens, cost, models and tools of a turn.
fn turn_facts(turn: &Turn) -> Vec<String> {
    let facts = TurnFacts::of(turn);
    if facts.models.is_empty() && facts.called.is_empty() {
        return Vec::new();
    }
    let mut out = vec![format!(
        "{}   cost {}",
        usage_text(&facts.usage),
        cost_sum(&facts.cost)
    )];
    out.extend(facts.models.iter().map(model_text));
    let called = facts.called.iter();
    let called = called.map(|(tool, n)| format!("{} × {n}", line(tool)));
    out.extend(join(called, ", ").map(|called| format!("tools called: {called}")));
    let names = ["system prompt", "tool catalog", "permission rules"].into_iter();
    let digests = names.zip(turn.digests.all()).filter_map(|(name, digest)| {
        let digest = line(digest.as_deref()?);
        Some(format!("{name} {}", digest.get(..12).unwrap_or(&digest)))
    });
    out.extend(join(digests, "   "));
    out
}

/// Whether a brief transcript has a row for a node.
fn is_brief(node: &Node) -> bool {
    let shown = matches!(
        node.kind,
        Kind::MessageUser
            | Kind::MessageAssistant
            | Kind::ToolCall
            | Kind::Subagent
            | Kind::Artifact
            | Kind::Attempt
            | Kind::CompactionStart
            | Kind::Rewind
            | Kind::Branch
    );
    shown || node.is_failure()
}
