//! Text from a trace, made safe for a terminal.
//!
//! The text of a model or a tool is data: it must not move the cursor, change colors, reverse the
//! reading order or hide anything. Every such character is escaped.

use std::borrow::Cow;
use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::trace::RawValue;

/// Whether a character would affect a terminal.
pub(super) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Marks that reverse or isolate reading order, and joiners that hide.
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{061c}' | '\u{fff9}'..='\u{fffb}'
            | '\u{2028}' | '\u{2029}'
            | '\u{e0000}'..='\u{e007f}')
}

/// One line of text: line breaks and everything unsafe escaped.
pub fn line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => out.push('⏎'),
            '\t' => out.push(' '),
            '\r' => out.push_str("\\r"),
            c if is_unsafe(c) && (c as u32) < 0x100 => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if is_unsafe(c) => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// JSON that does not affect a terminal: the characters that JSON allows as they are and [`line()`] escapes
/// become `\\u` escapes. It stays the same JSON.
///
/// ```
/// use spanledger::view::text::safe_json;
/// assert_eq!(safe_json("{\"a\":\"\u{202e}b\"}"), "{\"a\":\"\\u202eb\"}");
/// ```
pub fn safe_json(json: &str) -> Cow<'_, str> {
    // Pretty JSON has newlines between its values. JSON escapes other ASCII control characters but DEL.
    let is_unsafe = |c: char| c == '\u{7f}' || (!c.is_ascii() && is_unsafe(c));
    if !json.contains(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if !is_unsafe(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    Cow::Owned(out)
}

/// How many columns a text takes.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// The characters of a text, where each begins and how many columns it adds to those before it.
fn widths(text: &str) -> impl Iterator<Item = (usize, char, usize)> {
    let mut before = None;
    text.char_indices().map(move |(at, c)| {
        let mut wide = c.width().unwrap_or(0);
        // This selector asks for the emoji of a character that is narrow as text.
        if let (Some(before), '\u{fe0f}') = (before, c) {
            let pair: String = [before, c].iter().collect();
            wide = columns(&pair).saturating_sub(before.width().unwrap_or(0));
        }
        before = Some(c);
        (at, c, wide)
    })
}

/// Whether a text takes no more than so many columns. Does not measure a very long one.
pub(super) fn fits(text: &str, max: usize) -> bool {
    // No character takes more columns than bytes.
    text.len() <= max || (text.len() <= max * 8 && columns(text) <= max)
}

/// Cuts a safe text to so many columns, with `…` at the end.
pub fn cut(text: &str, max: usize) -> Cow<'_, str> {
    if fits(text, max) {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    let mut end = 0;
    for (at, c, wide) in widths(text) {
        used += wide;
        if used > max.saturating_sub(1) {
            break;
        }
        end = at + c.len_utf8();
    }
    Cow::Owned(format!("{}…", &text[..end]))
}

/// Cuts a safe id to so many columns, in the middle: its beginning is enough to name the session, and
/// its end differs from that of its subagents.
pub fn cut_id(id: &str, max: usize) -> Cow<'_, str> {
    if fits(id, max) {
        return Cow::Borrowed(id);
    }
    let room = max.saturating_sub(1);
    let all: usize = widths(id).map(|(_, _, wide)| wide).sum();
    let (mut head, mut tail) = (0, id.len());
    let mut used = 0;
    for (at, c, wide) in widths(id) {
        used += wide;
        if used <= room / 2 {
            head = at + c.len_utf8();
        }
        let rest = &id[at + c.len_utf8()..];
        // Not within an emoji.
        if all - used <= room - room / 2 && !rest.starts_with('\u{fe0f}') {
            tail = id.len() - rest.len();
            break;
        }
    }
    Cow::Owned(format!("{}…{}", &id[..head], &id[tail..]))
}

/// A safe text padded on the right to so many columns, or cut to them.
pub fn pad(text: &str, width: usize) -> String {
    let mut out = cut(text, width).into_owned();
    let used = columns(&out);
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(used)));
    out
}

/// A safe text padded on the left.
pub fn pad_left(text: &str, width: usize) -> String {
    let used = columns(text);
    let mut out: String = std::iter::repeat_n(' ', width.saturating_sub(used)).collect();
    out.push_str(text);
    out
}

/// Safe texts, each padded on the left to its width, with a blank behind it.
pub(super) fn columns_of<'a>(cells: impl IntoIterator<Item = (&'a String, usize)>) -> String {
    let cells = cells.into_iter();
    cells
        .map(|(cell, width)| pad_left(cell, width) + " ")
        .collect()
}

/// Texts with something between them; `None` if there are none.
pub(super) fn join<T: AsRef<str>>(
    texts: impl IntoIterator<Item = T>,
    between: &str,
) -> Option<String> {
    let mut texts = texts.into_iter();
    let mut out = texts.next()?.as_ref().to_owned();
    texts.for_each(|text| out.extend([between, text.as_ref()]));
    Some(out)
}

/// The lines of a text, wrapped to so many columns and made safe.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines = Vec::new();
    for part in text.trim_end_matches(['\n', '\r']).split('\n') {
        let part = line(part.strip_suffix('\r').unwrap_or(part));
        let mut current = String::new();
        let mut used = 0;
        for word in part.split_inclusive(' ') {
            let wide = columns(word.trim_end());
            if used > 0 && used + wide > width {
                lines.push(current.trim_end().to_owned());
                current = String::new();
                used = 0;
            }
            for (_, c, w) in widths(word) {
                if used + w > width {
                    lines.push(std::mem::take(&mut current));
                    used = 0;
                    if c == ' ' {
                        continue;
                    }
                }
                current.push(c);
                used += w;
            }
        }
        lines.push(current.trim_end().to_owned());
    }
    lines
}

/// Where the first line of a text ends: at its newline, or where it fills so many columns. None if it
/// does neither.
pub fn line_end(text: &str, width: usize) -> Option<usize> {
    let mut used = 0;
    let mut space = None;
    for (at, c, wide) in widths(text) {
        if c == '\n' {
            return Some(at + 1);
        }
        used += wide;
        if used > width {
            return Some(space.unwrap_or(at).max(1));
        }
        if c == ' ' {
            space = Some(at + 1);
        }
    }
    None
}

/// A number with commas between its thousands.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun.
///
/// ```
/// use spanledger::view::text::plural;
/// assert_eq!(plural(1, "turn"), "1 turn");
/// assert_eq!(plural(1200, "turn"), "1,200 turns");
/// ```
pub fn plural(n: u64, one: &str) -> String {
    format!("{} {one}{}", thousands(n), if n == 1 { "" } else { "s" })
}

/// A size for people.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// Dollars; an unknown cost is `–`, never 0.
pub fn cost(usd: Option<f64>) -> String {
    match usd {
        None => "–".into(),
        Some(usd) if usd.abs() < 1.0 => format!("${usd:.4}"),
        Some(usd) => format!("${usd:.2}"),
    }
}

/// A count; an unknown one is `–`, never 0.
pub fn count(n: Option<u64>) -> String {
    n.map_or_else(|| "–".into(), thousands)
}

/// A duration in nanoseconds, for people.
pub fn duration(ns: u64) -> String {
    let ms = ns / 1_000_000;
    match ms {
        0 => format!("{}µs", ns / 1_000),
        1..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{:.1}s", ns as f64 / 1e9),
        60_000..3_600_000 => format!("{}m{:02}s", ms / 60_000, ms / 1_000 % 60),
        3_600_000..86_400_000 => format!("{}h{:02}m", ms / 3_600_000, ms / 60_000 % 60),
        _ => format!("{}d{:02}h", ms / 86_400_000, ms / 3_600_000 % 24),
    }
}

/// How much of a value is used in one line.
const ENOUGH: usize = 2_000;

/// A text, or its head.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    /// The text.
    pub text: String,
    /// Where the rest is, if this is only the head.
    pub elsewhere: Option<String>,
}

impl Text {
    /// The input of a tool: an object with one text is that text.
    pub(super) fn input(value: RawValue<'_>) -> Self {
        let mut members = value.members();
        match (members.next(), members.next()) {
            (Some((name, only)), None) if !name.starts_with('$') && only.text().is_some() => {
                only.into()
            }
            _ => value.into(),
        }
    }

    pub(super) fn one_line(&self) -> String {
        let text: String = self.text.chars().take(ENOUGH).collect();
        match &self.elsewhere {
            Some(elsewhere) => format!("{text}… ({elsewhere})"),
            None => text,
        }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self {
            text,
            elsewhere: None,
        }
    }
}

impl From<RawValue<'_>> for Text {
    /// A text as it is, other JSON as text, and the head of a value that was moved to a blob or cut.
    fn from(value: RawValue<'_>) -> Self {
        if let Some(text) = value.text() {
            return text.into_owned().into();
        }
        let Some(marker) = value.marker() else {
            return value.json().to_owned().into();
        };
        let size = |bytes: Option<u64>| size(bytes.unwrap_or(0));
        let elsewhere = match (&marker.blob, &marker.cut) {
            (Some(_), _) => Some(format!("{} in all, in a blob", size(marker.bytes))),
            (None, Some(cut)) => Some(format!("{} were cut", size(cut.bytes))),
            (None, None) => None,
        };
        Self {
            text: marker.head.unwrap_or_default().into_owned(),
            elsewhere,
        }
    }
}

#[cfg(test)]
mod tests;
