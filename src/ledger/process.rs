//! Who runs: what the first line of a segment and of a session say of the process.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::blobs::NoStore;
use crate::redact::{Limits, Redactor, Tally};

/// What is known of this process. The arguments pass redaction, each also in the light of the
/// flag before it.
pub(crate) fn describe(redactor: &Redactor, limits: &Limits, tally: &mut Tally) -> Value {
    let mut process = Map::new();
    process.insert("pid".into(), std::process::id().into());
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            process.insert(name.into(), value);
        }
    };
    set("host", host().map(Value::String));
    let exe = std::env::current_exe().ok();
    set("exe", exe.map(|path| path.to_string_lossy().into()));
    set("argv", Some(arguments(redactor, limits, tally)));
    let cwd = std::env::current_dir().ok();
    set(
        "cwd",
        cwd.as_ref().map(|path| path.to_string_lossy().into()),
    );
    set("platform", Some(std::env::consts::OS.into()));
    set(
        "runtime",
        Some(json!({"name": "rust", "arch": std::env::consts::ARCH})),
    );
    set("git", cwd.as_deref().and_then(git));
    Value::Object(process)
}

fn arguments(redactor: &Redactor, limits: &Limits, tally: &mut Tally) -> Value {
    let mut flag = String::new();
    let args = std::env::args_os().take(256).map(|arg| {
        let arg = arg.to_string_lossy();
        let mut out = Vec::new();
        redactor.write_str(&flag, &arg, limits, &mut NoStore, &mut out, tally);
        flag.clear();
        if arg.starts_with('-') && !arg.contains('=') {
            flag.push_str(arg.trim_start_matches('-'));
        }
        serde_json::from_slice(&out).unwrap_or(Value::Null)
    });
    args.collect()
}

fn host() -> Option<String> {
    let mut name = [0u8; 256];
    // SAFETY: the pointer and length describe `name`, whose last byte stays 0.
    let done = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let end = name.iter().position(|b| *b == 0)?;
    (done == 0 && end > 0).then(|| String::from_utf8_lossy(&name[..end]).into_owned())
}

/// The commit and branch of the working directory, read from git's own files: starting a
/// program is not ours to do. Whether the tree is dirty can't be told that way and is left out.
fn git(cwd: &Path) -> Option<Value> {
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
        return is_hash(head).then(|| json!({"commit": head}));
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
    Some(Value::Object(git))
}

fn small(path: &Path) -> Option<String> {
    let size = std::fs::metadata(path).ok()?.len();
    (size < 4 << 20).then(|| std::fs::read_to_string(path).ok())?
}
