//! The description of the process in the first line of a segment and of a session.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::redact::{Limits, NoStore, Output, Redactor, Tally};

/// What is known of this process. Its paths pass redaction, and so do its arguments, each also
/// in the light of the flag before it.
pub(crate) fn describe(redactor: &Redactor, limits: &Limits, tally: &mut Tally) -> Value {
    let mut process = Map::new();
    process.insert("pid".into(), std::process::id().into());
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            process.insert(name.into(), value);
        }
    };
    set("host", host().map(Value::String));
    set("argv", Some(arguments(redactor, limits, tally)));
    let cwd = std::env::current_dir().ok();
    let mut path = |path: &Path| redactor.text(&path.to_string_lossy(), tally).into();
    let exe = std::env::current_exe().ok();
    set("exe", exe.as_deref().map(&mut path));
    set("cwd", cwd.as_deref().map(&mut path));
    set("platform", Some(std::env::consts::OS.into()));
    set(
        "runtime",
        Some(json!({"name": "rust", "arch": std::env::consts::ARCH})),
    );
    let git = cwd.as_deref().and_then(git).map(|mut git| {
        if let Some(Value::String(branch)) = git.get_mut("branch") {
            *branch = redactor.text(branch, tally).into_owned();
        }
        Value::Object(git)
    });
    set("git", git);
    Value::Object(process)
}

fn arguments(redactor: &Redactor, limits: &Limits, tally: &mut Tally) -> Value {
    let mut flag = String::new();
    let args = std::env::args_os().take(256).map(|arg| {
        let arg = arg.to_string_lossy();
        let mut clean = |name: &str, text: &str| {
            let mut out = Vec::new();
            let mut output = Output {
                line: &mut out,
                limits,
                store: &mut NoStore,
                tally,
            };
            redactor.write_str(redactor.field(name), text, &mut output);
            serde_json::from_slice(&out).unwrap_or(Value::Null)
        };
        let is_name = |text: &str| !text.contains(|c: char| c.is_whitespace());
        // The shell passed the argument as one word: all after `=` is the value, also with spaces and line breaks.
        let named = arg.split_once('=').filter(|(name, _)| is_name(name));
        let masked = named.and_then(|(name, value)| match clean(name, value) {
            Value::String(text) if text != value => Some(format!("{name}={text}")),
            _ => None,
        });
        let value = clean(&flag, masked.as_deref().unwrap_or(&arg));
        flag.clear();
        if arg.starts_with('-') && !arg.contains('=') && is_name(&arg) {
            flag.push_str(&arg);
        }
        value
    });
    args.collect()
}

fn host() -> Option<String> {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    (!name.is_empty()).then(|| name.into_owned())
}

/// The commit and branch of the working directory, read from git's own files: starting a
/// program is not a library's business. They don't show whether the tree is dirty.
fn git(cwd: &Path) -> Option<Map<String, Value>> {
    let dir = cwd
        .ancestors()
        .map(|dir| dir.join(".git"))
        .find(|dir| dir.exists())?;
    let dir: PathBuf = if dir.is_file() {
        let text = small(&dir)?;
        let target = text.trim().strip_prefix("gitdir: ")?.to_owned();
        dir.parent()?.join(target)
    } else {
        dir
    };
    let head = small(&dir.join("HEAD"))?;
    let head = head.trim();
    let is_hash = |text: &str| text.len() >= 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let Some(reference) = head.strip_prefix("ref: ") else {
        return is_hash(head).then(|| Map::from_iter([("commit".into(), head.into())]));
    };
    let common = small(&dir.join("commondir")).map_or_else(|| dir.clone(), |c| dir.join(c.trim()));
    let packed = || {
        let refs = small(&common.join("packed-refs"))?;
        let line = refs
            .lines()
            .find(|line| line.ends_with(&format!(" {reference}")))?;
        line.split(' ').next().map(str::to_owned)
    };
    let commit = small(&common.join(reference)).or_else(packed);
    let mut git = Map::new();
    if let Some(commit) = commit.filter(|commit| is_hash(commit.trim())) {
        git.insert("commit".into(), commit.trim().into());
    }
    let branch = reference.strip_prefix("refs/heads/").unwrap_or(reference);
    git.insert("branch".into(), branch.into());
    Some(git)
}

fn small(path: &Path) -> Option<String> {
    let size = std::fs::metadata(path).ok()?.len();
    (size < 4 << 20).then(|| std::fs::read_to_string(path).ok())?
}
