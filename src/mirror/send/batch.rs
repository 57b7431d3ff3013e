//! Spans in one request.

use std::ops::Range;
use std::sync::Arc;

use prost::Message;

use crate::mirror::map;
use crate::mirror::map::origin::Origin;
use crate::mirror::map::wire::{field_len, put_bytes, put_head};
use crate::mirror::otlp::{ExportTraceServiceRequest, ResourceSpans, ScopeSpans, Span};
use crate::mirror::transport::Encoding;
use crate::trace::RawLine;

/// The largest request. A collector accepts 4 MiB over gRPC by default.
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024 - 64 * 1024;
/// The number of bytes in a request by default.
pub const DEFAULT_BATCH_BYTES: usize = 1024 * 1024;
/// The number of spans in a request by default.
pub const DEFAULT_BATCH_SPANS: usize = 2048;

/// Spans that are sent together, each with a tag of the sender: where it came from, for example.
///
/// Spans are encoded when they are pushed, so the size of the request is always known. Equal pushes make equal
/// bytes.
#[derive(Clone, Debug)]
pub struct Batch<T> {
    max_bytes: usize,
    max_spans: usize,
    groups: Vec<Group>,
    entries: Vec<Entry<T>>,
    /// The span that is being pushed: it is encoded before its length is known.
    span: Vec<u8>,
}

/// The result of pushing a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// Its span is in the batch.
    Taken,
    /// The batch would exceed its limits: the line is for the next one.
    Full,
    /// It makes no span: it closes none, or one that was not sampled.
    NoSpan,
}

/// The spans of one resource and scope.
#[derive(Clone, Debug)]
struct Group {
    origin: Arc<Origin>,
    /// The spans as they are in a `ScopeSpans` message.
    spans: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    group: usize,
    /// Where the span is in its group.
    span: Range<usize>,
    tag: T,
}

impl Group {
    fn scope_spans_len(&self) -> usize {
        field_len(self.origin.scope_bytes().len()) + self.spans.len()
    }

    fn resource_spans_len(&self) -> usize {
        field_len(self.origin.resource_bytes().len()) + field_len(self.scope_spans_len())
    }
}

impl<T> Batch<T> {
    /// An empty batch. A request never exceeds [`MAX_BATCH_BYTES`].
    pub fn new(max_bytes: usize, max_spans: usize) -> Self {
        Self {
            max_bytes: max_bytes.min(MAX_BATCH_BYTES),
            max_spans: max_spans.max(1),
            groups: Vec::new(),
            entries: Vec::new(),
            span: Vec::new(),
        }
    }

    /// Adds a span, or returns its tag if the batch would exceed its limits. The first span is always added:
    /// if it is too large by itself, the server has to refuse it.
    pub fn push(&mut self, origin: &Arc<Origin>, span: &Span, tag: T) -> Result<(), T> {
        if self.entries.len() >= self.max_spans {
            return Err(tag);
        }
        self.add(origin, &span.encode_to_vec(), tag, self.max_bytes)
    }

    /// The same for the span of a close line.
    pub fn push_line(&mut self, origin: &Arc<Origin>, close: &RawLine<'_>, tag: T) -> Pushed {
        if self.entries.len() >= self.max_spans {
            return Pushed::Full;
        }
        let mut span = std::mem::take(&mut self.span);
        span.clear();
        let pushed = match map::encode(origin, close, &mut span) {
            None => Pushed::NoSpan,
            Some(()) => match self.add(origin, &span, tag, self.max_bytes) {
                Ok(()) => Pushed::Taken,
                Err(_) => Pushed::Full,
            },
        };
        self.span = span;
        pushed
    }

    fn add(
        &mut self,
        origin: &Arc<Origin>,
        span: &[u8],
        tag: T,
        max_bytes: usize,
    ) -> Result<(), T> {
        let at = self.group_of(origin);
        let group = &mut self.groups[at];
        let before = group.spans.len();
        put_bytes(2, span, &mut group.spans);
        let end = group.spans.len();
        if !self.entries.is_empty() && self.encoded_len() > max_bytes {
            self.groups[at].spans.truncate(before);
            self.groups.retain(|group| !group.spans.is_empty());
            return Err(tag);
        }
        let span = end - span.len()..end;
        self.entries.push(Entry {
            group: at,
            span,
            tag,
        });
        Ok(())
    }

    /// The group of an origin: most often that of the last span.
    fn group_of(&mut self, origin: &Arc<Origin>) -> usize {
        let same = |group: &Group| group.origin.sends_as(origin);
        let last = self.entries.last().map(|last| last.group);
        let known = last.filter(|at| same(&self.groups[*at]));
        known
            .or_else(|| self.groups.iter().position(same))
            .unwrap_or_else(|| {
                // As a rule there is one group. It has room for a span too many, which is taken out again.
                let room = match self.groups.is_empty() {
                    true => self.max_bytes + self.max_bytes / 16,
                    false => 0,
                };
                self.groups.push(Group {
                    origin: Arc::clone(origin),
                    spans: Vec::with_capacity(room),
                });
                self.groups.len() - 1
            })
    }

    /// The number of spans.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no spans.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of bytes of [`encode`](Self::encode).
    pub fn encoded_len(&self) -> usize {
        let groups = self.groups.iter();
        groups
            .map(|group| field_len(group.resource_spans_len()))
            .sum()
    }

    /// The tags, in the order of the pushes.
    pub fn tags(&self) -> impl ExactSizeIterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.tag)
    }

    /// The spans with their tags, in the order of the pushes.
    pub fn spans(&self) -> impl ExactSizeIterator<Item = (Span, &T)> {
        let entries = self.entries.iter();
        entries.map(|entry| (self.decode(entry), &entry.tag))
    }

    fn bytes(&self, entry: &Entry<T>) -> &[u8] {
        &self.groups[entry.group].spans[entry.span.clone()]
    }

    /// A span that was encoded here can be decoded.
    fn decode(&self, entry: &Entry<T>) -> Span {
        Span::decode(self.bytes(entry)).unwrap_or_default()
    }

    /// The request as protobuf.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len());
        for group in &self.groups {
            put_head(1, group.resource_spans_len(), &mut out);
            put_bytes(1, group.origin.resource_bytes(), &mut out);
            put_head(2, group.scope_spans_len(), &mut out);
            put_bytes(1, group.origin.scope_bytes(), &mut out);
            out.extend_from_slice(&group.spans);
        }
        out
    }

    /// The request as a message.
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

    /// The request as JSON.
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

    /// Two batches with its halves, the first spans in the first one. A batch of one span, or of none, is
    /// returned as it is.
    pub fn split(self) -> Result<(Self, Self), Self> {
        let half = self.entries.len() / 2;
        if half == 0 {
            return Err(self);
        }
        let empty = || Self::new(self.max_bytes, self.max_spans);
        let (mut first, mut second) = (empty(), empty());
        for (at, entry) in self.entries.into_iter().enumerate() {
            let group = &self.groups[entry.group];
            let part = if at < half { &mut first } else { &mut second };
            // A half may be larger than the limits that its first span exceeds.
            let _ = part.add(
                &group.origin,
                &group.spans[entry.span],
                entry.tag,
                usize::MAX,
            );
        }
        Ok((first, second))
    }

    /// The spans and their tags, in the order of the pushes.
    pub fn into_spans(self) -> impl ExactSizeIterator<Item = (Arc<Origin>, Span, T)> {
        let groups = self.groups;
        self.entries.into_iter().map(move |entry| {
            let group = &groups[entry.group];
            let span = Span::decode(&group.spans[entry.span]).unwrap_or_default();
            (Arc::clone(&group.origin), span, entry.tag)
        })
    }
}
