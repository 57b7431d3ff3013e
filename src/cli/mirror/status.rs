//! `mirror --status`: what is not sent yet, per session, and which command sends it.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::context::{Context, Failed, resolve_endpoint};
use spanledger::mirror::{Backlog, Resolved, backlog};
use spanledger::trace::time_text;
use spanledger::view::text::{cut_id, duration, line, pad, pad_left, plural, size, thousands};

pub(super) fn show(
    session: Option<&str>,
    state: Option<&Path>,
    context: &mut Context,
) -> Result<(), Failed> {
    let entries = context.select(session)?;
    // Without it, nothing is known of where it would be sent to.
    let to = resolve_endpoint(None).ok().flatten();
    if !context.json {
        let head = row(["SESSION", "UNSENT", "LAG", "NO ENDPOINT", "SENT", "DEAD"]);
        context.line(&context.style.dim(&head))?;
    }
    for entry in &entries {
        let backlog = backlog(&context.store, &entry.dir, state)?;
        let id = &entry.summary.session_id;
        let open = context.store.left_open(entry).len() as u64;
        context.print(
            || backlog_json(id, &backlog, open),
            |style| {
                let mut lines = backlog_lines(id, &backlog, to.as_ref(), style.now);
                lines.extend(left_open_line(open, &backlog, to.as_ref()));
                lines
            },
        )?;
    }
    Ok(())
}

/// A row of the table of --status.
fn row([id, unsent, lag, no_endpoint, sent, dead]: [&str; 6]) -> String {
    let (id, unsent, lag) = (pad(id, 32), pad_left(unsent, 10), pad_left(lag, 8));
    let (no_endpoint, sent, dead) = (
        pad_left(no_endpoint, 11),
        pad_left(sent, 9),
        pad_left(dead, 6),
    );
    format!("{id} {unsent} {lag} {no_endpoint} {sent} {dead}")
}

fn backlog_lines(id: &str, backlog: &Backlog, to: Option<&Resolved>, now: u64) -> Vec<String> {
    let bytes = backlog.bytes - backlog.no_endpoint;
    let since = backlog.since.filter(|_| bytes > 0);
    let lag = since.map(|since| duration(now.saturating_sub(since)));
    let mut lines = vec![row([
        &cut_id(&line(id), 32),
        &size(bytes),
        lag.as_deref().unwrap_or("–"),
        &size(backlog.no_endpoint),
        &thousands(backlog.sent),
        &thousands(backlog.dead_letters),
    ])];
    for endpoint in &backlog.endpoints {
        // Why it is not sent.
        let next = match to.filter(|to| !to.is_same_server(endpoint)) {
            _ if backlog.live > 0 => "its process is running and sends it".to_owned(),
            None => format!("{} sends it", once(endpoint, to)),
            Some(to) => {
                let to = line(&to.shown()).into_owned();
                format!("`spanledger mirror --once --any-endpoint` sends it to {to}")
            }
        };
        lines.push(format!("  recorded for {}; {next}", line(endpoint)));
    }
    if let Some(last) = &backlog.last_dead {
        let (from, reason) = (last.from, line(&last.reason));
        lines.push(format!("  refused for good, the last at {from}: {reason}"));
    }
    lines
}

/// The command that sends what was recorded for an endpoint to it.
fn once(endpoint: &str, to: Option<&Resolved>) -> String {
    let is_set = to.is_some_and(|to| to.is_same_server(endpoint));
    match endpoint {
        _ if is_set => "`spanledger mirror --once`".to_owned(),
        // A part of the address is not recorded.
        masked if masked.contains("***") => {
            "`spanledger mirror --once` with OTEL_EXPORTER_OTLP_ENDPOINT set".to_owned()
        }
        endpoint => format!("`spanledger mirror --once --endpoint {}`", line(endpoint)),
    }
}

/// What a dead process left open is not counted in bytes: its close lines are not written yet.
fn left_open_line(open: u64, backlog: &Backlog, to: Option<&Resolved>) -> Option<String> {
    let spans = plural(open, "span");
    let command = match backlog.endpoints.first() {
        Some(endpoint) => once(endpoint, to),
        None => "`spanledger mirror --once`".to_owned(),
    };
    let text = format!("  {spans} left open by a dead process; {command} closes and sends");
    let them = if open == 1 { "it" } else { "them" };
    (open > 0).then(|| format!("{text} {them}"))
}

fn backlog_json(id: &str, backlog: &Backlog, left_open: u64) -> Value {
    let last_dead = backlog.last_dead.as_ref();
    json!({
        "session_id": id,
        "unsent_bytes": backlog.bytes,
        "endpoints": backlog.endpoints,
        "no_endpoint_bytes": backlog.no_endpoint,
        "unsent_since": backlog.since.map(|since| time_text(since, 6)),
        "sent_spans": backlog.sent,
        "dead_letters": backlog.dead_letters,
        "last_dead": last_dead.map(|last| json!({
            "address": last.from.to_string(),
            "reason": last.reason,
        })),
        "left_open": left_open,
        "live_segments": backlog.live,
        "marked_segments": backlog.marked,
    })
}
