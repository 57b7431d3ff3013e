//! The mask written in place of a secret.
//!
//! A mask names the rule, the length of what it hides and a keyed hash of it, so that two records
//! can be seen to hold the same secret without either holding it. It is plain text and thus fits
//! wherever the secret stood: inside a longer string, a URL or a command line.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::bytes::{self, HEX, URL64};

/// How every mask starts.
pub(super) const OPENING: &str = "[masked rule=";
/// Longest rule name read back; longer ones are never written.
const LONGEST_RULE: usize = 64;

/// The key of the hash in each mask. Its id (the first eight hexadecimal digits of the SHA-256 of
/// the key) is named in the mask, so that hashes made under different keys are not compared.
#[derive(Clone)]
pub struct MaskKey {
    /// Keyed once; cloned for each mask.
    hmac: Hmac<Sha256>,
    id: String,
}

impl MaskKey {
    /// A key from 32 secret bytes.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        let mut block = [0; 64];
        block[..32].copy_from_slice(&secret);
        Self {
            // A key padded with zeros to the block size gives the same HMAC as the bare key.
            hmac: Hmac::<Sha256>::new(&block.into()),
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
        let mut hmac = self.hmac.clone();
        hmac.update(secret);
        let hash = hex(&hmac.finalize().into_bytes()[..8]);
        format!(
            "{OPENING}{rule} bytes={} hmac={hash} key={}]",
            secret.len(),
            self.id
        )
    }
}

impl MaskKey {
    /// A digest of what may not be guessed from it.
    pub(super) fn digest(&self, bytes: &[u8]) -> u128 {
        let mut hmac = self.hmac.clone();
        hmac.update(bytes);
        let digest: [u8; 32] = hmac.finalize().into_bytes().into();
        u128::from_be_bytes(digest[..16].try_into().unwrap_or_default())
    }
}

impl fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaskKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Lower-case hexadecimal spelling.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// A rule name fit for a mask: of `name` at most `longest` bytes, anything unusual made `_`.
pub(super) fn rule_name(name: &str, longest: usize) -> String {
    let usual = |byte: u8| bytes::is(URL64, byte) || byte == b'.' || byte == b':';
    name.bytes()
        .take(longest)
        .map(|b| if usual(b) { char::from(b) } else { '_' })
        .collect()
}

/// The end of the complete mask that starts at `from`, if one does. A text that merely starts
/// like a mask is none: all its fields must be there and well-formed.
pub(super) fn mask_end(text: &[u8], from: usize) -> Option<usize> {
    let rest = text.get(from..)?.strip_prefix(OPENING.as_bytes())?;
    let start = text.len() - rest.len();
    let rule_end = bytes::run_end(text, start, URL64 | bytes::DOT | bytes::COLON, LONGEST_RULE);
    let bytes_start = literal(text, rule_end, b" bytes=")?;
    let bytes_end = bytes::run_end(text, bytes_start, bytes::DIGIT, 20);
    let hmac_start = literal(text, bytes_end, b" hmac=")?;
    let hmac_end = bytes::run_end(text, hmac_start, HEX, 16);
    let key_start = literal(text, hmac_end, b" key=")?;
    let key_end = bytes::run_end(text, key_start, HEX, 8);
    let end = literal(text, key_end, b"]")?;
    let whole = rule_end > start
        && bytes_end > bytes_start
        && hmac_end - hmac_start == 16
        && key_end - key_start == 8;
    whole.then_some(end)
}

/// Whether `text` is exactly one mask.
pub(super) fn is_mask(text: &str) -> bool {
    mask_end(text.as_bytes(), 0) == Some(text.len())
}

fn literal(text: &[u8], at: usize, expected: &[u8]) -> Option<usize> {
    text.get(at..)?
        .starts_with(expected)
        .then_some(at + expected.len())
}
