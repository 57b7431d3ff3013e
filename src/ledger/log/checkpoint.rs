//! Lines that say what a reader or the next writer would have to read a whole segment for.

use std::sync::Arc;

use super::super::Core;
use super::super::digested::Digested;
use super::super::open_span::write_link;
use super::{About, SessionLog, State};
use crate::redact::write_string;

/// About how many bytes lie between two of them.
pub(super) const CHECKPOINT_EVERY: u64 = 1 << 20;

impl SessionLog {
    /// What a list or a resume needs, so that neither has to read the whole segment.
    pub(super) fn checkpoint(self: &Arc<Self>, core: &Core, state: &mut State, now: u64) {
        let mut out = b"\"totals\":".to_vec();
        state.totals.write(&state.marks, &mut out);
        out.extend_from_slice(
            format!(
                ",\"started\":{},\"next_turn\":{},\"open\":[",
                state.started, state.next_turn
            )
            .as_bytes(),
        );
        let mut open: Vec<_> = state.spans.values().collect();
        open.sort_unstable_by_key(|span| span.start.steady);
        for (index, span) in open.into_iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(b"{\"kind\":\"");
            out.extend_from_slice(span.open_kind.as_bytes());
            out.extend_from_slice(b"\",\"span_id\":\"");
            out.extend_from_slice(&crate::event::hex16(span.ids.span));
            out.extend_from_slice(b"\"}");
        }
        out.push(b']');
        if let Some((trace, span)) = state.last_run {
            out.extend_from_slice(b",\"last_run\":");
            write_link(trace, span, &mut out);
        }
        out.extend_from_slice(b",\"digests\":{");
        let mut comma = false;
        for (digested, digest) in Digested::ALL.iter().zip(&state.current) {
            let Some(digest) = digest else { continue };
            if std::mem::replace(&mut comma, true) {
                out.push(b',');
            }
            write_string(digested.stamp(), &mut out);
            out.push(b':');
            write_string(digest, &mut out);
        }
        out.extend_from_slice(b"},\"known_digests\":[");
        for (index, digest) in state.known.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_string(digest, &mut out);
        }
        out.extend_from_slice(b"],");
        let about = About::segment("checkpoint", now);
        if let Err(lost) = self.put_owed(core, state, about, &out) {
            // Nothing is lost: the next one says the same and more.
            core.note_error(&lost.cause);
        }
        if let Some(segment) = &state.segment {
            state.checkpoint_at = segment.size + CHECKPOINT_EVERY;
        }
    }
}
