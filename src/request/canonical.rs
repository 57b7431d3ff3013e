//! The canonical form of JSON: members sorted by name, no blanks, numbers as JSON has them.

use serde_json::Value;

use crate::trace::{hex_digest, write_string};

/// A value in its canonical form: equal values have equal texts.
///
/// ```
/// use serde_json::json;
/// use spanledger::request::canonical;
/// assert_eq!(canonical(&json!({"b": [1, 2.5], "a": null})), r#"{"a":null,"b":[1,2.5]}"#);
/// ```
pub fn canonical(value: &Value) -> String {
    let mut out = Vec::new();
    write(value, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// The SHA-256 of the canonical form, in hexadecimal.
///
/// ```
/// use serde_json::json;
/// use spanledger::request::digest;
/// assert_eq!(digest(&json!({"a": 1, "b": 2})), digest(&json!({"b": 2, "a": 1})));
/// assert_ne!(digest(&json!({"a": 1})), digest(&json!({"a": "1"})));
/// ```
pub fn digest(value: &Value) -> String {
    hex_digest(canonical(value).as_bytes())
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| name.as_str());
            out.push(b'{');
            for (index, (name, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_string(name, out);
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::String(text) => write_string(text, out),
        plain => out.extend_from_slice(plain.to_string().as_bytes()),
    }
}
