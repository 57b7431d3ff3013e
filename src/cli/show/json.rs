//! What `show` prints with `--json`.

use std::cell::RefCell;
use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::context::{Context, Failed};
use super::each_chapter;
use crate::session::{Chapter, Node, NodeState};

/// Prints chapters as objects, a node a line.
pub(super) struct Json {
    recursive: bool,
    full: bool,
    /// The sessions that were begun: a subagent that is resumed is named again.
    told: RefCell<HashSet<String>>,
}

impl Json {
    pub fn new(recursive: bool, full: bool) -> Self {
        Self {
            recursive,
            full,
            told: RefCell::default(),
        }
    }

    /// Whether a session is told for the first time.
    pub fn begin(&self, id: &str) -> bool {
        self.told.borrow_mut().insert(id.to_owned())
    }

    pub fn print(
        &mut self,
        context: &mut Context,
        session_id: &str,
        chapter: &Chapter,
    ) -> Result<(), Failed> {
        self.begin(session_id);
        for node in chapter.span.iter().chain(&chapter.nodes) {
            context.object(&node_json(session_id, node))?;
            if self.recursive
                && node.kind.as_ref() == "subagent"
                && let Some(id) = node.text("child_session_id")
                && self.begin(&id)
            {
                self.subagent(context, &id)?;
            }
        }
        Ok(())
    }

    fn subagent(&mut self, context: &mut Context, id: &str) -> Result<(), Failed> {
        let dir = context.store.dir(id);
        let done = each_chapter(&dir, |mut chapter| {
            if self.full {
                for node in &mut chapter.nodes {
                    context.lost.extend(node.fetch_blobs(&dir));
                }
            }
            self.print(context, id, &chapter)
        });
        match done {
            Err(Failed::Io(error)) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                let why = error.to_string();
                context.object(&json!({"type": "unreadable", "session_id": id, "why": why}))
            }
            done => done.map(drop),
        }
    }
}

fn node_json(session_id: &str, node: &Node) -> Value {
    let hex = |id: Option<u64>| id.map(|id| format!("{id:016x}"));
    json!({
        "type": "node",
        "session_id": session_id,
        "address": node.address.to_string(),
        "kind": node.kind,
        "state": match node.state {
            NodeState::Open => "open",
            NodeState::Closed => "closed",
            _ => "event",
        },
        "turn": node.turn,
        "trace_id": node.trace_id,
        "span_id": hex(node.span_id),
        "parent_span_id": hex(node.parent),
        "start": crate::ledger::time_text(node.start, 9),
        "duration_ns": node.duration,
        "outcome": node.outcome(),
        "content": node.content(),
        "payload": node.payload_json(),
    })
}
