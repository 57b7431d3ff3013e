//! Redacts values: plain texts, JSON texts, and JSON inside strings inside JSON.
//!
//! The walk over a JSON text copies whatever it does not have to change. Only a string that
//! itself holds JSON starts another walk, and that at most [`MOST_NESTED`] times within each other.

use std::borrow::Cow;
use std::fmt;

use serde::de::IgnoredAny;

use super::checks::strong;
use super::limits::{Limits, Media, NoStore, Output};
use super::mask::{contains_mask, is_mask};
use super::name_cache::FieldName;
use super::names::Kind;
use super::placeholders::{is_path, is_random};
use super::redactor::{Redactor, Tally};
use super::rules::is_program;
use crate::trace::{string_end, unescape_lossy, value_end, write_string};

/// How many levels of JSON inside strings are redacted as JSON; deeper ones as text.
const MOST_NESTED: usize = 8;

/// Longest array that is searched as a command line.
const LONGEST_COMMAND: usize = 8 * 1024;

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
    pub fn write_str(&self, key: &str, text: &str, output: &mut Output<'_>) {
        self.write_str_of(self.field(key), text, output);
    }

    /// The same, by a name that was looked up.
    pub(crate) fn write_str_of(&self, name: FieldName<'_>, text: &str, output: &mut Output<'_>) {
        let clean = match name.kind {
            Some(kind) if masks_string(kind, name.text, text) => {
                output.tally.masked += 1;
                Cow::Owned(self.mask(&self.key_rule(name.text), text))
            }
            _ => self.redact_string(text, 0, output.tally),
        };
        output.write_text(&clean);
    }

    /// Writes the JSON text `json`, known under the name `key`, redacted and on one line. The
    /// order of members, the spelling of numbers and whatever else is no secret stay as they are.
    ///
    /// # Errors
    ///
    /// If `json` is not exactly one JSON value; then nothing was written.
    pub fn write_json(
        &self,
        key: &str,
        json: &str,
        output: &mut Output<'_>,
    ) -> Result<(), NotJson> {
        self.write_json_of(self.field(key), json, output)
    }

    /// The same, by a name that was looked up.
    pub(crate) fn write_json_of(
        &self,
        name: FieldName<'_>,
        json: &str,
        output: &mut Output<'_>,
    ) -> Result<(), NotJson> {
        if !is_json(json) {
            return Err(NotJson);
        }
        let limits = output.limits;
        if is_deeper(json, limits.depth) {
            let clean = self.walk(name.text, json, 0, output.tally).0;
            if limits.exceeded_by(clean.len()) {
                output.write_moved(&clean, Media::Json);
            } else {
                write_string(&clean, output.line);
            }
            return Ok(());
        }
        // No line can end inside a JSON string, only between values.
        let one_line = memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_none();
        let fits = !limits.exceeded_by(json.len());
        if one_line && fits && !name.is_sensitive() && self.is_clear_json(json) {
            output.line.extend_from_slice(json.trim_ascii().as_bytes());
            return Ok(());
        }
        let start = output.line.len();
        Walk::new(self, json, 0, output).run(name.text);
        if limits.exceeded_by(output.line.len() - start) {
            let clean = into_text(output.line.split_off(start));
            output.write_moved(&clean, Media::Json);
        }
        Ok(())
    }

    /// Redacts a string that `nested` strings are around: as JSON if it is that, else as text.
    fn redact_string<'a>(&self, text: &'a str, nested: usize, tally: &mut Tally) -> Cow<'a, str> {
        let opens = text.trim_ascii_start().starts_with(['{', '[']);
        if opens && nested < MOST_NESTED && is_json(text) {
            match self.walk("", text, nested + 1, tally) {
                (clean, true) => Cow::Owned(clean),
                (_, false) => Cow::Borrowed(text),
            }
        } else {
            self.text(text, tally)
        }
    }

    /// The redacted JSON text, whatever its size, and whether it differs.
    fn walk(&self, key: &str, json: &str, nested: usize, tally: &mut Tally) -> (String, bool) {
        let mut line = Vec::with_capacity(json.len() + 64);
        let mut output = Output {
            line: &mut line,
            limits: &Limits::NONE,
            store: &mut NoStore,
            tally,
        };
        let mut walk = Walk::new(self, json, nested, &mut output);
        walk.run(key);
        let changed = walk.changed;
        (into_text(line), changed)
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Whether a JSON text is nested deeper than `limit` levels.
fn is_deeper(json: &str, limit: usize) -> bool {
    let bytes = json.as_bytes();
    if memchr::memchr2_iter(b'{', b'[', bytes).nth(limit).is_none() {
        return false;
    }
    let (mut at, mut depth) = (0, 0usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at).unwrap_or(bytes.len());
                continue;
            }
            b'{' | b'[' if depth == limit => return true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    false
}

/// Only whole characters are ever written, so this never has to replace anything.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// Whether a string under a sensitive name is masked whole.
fn masks_string(kind: Kind, key: &str, text: &str) -> bool {
    if text.is_empty() || is_mask(text) {
        return false;
    }
    // `pwd` is also the name of a working directory.
    if key.eq_ignore_ascii_case("pwd") && is_path(text.as_bytes()) {
        return false;
    }
    match kind {
        // Names like `auth` also hold words such as `none`.
        Kind::Weak => text.len() >= 8 || text.bytes().any(|b| !b.is_ascii_lowercase()),
        Kind::Guess => is_random(text.as_bytes()),
        _ => true,
    }
}

/// A sensitive name that the next value belongs to.
#[derive(Clone)]
struct SensitiveName {
    text: String,
    kind: Kind,
}

/// What a string said about a later value.
enum Announced {
    Nothing,
    /// After `"--token"` in an array, or an element that is a sensitive name.
    Element(SensitiveName),
    /// After `"name": "API_KEY"` in an object: its `value` is meant.
    Member(SensitiveName),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Array,
    Object,
    /// The `properties` of a JSON Schema.
    Properties,
}

/// What the name of a member says about its role.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    Other,
    Name,
    Value,
    Properties,
}

/// A walk over a JSON text that writes it redacted.
struct Walk<'a, 'o> {
    redactor: &'a Redactor,
    json: &'a str,
    nested: usize,
    output: &'a mut Output<'o>,
    open: Vec<Container>,
    /// The sensitive name of the value that comes next.
    name: Option<SensitiveName>,
    /// The role of the member at hand.
    member: Member,
    announced: Announced,
    expects_name: bool,
    changed: bool,
}

impl<'a, 'o> Walk<'a, 'o> {
    fn new(
        redactor: &'a Redactor,
        json: &'a str,
        nested: usize,
        output: &'a mut Output<'o>,
    ) -> Self {
        Self {
            redactor,
            json,
            nested,
            output,
            open: Vec::new(),
            name: None,
            member: Member::Other,
            announced: Announced::Nothing,
            expects_name: false,
            changed: false,
        }
    }

    /// Walks over the text, which is known to be JSON, as the value of the member `key`. Inside a
    /// string the white space is kept, as it may matter to the program that wrote it.
    fn run(&mut self, key: &str) {
        let bytes = self.json.as_bytes();
        self.name = self.sensitive(key);
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at = match byte {
                b'"' => self.string(at),
                b'{' | b'[' => self.container(at),
                b' ' | b'\t' | b'\n' | b'\r' if self.nested == 0 => at + 1,
                b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' | b'}' | b']' => {
                    self.punctuation(byte);
                    at + 1
                }
                _ => self.scalar(at),
            };
        }
    }

    fn sensitive(&self, name: &str) -> Option<SensitiveName> {
        let kind = self.redactor.names.kind(name)?;
        let text = name.to_owned();
        Some(SensitiveName { text, kind })
    }

    fn in_object(&self) -> bool {
        matches!(
            self.open.last(),
            Some(Container::Object | Container::Properties)
        )
    }

    fn punctuation(&mut self, byte: u8) {
        match byte {
            b',' => self.expects_name = self.in_object(),
            b'}' | b']' => {
                self.open.pop();
                self.announced = Announced::Nothing;
                self.expects_name = false;
            }
            _ => {}
        }
        self.output.line.push(byte);
    }

    /// An object or array: masked whole under a sensitive name, else entered.
    fn container(&mut self, at: usize) -> usize {
        let bytes = self.json.as_bytes();
        let inside = self.json[at + 1..].trim_ascii_start();
        let name = self.name.take();
        self.announced = Announced::Nothing;
        if let Some(name) = name
            && !matches!(name.kind, Kind::Weak | Kind::Guess)
            && !inside.starts_with(['}', ']'])
            && let Some(end) = value_end(bytes, at)
            && !self.is_schema(&bytes[at..end])
        {
            self.mask(&name.text, &self.json[at..end]);
            return end;
        }
        if let Some(end) = self.command_line(at) {
            return end;
        }
        let object = bytes[at] == b'{';
        self.open.push(match self.member {
            Member::Properties if object => Container::Properties,
            _ if object => Container::Object,
            _ => Container::Array,
        });
        self.member = Member::Other;
        self.expects_name = object;
        self.output.line.push(bytes[at]);
        at + 1
    }

    /// An array that is a command line (`["curl", "-u", "ann:…"]`): its elements are searched
    /// together. Where it ends, if there is a secret in it.
    fn command_line(&mut self, at: usize) -> Option<usize> {
        let json = self.json;
        let first = json[at..].strip_prefix('[')?.trim_ascii_start();
        let program = first
            .strip_prefix('"')?
            .split('"')
            .next()?
            .rsplit('/')
            .next()?;
        if program.len() > 16 || !is_program(program) {
            return None;
        }
        let near = &json.as_bytes()[..json.len().min(at + LONGEST_COMMAND)];
        let end = value_end(near, at)?;
        let arguments: Vec<String> = serde_json::from_str(&json[at..end]).ok()?;
        let line = arguments.join(" ");
        let found = self.redactor.find(&line);
        if found.is_empty() {
            return None;
        }
        let mut from = 0;
        for argument in &arguments {
            let range = from..from + argument.len();
            self.output.line.push(if from == 0 { b'[' } else { b',' });
            from = range.end + 1;
            let mut masked = String::new();
            self.output.tally.masked += self.redactor.mask_range(&line, range, &found, &mut masked);
            let clean = self.redactor.text(&masked, self.output.tally);
            self.output.write_text(&clean);
        }
        self.output.line.push(b']');
        self.changed = true;
        Some(end)
    }

    /// Whether a container under a sensitive name is a JSON Schema, as tools describe their
    /// parameters with: it says what a password is like, not what it is.
    fn is_schema(&self, container: &[u8]) -> bool {
        const WORDS: [&str; 4] = ["\"type\"", "\"$ref\"", "\"anyOf\"", "\"enum\""];
        // Schemas are shallow; not searching deep ones keeps the walk linear.
        self.open.last() == Some(&Container::Properties)
            && self.open.len() < 64
            && container.starts_with(b"{")
            && WORDS
                .iter()
                .any(|word| memchr::memmem::find(container, word.as_bytes()).is_some())
    }

    /// A number, `true`, `false` or `null`.
    fn scalar(&mut self, at: usize) -> usize {
        let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
        let rest = &self.json.as_bytes()[at..];
        let end = at + rest.iter().position(ends).unwrap_or(rest.len());
        let scalar = &self.json[at..end];
        let number = scalar.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        match self.name.take() {
            Some(name) if number && name.kind.masks_numbers() => self.mask(&name.text, scalar),
            _ => self.output.line.extend_from_slice(scalar.as_bytes()),
        }
        if !self.in_object() {
            self.announced = Announced::Nothing;
        }
        end
    }

    fn string(&mut self, at: usize) -> usize {
        let json = self.json;
        let end = string_end(json.as_bytes(), at).unwrap_or(json.len());
        if self.expects_name {
            self.member_name(&json[at..end]);
        } else {
            self.text(&json[at..end]);
        }
        end
    }

    fn member_name(&mut self, quoted: &str) {
        let (text, sound) = unescape_lossy(quoted);
        self.expects_name = false;
        self.member = match &*text {
            "name" | "key" | "header" | "variable" | "Name" | "Key" => Member::Name,
            "value" | "Value" | "val" => Member::Value,
            "properties" => Member::Properties,
            _ => Member::Other,
        };
        // A mask in a name says what was there (`rule=jwt`), not what the value is.
        self.name = match contains_mask(text.as_bytes(), 0..text.len()) {
            true => None,
            false => self.sensitive(&text),
        };
        match self.redactor.text(&text, self.output.tally) {
            Cow::Owned(clean) => {
                self.changed = true;
                write_string(&clean, self.output.line);
            }
            Cow::Borrowed(_) if sound => self.output.line.extend_from_slice(quoted.as_bytes()),
            Cow::Borrowed(text) => {
                self.changed = true;
                write_string(text, self.output.line);
            }
        }
    }

    fn text(&mut self, quoted: &str) {
        let (text, sound) = unescape_lossy(quoted);
        let name = self.name.take();
        let announced = std::mem::replace(&mut self.announced, Announced::Nothing);
        let named = match (&name, &announced) {
            (Some(name), _) => Some(name).filter(|n| masks_string(n.kind, &n.text, &text)),
            (None, Announced::Element(name)) => Some(name).filter(|n| masks_element(n, &text)),
            (None, Announced::Member(name)) => Some(name)
                .filter(|n| self.member == Member::Value && masks_string(n.kind, &n.text, &text)),
            _ => None,
        };
        if let Some(name) = named {
            self.mask(&name.text.clone(), &text);
        } else {
            if name.is_none() {
                self.announced = self.announces(&text);
            }
            match self
                .redactor
                .redact_string(&text, self.nested, self.output.tally)
            {
                Cow::Owned(clean) => {
                    self.changed = true;
                    self.output.write_text(&clean);
                }
                Cow::Borrowed(text) => self.unchanged(quoted, text, sound),
            }
        }
        // Other members may stand between a pair's name and its value.
        if self.in_object()
            && matches!(announced, Announced::Member(_))
            && matches!(self.announced, Announced::Nothing)
        {
            self.announced = announced;
        }
    }

    /// What a string says about the value after it.
    fn announces(&self, text: &str) -> Announced {
        let in_object = self.in_object();
        let role = !in_object || self.member == Member::Name;
        if text.len() > 64 || self.open.is_empty() || !role || text.contains([' ', '=', ':', '/']) {
            return Announced::Nothing;
        }
        match self.sensitive(text) {
            Some(name) if in_object => Announced::Member(name),
            Some(name) => Announced::Element(name),
            None => Announced::Nothing,
        }
    }

    fn mask(&mut self, name: &str, secret: &str) {
        let mask = self.redactor.mask(&self.redactor.key_rule(name), secret);
        self.output.tally.masked += 1;
        self.changed = true;
        write_string(&mask, self.output.line);
    }

    /// Writes a string as it was spelled, unless it is too long or stands for no text.
    fn unchanged(&mut self, quoted: &str, text: &str, sound: bool) {
        if sound && !self.output.limits.exceeded_by(text.len()) {
            self.output.line.extend_from_slice(quoted.as_bytes());
        } else {
            self.changed |= !sound;
            self.output.write_text(text);
        }
    }
}

/// Whether an array's element is masked after one that is a sensitive name.
fn masks_element(name: &SensitiveName, text: &str) -> bool {
    if name.text.starts_with('-') {
        return !text.starts_with('-') && !text.is_empty() && !is_mask(text);
    }
    strong(text.as_bytes()) && masks_string(name.kind, &name.text, text)
}
