//! `otlp-json`: what the export has is what the mirror would send.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use spanledger::export::{Format, Target, export};

use crate::support::rich_session;

#[test]
fn otlp_json_has_the_spans_of_a_session() {
    let root = rich_session::record();
    let file = root.path().join("spans.jsonl");
    let mut target = Target::file(&file);
    export(
        Format::OtlpJson,
        rich_session::dir(root.path()),
        &mut target,
    )
    .unwrap();
    target.finish().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let mut spans = Vec::new();
    for line in text.lines() {
        // Another's reading of it.
        let request: ExportTraceServiceRequest = serde_json::from_str(line).unwrap();
        let resources = request.resource_spans.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        spans.extend(scopes.flat_map(|scope| scope.spans));
    }
    let mut names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    names.sort();
    let of = |name: &str| names.iter().filter(|one| one.starts_with(name)).count();
    assert_eq!(of("invoke_agent"), 2, "{names:?}");
    assert_eq!(of("chat "), 3);
    assert_eq!(of("execute_tool"), 7);
    assert_eq!(of("session.turn"), 3);
    assert!(
        spans
            .iter()
            .all(|span| span.trace_id.len() == 16 && span.span_id.len() == 8)
    );
}
