//! What the OpenTelemetry API says of a span.

use std::any::Any;
use std::sync::{Arc, Weak};

use super::super::Core;
use super::super::open_span::{OpenSpan, write_object};
use super::{About, At, SessionLog};
use crate::event::Fields;

impl SessionLog {
    /// Notes who records here. It is the same for as long as the log lives, since a log is one
    /// ledger's: so no context has to hold it for itself.
    pub fn note_recorder<R: Any + Send + Sync>(&self, recorder: &Arc<R>) {
        self.recorder.get_or_init(|| {
            let weak: Weak<R> = Arc::downgrade(recorder);
            weak
        });
    }

    pub fn recorder<R: Any + Send + Sync>(&self) -> Option<Arc<R>> {
        self.recorder.get()?.upgrade()?.downcast().ok()
    }

    pub fn is_of<R>(&self, recorder: &Arc<R>) -> bool {
        let noted = self.recorder.get().map(Weak::as_ptr);
        noted.is_some_and(|noted| std::ptr::addr_eq(noted, Arc::as_ptr(recorder)))
    }

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
