//! A source that is one JSON document. Long lists are read item by item.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::lines::{LONGEST, open, read_text};
use super::{ImportError, json};

/// What is done with a member of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// It is passed over.
    Nothing,
    Value,
    /// The items of a list, one by one.
    Items,
    /// The objects of a list, each by its members.
    Objects,
}

/// Takes the members of a document's object, and those of the objects inside that it wants.
pub(super) trait Members {
    /// What is wanted of a member.
    fn want(&mut self, name: &str) -> Want;

    /// The JSON of a value, or of an item of a list. [`parse`] reads it.
    fn value(&mut self, name: &str, json: &str) -> io::Result<()>;

    /// An object begins.
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The object ends.
    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a document by its members. Memory holds one value or item at a time.
pub(super) fn read_members(path: &Path, members: &mut impl Members) -> Result<(), ImportError> {
    let file = open(path).map_err(|error| ImportError::new(path, error))?;
    read_object(file, members, true).map_err(|error| ImportError {
        line: Some(error.line() as u64).filter(|line| *line > 0),
        ..ImportError::new(path, error)
    })
}

/// The names of the members of the object that a file begins with.
pub(super) fn member_names(path: &Path) -> Option<Vec<String>> {
    struct Names(Vec<String>);

    impl Members for Names {
        fn want(&mut self, name: &str) -> Want {
            self.0.push(name.to_owned());
            Want::Nothing
        }

        fn value(&mut self, _: &str, _: &str) -> io::Result<()> {
            Ok(())
        }
    }

    let mut names = Names(Vec::new());
    read_object(open(path).ok()?, &mut names, false).ok()?;
    Some(names.0)
}

fn read_object(file: File, members: &mut impl Members, is_all: bool) -> serde_json::Result<()> {
    let left = &Cell::new(LONGEST);
    // The parser reads byte by byte: it must be the buffer that it reads from.
    let buffered = BufReader::new(Limited { file, left });
    let mut deserializer = serde_json::Deserializer::from_reader(buffered);
    Object { members, left }.deserialize(&mut deserializer)?;
    match is_all {
        true => deserializer.end(),
        false => Ok(()),
    }
}

/// A file of which only so much is read before it is known what that is.
struct Limited<'a> {
    file: File,
    left: &'a Cell<u64>,
}

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        let left = self.left.get().checked_sub(read as u64);
        let too_long = || io::Error::other(format!("longer than {} MB", LONGEST >> 20));
        self.left.set(left.ok_or_else(too_long)?);
        Ok(read)
    }
}

/// Reads an object.
struct Object<'m, M> {
    members: &'m mut M,
    left: &'m Cell<u64>,
}

/// Reads the list of a member.
struct List<'m, M> {
    name: &'m str,
    of_objects: bool,
    members: &'m mut M,
    left: &'m Cell<u64>,
}

/// Reads the JSON of a value.
pub(super) fn parse(json: &str) -> io::Result<Value> {
    json::from_slice(json.as_bytes()).map_err(io::Error::from)
}

impl<'de, M: Members> DeserializeSeed<'de> for Object<'_, M> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, M: Members> Visitor<'de> for Object<'_, M> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { members, left } = self;
        members.begin().map_err(A::Error::custom)?;
        left.set(LONGEST);
        while let Some(name) = map.next_key::<String>()? {
            let want = members.want(&name);
            match want {
                Want::Nothing => {
                    left.set(u64::MAX);
                    map.next_value::<IgnoredAny>()?;
                }
                Want::Value => {
                    let raw: Box<RawValue> = map.next_value()?;
                    let taken = members.value(&name, raw.get());
                    taken.map_err(A::Error::custom)?;
                }
                Want::Items | Want::Objects => map.next_value_seed(List {
                    name: &name,
                    of_objects: want == Want::Objects,
                    members: &mut *members,
                    left,
                })?,
            }
            left.set(LONGEST);
        }
        members.end().map_err(A::Error::custom)
    }
}

impl<'de, M: Members> DeserializeSeed<'de> for List<'_, M> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, M: Members> Visitor<'de> for List<'_, M> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list in `{}`", self.name)
    }

    /// A list that is null is not there.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Self { members, left, .. } = self;
        loop {
            left.set(LONGEST);
            if self.of_objects {
                let members = &mut *members;
                if seq.next_element_seed(Object { members, left })?.is_none() {
                    return Ok(());
                }
            } else {
                let Some(raw) = seq.next_element::<Box<RawValue>>()? else {
                    return Ok(());
                };
                let taken = members.value(self.name, raw.get());
                taken.map_err(A::Error::custom)?;
            }
        }
    }
}

/// A small document as a whole, and its text.
pub(super) fn read_document(path: &Path) -> Result<(String, Value), ImportError> {
    let length = path.metadata().map_or(0, |file| file.len());
    if length >= LONGEST {
        let why = format!("longer than {} MB", LONGEST >> 20);
        return Err(ImportError::new(path, why));
    }
    let text = read_text(path)?;
    let value = json::from_slice(text.as_bytes()).map_err(|error| ImportError {
        line: Some(error.line() as u64),
        ..ImportError::new(path, error)
    })?;
    match value {
        Value::Object(_) => Ok((text, value)),
        _ => Err(ImportError::new(path, "not a JSON object")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the items of `list`.
    #[derive(Default)]
    struct Items(usize);

    impl Members for Items {
        fn want(&mut self, name: &str) -> Want {
            match name {
                "list" => Want::Items,
                _ => Want::Nothing,
            }
        }

        fn value(&mut self, _: &str, json: &str) -> io::Result<()> {
            self.0 += 1;
            parse(json).map(drop)
        }
    }

    fn read(text: &str) -> Result<usize, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("document.json");
        std::fs::write(&path, text).unwrap();
        let mut items = Items::default();
        let read = read_members(&path, &mut items);
        read.map_err(|error| error.to_string())?;
        Ok(items.0)
    }

    #[test]
    fn long_list_of_short_items_is_read() {
        let items = vec![r#"{"a":"\ud83d"}"#; 200_000].join(",");
        let text = format!(r#"{{"other":[{items}],"none":null,"list":[{items}]}}"#);
        assert_eq!(read(&text), Ok(200_000));
    }

    #[test]
    fn long_value_is_refused_with_its_line() {
        let long = "a".repeat(2 << 20);
        let error = read(&format!("{{\n\"list\": [\"{long}\"]}}")).unwrap_err();
        assert!(
            error.contains("line 2") && error.contains("longer than 1 MB"),
            "{error}"
        );
    }

    #[test]
    fn torn_document_is_refused_with_its_line() {
        for text in ["{\n\"list\": [1, 2", "{\n\"list\": 5}", "{}\n{}"] {
            let error = read(text).unwrap_err();
            assert!(error.contains("line 2"), "{error}");
        }
    }
}
