//! Writing values clean: plain texts, JSON texts, and JSON inside strings inside JSON.
//!
//! The walk over a JSON text keeps its place in a stack of bits and copies whatever it does not
//! have to change. Only a string that itself holds JSON starts another walk, and that at most
//! [`MOST_NESTED`] times within each other.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::check::{self, Levels, container_end, string_end};
use super::escape::{Content, read_string, write_string};
use super::keys::Kind;
use super::mask::is_mask;
use super::names::FieldName;
use super::scan::{Redactor, Tally};
use super::sizes::{Limits, Media, Store, too_long, write_moved};
use super::value;

/// How many levels of JSON inside strings are cleaned as JSON; deeper ones as text.
const MOST_NESTED: usize = 8;

/// The text is not exactly one JSON value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotJson;

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text is not exactly one JSON value")
    }
}

impl std::error::Error for NotJson {}

impl Redactor {
    /// Writes `text`, known under the name `key`, as one JSON value: a string, or an object that
    /// says where a text too long for the line has gone.
    pub fn write_str(
        &self,
        key: &str,
        text: &str,
        limits: &Limits,
        store: &mut dyn Store,
        out: &mut Vec<u8>,
        tally: &mut Tally,
    ) {
        self.write_str_of(self.field(key), text, limits, store, out, tally);
    }

    /// The same, by a name that was looked at.
    pub(crate) fn write_str_of(
        &self,
        name: FieldName<'_>,
        text: &str,
        limits: &Limits,
        store: &mut dyn Store,
        out: &mut Vec<u8>,
        tally: &mut Tally,
    ) {
        let clean = match name.kind {
            Some(kind) if masks_string(kind, name.text, text) => {
                tally.masked += 1;
                Cow::Owned(self.mask(&self.key_rule(name.text), text))
            }
            _ => self.clean_text(text, 0, tally),
        };
        write_text(&clean, limits, store, out, tally);
    }

    /// Writes `piece` of `text` as one JSON value, masked in the light of the rest.
    pub(crate) fn write_piece(
        &self,
        text: &str,
        piece: Range<usize>,
        limits: &Limits,
        store: &mut dyn Store,
        out: &mut Vec<u8>,
        tally: &mut Tally,
    ) {
        let clean = self.piece(text, piece, tally);
        write_text(&clean, limits, store, out, tally);
    }

    /// Writes the JSON text `json`, known under the name `key`, clean and on one line. The order
    /// of members, the spelling of numbers and whatever else is no secret stay as they are.
    ///
    /// # Errors
    ///
    /// If `json` is not exactly one JSON value; then nothing was written.
    pub fn write_json(
        &self,
        key: &str,
        json: &str,
        limits: &Limits,
        store: &mut dyn Store,
        out: &mut Vec<u8>,
        tally: &mut Tally,
    ) -> Result<(), NotJson> {
        self.write_json_of(self.field(key), json, limits, store, out, tally)
    }

    /// The same, by a name that was looked at.
    pub(crate) fn write_json_of(
        &self,
        name: FieldName<'_>,
        json: &str,
        limits: &Limits,
        store: &mut dyn Store,
        out: &mut Vec<u8>,
        tally: &mut Tally,
    ) -> Result<(), NotJson> {
        let checked = check::check(json).ok_or(NotJson)?;
        let start = out.len();
        if checked.depth <= limits.depth
            && !too_long(json.len(), limits)
            && !checked.line_ends
            && !name.is_sensitive()
            && self.is_clear_json(json, checked.backslashes)
        {
            out.extend_from_slice(json.trim_ascii().as_bytes());
            return Ok(());
        }
        if checked.depth > limits.depth {
            let mut clean = Vec::with_capacity(json.len());
            Walk::new(self, json, 0, Room::Anywhere, tally).run(name.text, &mut clean);
            let clean = text_of(clean);
            if too_long(clean.len(), limits) {
                write_moved(&clean, Media::Json, limits, store, out, tally);
            } else {
                write_string(&clean, out);
            }
            return Ok(());
        }
        Walk::new(self, json, 0, Room::Line(limits, store), tally).run(name.text, out);
        if too_long(out.len() - start, limits) {
            let clean = text_of(out.split_off(start));
            write_moved(&clean, Media::Json, limits, store, out, tally);
        }
        Ok(())
    }

    /// Cleans a text that `nested` strings are around: as JSON if it is that, else as text.
    #[inline(always)]
    fn clean_text<'a>(&self, text: &'a str, nested: usize, tally: &mut Tally) -> Cow<'a, str> {
        if opens_json(text) && nested < MOST_NESTED && check::check(text).is_some() {
            self.clean_json(text, nested, tally)
        } else {
            self.text(text, tally)
        }
    }

    fn clean_json<'a>(&self, json: &'a str, nested: usize, tally: &mut Tally) -> Cow<'a, str> {
        let mut clean = Vec::with_capacity(json.len() + 64);
        let mut walk = Walk::new(self, json, nested + 1, Room::Anywhere, tally);
        walk.run("", &mut clean);
        if walk.changed {
            Cow::Owned(text_of(clean))
        } else {
            Cow::Borrowed(json)
        }
    }
}

/// Whether a text begins as an object or an array does.
fn opens_json(text: &str) -> bool {
    let first = check::blanks(text.as_bytes(), 0);
    matches!(text.as_bytes().get(first), Some(b'{' | b'['))
}

/// Only whole characters are ever written, so this never has to replace anything.
fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// Whether a string under a sensitive name is masked whole.
fn masks_string(kind: Kind, key: &str, text: &str) -> bool {
    if text.is_empty() || is_mask(text) {
        return false;
    }
    // `pwd` is also the name of a working directory.
    if key.eq_ignore_ascii_case("pwd") && value::path(text.as_bytes()) {
        return false;
    }
    // Names like `auth` also hold words such as `none`.
    kind != Kind::Weak || text.len() >= 8 || text.bytes().any(|b| !b.is_ascii_lowercase())
}

/// Writes a clean text, or what stands for it if it is too long.
fn write_text(
    clean: &str,
    limits: &Limits,
    store: &mut dyn Store,
    out: &mut Vec<u8>,
    tally: &mut Tally,
) {
    if too_long(clean.len(), limits) {
        write_moved(clean, Media::Text, limits, store, out, tally);
    } else {
        write_string(clean, out);
    }
}

/// Where the walk writes to.
enum Room<'a> {
    /// The line: long strings are moved out of it.
    Line(&'a Limits, &'a mut dyn Store),
    /// A text that is dealt with as a whole afterwards.
    Anywhere,
}

/// A name that the next value belongs to without being its member name.
enum Announced {
    Nothing,
    /// After `"--token"` in an array, or an element that is a sensitive name.
    Element {
        name: String,
        kind: Kind,
        flag: bool,
    },
    /// After `"name": "API_KEY"` in an object; its `value` is meant.
    Member {
        name: String,
        kind: Kind,
    },
}

struct Walk<'a> {
    redactor: &'a Redactor,
    json: &'a str,
    nested: usize,
    room: Room<'a>,
    tally: &'a mut Tally,
    levels: Levels,
    /// Which of the open containers are the `properties` of a JSON Schema.
    schemas: Levels,
    /// The sensitive name of the value that comes next.
    name: Option<(Cow<'a, str>, Kind)>,
    /// What the name of the member at hand says about it.
    member: Member,
    announced: Announced,
    expects_name: bool,
    changed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    Other,
    Name,
    Value,
    Properties,
}

impl<'a> Walk<'a> {
    fn new(
        redactor: &'a Redactor,
        json: &'a str,
        nested: usize,
        room: Room<'a>,
        tally: &'a mut Tally,
    ) -> Self {
        Self {
            redactor,
            json,
            nested,
            room,
            tally,
            levels: Levels::default(),
            schemas: Levels::default(),
            name: None,
            member: Member::Other,
            announced: Announced::Nothing,
            expects_name: false,
            changed: false,
        }
    }

    /// Walks over the text, which is known to be JSON, and writes it clean. Inside a string the
    /// white space is kept, as it may matter to whoever wrote it.
    fn run(&mut self, key: &'a str, out: &mut Vec<u8>) {
        let json = self.json;
        let bytes = json.as_bytes();
        self.name = self
            .redactor
            .keys
            .kind(key)
            .map(|kind| (Cow::Borrowed(key), kind));
        let mut at = 0;
        while at < bytes.len() {
            let end = match bytes[at] {
                b' ' | b'\t' | b'\n' | b'\r' => {
                    let end = check::blanks(bytes, at);
                    if self.nested > 0 {
                        out.extend_from_slice(&bytes[at..end]);
                    }
                    end
                }
                b'"' => {
                    let end = string_end(bytes, at);
                    if self.expects_name {
                        self.member_name(&json[at..end], out);
                    } else {
                        self.string(&json[at..end], out);
                    }
                    end
                }
                b'{' | b'[' => self.open(at, out),
                close @ (b'}' | b']') => {
                    self.levels.pop();
                    self.schemas.pop();
                    self.announced = Announced::Nothing;
                    self.expects_name = false;
                    out.push(close);
                    at + 1
                }
                b',' => {
                    self.expects_name = self.levels.in_object();
                    out.push(b',');
                    at + 1
                }
                b':' => {
                    out.push(b':');
                    at + 1
                }
                _ => self.scalar(at, out),
            };
            at = end.max(at + 1);
        }
    }

    /// An object or array: masked whole under a sensitive name, else entered.
    fn open(&mut self, at: usize, out: &mut Vec<u8>) -> usize {
        let bytes = self.json.as_bytes();
        let empty = matches!(bytes.get(check::blanks(bytes, at + 1)), Some(b'}' | b']'));
        let named = self.name.take();
        self.announced = Announced::Nothing;
        if let Some((name, kind)) = named
            && kind != Kind::Weak
            && !empty
        {
            let end = container_end(bytes, at);
            if !self.describes(&bytes[at..end]) {
                self.mask(&name, &self.json[at..end], out);
                return end;
            }
        }
        self.schemas.push(self.member == Member::Properties);
        self.member = Member::Other;
        self.levels.push(bytes[at] == b'{');
        self.expects_name = bytes[at] == b'{';
        out.push(bytes[at]);
        at + 1
    }

    /// Whether a container under a sensitive name is a JSON Schema, as tools describe their
    /// parameters with: it says what a password is like, not what it is.
    fn describes(&self, container: &[u8]) -> bool {
        const WORDS: [&str; 4] = ["\"type\"", "\"$ref\"", "\"anyOf\"", "\"enum\""];
        // Schemas are shallow; not looking at deep ones keeps the walk linear.
        self.schemas.in_object()
            && self.levels.depth() < 64
            && container.starts_with(b"{")
            && WORDS
                .iter()
                .any(|word| memchr::memmem::find(container, word.as_bytes()).is_some())
    }

    /// A number, `true`, `false` or `null`.
    fn scalar(&mut self, at: usize, out: &mut Vec<u8>) -> usize {
        let json = self.json;
        let stops = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
        let end = json.as_bytes()[at..]
            .iter()
            .position(stops)
            .map_or(json.len(), |n| at + n);
        let scalar = &json[at..end];
        let number = scalar.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        match self.name.take() {
            Some((name, kind)) if number && kind.masks_numbers() => self.mask(&name, scalar, out),
            _ => out.extend_from_slice(scalar.as_bytes()),
        }
        if !self.levels.in_object() {
            self.announced = Announced::Nothing;
        }
        end
    }

    fn member_name(&mut self, raw: &'a str, out: &mut Vec<u8>) {
        let content = read_string(inside(raw));
        self.expects_name = false;
        // A mask in a name says what was there (`rule=jwt`), not what the value is.
        let masked = value::meets_mask(content.text.as_bytes(), &(0..content.text.len()));
        let kind = if masked {
            None
        } else {
            self.redactor.keys.kind(&content.text)
        };
        self.member = match &*content.text {
            "name" | "key" | "header" | "variable" | "Name" | "Key" => Member::Name,
            "value" | "Value" | "val" => Member::Value,
            "properties" => Member::Properties,
            _ => Member::Other,
        };
        let clean = self.redactor.text(&content.text, self.tally);
        match clean {
            Cow::Owned(clean) => {
                self.changed = true;
                write_string(&clean, out);
            }
            Cow::Borrowed(text) => self.unchanged(raw, text, content.sound, out),
        }
        self.name = kind.map(|kind| (content.text, kind));
    }

    fn string(&mut self, raw: &'a str, out: &mut Vec<u8>) {
        let Content { text, sound } = read_string(inside(raw));
        let name = self.name.take();
        let in_object = self.levels.in_object();
        let announced = std::mem::replace(&mut self.announced, Announced::Nothing);
        let secret = match (&name, &announced) {
            (Some((name, kind)), _) => masks_string(*kind, name, &text).then(|| name.to_string()),
            (
                None,
                Announced::Element {
                    name, flag: true, ..
                },
            ) => (!text.starts_with('-') && !text.is_empty() && !is_mask(&text))
                .then(|| name.clone()),
            (None, Announced::Element { name, kind, .. }) => (value::strong(text.as_bytes())
                && masks_string(*kind, name, &text))
            .then(|| name.clone()),
            (None, Announced::Member { name, kind }) if self.member == Member::Value => {
                masks_string(*kind, name, &text).then(|| name.clone())
            }
            _ => None,
        };
        // Between a pair's name and its value other members may stand.
        if in_object && matches!(announced, Announced::Member { .. }) {
            self.announced = announced;
        }
        if let Some(name) = secret {
            self.mask(&name, &text, out);
            return;
        }
        if name.is_none() {
            self.announce(&text, in_object);
        }
        match self.redactor.clean_text(&text, self.nested, self.tally) {
            Cow::Owned(clean) => {
                self.changed = true;
                self.place(&clean, out);
            }
            Cow::Borrowed(clean) => {
                if !self.moves(clean.len()) {
                    self.unchanged(raw, clean, sound, out);
                } else {
                    self.place(clean, out);
                }
            }
        }
    }

    /// Notes a string that names the value after it.
    fn announce(&mut self, text: &str, in_object: bool) {
        if text.len() > 64 || self.levels.depth() == 0 || (in_object && self.member != Member::Name)
        {
            return;
        }
        let plain = !text.contains([' ', '=', ':', '/']);
        if let Some(kind) = self.redactor.keys.kind(text).filter(|_| plain) {
            let name = text.to_owned();
            self.announced = if in_object {
                Announced::Member { name, kind }
            } else {
                Announced::Element {
                    flag: name.starts_with('-'),
                    name,
                    kind,
                }
            };
        }
    }

    fn mask(&mut self, name: &str, secret: &str, out: &mut Vec<u8>) {
        let mask = self.redactor.mask(&self.redactor.key_rule(name), secret);
        self.tally.masked += 1;
        self.changed = true;
        write_string(&mask, out);
    }

    fn moves(&self, length: usize) -> bool {
        matches!(&self.room, Room::Line(limits, _) if too_long(length, limits))
    }

    /// Writes a string's text, or what stands for it if it is too long.
    fn place(&mut self, text: &str, out: &mut Vec<u8>) {
        match &mut self.room {
            Room::Line(limits, store) if too_long(text.len(), limits) => {
                write_moved(text, Media::Text, limits, &mut **store, out, self.tally);
            }
            _ => write_string(text, out),
        }
    }

    /// Writes a string as it was spelled, unless that stands for no text.
    fn unchanged(&mut self, raw: &str, text: &str, sound: bool, out: &mut Vec<u8>) {
        if sound {
            out.extend_from_slice(raw.as_bytes());
        } else {
            self.changed = true;
            write_string(text, out);
        }
    }
}

/// A string's spelling without its quotes.
fn inside(raw: &str) -> &str {
    raw.get(1..raw.len().saturating_sub(1)).unwrap_or("")
}
