//! Which parts of requests a session has lines for, so that each is stored once.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::{LockedSession, SpanContext};
use crate::record::fields::Fields;
use crate::trace::Kind;

/// How many of each are remembered. With more, all are forgotten, and parts may be stored again.
const MOST: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct StoredParts {
    digests: HashSet<u128>,
    /// How often the agent itself recorded a message, by a hash of it, where no request has brought it since.
    spoken: HashMap<u64, u32>,
    hasher: RandomState,
}

impl StoredParts {
    /// A line has the part with this digest.
    pub fn insert(&mut self, digest: &str) {
        if self.digests.len() >= MOST {
            self.digests.clear();
        }
        self.digests.extend(u128::from_str_radix(digest, 16));
    }

    /// Takes over what earlier processes have stored.
    pub fn extend(&mut self, digests: impl IntoIterator<Item = u128>) {
        self.digests.extend(digests);
    }

    pub fn clear(&mut self) {
        self.digests.clear();
    }

    /// Notes a message that does not come from a request.
    pub fn note_spoken(&mut self, kind: Kind, fields: &Fields) {
        if fields.contains(field!(Message.history)) {
            return;
        }
        if let Some(hash) = self.hash(kind, fields) {
            if self.spoken.len() >= MOST {
                self.spoken.clear();
            }
            *self.spoken.entry(hash).or_default() += 1;
        }
    }

    fn hash(&self, kind: Kind, fields: &Fields) -> Option<u64> {
        let is_spoken = matches!(
            kind,
            Kind::MessageUser | Kind::MessageAssistant | Kind::MessageSystem
        );
        let content = fields.get(field!(Message.content)).filter(|_| is_spoken)?;
        Some(self.hasher.hash_one((kind.as_str(), content)))
    }
}

impl LockedSession<'_> {
    /// Whether a message of a request is one that the agent recorded itself before. Each counts once.
    pub fn take_spoken(&mut self, kind: Kind, fields: &Fields) -> bool {
        let parts = &mut self.state.content.parts;
        // Its tools are not in the line of a message that has a text only.
        if parts.spoken.is_empty() || fields.contains(field!(Message.parts)) {
            return false;
        }
        let count = parts
            .hash(kind, fields)
            .and_then(|hash| parts.spoken.get_mut(&hash));
        match count {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }

    /// Whether no line of the session has the part, as far as is known.
    pub fn is_new_part(&mut self, digest: &str) -> bool {
        self.read_past();
        let digest = u128::from_str_radix(digest, 16);
        digest.is_ok_and(|digest| !self.state.content.parts.digests.contains(&digest))
    }

    /// Appends a part of a request.
    pub fn request_part(&mut self, at: Option<&SpanContext>, digest: &str, fields: &Fields) {
        let written = self.append(
            super::event_meta(Kind::RequestPart.as_str(), at),
            |out, _| fields.write_members(out),
        );
        if written.is_some() {
            self.state.content.parts.insert(digest);
        }
    }
}
