//! What the OpenTelemetry API says of a span.

use std::sync::Arc;

use super::super::Core;
use super::super::open_span::{OpenSpan, write_object};
use super::{About, At, SessionLog};
use crate::event::Fields;

impl SessionLog {
    /// Takes over what the OpenTelemetry API says of an open span of ours, under the names it gives.
    pub fn attributes(self: &Arc<Self>, core: &Core, at: &At, attributes: &Fields) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut late = false;
        match state.spans.get_mut(&at.ids.span) {
            Some(span) => span.attributes.get_or_insert_default().merge(attributes),
            None => late = at.generation == self.generation,
        }
        let about = About::now("span_update", at.turn, Some(at.ids));
        self.append(core, state, about, |out, _| {
            if late {
                out.extend_from_slice(b"\"late\":true,");
            }
            write_object("attributes", attributes, out);
        });
        at.trace.count(state.line_size);
    }

    /// Changes what the close line of an open span will say.
    pub fn amend(&self, id: u64, change: impl FnOnce(&mut OpenSpan)) {
        if let Some(span) = self.lock().spans.get_mut(&id) {
            change(span);
        }
    }
}
