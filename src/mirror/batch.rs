//! Spans in one request.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use prost::encoding::encoded_len_varint;

use super::origin::Origin;

/// What a collector takes by default over gRPC is 4 MiB; a request stays below it.
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024 - 64 * 1024;
/// How many bytes a request has at most, unless somebody says otherwise.
pub const DEFAULT_BATCH_BYTES: usize = 1024 * 1024;
/// How many spans a request has at most, unless somebody says otherwise.
pub const DEFAULT_BATCH_SPANS: usize = 2048;

/// Spans that are sent together, each with a tag of the sender's: where it came from, say.
///
/// How many bytes the request has is known after every push. Equal pushes make equal bytes. A span
/// is kept as the bytes that are sent: that takes less memory, and it is encoded once, however
/// often it is sent.
#[derive(Clone, Debug)]
pub struct Batch<T> {
    most_bytes: usize,
    most_spans: usize,
    groups: Vec<Group>,
    entries: Vec<Entry<T>>,
    /// The spans, one after the other.
    encoded: Vec<u8>,
    bytes: usize,
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
    start: usize,
    bytes: usize,
    tag: T,
}

/// A message as a field with a number below 16.
fn field_len(message: usize) -> usize {
    1 + encoded_len_varint(message as u64) + message
}

fn put_field(number: u8, len: usize, out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    prost::encoding::encode_varint(len as u64, out);
}

impl Group {
    fn scope_spans_len(&self) -> usize {
        field_len(self.origin.scope_bytes().len()) + self.span_bytes
    }

    fn resource_spans_len(&self) -> usize {
        field_len(self.origin.resource_bytes().len()) + field_len(self.scope_spans_len())
    }
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

    /// Takes a span in, or gives it back where the batch would grow beyond its limits. The first
    /// span is always taken: one that is too large by itself is the server's to refuse.
    #[allow(clippy::result_large_err)] // It is moved in and out, never kept.
    pub fn push(&mut self, origin: &Arc<Origin>, span: Span, tag: T) -> Result<(), (Span, T)> {
        if self.entries.len() >= self.most_spans {
            return Err((span, tag));
        }
        let bytes = span.encoded_len();
        let group = self.group_of(origin);
        let grown = self.grown(group, origin, bytes);
        if grown > self.most_bytes && !self.entries.is_empty() {
            return Err((span, tag));
        }
        self.take(group, origin, bytes, grown);
        let group = group.unwrap_or(self.groups.len() - 1);
        let start = self.encoded.len();
        span.encode_raw(&mut self.encoded);
        self.entries.push(Entry {
            group,
            start,
            bytes,
            tag,
        });
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
        let (mut group, without) = match group {
            Some(at) => {
                let group = self.groups[at].clone();
                let without = self.bytes - field_len(group.resource_spans_len());
                (group, without)
            }
            None => {
                let origin = Arc::clone(origin);
                let empty = Group {
                    origin,
                    span_bytes: 0,
                };
                (empty, self.bytes)
            }
        };
        group.span_bytes += field_len(span);
        without + field_len(group.resource_spans_len())
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
        entries.map(|entry| (decode(self.bytes_of(entry)), &entry.tag))
    }

    fn bytes_of(&self, entry: &Entry<T>) -> &[u8] {
        &self.encoded[entry.start..entry.start + entry.bytes]
    }

    /// The request, as protobuf.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes);
        for (at, group) in self.groups.iter().enumerate() {
            put_field(1, group.resource_spans_len(), &mut out);
            let resource = group.origin.resource_bytes();
            put_field(1, resource.len(), &mut out);
            out.extend_from_slice(resource);
            put_field(2, group.scope_spans_len(), &mut out);
            let scope = group.origin.scope_bytes();
            put_field(1, scope.len(), &mut out);
            out.extend_from_slice(scope);
            for entry in self.entries.iter().filter(|entry| entry.group == at) {
                put_field(2, entry.bytes, &mut out);
                out.extend_from_slice(self.bytes_of(entry));
            }
        }
        out
    }

    /// The request itself, for what doesn't send protobuf.
    pub fn request(&self) -> ExportTraceServiceRequest {
        let spans_of = |at: usize| {
            let entries = self.entries.iter().filter(move |entry| entry.group == at);
            entries.map(|entry| decode(self.bytes_of(entry))).collect()
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
    ///
    /// # Errors
    ///
    /// None that a mapped span could cause: it has only finite numbers and texts.
    pub fn encode_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&self.request())
    }

    /// Two batches that hold its halves, the first ones first. Of one span, or none, there are
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
            let span = &self.encoded[entry.start..entry.start + entry.bytes];
            part.take_entry(origin, span, entry.tag);
        }
        Ok((first, second))
    }

    /// Whatever the limits say: it is what is left of a batch that kept them.
    fn take_entry(&mut self, origin: &Arc<Origin>, span: &[u8], tag: T) {
        let (start, bytes) = (self.encoded.len(), span.len());
        let group = self.group_of(origin);
        let grown = self.grown(group, origin, bytes);
        self.take(group, origin, bytes, grown);
        let group = group.unwrap_or(self.groups.len() - 1);
        self.encoded.extend_from_slice(span);
        self.entries.push(Entry {
            group,
            start,
            bytes,
            tag,
        });
    }

    /// The spans and their tags, given back.
    pub fn into_spans(self) -> impl ExactSizeIterator<Item = (Arc<Origin>, Span, T)> {
        let (groups, encoded) = (self.groups, self.encoded);
        self.entries.into_iter().map(move |entry| {
            let origin = Arc::clone(&groups[entry.group].origin);
            let span = decode(&encoded[entry.start..entry.start + entry.bytes]);
            (origin, span, entry.tag)
        })
    }
}

/// What was encoded here can be decoded.
fn decode(span: &[u8]) -> Span {
    Span::decode(span).unwrap_or_default()
}
