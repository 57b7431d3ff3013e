//! The mask written in place of a secret.
//!
//! A mask names the rule, the length of what it hides and a keyed hash of it, so that two records
//! can be seen to hold the same secret without either holding it. It is plain text and thus fits
//! wherever the secret stood: inside a longer string, a URL or a command line.

use std::fmt;
use std::ops::Range;

use sha2::{Digest, Sha256};

use super::pattern::Pattern;
use super::text::is_name;
use crate::trace::hex;

/// How every mask starts.
pub(super) const OPENING: &str = "[masked rule=";
/// Longest mask, and then some.
pub(super) const LONGEST_MASK: usize = 192;

/// The key of the hash in each mask. Its id (the first eight hexadecimal digits of the SHA-256 of
/// the key) is named in the mask, so that hashes made under different keys are not compared.
#[derive(Clone)]
pub struct MaskKey {
    /// The inner and the outer hash of HMAC, keyed once and cloned for each mask.
    keyed: [Sha256; 2],
    id: String,
}

impl MaskKey {
    /// A key from 32 secret bytes.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        let mut block = [0; 64];
        block[..32].copy_from_slice(&secret);
        let keyed = |pad: u8| Sha256::new_with_prefix(block.map(|byte| byte ^ pad));
        Self {
            keyed: [keyed(0x36), keyed(0x5c)],
            id: hex(&Sha256::digest(secret)[..4]),
        }
    }

    /// The first eight hexadecimal digits of the key's SHA-256.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The mask for `secret` found by `rule`.
    pub(super) fn mask(&self, rule: &str, secret: &[u8]) -> String {
        let (length, id) = (secret.len(), &self.id);
        let hash = hex(&self.hash(secret)[..8]);
        format!("{OPENING}{rule} bytes={length} hmac={hash} key={id}]")
    }

    /// The key of the digests that are sent in place of content. It says nothing about this one.
    pub(crate) fn digest_salt(&self) -> String {
        hex(&self.hash(b"digests of content"))
    }

    /// A digest of what may not be guessed from it.
    pub(super) fn digest(&self, bytes: &[u8]) -> u128 {
        u128::from_be_bytes(self.hash(bytes)[..16].try_into().unwrap_or_default())
    }

    fn hash(&self, bytes: &[u8]) -> [u8; 32] {
        let [inner, outer] = self.keyed.clone();
        let hash = inner.chain_update(bytes).finalize();
        outer.chain_update(hash).finalize().into()
    }
}

impl fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaskKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A rule name fit for a mask: of `name` at most `longest` bytes, anything unusual made `_`.
pub(super) fn rule_name(name: &str, longest: usize) -> String {
    let usual = |byte: u8| is_name(byte) || byte == b':';
    name.bytes()
        .take(longest)
        .map(|b| if usual(b) { char::from(b) } else { '_' })
        .collect()
}

/// A complete mask. A text that merely starts like a mask is none.
static MASK: Pattern =
    Pattern::new(r"\[masked rule=[\w.:-]{1,64} bytes=\d{1,20} hmac=[0-9a-f]{16} key=[0-9a-f]{8}\]");

/// The end of the complete mask that starts at `from`, if one does.
pub(super) fn mask_end(text: &[u8], from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let opens = rest.starts_with(OPENING.as_bytes());
    opens.then(|| MASK.end(text, from)).flatten()
}

/// Whether `text` is exactly one mask.
pub(super) fn is_mask(text: &str) -> bool {
    mask_end(text.as_bytes(), 0) == Some(text.len())
}

/// What is in `text` beside complete masks.
pub(super) fn without_masks(text: &[u8]) -> Vec<u8> {
    let (mut rest, mut at) = (Vec::new(), 0);
    while let Some(byte) = text.get(at) {
        match mask_end(text, at) {
            Some(end) => at = end,
            None => {
                rest.push(*byte);
                at += 1;
            }
        }
    }
    rest
}

/// Whether `range` of `text` is nothing but masks, the last of which may end after it.
pub(super) fn is_masked(text: &[u8], range: Range<usize>) -> bool {
    let mut at = range.start;
    while at < range.end {
        match mask_end(text, at) {
            Some(end) => at = end,
            None => return false,
        }
    }
    true
}

/// Whether a complete mask stands anywhere in `text`.
pub(super) fn contains_mask(text: &[u8]) -> bool {
    touches_mask(text, 0..text.len())
}

/// Whether a complete mask starts inside `range` of `text` or reaches into it.
pub(super) fn touches_mask(text: &[u8], range: Range<usize>) -> bool {
    let from = range.start.saturating_sub(LONGEST_MASK);
    memchr::memchr_iter(b'[', &text[from..range.end])
        .any(|at| mask_end(text, from + at).is_some_and(|end| end > range.start))
}
