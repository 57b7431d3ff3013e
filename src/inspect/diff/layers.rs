//! The layers of what a model call is given, compared one by one.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::sketch::{Call, RecordedRequest};
use super::subagents::sessions_of;
use super::{Cause, Divergence, RowKind};
use crate::request::{self, PartRef};
use crate::session::{Digests, body};

/// What two system prompts, tool catalogs or rule sets have different.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AssetChange {
    /// The lines or entries that only the first has.
    pub removed: Vec<String>,
    /// The lines or entries that only the second has.
    pub added: Vec<String>,
}

/// Reads the texts behind the digests of a divergence: what changed in them. Nothing for other causes, or where
/// the trace does not have them.
pub fn asset_change(a: &Path, b: &Path, first: &Divergence) -> io::Result<AssetChange> {
    let which = ASSETS.iter().position(|(cause, _)| *cause == first.cause);
    let digest = |at: usize| first.digests[at].all()[which?].as_deref();
    let entries = |session: &Path, digest: Option<&str>| -> io::Result<Vec<String>> {
        let Some(digest) = digest else {
            return Ok(Vec::new());
        };
        let text = body(session, digest)?.map(|(_, text)| text);
        Ok(entries(first.cause, &text.unwrap_or_default()))
    };
    let [a, b] = sessions_of(first, a, b)?;
    let (old, new) = (entries(&a, digest(0))?, entries(&b, digest(1))?);
    Ok(changed(&old, &new))
}

/// A prompt by lines, a catalog or rule set by entries.
fn entries(cause: Cause, text: &str) -> Vec<String> {
    match serde_json::from_str(text) {
        Ok(Value::Array(items)) if cause != Cause::SystemPrompt => {
            items.iter().map(request::canonical).collect()
        }
        _ => text.lines().map(str::to_owned).collect(),
    }
}

/// The entries of each that the other does not have.
fn changed(old: &[String], new: &[String]) -> AssetChange {
    let mut counts: BTreeMap<&str, isize> = BTreeMap::new();
    old.iter()
        .for_each(|entry| *counts.entry(entry).or_default() += 1);
    new.iter()
        .for_each(|entry| *counts.entry(entry).or_default() -= 1);
    let mut left = counts.clone();
    let mut take = |entry: &&String, sign: isize| {
        let count = left.get_mut(entry.as_str());
        count.is_some_and(|count| {
            let is_left = *count * sign > 0;
            *count -= if is_left { sign } else { 0 };
            is_left
        })
    };
    AssetChange {
        removed: old.iter().filter(|entry| take(entry, 1)).cloned().collect(),
        added: new
            .iter()
            .filter(|entry| take(entry, -1))
            .cloned()
            .collect(),
    }
}

/// The first eight digits of a digest, or `–`.
fn short(digest: &Option<String>) -> &str {
    let digest = digest.as_deref().unwrap_or("–");
    digest.get(..8).unwrap_or(digest)
}

/// The prompt, the catalog and the rules, in the order of [`Digests::all`].
pub(super) const ASSETS: [(Cause, RowKind); 3] = [
    (Cause::SystemPrompt, RowKind::SystemPrompt),
    (Cause::ToolCatalog, RowKind::ToolCatalog),
    (Cause::PermissionRules, RowKind::PermissionRules),
];

/// The prompt, the catalog and the rules: each cause, and what differs if it does.
pub(super) fn assets(a: &Digests, b: &Digests) -> Vec<(Cause, String)> {
    let both = a.all().into_iter().zip(b.all());
    let changed = ASSETS.into_iter().zip(both).filter(|(_, (a, b))| a != b);
    let changed = changed.map(|((cause, _), (a, b))| {
        let (what, a, b) = (cause.as_str().replace('_', " "), short(a), short(b));
        (cause, format!("{what} {a} → {b}"))
    });
    changed.collect()
}

/// The layers of two calls that are no messages: each cause, and what differs if it does.
pub(super) fn fixed(a: &Call, b: &Call) -> Vec<(Cause, String)> {
    let mut found = assets(&a.digests, &b.digests);
    let requests = a.request.as_ref().zip(b.request.as_ref());
    let is_other = |get: fn(&RecordedRequest) -> &Option<String>| {
        requests.is_some_and(|(a, b)| get(a).is_some() && get(b).is_some() && get(a) != get(b))
    };
    let parts = [
        (Cause::SystemPrompt, is_other(|request| &request.prompt)),
        (Cause::ToolCatalog, is_other(|request| &request.tools)),
    ];
    for (cause, is_other) in parts {
        if is_other && found.iter().all(|(known, _)| *known != cause) {
            found.push((cause, "the same text in another form".to_owned()));
        }
    }
    if a.model != b.model {
        found.push((Cause::Model, format!("{} → {}", a.model, b.model)));
    }
    let params = match requests {
        Some((a, b)) => differing(&a.params, &b.params),
        None => differing(&a.params, &b.params),
    };
    if let Some(params) = params {
        found.push((Cause::Parameters, params));
    }
    found
}

/// The members that differ, with their values.
fn differing(a: &Value, b: &Value) -> Option<String> {
    if a == b || request::canonical(a) == request::canonical(b) {
        return None;
    }
    let (Some(old), Some(new)) = (a.as_object(), b.as_object()) else {
        return Some("another request".to_owned());
    };
    let mut names: Vec<_> = old.keys().chain(new.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let text = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "–".to_owned(),
        Some(value) => {
            let text = request::canonical(value);
            let end = text.char_indices().nth(40).map_or(text.len(), |(at, _)| at);
            text[..end].to_owned()
        }
    };
    let changes = names.into_iter().filter_map(|name| {
        let (one, other) = (old.get(name), new.get(name));
        if let (Some(one @ Value::Object(_)), Some(other @ Value::Object(_))) = (one, other) {
            return differing(one, other);
        }
        let is_other = text(one) != text(other) || one != other;
        is_other.then(|| format!("{name} {} → {}", text(one), text(other)))
    });
    let changes: Vec<_> = changes.collect();
    (!changes.is_empty()).then(|| changes.join(", "))
}

/// The first message that two recorded requests have different: its cause, and where it is.
pub(super) fn messages(a: &RecordedRequest, b: &RecordedRequest) -> Option<(Cause, String)> {
    if a.digest == b.digest {
        return None;
    }
    let (old, new) = (in_order(&a.messages), in_order(&b.messages));
    let at = old.iter().zip(&new).position(|(one, other)| one != other);
    let at = at.or((old.len() != new.len()).then(|| old.len().min(new.len())))?;
    let role = old.get(at).or(new.get(at)).map_or("", |(role, _)| role);
    let number = at + 1;
    Some(match role {
        "user" => (Cause::UserInput, format!("message {number}, of the user")),
        "tool" => (
            Cause::ToolResult,
            format!("message {number}, the result of a tool"),
        ),
        "system" => (
            Cause::SystemPrompt,
            format!("message {number}, of the system"),
        ),
        _ => {
            let detail = format!("message {number}, of the {role}: another history was sent");
            (Cause::UserInput, detail)
        }
    })
}

/// Role and meaning of each message. Results that follow each other are sorted: the calls were parallel.
fn in_order(messages: &[PartRef]) -> Vec<(&str, &str)> {
    let mut list: Vec<_> = messages
        .iter()
        .map(|part| {
            let role = part.role.as_deref().unwrap_or_default();
            (role, part.meaning.as_deref().unwrap_or(&part.digest))
        })
        .collect();
    for run in list.chunk_by_mut(|one, next| one.0 == "tool" && next.0 == "tool") {
        run.sort_unstable();
    }
    list
}
