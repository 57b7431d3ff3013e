//! What the layer makes of a span, remembered for its callsite: looked up by an address, without a
//! lock and without looking at names again.

use std::sync::OnceLock;

use tracing::Metadata;

use super::Reading;
use crate::event::SpanKind;

/// Callsites beyond these many are looked at anew for each span.
const SLOTS: usize = 2048;
/// How far from its place an entry may stand.
const REACH: usize = 8;

/// What spans of a callsite are to the layer.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// One of the six.
    Ours(SpanKind),
    /// Made by another library in a way that is understood.
    Recognised(Reading),
    /// Another's; the user wants lines of it.
    Chosen,
    /// Another's; it may name a session.
    Routes,
    /// Another's: it carries the session on.
    Foreign,
}

/// One entry a callsite. Entries are only ever added: metadata lives as long as the program.
#[derive(Debug)]
pub(crate) struct Callsites(Box<[OnceLock<(usize, Seen)>]>);

impl Callsites {
    pub fn new() -> Self {
        Self((0..SLOTS).map(|_| OnceLock::new()).collect())
    }

    /// Hands what is known of the callsite to `then`; `look` finds it out the first time. It may ask
    /// the user, who may do anything, make such a span for one: so nobody waits for it.
    pub fn with<T>(
        &self,
        meta: &'static Metadata<'static>,
        look: impl Fn() -> Seen,
        then: impl FnOnce(&Seen) -> T,
    ) -> T {
        let address = std::ptr::from_ref(meta).addr();
        // Metadata is aligned and large: the low bits say nothing.
        let home = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        for step in 0..REACH {
            let slot = &self.0[(home + step) % SLOTS];
            let (found, seen) = slot.get().unwrap_or_else(|| {
                let seen = look();
                slot.get_or_init(|| (address, seen))
            });
            if *found == address {
                return then(seen);
            }
        }
        then(&look())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_callsite_is_looked_at_once_and_not_taken_for_another() {
        let callsites = Callsites::new();
        // Where nobody listens, a span need not know its callsite.
        let _heard = tracing::subscriber::set_default(tracing_subscriber::registry());
        let spans = [tracing::info_span!("first"), tracing::info_span!("second")];
        let looks = Cell::new(0);
        for span in spans.iter().cycle().take(10) {
            let meta = span.metadata().unwrap();
            let look = || {
                looks.set(looks.get() + 1);
                match meta.name() {
                    "first" => Seen::Foreign,
                    _ => Seen::Chosen,
                }
            };
            let is_first = callsites.with(meta, look, |seen| matches!(seen, Seen::Foreign));
            assert_eq!(is_first, meta.name() == "first");
        }
        assert_eq!(looks.get(), 2);
    }
}
