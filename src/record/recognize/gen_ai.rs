//! Reads the fields of a span by the GenAI conventions of OpenTelemetry.

use std::borrow::Cow;

use super::Recognized;
use crate::gen_ai::{Content, Ending, only_reason, our_name, usual_operation};
use crate::record::raw_fields::{RawFields, Rewrite};
use crate::trace::SpanKind;

pub(super) fn read(kind: SpanKind, mut raw: RawFields) -> Recognized {
    let mut content = Content::default();
    let mut ending = Ending::default();
    // A span that is none of the six keeps all its fields under their own names.
    let known = kind != SpanKind::Other;
    raw.rewrite(|field, text| {
        if known && ending.take(field, text) {
            return Rewrite::Take;
        }
        // An internal marker of the library `rig`.
        if field == "rig.completion_parent" {
            return Rewrite::Take;
        }
        let Some(name) = field.strip_prefix("gen_ai.").filter(|_| known) else {
            return Rewrite::Keep;
        };
        if name == "operation.name" {
            return match text == usual_operation(kind) {
                true => Rewrite::Take,
                false => Rewrite::Keep,
            };
        }
        if matches!(kind, SpanKind::Run | SpanKind::Model) && content.take(name, text) {
            return Rewrite::Take;
        }
        our_name(kind, name).map_or(Rewrite::Keep, rename)
    });
    if let Some(reason) = raw.get("finish_reason").and_then(only_reason) {
        raw.remove("finish_reason");
        raw.text("finish_reason", &reason);
    } else if let Some(reason) = content.finish_reason()
        && kind == SpanKind::Model
        && raw.get("finish_reason").is_none()
    {
        raw.text("finish_reason", reason);
    }
    if !ending.error.is_empty() {
        raw.json("error", &ending.error);
    }
    Recognized {
        fields: raw,
        content,
        outcome: ending.outcome,
    }
}

const fn rename(to: &'static str) -> Rewrite {
    Rewrite::Rename {
        to: Cow::Borrowed(to),
        skip: 0,
    }
}
