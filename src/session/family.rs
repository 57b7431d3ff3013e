//! Which sessions belong together.

use std::collections::{BTreeMap, HashMap};

use super::store::Entry;

/// A session that was not started from another one, with its subagents and theirs.
///
/// A session that ran under several others belongs to all of them, so all of these are one
/// family. One whose parents are all gone has a family of its own. A branch is no subagent.
#[derive(Clone, Debug)]
pub struct Family<'a> {
    /// Never empty.
    members: Vec<&'a Entry>,
}

impl<'a> Family<'a> {
    /// The session that the others were started from.
    pub fn top(&self) -> &'a Entry {
        self.members[0]
    }

    /// All of its sessions, each before its subagents.
    pub fn members(&self) -> &[&'a Entry] {
        &self.members
    }

    /// When any of them was last active, in nanoseconds since 1970.
    pub fn last(&self) -> u64 {
        let last = self.members.iter().map(|entry| entry.summary.last);
        last.max().unwrap_or(0)
    }

    /// Whether a process is still writing to any of them.
    pub fn is_live(&self) -> bool {
        self.members.iter().any(|entry| entry.status.is_live())
    }
}

/// The families of `entries`, the most recently active first; `entries` too are in that order.
///
/// Entries know their parents by the first and last lines of each segment. A parent that is named
/// in the middle of a long one and nowhere else is not known.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use spanledger::session::{Store, families};
/// let entries = Store::new(dir.path()).list()?;
/// for family in families(&entries) {
///     println!("{} {}", family.top().summary.session_id, family.members().len());
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn families(entries: &[Entry]) -> Vec<Family<'_>> {
    let mut by_id = HashMap::new();
    // Each entry leads to an earlier one of its family; the first one leads to itself.
    let mut leads_to: Vec<usize> = (0..entries.len()).collect();
    let mut join = |a: usize, b: usize| {
        let (a, b) = (first_of(&leads_to, a), first_of(&leads_to, b));
        leads_to[a.max(b)] = a.min(b);
    };
    for (at, entry) in entries.iter().enumerate() {
        // Two directories with one id: one is a copy, and either may be the subagents' parent.
        join(at, *by_id.entry(&entry.summary.session_id).or_insert(at));
    }
    let mut parents = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        let ids = entry.summary.parents().iter();
        let known: Vec<usize> = ids.filter_map(|id| by_id.get(id).copied()).collect();
        known.iter().for_each(|parent| join(at, *parent));
        parents.push(known);
    }
    let mut families: BTreeMap<usize, Vec<&Entry>> = BTreeMap::new();
    for at in from_the_top(&parents) {
        let family = families.entry(first_of(&leads_to, at)).or_default();
        family.push(&entries[at]);
    }
    let families = families.into_values();
    families.map(|members| Family { members }).collect()
}

/// The first entry of a family.
fn first_of(leads_to: &[usize], mut at: usize) -> usize {
    while leads_to[at] != at {
        at = leads_to[at];
    }
    at
}

/// Sessions with their depth, parents before their subagents and branches. Each session comes once: of
/// damaged ones that are each other's parents the newest comes first.
pub fn tree(entries: &[Entry]) -> Vec<(usize, &Entry)> {
    let mut first: HashMap<&String, usize> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        first.entry(&entry.summary.session_id).or_insert(at);
    }
    let parent = |entry| first.get(parent_of(entry)?).copied();
    let order = depth_first(&entries.iter().map(parent).collect::<Vec<_>>());
    let order = order.into_iter();
    order.map(|(depth, at)| (depth, &entries[at])).collect()
}

/// Depths and indexes in the order of the tree, from the parent of each. Each comes once: of those that are each
/// other's parents, the first one is on top.
pub(crate) fn depth_first(parents: &[Option<usize>]) -> Vec<(usize, usize)> {
    let mut children = vec![Vec::new(); parents.len()];
    let mut tops = Vec::new();
    for (at, parent) in parents.iter().enumerate() {
        match parent {
            Some(parent) => children[*parent].push(at),
            None => tops.push(at),
        }
    }
    let mut known = vec![false; parents.len()];
    let mut out = Vec::with_capacity(parents.len());
    for top in tops.into_iter().chain(0..parents.len()) {
        let mut next = vec![(0, top)];
        while let Some((depth, at)) = next.pop() {
            if !std::mem::replace(&mut known[at], true) {
                out.push((depth, at));
                next.extend(children[at].iter().rev().map(|child| (depth + 1, *child)));
            }
        }
    }
    out
}

fn parent_of(entry: &Entry) -> Option<&String> {
    let summary = &entry.summary;
    summary
        .parent_session_id
        .as_ref()
        .or(summary.branched_from.as_ref())
}

/// All sessions, each after its parents and before its subagents. Damaged ones that are each
/// other's parents come last, as they are.
fn from_the_top(parents: &[Vec<usize>]) -> Vec<usize> {
    let mut children = vec![Vec::new(); parents.len()];
    let mut awaited: Vec<usize> = parents.iter().map(Vec::len).collect();
    for (at, parents) in parents.iter().enumerate() {
        for parent in parents {
            children[*parent].push(at);
        }
    }
    let roots = (0..parents.len()).filter(|at| awaited[*at] == 0);
    let mut next: Vec<usize> = roots.rev().collect();
    let mut order = Vec::with_capacity(parents.len());
    while let Some(at) = next.pop() {
        order.push(at);
        for child in children[at].iter().rev() {
            awaited[*child] -= 1;
            if awaited[*child] == 0 {
                next.push(*child);
            }
        }
    }
    let circles = (0..parents.len()).filter(|at| awaited[*at] > 0);
    order.extend(circles);
    order
}
