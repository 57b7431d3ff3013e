//! A source that is one JSON document.

use std::path::Path;

use serde_json::Value;

use super::lines::{LONGEST, read_text};
use super::{ImportError, json};

/// A document, and its text.
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

/// The members of a document's object, without an error: for a look at what it is.
pub(super) fn peek_document(path: &Path) -> Option<Value> {
    read_document(path).ok().map(|(_, document)| document)
}
