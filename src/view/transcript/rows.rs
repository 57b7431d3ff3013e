//! The rows of a turn: how much of each text, when, and which look.

use super::super::describe::{Description, DetailKind};
use super::super::describer::TurnTime;
use super::super::other_fields::other_fields;
use super::super::outcome::bad_outcome;
use super::super::style::Style;
use super::super::text::{self, Text, cut, duration, fits};
use super::figure;
use super::page::{Body, Look, Row};
use super::{TranscriptDetail, Written, is_brief};
use crate::inspect::ArtifactFiles;
use crate::session::{Item, Node, NodeState, Role, Turn};
use crate::trace::{Address, Kind};

/// An input of no more columns is on the row itself.
const SHORT_INPUT: usize = 100;
/// JSON of more columns than this is indented; more bytes than that are not.
const INDENTED: std::ops::Range<usize> = 100..64 * 1024;

/// Makes the rows of a session.
pub(super) struct RowMaker<'a> {
    pub detail: TranscriptDetail,
    pub style: &'a Style,
    pub files: ArtifactFiles,
    pub bundled: bool,
}

/// Makes the rows of a turn.
pub(super) struct TurnRows<'a> {
    maker: &'a RowMaker<'a>,
    time: TurnTime,
}

/// How many lines and bytes of a text are shown.
#[derive(Clone, Copy)]
pub(super) struct Most {
    lines: usize,
    bytes: usize,
}

impl<'a> RowMaker<'a> {
    /// Whether a node has a row.
    pub fn shows(&self, node: &Node) -> bool {
        self.detail > TranscriptDetail::Brief || is_brief(node)
    }

    pub fn of_turn(&'a self, turn: &Turn) -> TurnRows<'a> {
        TurnRows {
            maker: self,
            time: TurnTime::of(turn),
        }
    }

    fn most(&self, of_message: bool) -> Option<Most> {
        let most = |lines, bytes| Some(Most { lines, bytes });
        match (self.detail, of_message) {
            (TranscriptDetail::Full, _) => None,
            (TranscriptDetail::Normal, true) => most(400, 64 * 1024),
            (TranscriptDetail::Normal, false) => most(60, 8 * 1024),
            (TranscriptDetail::Brief, _) => most(20, 2 * 1024),
        }
    }

    pub fn body(&self, text: Text, of_message: bool) -> Body {
        let indented = indented(&text.text);
        body(
            indented.unwrap_or(text.text),
            text.elsewhere,
            self.most(of_message),
        )
    }
}

/// JSON that is too long for one line, indented.
fn indented(json: &str) -> Option<String> {
    let is_json = json.starts_with(['{', '[']) && INDENTED.contains(&json.len());
    let value: serde_json::Value = is_json.then(|| serde_json::from_str(json).ok())??;
    serde_json::to_string_pretty(&value).ok()
}

/// The beginning of a text, and how much is left out.
fn body(mut text: String, elsewhere: Option<String>, most: Option<Most>) -> Body {
    text.truncate(text.trim_end().len());
    let all = text.len();
    let mut end = all;
    if let Some(most) = most {
        let mut breaks = text.match_indices('\n');
        if let Some((at, _)) = breaks.nth(most.lines.saturating_sub(1)) {
            end = at;
        }
        if end > most.bytes {
            end = (0..=most.bytes)
                .rfind(|at| text.is_char_boundary(*at))
                .unwrap_or(0);
        }
    }
    let left = text[end..].matches('\n').count() as u64;
    text.truncate(end);
    text.shrink_to_fit();
    let note = match (elsewhere, end < all) {
        (Some(elsewhere), _) => Some(elsewhere),
        (None, false) => None,
        (None, true) => {
            let all = text::size(all as u64);
            let lines = (left > 0).then(|| format!("+{}, ", text::plural(left, "line")));
            Some(format!("{}{all} in all", lines.unwrap_or_default()))
        }
    };
    Body { text, note }
}

impl TurnRows<'_> {
    /// The row of a node. `hidden`: what hides it.
    pub fn row(
        &self,
        node: &Node,
        described: Description,
        hidden: Option<Address>,
        written: &mut Written,
    ) -> Row {
        let maker = self.maker;
        let brief = maker.detail == TranscriptDetail::Brief;
        let facts = facts(&described, brief);
        let mut input = None;
        let mut details = Vec::new();
        for detail in described.details {
            let is_input = detail.kind == DetailKind::Input;
            if is_input && (brief || is_short(&detail.text)) {
                let safe = text::line(detail.text.text.trim_end()).into_owned();
                input = Some(cut(&safe, SHORT_INPUT).into_owned());
            } else if !brief || detail.kind == DetailKind::Error {
                details.push((
                    name(detail.kind),
                    detail.kind,
                    maker.body(detail.text, false),
                ));
            }
        }
        let asset = asset_text(node).filter(|_| !brief);
        details.extend(asset.map(|text| ("", DetailKind::Output, maker.body(text, false))));
        let is_full = maker.detail == TranscriptDetail::Full;
        Row {
            address: node.address.to_string(),
            look: look(node),
            outcome: bad_outcome(node),
            hidden: hidden.is_some(),
            label: described.label,
            tone: described.tone,
            subject: described.subject,
            input,
            facts,
            when: self.when(node),
            bar: self.bar(node),
            message: described.message.map(|text| maker.body(text, true)),
            details,
            fields: if is_full {
                other_fields(node)
            } else {
                Vec::new()
            },
            figure: figure::of(node, maker, written),
        }
    }

    fn when(&self, node: &Node) -> String {
        match self.time.outside {
            true => self.maker.style.clock(node.start),
            false => format!("+{}", duration(node.start.saturating_sub(self.time.start))),
        }
    }

    /// Its part of the turn's time, in thousandths.
    fn bar(&self, node: &Node) -> Option<(u64, u64)> {
        let time = &self.time;
        if time.outside || time.end <= time.start || node.state == NodeState::Event {
            return None;
        }
        let end = match node.state {
            NodeState::Open => time.end,
            _ => node.end(),
        };
        let from = time.part(node.start, 1000).min(995);
        Some((from, time.part(end, 1000).saturating_sub(from).max(5)))
    }
}

/// The words beside the subject, in the order of the timeline.
fn facts(described: &Description, brief: bool) -> Vec<String> {
    let went = described.facts.first().map(String::as_str);
    let went = went.unwrap_or_default().split("  ");
    let rules = described.rules.iter().filter_map(|rule| rule.first());
    let extras = described.extras.iter().filter_map(|extra| extra.first());
    let others = rules
        .filter(|_| !brief)
        .chain(&described.notes)
        .chain(extras);
    let all = went.chain(others.map(String::as_str)).map(str::trim);
    all.filter(|fact| !fact.is_empty())
        .map(str::to_owned)
        .collect()
}

fn is_short(text: &Text) -> bool {
    let one_line = !text.text.trim_end().contains('\n') && text.elsewhere.is_none();
    one_line && text.text.len() < 8 * SHORT_INPUT && fits(&text::line(&text.text), SHORT_INPUT)
}

fn name(kind: DetailKind) -> &'static str {
    match kind {
        DetailKind::Input => "input",
        DetailKind::Output => "output",
        DetailKind::Error => "error",
    }
}

/// The text of a prompt, catalog or rules.
fn asset_text(node: &Node) -> Option<Text> {
    match node.item() {
        Item::ContextAsset(asset) => asset.text().map(Text::from),
        _ => None,
    }
}

fn look(node: &Node) -> Look {
    match (node.role(), node.kind) {
        (Some(Role::User), _) => Look::User,
        (Some(Role::Assistant), _) => Look::Assistant,
        (Some(_), _) => Look::Reasoning,
        (None, Kind::ToolCall) => Look::Tool,
        _ => Look::Other,
    }
}
