//! Which sessions belong together.

use std::collections::{HashMap, HashSet};

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
    let mut sets = Sets::new(entries.len());
    let mut by_id = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        // Two directories with one id: one is a copy, and either may be the subagents' parent.
        let same = *by_id.entry(entry.summary.session_id.as_str()).or_insert(at);
        sets.join(at, same);
    }
    let parents: Vec<Vec<usize>> = entries
        .iter()
        .map(|entry| {
            let parents = entry.summary.parents().iter();
            let known = parents.filter_map(|id| by_id.get(id.as_str()).copied());
            known.collect()
        })
        .collect();
    for (at, parents) in parents.iter().enumerate() {
        for parent in parents {
            sets.join(at, *parent);
        }
    }
    let mut families: Vec<Family<'_>> = Vec::new();
    let mut known = HashMap::new();
    // Families in the order of their newest sessions, which is that of the entries.
    for at in 0..entries.len() {
        known.entry(sets.find(at)).or_insert_with(|| {
            families.push(Family {
                members: Vec::new(),
            });
            families.len() - 1
        });
    }
    for at in from_the_top(&parents) {
        if let Some(family) = known.get(&sets.find(at)) {
            families[*family].members.push(&entries[at]);
        }
    }
    families
}

/// Sessions with their depth, parents before their subagents and branches. Each session comes once: of
/// damaged ones that are each other's parents the newest comes first.
pub fn tree(entries: &[Entry]) -> Vec<(usize, &Entry)> {
    let ids: HashSet<&String> = entries.iter().map(|e| &e.summary.session_id).collect();
    let mut children: HashMap<&String, Vec<usize>> = HashMap::new();
    let mut tops = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        match parent_of(entry).filter(|parent| ids.contains(parent)) {
            Some(parent) => children.entry(parent).or_default().push(at),
            None => tops.push(at),
        }
    }
    let mut shown = vec![false; entries.len()];
    let mut out = Vec::with_capacity(entries.len());
    for top in tops.into_iter().chain(0..entries.len()) {
        let mut next = vec![(0, top)];
        while let Some((depth, at)) = next.pop() {
            if !std::mem::replace(&mut shown[at], true) {
                let entry = &entries[at];
                out.push((depth, entry));
                let below = children.get(&entry.summary.session_id);
                let below = below.into_iter().flatten().rev();
                next.extend(below.map(|child| (depth + 1, *child)));
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

/// Numbers that are joined into sets.
struct Sets(Vec<usize>);

impl Sets {
    fn new(len: usize) -> Self {
        Self((0..len).collect())
    }

    fn find(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            // The way gets shorter each time it is gone: a long chain costs next to nothing.
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a] = b;
    }
}
