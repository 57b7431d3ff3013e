//! Prompts, tool catalogs and permission rules, which messages refer to by their digests.

use std::collections::{HashMap, HashSet};
use std::io;

use serde_json::{Value, json};

use super::super::history::fields;
use super::{Chat, Fields, text, time};
use crate::trace::{Kind, hex_digest};

/// The digests that a message refers to, and the kinds of what they are of.
pub(in super::super) const ASSETS: [(&str, Kind); 3] = [
    ("system_prompt_digest", Kind::SystemPrompt),
    ("tool_catalog_digest", Kind::ToolCatalog),
    ("permission_rules_digest", Kind::PermissionRules),
];

/// What was written of them.
#[derive(Default)]
pub(super) struct Assets {
    /// Kinds and digests.
    written: HashSet<String>,
    /// The digests of rules, by the hashes of their rows' texts.
    rules: HashMap<String, String>,
    /// The hash of the last rules.
    last_rules: Option<String>,
}

impl Chat<'_> {
    /// A prompt, a catalog or rules, unless it is there.
    pub fn asset(&mut self, kind: Kind, row: &Fields) -> io::Result<()> {
        let Some(digest) = text(row, "digest").map(str::to_owned) else {
            return Err(io::Error::other(format!("a {kind} has no `digest`")));
        };
        if !self.assets.written.insert(format!("{kind} {digest}")) {
            return Ok(());
        }
        let at = time(row, "created_at").unwrap_or(self.history.last());
        let (from, to) = match kind {
            Kind::ToolCatalog => ("tools_json", "tools"),
            Kind::PermissionRules => ("rules_json", "rules"),
            _ => ("body", "body"),
        };
        let body = text(row, from).unwrap_or_default();
        if kind == Kind::PermissionRules {
            let hash = hex_digest(body.as_bytes());
            self.assets.rules.insert(hash.clone(), digest.clone());
            self.assets.last_rules = Some(hash);
        }
        let body: Value = match kind {
            Kind::SystemPrompt => body.into(),
            _ => serde_json::from_str(body).unwrap_or_else(|_| body.into()),
        };
        self.history
            .event(kind, at, json!({"digest": digest, to: body}))
    }

    /// Whether an asset was written.
    pub fn has_asset(&self, kind: Kind, digest: &str) -> bool {
        self.assets.written.contains(&format!("{kind} {digest}"))
    }

    /// The rules that the session's row has, if others were written last.
    pub(super) fn last_rules(&mut self, time: u64) -> io::Result<()> {
        let rules = text(&self.session, "permissions_json");
        let Some(rules) = rules.filter(|rules| *rules != "[]") else {
            return Ok(());
        };
        let hash = hex_digest(rules.as_bytes());
        if self.assets.last_rules.as_ref() == Some(&hash) {
            return Ok(());
        }
        match self.assets.rules.get(&hash) {
            Some(digest) => {
                let digest = json!({"digest": digest});
                self.history.event(Kind::PermissionRules, time, digest)
            }
            None => {
                let row = json!({"digest": hash, "rules_json": rules});
                self.asset(Kind::PermissionRules, &fields(row))
            }
        }
    }
}
