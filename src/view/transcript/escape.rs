//! Text of a session as text of a page.

use std::io::{self, Write};

use super::super::text::{is_unsafe, line};

/// A text for an element or a quoted attribute, escaped.
pub(super) struct Text<'a>(pub &'a str);

impl std::fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(is_special) {
            f.write_str(&rest[..at])?;
            let c = rest[at..].chars().next().unwrap_or_default();
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_str(&line(c.encode_utf8(&mut [0; 4])))?,
            }
            rest = &rest[at + c.len_utf8()..];
        }
        f.write_str(rest)
    }
}

/// Whether HTML gives a character a meaning, or it would affect how the text is read. Newlines and tabs are kept.
fn is_special(c: char) -> bool {
    matches!(c, '&' | '<' | '>' | '"' | '\'') || (is_unsafe(c) && c != '\n' && c != '\t')
}

/// Writes a text escaped, with masks marked.
pub(super) fn write_text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    const MASK: &str = "[masked rule=";
    let mut rest = text;
    while let Some(at) = rest.find(MASK) {
        let Some(length) = rest[at..].find(']') else {
            break;
        };
        let end = at + length + 1;
        let mask = &rest[at..end];
        write!(out, "{}<mark>{}</mark>", Text(&rest[..at]), Text(mask))?;
        rest = &rest[end..];
    }
    write!(out, "{}", Text(rest))
}

/// A relative path as a URL: everything but letters, digits and a few marks is escaped.
pub(super) fn path_url(path: &str) -> String {
    let mut url = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                url.push(char::from(byte));
            }
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

#[cfg(test)]
mod tests;
