//! What trajectories have beside their steps, and the sessions that they become.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::super::document::{Members, Want, parse};
use super::super::history::{Fields, fields};
use super::super::lines::{file_digest, file_time};
use super::super::time::iso_time;
use super::members::filled;
use crate::trace::RawValue;

const VERSION: &str = "ATIF-v1.";
const STEPS: &str = "steps";

/// What is wanted of a trajectory: its steps, and those inside of it.
pub(super) fn want(name: &str) -> Want {
    match name {
        STEPS => Want::Items,
        "subagent_trajectories" => Want::Objects,
        _ => Want::Nothing,
    }
}

pub(super) fn step_time(step: &Value) -> Option<u64> {
    iso_time(step["timestamp"].as_str()?)
}

/// What a trajectory has beside its steps. Its number is its place in the document.
#[derive(Default)]
pub(super) struct Head {
    pub parent: Option<usize>,
    members: Fields,
    pub steps: usize,
    /// The time of the first step that has one.
    first_time: Option<u64>,
    /// When it began: then, with the trajectory around it, or at the time of the file.
    pub start: u64,
}

impl Head {
    pub fn get(&self, name: &str) -> &Value {
        self.members.get(name).unwrap_or(&Value::Null)
    }

    /// What the run has no field for. Our own export has all of it in one member.
    pub fn metadata(&self) -> Option<Value> {
        let extra = self.get("extra");
        match extra
            .as_object()
            .map(|members| (members.len(), &extra["metadata"]))
        {
            Some((1, ours @ Value::Object(_))) => Some(ours.clone()),
            _ => filled(fields(json!({
                "notes": self.get("notes"),
                "extra": extra,
                "agent": self.get("agent")["extra"],
                "continued_trajectory_ref": self.get("continued_trajectory_ref"),
            }))),
        }
    }
}

/// Reads the heads of all trajectories.
#[derive(Default)]
pub(super) struct Heads {
    pub all: Vec<Head>,
    /// The trajectories that are being read, each inside of the one before.
    open: Vec<usize>,
}

impl Heads {
    fn last(&mut self) -> Option<&mut Head> {
        self.open.last().and_then(|at| self.all.get_mut(*at))
    }

    /// Decides when each trajectory began. One inside of another stands after it.
    pub fn date(&mut self, path: &Path) {
        let file = file_time(path);
        for at in 0..self.all.len() {
            let around = self.all[at].parent.map(|parent| self.all[parent].start);
            let head = &mut self.all[at];
            head.start = head.first_time.or(around).unwrap_or(file);
        }
    }

    /// The session of each trajectory.
    pub fn ids(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut ids: Vec<String> = Vec::new();
        let mut taken = HashSet::new();
        for head in &self.all {
            let version = head.get("schema_version");
            let is_known = |version: &str| version.starts_with(VERSION);
            if !version.is_null() && !version.as_str().is_some_and(is_known) {
                let why = format!("schema_version {version}; {VERSION}x can be imported");
                return Err(io::Error::other(why));
            }
            // Inside of another one, the session is often that of the outermost.
            let names = match head.parent {
                None => ["session_id", "trajectory_id"],
                Some(_) => ["trajectory_id", "session_id"],
            };
            let names = names.into_iter().filter_map(|name| head.get(name).as_str());
            let mut given = names.filter(|id| !id.is_empty() && !taken.contains(*id));
            let id = match (given.next(), head.parent) {
                (Some(id), _) => id.to_owned(),
                (None, Some(parent)) => format!("{}-{}", ids[parent], ids.len()),
                (None, None) => format!("atif-{}", &file_digest(path)?[..24]),
            };
            if !taken.insert(id.clone()) {
                let why = format!("two trajectories have the id {id:?}");
                return Err(io::Error::other(why));
            }
            if head.steps == 0 {
                return Err(io::Error::other(format!("{id:?} has no `steps`")));
            }
            ids.push(id);
        }
        Ok(ids)
    }
}

impl Members for Heads {
    fn want(&mut self, name: &str) -> Want {
        match name {
            "schema_version" | "session_id" | "trajectory_id" => Want::Value,
            "agent" | "notes" | "extra" | "continued_trajectory_ref" => Want::Value,
            name => want(name),
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        self.all.push(Head {
            parent: self.open.last().copied(),
            ..Head::default()
        });
        self.open.push(self.all.len() - 1);
        Ok(())
    }

    fn value(&mut self, name: &str, json: &str) -> io::Result<()> {
        let Some(head) = self.last() else {
            return Ok(());
        };
        if name == STEPS {
            head.steps += 1;
            let time = || iso_time(&RawValue::new(json).get("timestamp")?.text()?);
            head.first_time = head.first_time.or_else(time);
        } else {
            head.members.insert(name.to_owned(), parse(json)?);
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.open.pop();
        Ok(())
    }
}
