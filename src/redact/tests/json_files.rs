//! A file of JSON that is read piece by piece is redacted like each of its values at once.

use serde_json::{Value, json};

use super::*;
use crate::redact::JsonFile;

const SECRET: &str = "correct horse battery";

fn by(text: &str, size: usize) -> String {
    let (mut file, mut written, mut rest) = (JsonFile::default(), String::new(), text);
    while !rest.is_empty() {
        let mut cut = size.min(rest.len());
        while !rest.is_char_boundary(cut) {
            cut += 1;
        }
        let (piece, behind) = rest.split_at(cut);
        written += &file.push(redactor(), piece);
        rest = behind;
    }
    written + &file.finish(redactor())
}

fn item() -> Value {
    let nested = json!({ "credentials": { "user": SECRET } }).to_string();
    let long = format!("{}--password '{SECRET}' ", "words ".repeat(200));
    json!({
        "credentials": { "user": "ann", "phrase": SECRET }, "list": [1, { "api_token": SECRET }], "text": nested,
        "long": long, "env": [{ "name": "API_KEY", "value": SECRET }], "empty": {},
    })
}

#[test]
fn files_of_json_are_redacted_as_json() {
    let item = item();
    let list = json!([item, 1.5, null, { "kind": "a" }, "Secret", item]);
    for (text, values) in [
        (format!("{item}\n\n{item}\r\n"), 2),
        (format!("\u{feff}{item}\n{item}\n"), 2),
        (format!("{item} {item}{item}"), 3),
        (list.to_string(), 1),
        (format!("{list:#}\n{item:#}\n{item}\n"), 3),
    ] {
        let outputs = [1, 7, 100, 4096, text.len()].map(|size| by(&text, size));
        for output in &outputs {
            assert_eq!(output, &outputs[0]);
        }
        assert!(!outputs[0].contains("horse"), "{}", outputs[0]);
        assert_eq!(by(&outputs[0], 50), outputs[0], "masks are no secrets");
        let plain = outputs[0].trim_start_matches('\u{feff}');
        let read = serde_json::Deserializer::from_str(plain).into_iter::<Value>();
        assert_eq!(read.map(Result::unwrap).count(), values);
    }
    let clear = "{\"a\": [1, \"\\u00e9\"]}\r\n{ }\n[\n  1\n]\n";
    for size in [1, 5, 100] {
        assert_eq!(by(clear, size), clear);
    }
}

/// Values that may be long are looked at again for each one inside of them, but only so far.
#[test]
fn nested_values_take_what_their_length_says() {
    for open in [r#"{"data":"#, r#"["sh","#, r#"{"a":"#] {
        let depth = 8_000;
        let text =
            open.repeat(depth) + "1" + &if open.starts_with('[') { "]" } else { "}" }.repeat(depth);
        let before = WORK.get();
        assert_eq!(by(&text, text.len() - 1), text);
        let per_byte = (WORK.get() - before) / text.len();
        assert!(per_byte <= 1000, "each byte {per_byte} times");
    }
}

/// A line that its writer has not finished, and one that is no JSON: what is behind the error is masked.
#[test]
fn files_that_break_off_are_masked() {
    let (item, text) = (item(), item().to_string());
    for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
        for size in [64, text.len() * 3] {
            let output = by(&format!("{item}\n{}", &text[..cut]), size);
            assert!(!output.contains("horse"), "{output}");
        }
    }
    let output = by(&format!("{{\"a\":1}}\nno JSON {SECRET}\n{item}\n"), 64);
    assert!(
        output.starts_with("{\"a\":1}\n[masked rule=not-json "),
        "{output}"
    );
    assert!(!output.contains("horse"), "{output}");
}
