//! Batches respect their limits and are byte-identical when built again.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Theirs;
use proptest::prelude::*;
use prost::Message;
use serde_json::json;
use spanledger::mirror::otlp::Span;
use spanledger::mirror::{Batch, MAX_BATCH_BYTES, Origin};
use spanledger::trace::RawLine;

use crate::map::setup::one;

fn origin(name: &str, content: bool) -> Arc<Origin> {
    let line = json!({"v": 1, "seg": 1, "seq": 1, "ts": "2026-11-16T00:31:05.123456Z",
        "kind": "segment", "session_id": "s",
        "payload": {"resource": {"service.name": name}, "mirror": {"content": content}}});
    let line = line.to_string();
    Arc::new(Origin::parse(&RawLine::parse(line.as_bytes()).unwrap()).unwrap())
}

fn span(size: usize) -> Span {
    let payload = json!({"result": "x".repeat(size)});
    one(json!({"content": true}), "tool_result", payload).unwrap()
}

#[test]
fn spans_of_one_resource_share_a_header_in_order() {
    let mut batch = Batch::new(1 << 20, 100);
    let (a, a_again, b) = (origin("a", false), origin("a", true), origin("b", false));
    for (at, origin) in [&a, &b, &a_again, &b].into_iter().enumerate() {
        batch.push(origin, &span(at), at).unwrap();
    }
    let request = batch.request();
    assert_eq!(request.resource_spans.len(), 2);
    let first = &request.resource_spans[0];
    assert_eq!(first.resource.as_ref().unwrap(), a.resource());
    assert_eq!(first.scope_spans[0].scope.as_ref().unwrap(), a.scope());
    assert_eq!(first.scope_spans[0].spans, [span(0), span(2)]);
    assert_eq!(
        request.resource_spans[1].scope_spans[0].spans,
        [span(1), span(3)]
    );
    assert_eq!(batch.tags().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(batch.encode(), request.encode_to_vec());
    let json: Theirs = serde_json::from_slice(&batch.encode_json()).unwrap();
    assert_eq!(json.encode_to_vec(), request.encode_to_vec());
}

#[test]
fn oversized_span_is_alone() {
    let mut batch = Batch::new(1000, 100);
    let origin = origin("a", false);
    batch.push(&origin, &span(5000), 1).unwrap();
    assert!(batch.encoded_len() > 5000);
    assert_eq!(batch.push(&origin, &span(1), 2), Err(2));
    let batch = batch.split().unwrap_err();
    assert_eq!(batch.len(), 1);
}

#[test]
fn default_batch_fits_default_server_limits() {
    let mut batch = Batch::new(usize::MAX, usize::MAX);
    let origin = origin("a", false);
    while batch.push(&origin, &span(500_000), ()).is_ok() {}
    assert!(batch.encoded_len() <= MAX_BATCH_BYTES);
    assert!(batch.encoded_len() < 4 << 20);
    assert_eq!(batch.len(), 8);
}

proptest! {
    #[test]
    fn batches_respect_limits_and_lose_nothing(
        spans in prop::collection::vec((0usize..4, 0usize..3000), 1..60),
        most_bytes in 500usize..20_000,
        most_spans in 1usize..20,
    ) {
        let origins: Vec<_> = ["a", "b", "c", "dd"].iter().map(|name| origin(name, false)).collect();
        let batches = || {
            let mut batches = vec![Batch::new(most_bytes, most_spans)];
            for (at, (from, size)) in spans.iter().enumerate() {
                let full = batches.last_mut().unwrap();
                if let Err(tag) = full.push(&origins[*from], &span(*size), at) {
                    let mut next = Batch::new(most_bytes, most_spans);
                    next.push(&origins[*from], &span(*size), tag).unwrap();
                    batches.push(next);
                }
            }
            batches
        };
        let (once, again) = (batches(), batches());
        let mut tags = Vec::new();
        for (batch, same) in once.into_iter().zip(again) {
            let bytes = batch.encode();
            prop_assert_eq!(bytes.len(), batch.encoded_len());
            prop_assert_eq!(&bytes, &same.encode());
            prop_assert_eq!(&bytes, &batch.request().encode_to_vec());
            prop_assert!(batch.len() <= most_spans);
            prop_assert!(batch.encoded_len() <= most_bytes || batch.len() == 1);
            tags.extend(batch.tags().copied());
            // Halves, down to single spans.
            let mut parts = vec![batch];
            let mut single = Vec::new();
            while let Some(part) = parts.pop() {
                prop_assert_eq!(part.encode().len(), part.encoded_len());
                match part.split() {
                    Ok((first, second)) => {
                        prop_assert!(first.len().abs_diff(second.len()) <= 1);
                        parts.extend([second, first]);
                    }
                    Err(one) => single.extend(one.into_spans()),
                }
            }
            for ((origin, found, tag), expected) in single.into_iter().zip(same.tags()) {
                prop_assert_eq!(tag, *expected);
                let (from, size) = spans[tag];
                prop_assert!(origin.sends_as(&origins[from]));
                prop_assert_eq!(found, span(size));
            }
        }
        prop_assert_eq!(tags, (0..spans.len()).collect::<Vec<_>>());
    }
}
