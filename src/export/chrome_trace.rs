//! `chrome-trace`: the trace event format of Chrome, for Perfetto. Spans that overlap and don't contain each other
//! are on tracks of their own.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::feed::Fed;
use super::values::hex;
use super::{Exporter, Rows};
use crate::session::{Item, Node, NodeState};

/// Chrome's viewers need a process.
const PROCESS: u32 = 1;

#[derive(Debug, Default)]
pub(super) struct ChromeTrace {
    begun: bool,
    tracks: Vec<Track>,
    /// Open spans, with their tracks.
    open: HashMap<u64, (usize, Node)>,
}

/// Spans of which each two contain each other or don't overlap.
#[derive(Debug, Default)]
struct Track {
    /// The spans that are open, each inside the one before, with their starts.
    open: Vec<(u64, u64)>,
    /// When the last span that closed ended.
    end: u64,
}

impl Exporter for ChromeTrace {
    fn add(&mut self, fed: &Fed, rows: &mut Rows) {
        let node = &fed.node;
        if !self.begun {
            rows.text("[".into());
            let args = json!({"name": &*fed.session_id});
            rows.text(
                json!({"name": "process_name", "ph": "M", "pid": PROCESS, "tid": 0, "args": args})
                    .to_string(),
            );
            self.begun = true;
        }
        match (node.state, node.span_id) {
            (NodeState::Open, Some(id)) => {
                let track = self.track(node);
                let track = track.unwrap_or_else(|| self.empty_track(node.start));
                self.tracks[track].open.push((id, node.start));
                self.open.insert(id, (track, node.clone()));
            }
            (NodeState::Closed, Some(id)) => {
                let track = match self.open.remove(&id) {
                    Some((track, _)) => self.close(id, node.end(), track),
                    None => self.empty_track(node.start),
                };
                self.tracks[track].end = self.tracks[track].end.max(node.end());
                row(span(node, track), rows);
            }
            _ => {
                let parent = node.parent.and_then(|id| self.open.get(&id));
                let track = parent.map_or(0, |(track, _)| *track);
                let args = json!({"address": rows.at.to_string()});
                row(
                    json!({"name": node.kind_name(), "cat": "event", "ph": "i", "s": "t", "ts": micros(node.start), "pid": PROCESS, "tid": track, "args": args}),
                    rows,
                );
            }
        }
    }

    fn end(&mut self, rows: &mut Rows) {
        if !self.begun {
            rows.text("[".into());
        }
        let mut open: Vec<_> = self.open.values().collect();
        open.sort_by_key(|(_, node)| (node.start, node.span_id));
        for (track, node) in open {
            let mut begin = span(node, *track);
            begin["ph"] = "B".into();
            row(begin, rows);
        }
        rows.text("]".into());
    }
}

/// All events but the first follow a comma.
fn row(event: Value, rows: &mut Rows) {
    rows.text(format!(",{event}"));
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

impl ChromeTrace {
    /// The track of a span that opens: its parent's, if nothing else is there at that time, or an empty one.
    fn track(&self, node: &Node) -> Option<usize> {
        self.tracks.iter().position(|track| {
            let parent = track.open.last().filter(|(_, start)| *start <= node.start);
            track.end <= node.start && parent.is_some_and(|(id, _)| Some(*id) == node.within())
        })
    }

    /// A track on which nothing is since this time.
    fn empty_track(&mut self, since: u64) -> usize {
        let is_empty = |track: &Track| track.open.is_empty() && track.end <= since;
        let empty = self.tracks.iter().position(is_empty);
        empty.unwrap_or_else(|| {
            self.tracks.push(Track::default());
            self.tracks.len() - 1
        })
    }

    /// Closes a span. Returns its track. Spans inside it that go on move to another one.
    fn close(&mut self, id: u64, end: u64, track: usize) -> usize {
        let open = &mut self.tracks[track].open;
        let Some(at) = open.iter().position(|(open, _)| *open == id) else {
            return track;
        };
        let inside = open.split_off(at + 1);
        let (_, start) = open.remove(at);
        if self.tracks[track].end > end {
            // What closed inside it had a later end.
            self.tracks[track].open.extend(inside);
            return self.empty_track(start);
        }
        self.tracks[track].end = end;
        if let Some((_, first)) = inside.first() {
            let other = self.empty_track(*first);
            for (id, _) in &inside {
                self.open.entry(*id).and_modify(|(track, _)| *track = other);
            }
            self.tracks[other].open = inside;
        }
        track
    }
}

fn span(node: &Node, track: usize) -> Value {
    let item = node.item();
    let category = match &item {
        Item::Run(_) => "run",
        Item::Turn(_) => "turn",
        Item::ModelCall(_) => "model",
        Item::ToolCall(_) => "tool",
        Item::Permission(_) => "permission",
        Item::Compaction(_) => "compaction",
        _ => "span",
    };
    let name = match item.name() {
        Some(name) if category == "tool" || category == "model" => name.into_owned(),
        Some(name) => format!("{category} {name}"),
        None => category.to_owned(),
    };
    let mut args = node.payload_json();
    if let Some(args) = args.as_object_mut() {
        args.retain(|name, _| {
            ![
                "start",
                "duration_ns",
                "process",
                "totals",
                "events",
                "links",
            ]
            .contains(&name.as_str())
        });
        args.insert("address".into(), node.address.to_string().into());
        args.insert("span_id".into(), node.span_id.map(hex).into());
        args.insert("turn".into(), node.turn.into());
    }
    let mut event = json!({"name": name, "cat": category, "ph": "X", "ts": micros(node.start), "pid": PROCESS, "tid": track, "args": args});
    if let Some(duration) = node.duration {
        event["dur"] = micros(duration).into();
    }
    event
}
