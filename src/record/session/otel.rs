//! What only spans of the OpenTelemetry API have.

use super::open_span::{MAX_EVENTS, write_link};
use super::{Link, LockedSession, OpenSpan};
use crate::record::fields::Fields;

impl LockedSession<'_> {
    /// Changes what the close line of an open span will hold.
    pub fn amend(&mut self, id: u64, change: impl FnOnce(&mut OpenSpan)) {
        if let Some(span) = self.state.content.spans.get_mut(&id) {
            change(span);
        }
    }
}

impl OpenSpan {
    /// Adds the error of a span that is none of the six, beside its fields.
    pub fn describe_failure(&mut self, error: &Fields) {
        error.write_members(&mut self.other);
    }

    /// Counts events that the API dropped.
    pub fn lose_events(&mut self, count: usize) {
        if count > 0 {
            self.event_count = self.event_count.max(MAX_EVENTS) + count;
        }
    }

    /// Adds a link with attributes.
    pub fn link_with(&mut self, link: Link, attributes: &Fields) {
        write_link(link, &mut self.links);
        if !attributes.is_empty() {
            self.links.truncate(self.links.len() - "},".len());
            self.links.push(b',');
            attributes.write_object(field!(SpanLink.attributes), &mut self.links);
            self.links.pop();
            self.links.extend_from_slice(b"},");
        }
    }
}
