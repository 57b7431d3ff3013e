//! Redacts values: plain texts, JSON texts, and JSON inside strings inside JSON.
//!
//! The walk over a JSON text copies all that it does not have to change. Only a string that
//! itself holds JSON starts another walk, and that at most [`MOST_NESTED`] times within each other.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::checks::strong;
use super::limits::{JSON, Limits, NoStore, Output};
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
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

impl Redactor {
    /// Writes `text`, known under `name`, as one JSON value: a string, or an object that stands
    /// for a text too long for the line.
    pub(crate) fn write_str(&self, name: FieldName<'_>, text: &str, output: &mut Output<'_>) {
        let clean = match name.kind {
            Some(kind) if masks_string(kind, name.text, text) => {
                output.tally.masked += 1;
                Cow::Owned(self.mask(&self.key_rule(name.text), text))
            }
            _ => self.redact_string(text, 0, output.tally),
        };
        output.write_text(&clean);
    }

    /// Writes the JSON text `json`, known under `name`, redacted and on one line. The order of
    /// members, the spelling of numbers and all else that is no secret stay as they are.
    ///
    /// # Errors
    ///
    /// If `json` is not exactly one JSON value; then nothing was written.
    pub(crate) fn write_json(
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
            let clean = self.walk(name.text, json, 0, output.tally);
            if limits.exceeded_by(clean.len()) {
                output.write_moved(&clean, JSON);
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
        Walk::run(self, name.text, json, 0, output);
        if limits.exceeded_by(output.line.len() - start) {
            let clean = into_text(output.line.split_off(start));
            output.write_moved(&clean, JSON);
        }
        Ok(())
    }

    /// Redacts a string that `nested` strings are around: as JSON if it is that, else as text.
    fn redact_string<'a>(&self, text: &'a str, nested: usize, tally: &mut Tally) -> Cow<'a, str> {
        let opens = text.trim_ascii_start().starts_with(['{', '[']);
        if !opens || nested == MOST_NESTED || !is_json(text) {
            return self.text(text, tally);
        }
        let clean = self.walk("", text, nested + 1, tally);
        match clean == text {
            true => Cow::Borrowed(text),
            false => Cow::Owned(clean),
        }
    }

    /// The redacted JSON text, without limits to its size.
    fn walk(&self, key: &str, json: &str, nested: usize, tally: &mut Tally) -> String {
        let mut line = Vec::with_capacity(json.len() + 64);
        let mut output = Output {
            line: &mut line,
            limits: &Limits::NONE,
            store: &mut NoStore,
            tally,
        };
        Walk::run(self, key, json, nested, &mut output);
        into_text(line)
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
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = string_end(bytes, at).unwrap_or(bytes.len()) - 1,
            _ => {}
        }
        if depth > limit {
            return true;
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Array,
    Object,
    /// The `properties` of a JSON Schema.
    Properties,
}

/// The role that the name of a member gives it.
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
    /// The sensitive name that a string gave to a later value: in an array to the next element
    /// (`"--token", "…"`), in an object to the member `value` (`"name": "API_KEY", "value": "…"`).
    announced: Option<SensitiveName>,
    /// The role of the member at hand.
    member: Member,
    expects_name: bool,
}

impl<'a, 'o> Walk<'a, 'o> {
    /// Walks over `json`, which is known to be JSON, as the value of the member `key`. Inside a
    /// string the white space is kept, as it may matter to the program that wrote it.
    fn run(
        redactor: &'a Redactor,
        key: &str,
        json: &'a str,
        nested: usize,
        output: &'a mut Output<'o>,
    ) {
        let mut walk = Self {
            redactor,
            json,
            nested,
            output,
            open: Vec::new(),
            name: None,
            announced: None,
            member: Member::Other,
            expects_name: false,
        };
        walk.name = walk.sensitive(key);
        let mut at = 0;
        while let Some(&byte) = json.as_bytes().get(at) {
            at = match byte {
                b'"' => walk.string(at),
                b'{' | b'[' => walk.container(at),
                b' ' | b'\t' | b'\n' | b'\r' if nested == 0 => at + 1,
                b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' | b'}' | b']' => {
                    walk.punctuation(byte);
                    at + 1
                }
                _ => walk.scalar(at),
            };
        }
    }

    fn sensitive(&self, name: &str) -> Option<SensitiveName> {
        let kind = self.redactor.name_kind(name)?;
        let text = name.to_owned();
        Some(SensitiveName { text, kind })
    }

    fn in_object(&self) -> bool {
        self.open.last().is_some_and(|c| *c != Container::Array)
    }

    fn punctuation(&mut self, byte: u8) {
        match byte {
            b',' => self.expects_name = self.in_object(),
            b'}' | b']' => {
                self.open.pop();
                self.announced = None;
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
        self.announced = None;
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
        let path = first.strip_prefix('"')?.split('"').next()?;
        let program = path.rsplit('/').next()?;
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
        Some(end)
    }

    /// Whether a container under a sensitive name is a JSON Schema, as tools describe their
    /// parameters with: it describes a password without holding one.
    fn is_schema(&self, container: &[u8]) -> bool {
        const WORDS: [&str; 4] = ["\"type\"", "\"$ref\"", "\"anyOf\"", "\"enum\""];
        let says = |word: &&str| memchr::memmem::find(container, word.as_bytes()).is_some();
        // Schemas are shallow; not searching deep ones keeps the walk linear.
        self.open.last() == Some(&Container::Properties)
            && self.open.len() < 64
            && container.starts_with(b"{")
            && WORDS.iter().any(says)
    }

    /// A number, `true`, `false` or `null`.
    fn scalar(&mut self, at: usize) -> usize {
        let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
        let rest = &self.json.as_bytes()[at..];
        let end = at + rest.iter().position(ends).unwrap_or(rest.len());
        let scalar = &self.json[at..end];
        let number = scalar.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        match self.name.take() {
            Some(name) if number && name.kind == Kind::Password => self.mask(&name.text, scalar),
            _ => self.output.line.extend_from_slice(scalar.as_bytes()),
        }
        if !self.in_object() {
            self.announced = None;
        }
        end
    }

    fn string(&mut self, at: usize) -> usize {
        let end = string_end(self.json.as_bytes(), at).unwrap_or(self.json.len());
        let quoted = &self.json[at..end];
        let (text, sound) = unescape_lossy(quoted);
        if self.expects_name {
            self.note_member(&text);
            match self.redactor.text(&text, self.output.tally) {
                Cow::Borrowed(_) if sound => self.output.line.extend_from_slice(quoted.as_bytes()),
                clean => write_string(&clean, self.output.line),
            }
        } else if let Some(name) = self.name_of_secret(&text) {
            self.mask(&name.text, &text);
        } else {
            let as_spelled = sound && !self.output.limits.exceeded_by(text.len());
            let tally = &mut *self.output.tally;
            match self.redactor.redact_string(&text, self.nested, tally) {
                Cow::Borrowed(_) if as_spelled => {
                    self.output.line.extend_from_slice(quoted.as_bytes());
                }
                clean => self.output.write_text(&clean),
            }
        }
        end
    }

    /// Reads the name of a member: the role of the member, and whether it announces a secret.
    fn note_member(&mut self, name: &str) {
        self.expects_name = false;
        self.member = match name {
            "name" | "key" | "header" | "variable" | "Name" | "Key" => Member::Name,
            "value" | "Value" | "val" => Member::Value,
            "properties" => Member::Properties,
            _ => Member::Other,
        };
        // A mask in a name describes the name (`rule=jwt`), not the value.
        self.name = match contains_mask(name.as_bytes()) {
            true => None,
            false => self.sensitive(name),
        };
    }

    /// The sensitive name because of which the string `text` is masked, if there is one. Also
    /// keeps the name that the string gives to a later value.
    fn name_of_secret(&mut self, text: &str) -> Option<SensitiveName> {
        let in_object = self.in_object();
        let (name, announced) = (self.name.take(), self.announced.take());
        let masks = |name: &&SensitiveName| masks_string(name.kind, &name.text, text);
        let found = match (&name, &announced) {
            (Some(name), _) => Some(name).filter(masks),
            (None, Some(_)) if in_object && self.member != Member::Value => None,
            (None, Some(name)) if in_object => Some(name).filter(masks),
            (None, Some(name)) => Some(name).filter(|name| masks_element(name, text)),
            (None, None) => None,
        };
        let found = found.cloned();
        if name.is_none() && found.is_none() {
            self.announced = self.announces(text);
        }
        // Other members may stand between a pair's name and its value.
        if in_object && self.announced.is_none() {
            self.announced = announced;
        }
        found
    }

    /// The sensitive name that a string gives to a later value.
    fn announces(&self, text: &str) -> Option<SensitiveName> {
        let announces = *self.open.last()? == Container::Array || self.member == Member::Name;
        let is_name = text.len() <= 64 && !text.contains([' ', '=', ':', '/']);
        let name = (announces && is_name).then(|| self.sensitive(text));
        name.flatten()
    }

    fn mask(&mut self, name: &str, secret: &str) {
        let mask = self.redactor.mask(&self.redactor.key_rule(name), secret);
        self.output.tally.masked += 1;
        write_string(&mask, self.output.line);
    }
}

/// Whether an array's element is masked after one that is a sensitive name.
fn masks_element(name: &SensitiveName, text: &str) -> bool {
    if name.text.starts_with('-') {
        return !text.starts_with('-') && !text.is_empty() && !is_mask(text);
    }
    strong(text.as_bytes()) && masks_string(name.kind, &name.text, text)
}
