//! Counts what happens in a session and looks for loops, where limits are set.

use std::sync::Arc;

use serde_json::json;

use super::family::{AtStart, Family};
use super::{LockedSession, Note, OpenSpan, SessionLog, SpanContext};
use crate::ledger::Appended;
use crate::record::fields::Fields;
use crate::record::process_state::ProcessState;
use crate::trace::{Address, Kind, Moment, SpanKind, Usage, segments};
use crate::watch::{Limits, LoopWarning, Loops, ToolStep, Used};

impl SessionLog {
    /// The session that its calls count for, and its subagents.
    pub fn family(&self) -> &Arc<Family> {
        self.family.get_or_init(|| {
            let written = self.again.then(|| segments(&self.dir).ok()).flatten();
            let before = written.and_then(|found| Some(found.last()?.0));
            Arc::new(Family::new(Arc::clone(&self.id), before))
        })
    }

    /// Counts for another session from now on, unless it counts for one already.
    pub fn join(&self, family: &Arc<Family>) {
        let _ = self.family.set(Arc::clone(family));
    }
}

impl ProcessState {
    /// The limits, if there are any.
    pub fn limits(&self) -> Option<&Limits> {
        self.watching.as_ref()?.limits.as_ref()
    }
}

impl LockedSession<'_> {
    /// Counts a span that is about to open.
    pub(super) fn count_start(&mut self, span: &mut OpenSpan) {
        let Some(limits) = self.process.limits() else {
            return;
        };
        let kind = span.at.kind;
        let loops = &mut self.state.content.loops;
        let loops = loops.get_or_insert_with(|| Box::new(Loops::new(limits)));
        let mut in_loop = None;
        match kind {
            SpanKind::Run => loops.run_started(),
            SpanKind::Turn => loops.turn_started(),
            SpanKind::Model | SpanKind::Tool => in_loop = loops.stopped(),
            _ => return,
        }
        let family = self.log.family();
        let is_top_run = kind == SpanKind::Run && family.top == self.log.id;
        let counts = family.start(kind, is_top_run, span.start.steady);
        let in_loop = in_loop.map(Box::new);
        span.at_start = Some(AtStart { counts, in_loop });
    }

    /// Looks at a span that has closed: `used` is what it adds to the totals.
    pub(super) fn watch_close(
        &mut self,
        span: &OpenSpan,
        end: Moment,
        used: Option<&Usage>,
        line: Option<Appended>,
    ) {
        let Some(limits) = self.process.limits() else {
            return;
        };
        if let Some(usage) = used {
            self.watch_usage(Some(span), &span.at, usage, end.wall);
        }
        match span.at.kind {
            SpanKind::Run => {
                if let Some(loops) = &mut self.state.content.loops {
                    loops.run_ended();
                }
                let family = self.log.family();
                if family.top == self.log.id {
                    family.end_run(end.steady);
                }
            }
            SpanKind::Tool => {
                let line = line.map(|line| Address {
                    seg: line.segment,
                    seq: line.seq,
                });
                if let Some(at) = line
                    && let Some(warning) = self.loop_of(span, at, limits)
                {
                    self.warn_of_loop(&span.at, &warning);
                }
            }
            _ => {}
        }
    }

    /// The loop that a closed tool call completes.
    fn loop_of(&mut self, span: &OpenSpan, at: Address, limits: &Limits) -> Option<LoopWarning> {
        let loops = self.state.content.loops.as_mut()?;
        if !loops.is_on() {
            return None;
        }
        let known = |name: &str| loops.known_tool(name);
        let step = ToolStep::of(
            span.fields.members(),
            span.outcome,
            at,
            limits.volatile_names(),
            known,
        )?;
        loops.push(step)
    }

    fn warn_of_loop(&mut self, at: &SpanContext, warning: &LoopWarning) {
        let evidence = warning.evidence.iter().map(Address::to_string);
        let mut fields = Fields::default();
        fields.set_str(field!(LoopWarning.pattern), &warning.pattern);
        let repetitions = warning.repetitions.to_string();
        fields.set(field!(LoopWarning.repetitions), repetitions.as_bytes());
        fields.set_str(field!(LoopWarning.verdict), warning.kind.as_str());
        let window_size = warning.window_size.to_string();
        fields.set(field!(LoopWarning.window_size), window_size.as_bytes());
        let evidence = json!(evidence.collect::<Vec<_>>()).to_string();
        fields.set(field!(LoopWarning.evidence), evidence.as_bytes());
        self.event_around(Kind::LoopWarning, at, &fields);
    }

    /// Counts usage that the totals count.
    pub(super) fn watch_usage(
        &mut self,
        call: Option<&OpenSpan>,
        at: &SpanContext,
        usage: &Usage,
        time: u64,
    ) {
        let Some(limits) = self.process.limits() else {
            return;
        };
        let call = call.filter(|span| span.at.kind == SpanKind::Model);
        let text = |name| call?.fields.value(name)?.text();
        let provider = text(field!(ModelCall.provider_id));
        let model = text(field!(ModelCall.model_id));
        let used = Used {
            usage,
            provider: provider.as_deref(),
            model: model.as_deref(),
            at: time,
        };
        if self.log.family().add_used(used, limits.has_cost()) {
            let model = model.as_deref().unwrap_or("a model that no call names");
            let message = format!(
                "the price of {model} is not known, so max_cost_usd does not count it; record cost_usd with its usage"
            );
            let mut fields = Fields::default();
            fields.set_str(field!(Log.level), "WARN");
            fields.set_str(field!(Log.target), "spanledger::watch");
            fields.set_str(field!(Log.message), &message);
            self.event_around(Kind::Log, at, &fields);
        }
    }

    /// Appends an event to the span around one that has closed.
    fn event_around(&mut self, kind: Kind, at: &SpanContext, fields: &Fields) {
        let around = self.around(at);
        self.event(kind.as_str(), around.as_ref(), fields, Note::default());
    }

    /// The open span around another one.
    pub fn around(&self, at: &SpanContext) -> Option<SpanContext> {
        let spans = &self.state.content.spans;
        let ids = [at.ids.parent, at.turn_span, at.run_span()];
        let others = ids.into_iter().flatten().filter(|id| *id != at.ids.span);
        let mut around = others.filter_map(|id| spans.get(&id));
        around.next().map(|span| span.at.clone())
    }

    /// What a span that asks whether it may go on has to know: what was counted when it started, and for a
    /// tool its fields. `None`: it is not open.
    pub fn asked(&mut self, span: u64) -> Option<Asked> {
        let span = self.state.content.spans.get_mut(&span)?;
        let text = |name| Some(span.fields.value(name)?.text()?.into_owned());
        Some(Asked {
            tool_id: text(field!(ToolCall.tool_id)),
            tool_call_id: text(field!(ToolCall.tool_call_id)),
            args: span
                .fields
                .value(field!(ToolCall.args))
                .map(|args| args.json().into()),
            at_start: span.at_start.take(),
        })
    }
}

/// A span that asks whether it may go on.
pub(crate) struct Asked {
    pub tool_id: Option<String>,
    pub tool_call_id: Option<String>,
    pub args: Option<String>,
    pub at_start: Option<AtStart>,
}
