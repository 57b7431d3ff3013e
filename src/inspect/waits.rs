//! How long a session waited for a person, and which calls were denied: folds over lines.

use std::collections::HashMap;

use crate::session::{Action, Item};
use crate::trace::typed::Hitl;
use crate::trace::{Kind, Outcome, RawLine, parse_time};

/// More questions or spans than this are never open at once; a damaged trace may suggest so.
const MOST: usize = 4_096;

/// What is known of an open tool call or permission.
#[derive(Clone, Copy, Debug, Default)]
struct Inside {
    /// A permission inside it was denied.
    denied: bool,
    /// A person was asked inside it.
    asked: bool,
}

/// A question that was answered, and may belong to a permission that is open.
#[derive(Debug)]
struct Answered {
    interrupt_id: Box<str>,
    /// The span that the answer lies in.
    span: Option<Box<str>>,
    ns: u64,
}

/// Follows permissions and questions to a person. Each wait and each denial is counted once, wherever it was
/// recorded: on the permission, as question and answer, or on the tool call.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// By span id.
    inside: HashMap<Box<str>, Inside>,
    /// When each open question was asked, by interrupt id.
    questions: HashMap<Box<str>, u64>,
    answered: Vec<Answered>,
}

/// What one line adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waited {
    /// Nanoseconds that a person was waited for.
    pub ns: u64,
    /// A call was denied.
    pub denied: bool,
}

impl Waits {
    /// Takes one line.
    pub fn add_line(&mut self, line: &RawLine<'_>) -> Waited {
        match line.kind() {
            Kind::HitlRequest | Kind::HitlResponse => self.hitl(line),
            Kind::PermissionEvaluate | Kind::ToolResult | Kind::Interrupted => {
                return self.close(line);
            }
            Kind::TurnEnd => {
                // A permission may lie directly in the turn.
                line.span_id.map(|id| self.inside.remove(id));
            }
            _ => {}
        }
        Waited::default()
    }

    /// The waits that belong to no permission and no tool call.
    pub fn rest(&mut self) -> u64 {
        self.answered.drain(..).map(|one| one.ns).sum()
    }

    fn hitl(&mut self, line: &RawLine<'_>) {
        let hitl: Hitl<'_> = line.payload().into();
        let time = parse_time(line.ts).unwrap_or(0);
        let id = hitl.interrupt_id().unwrap_or_default();
        if line.kind() == Kind::HitlRequest {
            if self.questions.len() < MOST {
                self.questions.insert((*id).into(), time);
            }
        } else if let Some(asked) = self.questions.remove(&*id)
            && self.answered.len() < MOST
        {
            self.answered.push(Answered {
                interrupt_id: (*id).into(),
                span: line.span_id.map(Into::into),
                ns: time.saturating_sub(asked),
            });
        }
    }

    /// Takes the waits of answers in a span, or with an interrupt id.
    fn take_answered(&mut self, spans: [Option<&str>; 2], id: Option<&str>) -> Option<u64> {
        let is_its = |one: &mut Answered| {
            let inside = one.span.is_some() && spans.contains(&one.span.as_deref());
            inside || id == Some(&*one.interrupt_id)
        };
        let taken = self.answered.extract_if(.., is_its).map(|one| one.ns);
        taken.reduce(u64::saturating_add)
    }

    fn close(&mut self, line: &RawLine<'_>) -> Waited {
        let inside = line.span_id.and_then(|id| self.inside.remove(id));
        let inside = inside.unwrap_or_default();
        let item = Item::of(line);
        let span = item.span();
        let is_denied = span.outcome() == Some(Outcome::Denied);
        match item {
            Item::Permission(permission) => {
                let action = Action::of(&permission);
                let id = permission.interrupt_id();
                let spans = [line.span_id, line.parent_span_id];
                let answered = self.take_answered(spans, id.as_deref());
                let asked = action == Some(Action::Ask)
                    || answered.is_some()
                    || id.is_some()
                    || permission.decided_by().is_some();
                let denied = is_denied || action == Some(Action::Deny);
                if let Some(tool) = line.parent_span_id
                    && (denied || asked)
                    && self.inside.len() < MOST
                {
                    let tool = self.inside.entry(tool.into()).or_default();
                    tool.denied |= denied;
                    tool.asked |= asked;
                }
                let ns = span.duration_ns().filter(|_| asked).unwrap_or(0);
                Waited { ns, denied }
            }
            Item::ToolCall(call) => {
                let answered = self.take_answered([line.span_id, None], None);
                let blocked = call.blocked_ms().map(|ms| ms.saturating_mul(1_000_000));
                let own = answered.or(blocked).filter(|_| !inside.asked);
                Waited {
                    ns: own.unwrap_or(0),
                    denied: is_denied && !inside.denied,
                }
            }
            _ => Waited::default(),
        }
    }
}
