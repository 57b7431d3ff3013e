//! The lines of a session as an exporter takes them: each span opens and closes once, streamed text
//! is joined, and values come back from blobs.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::session::{Node, NodeState, Streamed, Streams, is_delta};
use crate::trace::{Address, Kind, RawLine};

/// What an exporter is given next.
#[derive(Debug)]
pub(super) struct Fed {
    pub node: Node,
    /// The line that it was known with. It may be later than the node's own.
    pub at: Address,
    /// The span of the run that it belongs to: the outermost of this session. What lies in no span belongs to the
    /// run that is open, the newest of several.
    pub run: Option<u64>,
    pub session_id: Arc<str>,
}

/// Makes nodes from lines.
#[derive(Debug)]
pub(super) struct Feed {
    session: PathBuf,
    session_id: Arc<str>,
    streams: Streams,
    /// Spans that a line of recovery has closed. The first close line of a span counts.
    interrupted: HashSet<u64>,
    /// Open spans, and the run that each belongs to.
    open: HashMap<u64, Option<u64>>,
    /// The runs that are open and lie in no other one, in their order.
    runs: Vec<u64>,
    last: Address,
    /// Blobs that could not be read.
    pub lost: Vec<io::Error>,
}

impl Feed {
    pub fn new(session: PathBuf) -> Self {
        Self {
            session,
            session_id: Arc::default(),
            streams: Streams::default(),
            interrupted: HashSet::new(),
            open: HashMap::new(),
            runs: Vec::new(),
            last: Address { seg: 1, seq: 1 },
            lost: Vec::new(),
        }
    }

    /// Takes a line, and passes on the nodes that are known with it.
    pub fn take<E>(
        &mut self,
        line: &RawLine<'_>,
        mut each: impl FnMut(Fed) -> Result<(), E>,
    ) -> Result<(), E> {
        let at = line.address();
        self.last = at;
        if *self.session_id != *line.session_id {
            self.session_id = line.session_id.as_ref().into();
        }
        let kind = line.kind();
        if is_delta(kind) {
            let mut replaced = None;
            self.streams.push(line, &mut replaced);
            return replaced.map_or(Ok(()), |text| self.aborted(text, at).map_or(Ok(()), each));
        }
        self.streams.finish(line);
        if kind == Kind::Interrupted {
            for streamed in self.streams.interrupt(line.span_id) {
                self.aborted(streamed, at).map_or(Ok(()), &mut each)?;
            }
        }
        if matches!(kind, Kind::Checkpoint | Kind::SpanUpdate) {
            return Ok(());
        }
        let mut node = Node::of_line(line);
        let run = self.run_of(&node);
        if !self.is_first(&node, kind, run) {
            return Ok(());
        }
        self.lost.extend(node.fetch_blobs(&self.session));
        each(self.fed(node, at, run))
    }

    /// The run that a node belongs to. A run inside another one is part of that.
    fn run_of(&self, node: &Node) -> Option<u64> {
        let known = |id: Option<u64>| self.open.get(&id?).copied();
        let around = known(node.span_id).or_else(|| known(node.within()));
        let own = node.span_id.filter(|_| node.starts_run());
        match around {
            Some(run) => run.or(own),
            None => own.or(self.runs.last().copied()),
        }
    }

    /// Whether a line opens or closes its span for the first time.
    fn is_first(&mut self, node: &Node, kind: Kind, run: Option<u64>) -> bool {
        let Some(id) = node.span_id else {
            return true;
        };
        if run == Some(id) {
            self.runs.retain(|open| *open != id);
            self.runs
                .extend((node.state == NodeState::Open).then_some(id));
        }
        match node.state {
            NodeState::Open => self.open.insert(id, run).is_none(),
            _ if kind == Kind::Interrupted => {
                // A span that was open before the lines that are left has no open line.
                self.open.remove(&id);
                self.interrupted.insert(id)
            }
            _ => {
                self.open.remove(&id);
                !self.interrupted.contains(&id)
            }
        }
    }

    /// Whether no span is open.
    pub fn is_over(&self) -> bool {
        self.open.is_empty()
    }

    /// The texts that had begun to arrive when the lines ended.
    pub fn rest(&mut self) -> Vec<Fed> {
        let texts: Vec<_> = self.streams.iter_mut().map(|text| text.clone()).collect();
        let texts = texts.into_iter();
        texts
            .filter_map(|text| self.aborted(text, self.last))
            .collect()
    }

    /// A message that stopped before its end.
    fn aborted(&self, streamed: Streamed, at: Address) -> Option<Fed> {
        let node = streamed.node()?;
        let run = self.run_of(&node);
        Some(self.fed(node, at, run))
    }

    fn fed(&self, node: Node, at: Address, run: Option<u64>) -> Fed {
        let session_id = Arc::clone(&self.session_id);
        Fed {
            node,
            at,
            run,
            session_id,
        }
    }
}
