//! Spans in one request.

use std::sync::Arc;

use std::ops::Range;

use prost::Message;

use super::map;
use super::origin::Origin;
use super::otlp::{ExportTraceServiceRequest, ResourceSpans, ScopeSpans, Span};
use super::transport::Encoding;
use super::wire::{field_len, put_bytes, put_head};
use crate::trace::RawLine;

/// What a collector takes by default over gRPC is 4 MiB; a request stays below it.
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024 - 64 * 1024;
/// How many bytes a request has at most, unless somebody says otherwise.
pub const DEFAULT_BATCH_BYTES: usize = 1024 * 1024;
/// How many spans a request has at most, unless somebody says otherwise.
pub const DEFAULT_BATCH_SPANS: usize = 2048;

/// Spans that are sent together, each with a tag of the sender's: where it came from, say.
///
/// Spans are encoded when they are pushed, and how many bytes the request has is known after every
/// push. Equal pushes make equal bytes.
#[derive(Clone, Debug)]
pub struct Batch<T> {
    most_bytes: usize,
    most_spans: usize,
    groups: Vec<Group>,
    entries: Vec<Entry<T>>,
    /// The spans, one behind the other.
    encoded: Vec<u8>,
    bytes: usize,
}

/// What became of a line that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// Its span is in the batch.
    Taken,
    /// The batch would grow beyond its limits: the line is for the next one.
    Full,
    /// It makes no span: it closes none, or one that was not sampled.
    NoSpan,
}

/// The spans of one resource and scope.
#[derive(Clone, Debug)]
struct Group {
    origin: Arc<Origin>,
    /// The spans of its `ScopeSpans`, with their tags and lengths.
    span_bytes: usize,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    group: usize,
    /// Where it is among the encoded ones.
    span: Range<usize>,
    tag: T,
}

fn scope_spans_len(origin: &Origin, span_bytes: usize) -> usize {
    field_len(origin.scope_bytes().len()) + span_bytes
}

fn resource_spans_len(origin: &Origin, span_bytes: usize) -> usize {
    let scope_spans = scope_spans_len(origin, span_bytes);
    field_len(origin.resource_bytes().len()) + field_len(scope_spans)
}

impl<T> Batch<T> {
    /// An empty batch. More than [`MAX_BATCH_BYTES`] is never asked of a server.
    pub fn new(most_bytes: usize, most_spans: usize) -> Self {
        Self {
            most_bytes: most_bytes.min(MAX_BATCH_BYTES),
            most_spans: most_spans.max(1),
            groups: Vec::new(),
            entries: Vec::new(),
            encoded: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes a span in, or gives its tag back where the batch would grow beyond its limits. The
    /// first span is always taken: one that is too large by itself is the server's to refuse.
    pub fn push(&mut self, origin: &Arc<Origin>, span: &Span, tag: T) -> Result<(), T> {
        if self.entries.len() >= self.most_spans {
            return Err(tag);
        }
        let start = self.encoded.len();
        span.encode_raw(&mut self.encoded);
        self.keep(origin, start, tag)
    }

    /// The same for the span that a close line tells of.
    pub fn push_line(&mut self, origin: &Arc<Origin>, close: &RawLine<'_>, tag: T) -> Pushed {
        if self.entries.len() >= self.most_spans {
            return Pushed::Full;
        }
        let start = self.encoded.len();
        if map::encode(origin, close, &mut self.encoded).is_none() {
            return Pushed::NoSpan;
        }
        match self.keep(origin, start, tag) {
            Ok(()) => Pushed::Taken,
            Err(_) => Pushed::Full,
        }
    }

    /// Keeps the span that was just encoded, unless that is too much.
    fn keep(&mut self, origin: &Arc<Origin>, start: usize, tag: T) -> Result<(), T> {
        let span = start..self.encoded.len();
        let group = self.group_of(origin);
        let grown = self.grown(group, origin, span.len());
        if grown > self.most_bytes && !self.entries.is_empty() {
            self.encoded.truncate(start);
            return Err(tag);
        }
        self.take(group, origin, span.len(), grown);
        let group = group.unwrap_or(self.groups.len() - 1);
        self.entries.push(Entry { group, span, tag });
        Ok(())
    }

    /// Most often the one that the last span went to.
    fn group_of(&self, origin: &Arc<Origin>) -> Option<usize> {
        let same = |group: &Group| group.origin.sends_as(origin);
        match self.entries.last() {
            Some(last) if same(&self.groups[last.group]) => Some(last.group),
            _ => self.groups.iter().position(same),
        }
    }

    /// How many bytes the request would have with one more span.
    fn grown(&self, group: Option<usize>, origin: &Arc<Origin>, span: usize) -> usize {
        let (before, without) = match group {
            Some(at) => {
                let group = &self.groups[at];
                let length = resource_spans_len(&group.origin, group.span_bytes);
                (group.span_bytes, self.bytes - field_len(length))
            }
            None => (0, self.bytes),
        };
        without + field_len(resource_spans_len(origin, before + field_len(span)))
    }

    fn take(&mut self, group: Option<usize>, origin: &Arc<Origin>, span: usize, grown: usize) {
        match group {
            Some(at) => self.groups[at].span_bytes += field_len(span),
            None => self.groups.push(Group {
                origin: Arc::clone(origin),
                span_bytes: field_len(span),
            }),
        }
        self.bytes = grown;
    }

    /// How many spans are in it.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many bytes [`encode`](Self::encode) gives.
    pub fn encoded_len(&self) -> usize {
        self.bytes
    }

    /// The senders' tags, in the order of the pushes.
    pub fn tags(&self) -> impl ExactSizeIterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.tag)
    }

    /// The spans with their tags, in the order of the pushes.
    pub fn spans(&self) -> impl ExactSizeIterator<Item = (Span, &T)> {
        let entries = self.entries.iter();
        entries.map(|entry| (self.decode(entry), &entry.tag))
    }

    /// What was encoded here can be read.
    fn decode(&self, entry: &Entry<T>) -> Span {
        Span::decode(&self.encoded[entry.span.clone()]).unwrap_or_default()
    }

    /// The request as protobuf.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes);
        for (at, group) in self.groups.iter().enumerate() {
            let origin = &group.origin;
            put_head(1, resource_spans_len(origin, group.span_bytes), &mut out);
            put_bytes(1, origin.resource_bytes(), &mut out);
            put_head(2, scope_spans_len(origin, group.span_bytes), &mut out);
            put_bytes(1, origin.scope_bytes(), &mut out);
            for entry in self.entries.iter().filter(|entry| entry.group == at) {
                put_bytes(2, &self.encoded[entry.span.clone()], &mut out);
            }
        }
        out
    }

    /// The request itself, for what doesn't send protobuf.
    pub fn request(&self) -> ExportTraceServiceRequest {
        let spans_of = |at: usize| {
            let entries = self.entries.iter().filter(move |entry| entry.group == at);
            entries.map(|entry| self.decode(entry)).collect()
        };
        let groups = self.groups.iter().enumerate();
        let resource_spans = groups.map(|(at, group)| ResourceSpans {
            resource: Some(group.origin.resource().clone()),
            scope_spans: vec![ScopeSpans {
                scope: Some(group.origin.scope().clone()),
                spans: spans_of(at),
                schema_url: String::new(),
            }],
            schema_url: String::new(),
        });
        ExportTraceServiceRequest {
            resource_spans: resource_spans.collect(),
        }
    }

    /// The request, as JSON.
    pub fn encode_json(&self) -> Vec<u8> {
        self.request().to_json()
    }

    /// The request in the encoding of a transport.
    pub fn encode_as(&self, encoding: Encoding) -> Vec<u8> {
        match encoding {
            Encoding::Protobuf => self.encode(),
            Encoding::Json => self.encode_json(),
        }
    }

    /// Two batches that hold its halves, the first ones first. Source one span, or none, there are
    /// no halves: it comes back as it is.
    pub fn split(self) -> Result<(Self, Self), Self> {
        let half = self.entries.len() / 2;
        if half == 0 {
            return Err(self);
        }
        let (mut first, mut second) = (
            Self::new(self.most_bytes, self.most_spans),
            Self::new(self.most_bytes, self.most_spans),
        );
        for (at, entry) in self.entries.into_iter().enumerate() {
            let origin = &self.groups[entry.group].origin;
            let part = if at < half { &mut first } else { &mut second };
            part.take_entry(origin, &self.encoded[entry.span], entry.tag);
        }
        Ok((first, second))
    }

    /// Whatever the limits say: it is what is left of a batch that kept them.
    fn take_entry(&mut self, origin: &Arc<Origin>, span: &[u8], tag: T) {
        let group = self.group_of(origin);
        let grown = self.grown(group, origin, span.len());
        self.take(group, origin, span.len(), grown);
        let group = group.unwrap_or(self.groups.len() - 1);
        let start = self.encoded.len();
        self.encoded.extend_from_slice(span);
        let span = start..self.encoded.len();
        self.entries.push(Entry { group, span, tag });
    }

    /// The spans and their tags, given back.
    pub fn into_spans(self) -> impl ExactSizeIterator<Item = (Arc<Origin>, Span, T)> {
        let (groups, encoded) = (self.groups, self.encoded);
        self.entries.into_iter().map(move |entry| {
            let origin = Arc::clone(&groups[entry.group].origin);
            let span = Span::decode(&encoded[entry.span]).unwrap_or_default();
            (origin, span, entry.tag)
        })
    }
}
