//! The tree of `attempts`, and the words that transcripts share with it.

use serde_json::Value;

use super::style::Style;
use super::text::{join, line, wrap};
use crate::inspect::{Attempt, Attempts};

/// How many lines of code are shown unless everything is wanted.
const CODE: usize = 6;

/// The attempts as a tree.
pub fn attempts(attempts: &Attempts, style: &Style) -> Vec<String> {
    let tree = attempts.tree();
    let mut out = Vec::new();
    for (at, (depth, attempt)) in tree.iter().enumerate() {
        // The branch goes on below an attempt if another one of its depth follows before a shallower one.
        let goes_on = |depth: usize| {
            let later = tree[at + 1..].iter().map(|(later, _)| *later);
            later
                .take_while(|later| *later >= depth)
                .any(|later| later == depth)
        };
        let line_at = |depth: usize| if goes_on(depth) { "│  " } else { "   " };
        let lines: String = (1..*depth).map(line_at).collect();
        let (mark, below) = match (*depth, goes_on(*depth)) {
            (0, _) => ("", String::new()),
            (_, true) => ("├─ ", "│  ".to_owned()),
            (_, false) => ("└─ ", "   ".to_owned()),
        };
        let deeper = tree.get(at + 1).is_some_and(|(next, _)| next > depth);
        let below = format!("{lines}{below}{}", if deeper { "│  " } else { "   " });
        out.extend(rows(
            (*depth, attempt),
            &format!("{lines}{mark}"),
            &below,
            style,
        ));
    }
    out
}

/// The rows of an attempt.
fn rows(
    (depth, attempt): (usize, &Attempt),
    first: &str,
    below: &str,
    style: &Style,
) -> Vec<String> {
    let wide = style.width.saturating_sub(below.chars().count()).max(20);
    let id = line(&attempt.id);
    let more = |text: Option<&str>| text.map_or(String::new(), |text| format!("  {}", line(text)));
    let rationale = more(attempt.rationale.as_deref());
    let head = format!("{id}{rationale}  {}", attempt.address);
    let mut head = wrap(&head, wide).into_iter();
    let title = head
        .next()
        .unwrap_or_default()
        .replacen(&*id, &style.bold(&id), 1);
    let mut out = vec![format!("{}{title}", style.dim(first))];
    let mut add = |text: String| out.push(format!("{}{text}", style.dim(below)));
    head.for_each(&mut add);
    if let Some(metrics) = metrics_text(attempt) {
        wrap(&metrics, wide)
            .iter()
            .for_each(|row| add(style.green(row)));
    }
    if let Some(summary) = summary_text(attempt, depth) {
        wrap(&summary, wide).into_iter().for_each(&mut add);
    }
    if let Some(artifact) = &attempt.artifact {
        let (path, caption) = (line(&artifact.path), more(artifact.caption.as_deref()));
        let figure = format!("figure {path}{caption}  {}", artifact.address);
        wrap(&figure, wide).into_iter().for_each(&mut add);
        let code = artifact.source_code.as_deref().unwrap_or_default();
        let code = wrap(code, wide.saturating_sub(2)).into_iter();
        let code: Vec<_> = code.skip_while(|row| row.is_empty()).collect();
        let shown = if style.full { code.len() } else { CODE };
        code.iter()
            .take(shown)
            .for_each(|row| add(style.dim(&format!("  {row}"))));
        if code.len() > shown {
            let more = format!("  … +{} more lines; --full shows them", code.len() - shown);
            add(style.dim(&more));
        }
    }
    out
}

/// The metrics of an attempt, safe for a terminal.
pub(super) fn metrics_text(attempt: &Attempt) -> Option<String> {
    pairs(attempt.metrics.as_ref()?)
}

/// What was changed, the files and the notes of an attempt, safe for a terminal. `depth`: in the tree, where one at
/// the top has no parent that is known.
pub(super) fn summary_text(attempt: &Attempt, depth: usize) -> Option<String> {
    let changed = attempt.parameters_changed.as_ref().and_then(pairs);
    let artifact = attempt.artifact.as_ref().map(|artifact| &artifact.path);
    // The artifact has a row of its own.
    let plot = attempt.plot_artifact_path.as_ref();
    let plot = plot.filter(|path| Some(*path) != artifact);
    let parent = attempt.parent_id.as_ref().filter(|_| depth == 0);
    let parts = [
        ("continues the unknown", parent),
        ("changed", changed.as_ref()),
        ("candidate", attempt.candidate_path.as_ref()),
        ("figure", plot),
        ("notes:", attempt.notes.as_ref()),
    ];
    let parts = parts.into_iter();
    let parts = parts.filter_map(|(name, text)| Some(format!("{name} {}", line(text?))));
    join(parts, "   ")
}

/// The members of an object as `name value`.
fn pairs(value: &Value) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) => line(text).into_owned(),
        other => line(&other.to_string()).into_owned(),
    };
    match value {
        Value::Object(members) => {
            let members = members.iter();
            let all = members.map(|(name, value)| format!("{} {}", line(name), text(value)));
            join(all, "   ")
        }
        Value::Null => None,
        other => Some(text(other)),
    }
}
