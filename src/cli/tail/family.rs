//! Which sessions are followed: all, or one with its subagents.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::name_of;
use crate::reader::RawLine;
use crate::session::Entry;

/// A session and its subagents, those to come included; or everybody.
#[derive(Debug)]
pub(super) struct Family {
    main: Option<String>,
    ids: HashSet<String>,
    /// By the directory's name: what is known of sessions that came up later.
    known: HashMap<String, Known>,
    not_before: Option<String>,
}

#[derive(Debug)]
enum Known {
    Ours,
    Strange,
    /// Its first run, which names the parent, has not come yet: what came before it.
    Held(Vec<Vec<u8>>),
}

impl Family {
    pub fn everybody() -> Self {
        Self {
            main: None,
            ids: HashSet::new(),
            known: HashMap::new(),
            not_before: None,
        }
    }

    pub fn of(id: &str) -> Self {
        Self {
            main: Some(id.to_owned()),
            ids: HashSet::from([id.to_owned()]),
            ..Self::everybody()
        }
    }

    /// Subagents' lines written earlier than this aren't wanted.
    pub fn not_before(&mut self, ts: String) {
        self.not_before = Some(ts);
    }

    /// The one session, if it is one's family.
    pub fn main(&self) -> Option<&str> {
        self.main.as_deref()
    }

    /// Those of `entries` that are subagents of it, at any depth.
    pub fn descendants<'a>(&mut self, entries: &'a [Entry]) -> Vec<&'a Entry> {
        let mut found = Vec::new();
        loop {
            let before = self.ids.len();
            for entry in entries {
                let summary = &entry.summary;
                let parent = summary.parent_session_id.as_ref();
                if parent.is_some_and(|parent| self.ids.contains(parent))
                    && self.ids.insert(summary.session_id.clone())
                {
                    found.push(entry);
                }
            }
            if self.ids.len() == before {
                return found;
            }
        }
    }

    /// Learns from a line whose session it is. What was held back of a session that turns out to
    /// be ours.
    pub fn admit(&mut self, session: &Path, line: &RawLine<'_>) -> Vec<Vec<u8>> {
        if self.main.is_none() || self.ids.contains(line.session_id.as_ref()) {
            return Vec::new();
        }
        let known = self
            .known
            .entry(name_of(session))
            .or_insert_with(|| Known::Held(Vec::new()));
        let Known::Held(held) = known else {
            return Vec::new();
        };
        match line.kind.as_ref() {
            "segment" | "gap" => {
                held.push(line.as_bytes().to_owned());
                Vec::new()
            }
            "session_start" | "session_resume" => {
                let parent = line.payload().get("parent_session_id");
                let parent = parent.and_then(|parent| parent.text());
                if parent.is_some_and(|parent| self.ids.contains(parent.as_ref())) {
                    self.ids.insert(line.session_id.to_string());
                    let held = std::mem::take(held);
                    *known = Known::Ours;
                    return held;
                }
                *known = Known::Strange;
                Vec::new()
            }
            _ => {
                *known = Known::Strange;
                Vec::new()
            }
        }
    }

    /// Whether a line is to be shown.
    pub fn wants(&self, line: &RawLine<'_>) -> bool {
        let Some(main) = &self.main else { return true };
        let early = self.not_before.as_deref().is_some_and(|ts| line.ts < ts);
        self.has_id(&line.session_id) && !(early && line.session_id != *main)
    }

    /// Whether a session is one of ours.
    pub fn has_id(&self, id: &str) -> bool {
        self.main.is_none() || self.ids.contains(id)
    }

    /// The same, by its directory.
    pub fn has(&self, session: &Path) -> bool {
        let strange = matches!(
            self.known.get(&name_of(session)),
            Some(Known::Strange | Known::Held(_))
        );
        self.main.is_none() || !strange
    }
}
