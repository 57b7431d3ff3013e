//! The attempts of an investigation as a tree, each with its figure and the code that made it.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::read::SessionReader;
use crate::session::{Item, Node, depth_first, whole};
use crate::trace::typed::{self, Artifact, owned};
use crate::trace::{Address, Damage, Kind};

/// The attempts of a session.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    /// In the order they were recorded.
    pub all: Vec<Attempt>,
    /// What of the session is damaged.
    pub damages: Vec<Damage>,
    /// The newest artifact of each path.
    artifacts: HashMap<String, AttemptArtifact>,
}

/// One step of an investigation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Attempt {
    /// Its line.
    pub address: Address,
    /// The turn that it was recorded in.
    pub turn: Option<u32>,
    /// Its id.
    pub id: String,
    /// The attempt that it continues.
    pub parent_id: Option<String>,
    /// Why it was made.
    pub rationale: Option<String>,
    /// What was changed.
    pub parameters_changed: Option<Value>,
    /// The measured results.
    pub metrics: Option<Value>,
    /// The candidate's file.
    pub candidate_path: Option<String>,
    /// The figure's file.
    pub plot_artifact_path: Option<String>,
    /// Notes.
    pub notes: Option<String>,
    /// The artifact with the figure.
    pub artifact: Option<AttemptArtifact>,
}

/// The artifact of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptArtifact {
    /// Its line.
    pub address: Address,
    /// Its file.
    pub path: String,
    /// What it shows.
    pub caption: Option<String>,
    /// The code that made it.
    pub source_code: Option<String>,
    /// The SHA-256 of its file, if recorded.
    pub sha256: Option<String>,
    /// The blob that holds it, if recorded.
    pub blob: Option<String>,
}

impl Attempt {
    fn new(node: &Node, attempt: &typed::Attempt<'_>) -> Self {
        Self {
            address: node.address,
            turn: node.turn,
            id: attempt.id().unwrap_or_default().into_owned(),
            parent_id: owned(attempt.parent_id()).filter(|id| !id.is_empty()),
            rationale: owned(attempt.rationale()),
            parameters_changed: attempt.parameters_changed().and_then(|value| value.value()),
            metrics: attempt.metrics().and_then(|value| value.value()),
            candidate_path: owned(attempt.candidate_path()),
            plot_artifact_path: owned(attempt.plot_artifact_path()),
            notes: owned(attempt.notes()),
            artifact: None,
        }
    }

    fn to_json(&self, depth: usize) -> Value {
        let artifact = self.artifact.as_ref().map(|artifact| {
            json!({
                "address": artifact.address.to_string(),
                "path": artifact.path,
                "caption": artifact.caption,
                "source_code": artifact.source_code,
            })
        });
        json!({
            "id": self.id,
            "parent_id": self.parent_id,
            "depth": depth,
            "address": self.address.to_string(),
            "turn": self.turn,
            "rationale": self.rationale,
            "parameters_changed": self.parameters_changed,
            "metrics": self.metrics,
            "candidate_path": self.candidate_path,
            "plot_artifact_path": self.plot_artifact_path,
            "notes": self.notes,
            "artifact": artifact,
        })
    }
}

impl Attempts {
    /// Reads the attempts of a session, and the artifacts that they name.
    ///
    /// ```no_run
    /// use spanledger::inspect::Attempts;
    /// for (depth, attempt) in Attempts::read("sessions/ses_1")?.tree() {
    ///     println!("{}{} {:?}", "  ".repeat(depth), attempt.id, attempt.metrics);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn read(session: impl AsRef<Path>) -> io::Result<Self> {
        let session = session.as_ref();
        let mut attempts = Self::default();
        attempts.damages = SessionReader::open(session)?.each_line(|line| {
            if matches!(line.kind(), Kind::Attempt | Kind::Artifact) {
                attempts.take(session, &Node::of_line(line));
            }
            Ok::<(), io::Error>(())
        })?;
        Ok(attempts)
    }

    /// Takes a node of the session, in order. Only attempts and artifacts matter.
    pub fn take(&mut self, session: &Path, node: &Node) {
        match node.item() {
            Item::Attempt(attempt) => {
                let mut attempt = Attempt::new(node, &attempt);
                let path = attempt.plot_artifact_path.as_ref();
                attempt.artifact = path.and_then(|path| self.artifacts.get(path)).cloned();
                self.all.push(attempt);
            }
            Item::Artifact(artifact) => {
                let artifact = read_artifact(session, node.address, &artifact);
                self.complete(&artifact);
                self.artifacts.insert(artifact.path.clone(), artifact);
            }
            _ => {}
        }
    }

    /// Adds an artifact to the attempts that named it before it was recorded.
    fn complete(&mut self, artifact: &AttemptArtifact) {
        for attempt in &mut self.all {
            if attempt.artifact.is_none()
                && attempt.plot_artifact_path.as_ref() == Some(&artifact.path)
            {
                attempt.artifact = Some(artifact.clone());
            }
        }
    }

    /// The attempts with their depths, each after the one that it continues. One whose parent was not recorded is at
    /// the top, and so is the first of those that continue each other.
    pub fn tree(&self) -> Vec<(usize, &Attempt)> {
        let mut first: HashMap<&str, usize> = HashMap::new();
        for (at, attempt) in self.all.iter().enumerate() {
            first.entry(&attempt.id).or_insert(at);
        }
        let parents = self.all.iter().enumerate().map(|(at, attempt)| {
            let parent = first.get(attempt.parent_id.as_deref()?).copied();
            parent.filter(|of| *of != at)
        });
        let order = depth_first(&parents.collect::<Vec<_>>()).into_iter();
        order.map(|(depth, at)| (depth, &self.all[at])).collect()
    }

    /// As JSON, with stable names: the attempts in the order of the tree, with their depths.
    pub fn to_json(&self) -> Value {
        let tree = self.tree().into_iter();
        let all: Vec<_> = tree
            .map(|(depth, attempt)| attempt.to_json(depth))
            .collect();
        json!({"attempts": all})
    }
}

fn read_artifact(session: &Path, address: Address, artifact: &Artifact<'_>) -> AttemptArtifact {
    let code = artifact.source_code();
    // A blob that can't be read leaves the beginning of the code.
    let code = code.map(|code| {
        let head = || {
            code.marker()
                .and_then(|marker| marker.head)
                .unwrap_or_default()
        };
        whole(session, code).unwrap_or_else(|_| head().into_owned())
    });
    AttemptArtifact {
        address,
        path: artifact.path().unwrap_or_default().into_owned(),
        caption: owned(artifact.caption()),
        source_code: code,
        sha256: owned(artifact.sha256()),
        blob: owned(artifact.blob()),
    }
}

#[cfg(test)]
mod tests;
