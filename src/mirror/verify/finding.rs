//! What a comparison found.

use std::fmt;

use serde_json::{Value as Json, json};

/// Something about a span that is not in the backend as it is in the trace.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The span's trace, in hexadecimal.
    pub trace_id: String,
    /// The span, in hexadecimal.
    pub span_id: String,
    /// What it is called there.
    pub name: String,
    /// Where its close line is, `session/seg:seq`; what the span itself says if the trace has none.
    pub address: Option<String>,
    /// What was found.
    pub what: What,
}

/// What can be found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// The backend doesn't have it.
    Missing {
        /// Why, where that is known: it was not sent yet, or refused.
        why: Option<String>,
    },
    /// The backend has a span of this session that the trace doesn't have.
    Extra,
    /// The backend shows it more than once. Whoever gets no answer sends again; Jaeger shows equal
    /// copies as one span, Tempo only those that came some time apart.
    Copies {
        /// How often.
        copies: usize,
    },
    /// A part of it is different.
    Differs {
        /// Which: `parent_span_id`, `start`, `attributes.gen_ai.tool.name`, `events.0.name`, …
        field: String,
        /// What was sent; nothing where the backend has more.
        sent: Option<Json>,
        /// What the backend has; nothing where it lacks it.
        held: Option<Json>,
    },
    /// A text that the backend cut, as it is known to do, and didn't say so.
    Cut {
        /// Which.
        field: String,
        /// How many bytes are left.
        left: usize,
        /// How many there were.
        of: usize,
    },
    /// It has no length, and the backend gave it one: Jaeger makes such a span a nanosecond long.
    Stretched,
    /// It was too large for a server and was sent again without its content; it says so itself.
    ContentRemoved,
}

impl What {
    /// The word for it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "missing",
            Self::Extra => "extra",
            Self::Copies { .. } => "copies",
            Self::Differs { .. } => "different",
            Self::Cut { .. } => "cut",
            Self::Stretched => "stretched",
            Self::ContentRemoved => "content_removed",
        }
    }

    /// Whether it is known to happen on the way, and tells nothing that isn't so: a cut, a copy, a
    /// nanosecond, content left out.
    pub const fn is_known(&self) -> bool {
        matches!(
            self,
            Self::Copies { .. } | Self::Cut { .. } | Self::Stretched | Self::ContentRemoved
        )
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<Json>| match value {
            Some(Json::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => "nothing".to_owned(),
        };
        match self {
            Self::Missing { why: Some(why) } => write!(f, "missing: {why}"),
            Self::Missing { why: None } => f.write_str("missing"),
            Self::Extra => f.write_str("not in the local trace"),
            Self::Copies { copies } => write!(f, "there {copies} times"),
            Self::Differs { field, sent, held } => {
                write!(f, "{field}: sent {}, held {}", text(sent), text(held))
            }
            Self::Cut { field, left, of } => {
                write!(
                    f,
                    "{field}: cut by the backend, {left} of {of} bytes are left"
                )
            }
            Self::Stretched => f.write_str("end: has no length, held as a nanosecond"),
            Self::ContentRemoved => f.write_str("too large for the server: sent without content"),
        }
    }
}

impl Finding {
    /// The finding as the command prints it; names are stable.
    pub fn to_json(&self) -> Json {
        let mut object = json!({
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "name": self.name,
            "address": self.address,
            "what": self.what.as_str(),
        });
        match &self.what {
            What::Missing { why } => object["why"] = json!(why),
            What::Copies { copies } => object["copies"] = json!(copies),
            What::Differs { field, sent, held } => {
                object["field"] = json!(field);
                object["sent"] = json!(sent);
                object["held"] = json!(held);
            }
            What::Cut { field, left, of } => {
                object["field"] = json!(field);
                object["left"] = json!(left);
                object["of"] = json!(of);
            }
            What::Extra | What::Stretched | What::ContentRemoved => {}
        }
        object
    }
}
