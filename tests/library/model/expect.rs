//! The model: what one process should have written to one session.

use spanledger::{Totals, Usage};

use super::Kind;

/// A line that should be there: its kind, the number that tells it from all others of its kind,
/// and for the ends of turns and runs the totals.
#[derive(Clone, Debug)]
pub struct Expected {
    pub kind: &'static str,
    pub number: u64,
    pub totals: Option<Totals>,
}

/// A span of the model.
#[derive(Clone, Debug)]
pub struct ModelSpan {
    pub number: u64,
    pub kind: Kind,
    pub session: usize,
    pub closed: bool,
}

/// One process's part of one session.
#[derive(Debug, Default)]
pub struct Part {
    pub lines: Vec<Expected>,
    totals: Totals,
    /// Something kept this part from being written as it should.
    pub faulty: bool,
}

impl Part {
    fn push(&mut self, kind: &'static str, number: u64, totals: Option<Totals>) {
        self.lines.push(Expected {
            kind,
            number,
            totals,
        });
    }

    pub fn open(&mut self, span: &ModelSpan) {
        if span.kind == Kind::Turn {
            self.totals.turns += 1;
        }
        self.push(span.kind.opens(), span.number, None);
    }

    pub fn close(&mut self, span: &mut ModelSpan, failed: bool) {
        if std::mem::replace(&mut span.closed, true) {
            return;
        }
        match span.kind {
            Kind::Model => {
                self.totals.model_calls += 1;
                let used = &mut self.totals.usage;
                used.input_tokens = Some(used.input_tokens.unwrap_or(0) + span.number);
            }
            Kind::Tool => self.totals.tool_calls += 1,
            _ => {}
        }
        self.totals.errors += u64::from(failed);
        let totals = matches!(span.kind, Kind::Run | Kind::Turn).then(|| self.totals.clone());
        self.push(span.kind.closes(), span.number, totals);
    }

    pub fn event(&mut self, kind: &'static str, number: u64) {
        self.push(kind, number, None);
    }
}

/// What a model call of that number uses.
pub fn usage(number: u64) -> Usage {
    Usage {
        input_tokens: Some(number),
        ..Usage::default()
    }
}
