//! Digests of content that is not sent: equal for equal content, and useless for guessing it without the key.

use std::fmt;

use ring::hmac::{HMAC_SHA256, Key, sign};

use super::id;
use crate::trace::hex;

/// The key in a segment's header. All segments of a root have the same.
///
/// The digests are most of the work of mapping a tool call. `ring` has SHA-256 in assembly: on a processor without
/// SHA instructions, the two digests of a call in `benches/common/load.rs` take 0.6 times as long as with `sha2`.
#[derive(Clone)]
pub(crate) struct DigestKey {
    salt: [u8; 32],
    key: Key,
}

impl DigestKey {
    /// Reads 64 hexadecimal digits.
    pub fn parse(salt: &str) -> Option<Self> {
        let salt = id::<32>(Some(salt))?;
        let key = Key::new(HMAC_SHA256, &salt);
        Some(Self { salt, key })
    }

    /// HMAC-SHA256 in hexadecimal.
    pub fn digest(&self, bytes: &[u8]) -> String {
        hex(sign(&self.key, bytes).as_ref())
    }
}

impl PartialEq for DigestKey {
    fn eq(&self, other: &Self) -> bool {
        self.salt == other.salt
    }
}

impl Eq for DigestKey {}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey(..)")
    }
}
