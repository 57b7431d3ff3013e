//! Whether a call may go on: limits first, then the hooks before a tool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::recorder::{Recorder, Update};
use super::span_data::Target;
use crate::record::events;
use crate::record::panics::caught_panic;
use crate::record::raw_fields::RawFields;
use crate::record::session::{Asked, SpanContext};
use crate::record::spans::Session;
use crate::record::watching::{BeforeTool, Decision, Hook, Watching};
use crate::trace::{Failure, Kind, Outcome, Refused, SpanKind};

/// The point of the hooks before a tool, in the trace.
const TOOL_BEFORE: &str = "tool.before";

impl Recorder {
    /// Whether the span may go on. If not, it is closed as denied, unless a person has to decide.
    pub fn allowed(self: &Arc<Self>, target: &Arc<Target>) -> Result<(), Refused> {
        let (Some(watching), Some(at)) = (&self.process.watching, &target.span) else {
            return Ok(());
        };
        if self.process.refuses() {
            return Ok(());
        }
        let asked = target.log.lock(&self.process).asked(at.ids.span);
        let Some(asked) = asked else {
            return Err(Refused::Denied {
                hook: "spanledger".into(),
                reason: "the span is closed".into(),
            });
        };
        let decided = match self.stopped(&asked, target, at) {
            Some(stopped) => Err(stopped),
            None if at.kind == SpanKind::Tool => self.ask_hooks(watching, target, asked),
            None => Ok(()),
        };
        if let Err(refused) = &decided {
            self.refuse(target, at, refused);
        }
        decided
    }

    /// The limit that the span exceeds.
    fn stopped(&self, asked: &Asked, target: &Target, at: &SpanContext) -> Option<Refused> {
        let start = asked.at_start.as_ref()?;
        let limits = self.process.limits()?;
        let family = target.log.family();
        let counts = family.total(&start.counts, limits, &self.process.ledger);
        let exceeded = limits.exceeded(at.kind, &counts);
        exceeded.or_else(|| start.in_loop.as_deref().cloned())
    }

    /// Runs the hooks in order, with no lock held. A denial ends that; a question waits for the other hooks.
    fn ask_hooks(
        self: &Arc<Self>,
        watching: &Watching,
        target: &Arc<Target>,
        asked: Asked,
    ) -> Result<(), Refused> {
        let call = BeforeTool {
            tool_id: asked.tool_id.unwrap_or_default(),
            tool_call_id: asked.tool_call_id,
            args: asked.args,
            session: Session::new(self, Arc::clone(target)),
        };
        let mut decided = Ok(());
        for hook in &watching.hooks {
            let (decision, panic) = run(hook, &call, &watching.on_panic);
            if let Some(panic) = &panic {
                call.session.record(events::failure(panic));
            }
            let mut event = events::hook(TOOL_BEFORE, hook.name).decision(decision.name());
            let panicked =
                panic.map(|panic| format!("panic: {}", panic.text().unwrap_or_default()));
            if let Some(reason) = panicked.as_deref().or(decision.reason()) {
                event = event.reason(reason);
            }
            call.session.record(event);
            let hook = hook.name.to_owned();
            match decision {
                Decision::Allow => {}
                Decision::Deny(reason) => return Err(Refused::Denied { hook, reason }),
                Decision::Ask(reason) if decided.is_ok() => {
                    decided = Err(Refused::Ask { hook, reason });
                }
                Decision::Ask(_) => {}
            }
        }
        decided
    }

    /// Records that a call may not run. A limit is an error of the span around it too.
    fn refuse(&self, target: &Arc<Target>, at: &SpanContext, refused: &Refused) {
        let failure = match refused {
            Refused::Ask { .. } => return,
            Refused::Stopped { .. } => {
                let failure = refused.to_failure();
                let span = target.log.lock(&self.process).around(at);
                let log = Arc::clone(&target.log);
                let (kind, raw) = events::failure(&failure).into_parts();
                debug_assert_eq!(Kind::parse(&kind), Kind::Error);
                self.event(&Target { log, span }, &kind, raw);
                failure
            }
            _ => refused.to_failure(),
        };
        let mut raw = RawFields::new();
        raw.failure(field!(ToolCall.error), &failure);
        if at.kind == SpanKind::Tool {
            raw.text(field!(ToolCall.tool_state), "output-denied");
        }
        let update = Update {
            is_last: true,
            ..Update::fields(&raw)
        };
        self.record_at(target, update);
        raw.recycle();
        let (log, id) = (&target.log, at.ids.span);
        log.close(&self.process, id, Outcome::Denied, None);
    }
}

/// The decision of a hook, and its panic.
fn run(hook: &Hook, call: &BeforeTool, on_panic: &Decision) -> (Decision, Option<Failure>) {
    match catch_unwind(AssertUnwindSafe(|| (hook.run)(call))) {
        Ok(decision) => (decision, None),
        Err(panic) => (on_panic.clone(), Some(caught_panic(&*panic))),
    }
}
