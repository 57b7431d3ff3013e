//! `otlp-json`: the requests that the mirror would send, one on each line, as the collector's file exporter
//! writes them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::feed::Fed;
use super::{Exporter, Rows, in_one_line};
use crate::mirror::{Batch, DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS, Origin, Pushed, opened_seg};
use crate::trace::{Kind, RawLine};

#[derive(Debug)]
pub(super) struct OtlpJson {
    /// By segment.
    origins: HashMap<u32, Arc<Origin>>,
    /// The first close line of a span counts.
    closed: HashSet<u64>,
    batch: Batch<()>,
}

impl Default for OtlpJson {
    fn default() -> Self {
        Self {
            origins: HashMap::new(),
            closed: HashSet::new(),
            batch: Batch::new(DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS),
        }
    }
}

impl Exporter for OtlpJson {
    fn line(&mut self, line: &RawLine<'_>, rows: &mut Rows) -> bool {
        self.close_line(line, rows);
        false
    }

    fn add(&mut self, _: &Fed, _: &mut Rows) {}

    fn end(&mut self, rows: &mut Rows) {
        if !self.batch.is_empty() {
            self.flush(rows);
        }
    }
}

impl OtlpJson {
    fn close_line(&mut self, line: &RawLine<'_>, rows: &mut Rows) {
        if line.kind() == Kind::Segment {
            let origin = Origin::parse(line).ok().map(Arc::new);
            self.origins.extend(origin.map(|origin| (line.seg, origin)));
            return;
        }
        let id = line.span_id.filter(|_| line.kind().is_close());
        let Some(id) = id.and_then(|id| u64::from_str_radix(id, 16).ok()) else {
            return;
        };
        let Some(origin) = self.origins.get(&opened_seg(line)).cloned() else {
            return;
        };
        if !self.closed.insert(id) {
            return;
        }
        if self.batch.push_line(&origin, line, ()) == Pushed::Full {
            self.flush(rows);
            let _ = self.batch.push_line(&origin, line, ());
        }
    }

    fn flush(&mut self, rows: &mut Rows) {
        let empty = Batch::new(DEFAULT_BATCH_BYTES, DEFAULT_BATCH_SPANS);
        let request = std::mem::replace(&mut self.batch, empty).encode_json();
        rows.text(in_one_line(String::from_utf8(request).unwrap_or_default()));
    }
}
