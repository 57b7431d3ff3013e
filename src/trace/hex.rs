//! Lower-case hexadecimal.

use sha2::{Digest, Sha256};

/// The two digits of each byte.
static DIGITS: [[u8; 2]; 256] = {
    let mut all = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        let digits = b"0123456789abcdef";
        all[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    all
};

/// Writes two digits for each byte.
#[inline]
fn encode(bytes: &[u8], out: &mut [u8]) {
    for (two, byte) in out.as_chunks_mut().0.iter_mut().zip(bytes) {
        *two = DIGITS[usize::from(*byte)];
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
