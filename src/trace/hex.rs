//! Lower-case hexadecimal.

use sha2::{Digest, Sha256};

/// Writes two digits for each byte.
#[inline]
fn encode(bytes: &[u8], out: &mut [u8]) {
    let digit = |four: u8| four + b'0' + u8::from(four > 9) * (b'a' - b'9' - 1);
    for (two, byte) in out.chunks_exact_mut(2).zip(bytes) {
        (two[0], two[1]) = (digit(byte >> 4), digit(byte & 15));
    }
}

/// The bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = vec![0; 2 * bytes.len()];
    encode(bytes, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// SHA-256 in hexadecimal.
pub(crate) fn hex_digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A span id.
#[inline]
pub(crate) fn hex16(id: u64) -> [u8; 16] {
    let mut out = [0; 16];
    encode(&id.to_be_bytes(), &mut out);
    out
}

/// A trace id.
#[inline]
pub(crate) fn hex32(id: u128) -> [u8; 32] {
    let mut out = [0; 32];
    encode(&id.to_be_bytes(), &mut out);
    out
}

#[cfg(test)]
mod tests;
