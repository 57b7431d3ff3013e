//! Digests of content that is not sent: equal for equal content, and useless for guessing it without the key.

use std::fmt;

use super::id;
use crate::redact::MaskKey;

/// The key in a segment's header. All segments of a root have the same.
#[derive(Clone)]
pub(crate) struct DigestKey {
    salt: [u8; 32],
    key: MaskKey,
}

impl DigestKey {
    /// Reads 64 hexadecimal digits.
    pub fn parse(salt: &str) -> Option<Self> {
        let salt = id::<32>(Some(salt))?;
        let key = MaskKey::new(salt);
        Some(Self { salt, key })
    }

    /// HMAC-SHA256 in hexadecimal.
    pub fn digest(&self, bytes: &[u8]) -> String {
        self.key.hmac(bytes)
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
