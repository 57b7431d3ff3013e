//! The walk over a JSON text that writes it redacted. It copies all that it does not have to change.

use std::borrow::Cow;

use super::limits::Output;
use super::mask::{contains_mask, is_mask, without_masks};
use super::names::Kind;
use super::pattern::Pattern;
use super::placeholders::{is_path, looks_random};
use super::private_keys;
use super::redactor::Redactor;
use super::rules::is_program;
use super::text::is_strong;
use crate::trace::{string_end, unescape_lossy, value_end, write_string};

/// Longest array that is searched as a command line.
pub(super) const LONGEST_COMMAND: usize = 8 * 1024;
/// How far behind the `data` of a Kubernetes object its kind is looked for.
pub(super) const KIND_BEHIND: usize = 96;
/// Longest path of a program in it.
const LONGEST_PATH: usize = 512;

/// Whether a string under a sensitive name is masked whole.
pub(super) fn masks_string(kind: Kind, key: &str, text: &str) -> bool {
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
        Kind::Guess | Kind::Vendor => looks_random(kind, text.as_bytes()),
        _ => true,
    }
}

/// A sensitive name that the next value belongs to.
#[derive(Clone, Debug)]
struct SensitiveName {
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Array,
    Object,
    /// The `properties` of a JSON Schema.
    Properties,
    /// An object that said it is a Kubernetes secret.
    Secret,
    /// The values of one.
    SecretData,
}

/// The role that the name of a member gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Member {
    #[default]
    Other,
    Name,
    Value,
    Properties,
    Kind,
    Data,
}

/// What is known at a place in a JSON text.
#[derive(Debug, Default)]
pub(super) struct WalkState {
    open: Vec<Container>,
    /// The sensitive name of the value that comes next.
    name: Option<SensitiveName>,
    /// The sensitive name that a string gave to a later value: in an array to the next element
    /// (`"--token", "…"`), in an object to the member `value` (`"name": "API_KEY", "value": "…"`).
    announced: Option<SensitiveName>,
    /// The role of the member at hand.
    member: Member,
    pub(super) expects_name: bool,
    /// A private key has begun in an element of the array and not ended.
    in_key: bool,
}

impl WalkState {
    pub(super) fn is_inside(&self) -> bool {
        !self.open.is_empty()
    }

    pub(super) fn in_object(&self) -> bool {
        self.open.last().is_some_and(|c| *c != Container::Array)
    }

    /// The sensitive name because of which the string that comes next may be masked.
    pub(super) fn string_name(&self) -> Option<&str> {
        let is_pair = || !self.in_object() || self.member == Member::Value;
        let announced = || self.announced.as_ref().filter(|_| is_pair());
        let name = self.name.as_ref().or_else(announced);
        name.map(|name| &*name.text)
    }

    /// The sensitive name because of which the object or array that comes next is masked.
    pub(super) fn container_name(&self) -> Option<&str> {
        let name = self.name.as_ref();
        let name =
            name.filter(|name| !matches!(name.kind, Kind::Weak | Kind::Guess | Kind::Vendor));
        name.map(|name| &*name.text)
    }

    /// Whether the object that comes next may hold the values of a Kubernetes secret.
    pub(super) fn is_data(&self) -> bool {
        self.member == Member::Data
    }

    /// Goes on behind a value that is not looked at.
    pub(super) fn skip_value(&mut self) {
        self.name = None;
        if !self.in_object() {
            self.announced = None;
        }
    }
}

/// A walk over a JSON text that writes it redacted.
pub(super) struct Walk<'a, 'o> {
    pub(super) redactor: &'a Redactor,
    pub(super) json: &'a str,
    /// How many strings are around it. Inside of one the white space is kept, as it may matter to
    /// the program that wrote it.
    pub(super) nested: usize,
    pub(super) output: &'a mut Output<'o>,
    pub(super) state: &'a mut WalkState,
}

impl Walk<'_, '_> {
    /// Walks over the whole text, which is known to be JSON, as the value of the member `key`.
    pub(super) fn run(&mut self, key: &str) {
        self.state.name = self.sensitive(key);
        let mut at = 0;
        while let Some(next) = self.step(at) {
            at = next;
        }
    }

    /// Walks over the token at `at`, a masked value at once. Where the next token is.
    pub(super) fn step(&mut self, at: usize) -> Option<usize> {
        Some(match *self.json.as_bytes().get(at)? {
            b'"' => self.string(at),
            b'{' | b'[' => self.container(at),
            b' ' | b'\t' | b'\n' | b'\r' if self.nested == 0 => at + 1,
            byte @ (b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' | b'}' | b']') => {
                self.punctuation(byte);
                at + 1
            }
            _ => self.scalar(at),
        })
    }

    fn sensitive(&self, name: &str) -> Option<SensitiveName> {
        // As the rule `generated-value` does in text.
        let guess = matches!(name, "key" | "api" | "access").then_some(Kind::Guess);
        let kind = self.redactor.name_kind(name).or(guess)?;
        let text = name.to_owned();
        Some(SensitiveName { text, kind })
    }

    fn punctuation(&mut self, byte: u8) {
        match byte {
            b',' => self.state.expects_name = self.state.in_object(),
            b'}' | b']' => {
                self.state.open.pop();
                self.state.announced = None;
                self.state.member = Member::Other;
                self.state.expects_name = false;
                self.state.in_key = false;
            }
            _ => {}
        }
        self.output.line.push(byte);
    }

    /// An object or array: masked whole under a sensitive name, else entered.
    fn container(&mut self, at: usize) -> usize {
        let bytes = self.json.as_bytes();
        let inside = self.json[at + 1..].trim_ascii_start();
        let masked = self.state.container_name().is_some();
        let name = self.state.name.take();
        self.state.announced = None;
        if let Some(name) = name
            && masked
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
        self.state.open.push(match self.state.member {
            Member::Properties if object => Container::Properties,
            Member::Data if object && self.is_secret_data(at) => Container::SecretData,
            _ if object => Container::Object,
            _ => Container::Array,
        });
        self.state.member = Member::Other;
        self.state.expects_name = object;
        self.output.line.push(bytes[at]);
        at + 1
    }

    /// An array that is a command line (`["curl", "-u", "ann:…"]`): its elements are searched
    /// together. Where it ends, if there is a secret in it.
    fn command_line(&mut self, at: usize) -> Option<usize> {
        let json = self.json;
        if !is_command(&json[at..]) {
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
        self.state.open.last() == Some(&Container::Properties)
            && self.state.open.len() < 64
            && container.starts_with(b"{")
            && WORDS.iter().any(says)
    }

    /// Whether the `data` of a Kubernetes object at `at` are those of a secret. `kubectl` prints the kind behind them.
    fn is_secret_data(&self, at: usize) -> bool {
        static KIND: Pattern = Pattern::new(
            r#"\s{0,16}(?:,\s{0,16}"immutable"\s?:\s?(?:true|false)\s?)?,\s{0,16}"kind"\s?:\s?"Secret""#,
        );
        let near = &self.json.as_bytes()[..self.json.len().min(at + LONGEST_COMMAND)];
        let is_behind = || value_end(near, at).is_some_and(|end| KIND.is_match(&near[end..]));
        self.state.open.last() == Some(&Container::Secret) || is_behind()
    }

    /// A number, `true`, `false` or `null`.
    fn scalar(&mut self, at: usize) -> usize {
        let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
        let rest = &self.json.as_bytes()[at..];
        let end = at + rest.iter().position(ends).unwrap_or(rest.len());
        let scalar = &self.json[at..end];
        let number = scalar.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let name = self.state.name.take();
        match name.filter(|name| number && name.kind == Kind::Password) {
            Some(name) => self.mask(&name.text, scalar),
            None => self.output.line.extend_from_slice(scalar.as_bytes()),
        }
        self.state.skip_value();
        end
    }

    fn string(&mut self, at: usize) -> usize {
        let end = string_end(self.json.as_bytes(), at).unwrap_or(self.json.len());
        let quoted = &self.json[at..end];
        let (text, sound) = unescape_lossy(quoted);
        if self.state.expects_name {
            self.note_member(&text);
            match self.redactor.text(&text, self.output.tally) {
                Cow::Borrowed(_) if sound => self.output.line.extend_from_slice(quoted.as_bytes()),
                clean => write_string(&clean, self.output.line),
            }
        } else if let Some(name) = self.name_of_secret(&text) {
            self.mask(&name.text, &text);
        } else if self.is_key_line(&text) {
            self.write_mask("private-key", &text);
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
        self.state.expects_name = false;
        self.state.member = match name {
            "name" | "key" | "header" | "variable" | "Name" | "Key" => Member::Name,
            "value" | "Value" | "val" => Member::Value,
            "properties" => Member::Properties,
            "kind" => Member::Kind,
            "data" | "stringData" => Member::Data,
            _ => Member::Other,
        };
        self.state.name = match self.state.open.last() {
            // A mask in a name describes the name (`rule=jwt`), not the value.
            _ if contains_mask(name.as_bytes()) => None,
            Some(Container::SecretData) => Some(SensitiveName {
                text: name.to_owned(),
                kind: Kind::Password,
            }),
            _ => self.sensitive(name),
        };
    }

    /// The sensitive name because of which the string `text` is masked, if there is one. Also
    /// keeps the name that the string gives to a later value.
    fn name_of_secret(&mut self, text: &str) -> Option<SensitiveName> {
        if self.state.member == Member::Kind
            && text == "Secret"
            && let Some(object) = self.state.open.last_mut()
        {
            *object = Container::Secret;
        }
        let in_object = self.state.in_object();
        let (name, announced) = (self.state.name.take(), self.state.announced.take());
        let masks = |name: &&SensitiveName| masks_string(name.kind, &name.text, text);
        let found = match (&name, &announced) {
            (Some(name), _) => Some(name).filter(masks),
            (None, Some(_)) if in_object && self.state.member != Member::Value => None,
            (None, Some(name)) if in_object => Some(name).filter(masks),
            (None, Some(name)) => Some(name).filter(|name| masks_element(name, text)),
            (None, None) => None,
        };
        let found = found.cloned();
        if found.is_none() {
            self.state.announced = self.announces(text);
        }
        // Other members may stand between a pair's name and its value.
        if in_object && self.state.announced.is_none() {
            self.state.announced = announced;
        }
        found
    }

    /// The sensitive name that a string gives to a later value.
    fn announces(&self, text: &str) -> Option<SensitiveName> {
        let announces =
            *self.state.open.last()? == Container::Array || self.state.member == Member::Name;
        // Parameter stores name their entries by paths: `/prod/db/password`.
        let last = text
            .strip_prefix('/')
            .and_then(|path| path.rsplit('/').next());
        let text = last.filter(|_| self.state.in_object()).unwrap_or(text);
        let is_name = text.len() <= 64 && !text.contains([' ', '=', ':', '/']);
        let name = (announces && is_name).then(|| self.sensitive(text));
        name.flatten()
    }

    /// Whether the string is an element of an array that holds the lines of a file, and a private key goes on in it.
    fn is_key_line(&mut self, text: &str) -> bool {
        let began = self.state.in_key;
        self.state.in_key = !self.state.in_object() && private_keys::stays_open(text, began);
        began && self.state.in_key && private_keys::is_line(text)
    }

    fn mask(&mut self, name: &str, secret: &str) {
        self.write_mask(&self.redactor.key_rule(name), secret);
    }

    fn write_mask(&mut self, rule: &str, secret: &str) {
        let mask = self.redactor.mask(rule, secret);
        self.output.tally.masked += 1;
        write_string(&mask, self.output.line);
    }
}

/// Whether an array starts with a program that takes passwords as arguments, or may do so once more
/// of it is there.
pub(super) fn is_command(json: &str) -> bool {
    let Some(first) = json.strip_prefix('[').map(str::trim_ascii_start) else {
        return false;
    };
    let Some(path) = first.strip_prefix('"') else {
        return first.is_empty();
    };
    match path.split_once('"') {
        Some((path, _)) => path.rsplit('/').next().is_some_and(is_program),
        None => path.len() <= LONGEST_PATH,
    }
}

/// Whether an array's element is masked after one that is a sensitive name.
fn masks_element(name: &SensitiveName, text: &str) -> bool {
    if name.text.starts_with('-') {
        return !text.starts_with('-') && !text.is_empty() && !is_mask(text);
    }
    // The digits of a mask in it make no secret of the rest.
    is_strong(&without_masks(text.as_bytes())) && masks_string(name.kind, &name.text, text)
}
