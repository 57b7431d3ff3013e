//! The layers of the library: code of one room of `src/` uses only rooms below it.
//!
//! A room is a file or directory directly under `src/`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// Each room, from the bottom up, and the rooms that it may use. A room is listed after all that it uses, so
/// there is no cycle.
const ROOMS: &[(&str, &[&str])] = &[
    ("trace", &[]),
    ("error", &[]),
    ("cost", &["trace"]),
    ("request", &["trace"]),
    ("gen_ai", &["request", "trace"]),
    ("watch", &["cost", "trace"]),
    ("redact", &["trace", "error"]),
    ("ledger", &["trace"]),
    ("read", &["trace"]),
    // Removes sessions, and asks whether their writers are alive.
    ("session", &["read", "ledger", "cost", "trace"]),
    ("mirror", &["session", "ledger", "redact", "trace", "error"]),
    ("metrics", &["mirror", "ledger", "trace"]),
    ("export", &["mirror", "session", "read", "request", "trace"]),
    (
        "inspect",
        &[
            "export", "watch", "session", "read", "request", "cost", "trace",
        ],
    ),
    (
        "record",
        &[
            "metrics", "mirror", "export", "session", "ledger", "redact", "gen_ai", "request",
            "watch", "trace", "error",
        ],
    ),
    ("view", &["inspect", "watch", "session", "cost", "trace"]),
    (
        "import",
        &["ledger", "redact", "gen_ai", "request", "trace", "error"],
    ),
    // The pages of `docs/`, as documentation of the library.
    ("guide", &[]),
    // The program. It uses the library as any other program does.
    ("cli", &[]),
];

/// The roots of the library and of the program: they name all rooms.
const ROOTS: [&str; 2] = ["lib", "main"];

#[test]
fn rooms_are_listed_after_the_rooms_they_use() {
    for (at, (room, uses)) in ROOMS.iter().enumerate() {
        for used in *uses {
            let below = ROOMS[..at].iter().any(|(name, _)| name == used);
            assert!(below, "{room} may use {used}, which is not below it");
        }
    }
}

#[test]
fn code_uses_only_rooms_below_its_own() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let exports = exports(&code_of(&src.join("lib.rs")));
    let mut wrong = Vec::new();
    for path in rust_files(&src) {
        let inside = path.strip_prefix(&src).unwrap();
        let module = module_path(inside);
        let room = module[0].as_str();
        if ROOTS.contains(&room) {
            continue;
        }
        let known = ROOMS.iter().find(|(name, _)| *name == room);
        let Some((_, uses)) = known else {
            wrong.push(format!("src/{}: not a known room", inside.display()));
            continue;
        };
        for (line, name) in references(&code_of(&path), &module) {
            let used = exports.get(&name).unwrap_or(&name).as_str();
            if used != room && !uses.contains(&used) {
                let path = inside.display();
                wrong.push(format!("src/{path}:{line}: {room} must not use {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn references_are_found_in_all_their_forms() {
    let code = "
use crate::trace::Line; // crate::comment
use crate::{
    redact::{self, limits::Limits},
    ledger,
};
fn f<'a>(c: &'a char) -> bool { *c == '\"' && super::super::read::lines(\"crate::text\").is_empty() }
use super::{neighbor, row};
use super::super::{session, mirror as m};
const S: &str = r#\"crate::raw \" \"#; /* crate::block */
";
    let module = ["view", "row"].map(str::to_owned);
    let found = references(&without_text(code), &module);
    let expected = [
        (2, "trace"),
        (4, "redact"),
        (5, "ledger"),
        (7, "read"),
        (9, "session"),
        (9, "mirror"),
    ];
    let found: Vec<_> = found.iter().map(|(n, name)| (*n, name.as_str())).collect();
    assert_eq!(found, expected);
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The modules from the root of the crate to the one that a file under `src/` holds.
fn module_path(file: &Path) -> Vec<String> {
    let path = file.with_extension("");
    let parts = path.iter().map(|part| part.to_str().unwrap().to_owned());
    parts.filter(|part| part != "mod").collect()
}

/// The room that each name at the root of the library comes from.
fn exports(lib: &str) -> HashMap<String, String> {
    let reexport = Regex::new(r"pub use (\w+)::([^;]+);").unwrap();
    let word = Regex::new(r"\w+").unwrap();
    let mut exports = HashMap::new();
    for found in reexport.captures_iter(lib) {
        for name in word.find_iter(&found[2]) {
            exports.insert(name.as_str().to_owned(), found[1].to_owned());
        }
    }
    exports
}

/// The names at the root of the crate that code refers to, and the lines where it does: the names after
/// `crate::` or `spanledger::`, and after a chain of `super::` that leads to the root.
fn references(code: &str, module: &[String]) -> Vec<(usize, String)> {
    let root = match module[0].as_str() {
        // For the program, `spanledger` is the public library.
        "cli" => r"\b(crate|super(?:::super)*)::",
        _ => r"\b(crate|spanledger|super(?:::super)*)::",
    };
    let mut found = Vec::new();
    for path in Regex::new(root).unwrap().captures_iter(code) {
        let supers = path[1].matches("super").count();
        if supers > 0 && supers < module.len() {
            continue;
        }
        for (at, name) in names(code, path.get(0).unwrap().end()) {
            found.push((code[..at].matches('\n').count() + 1, name));
        }
    }
    found
}

/// The names that a path continues with at `start`: one, or those of a group in braces.
fn names(code: &str, start: usize) -> Vec<(usize, String)> {
    let name = |at: usize| {
        let rest = code[at..].trim_start();
        let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric());
        let name = &rest[..end.unwrap_or(rest.len())];
        (!name.is_empty()).then(|| (code.len() - rest.len(), name.to_owned()))
    };
    if !code[start..].starts_with('{') {
        return name(start).into_iter().collect();
    }
    let mut depth = 0;
    let mut names = Vec::new();
    for (offset, c) in code[start..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(c, '{' | ',') {
            names.extend(name(start + offset + 1));
        }
    }
    names
}

fn code_of(path: &Path) -> String {
    without_text(&fs::read_to_string(path).unwrap())
}

/// Blanks comments, strings and characters, and keeps the lines.
fn without_text(source: &str) -> String {
    static TEXT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r##"(?xs)
        //[^\n]* | /\*.*?\*/
        | r\#\#".*?"\#\# | r\#".*?"\# | r"[^"]*" | "(?:\\.|[^"\\])*"
        | '(?:\\[^u]|\\u\{[^}]*\}|[^'\\])'
        "##,
        )
        .unwrap()
    });
    let blank = |found: &regex::Captures<'_>| "\n".repeat(found[0].matches('\n').count());
    TEXT.replace_all(source, blank).into_owned()
}
