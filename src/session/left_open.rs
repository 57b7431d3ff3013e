//! Which spans dead processes left open. [`Recovery`](crate::Recovery) closes them.

use std::io;
use std::path::Path;

use super::status::OpenSpan;
use super::store::{Entry, Store};
use crate::trace::typed::Span;
use crate::trace::{Kind, ReadItem, SegmentReader};

impl Store {
    /// The spans that dead processes left open in a session, children first.
    pub fn left_open(&self, entry: &Entry) -> Vec<OpenSpan> {
        let open = entry.summary.open.values();
        let mut left: Vec<_> = open
            .filter(|span| !self.is_written(&entry.summary, span.seg))
            .cloned()
            .collect();
        left.sort_by(|a, b| (b.since, &b.span_id).cmp(&(a.since, &a.span_id)));
        left
    }
}

/// Adds the spans that a segment closes as interrupted.
pub(crate) fn read_interrupted(
    entry: &Entry,
    segment: &Path,
    closed: &mut Vec<OpenSpan>,
) -> io::Result<()> {
    let mut reader = SegmentReader::open(segment)?;
    while let Some(found) = reader.next()? {
        let ReadItem::Line(line) = found else {
            continue;
        };
        let Some(closes) = line.closes().filter(|_| line.kind() == Kind::Interrupted) else {
            continue;
        };
        let id = line.span_id.unwrap_or_default();
        let known = entry.summary.open.get(id).cloned();
        let span = known.unwrap_or_else(|| OpenSpan {
            span_id: id.to_owned(),
            address: line.address(),
            kind: closes.opening(),
            name: String::new(),
            input: None,
            since: 0,
            seg: line.seg,
            parent: None,
        });
        let since = Span::from(line.payload()).start().unwrap_or(0);
        closed.push(OpenSpan { since, ..span });
    }
    Ok(())
}
