//! What the OpenTelemetry API says of a span.

use super::open_span::{OpenSpan, write_object};
use super::{SessionLog, SpanContext, line_now};
use crate::record::fields::Fields;
use crate::record::process_state::ProcessState;

impl SessionLog {
    /// Takes over what the OpenTelemetry API says of an open span of ours, under the names it gives.
    pub fn attributes(&self, process: &ProcessState, at: &SpanContext, attributes: &Fields) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut late = false;
        match state.content.spans.get_mut(&at.ids.span) {
            Some(span) => span.attributes.get_or_insert_default().merge(attributes),
            None => late = true,
        }
        let meta = line_now("span_update", at.turn, Some(at.ids));
        let appended = self.append(process, state, meta, |out, _| {
            if late {
                out.extend_from_slice(b"\"late\":true,");
            }
            write_object("attributes", attributes, out);
        });
        at.trace.count(appended.unwrap_or_default().size);
    }

    /// Changes what the close line of an open span will say.
    pub fn amend(&self, id: u64, change: impl FnOnce(&mut OpenSpan)) {
        if let Some(span) = self.lock().content.spans.get_mut(&id) {
            change(span);
        }
    }
}
