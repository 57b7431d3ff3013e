//! The six spans, by macro and by constructor.

mod support;

use support::{LineExt, Recording};
use tracing::info_span;

#[test]
fn a_plain_tool_call_macro_alone_becomes_an_open_and_a_close_line() {
    let recording = Recording::new();
    recording.run(|| {
        let _tool = info_span!("tool.call", tool_id = "bash", tool_call_id = "c1").entered();
    });
    let trace = recording.trace();
    let (open, close) = (trace.one("tool_call"), trace.one("tool_result"));
    assert_eq!(open.text("tool_id"), "bash");
    assert_eq!(close.text("tool_call_id"), "c1");
    assert_eq!(open.span_id, close.span_id);
    assert_eq!(close.text("outcome"), "unset");
    assert!(close.get("duration_ns").is_u64());
    assert_eq!(recording.guard.health().orphaned, 2);
}
