//! The findings of a comparison.

use std::fmt;

use serde_json::{Value as Json, json};

/// A difference between a span in the trace and in the backend.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The span's trace, in hexadecimal.
    pub trace_id: String,
    /// The span, in hexadecimal.
    pub span_id: String,
    /// Its name.
    pub name: String,
    /// Where its close line is, `session/seg:seq`; from the span's attributes if the trace has none.
    pub address: Option<String>,
    /// The difference.
    pub what: What,
}

/// The kinds of differences.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// The backend doesn't have the span.
    Missing {
        /// Why, if that is known: it was not sent yet, or refused.
        why: Option<String>,
    },
    /// The backend has a span of this session that the trace doesn't have.
    Extra,
    /// The backend has the span more than once, because a request without an answer is sent again. Jaeger
    /// shows equal copies as one span, Tempo only those that came some time apart.
    Copies {
        /// How many.
        copies: usize,
    },
    /// A part of the span is different.
    Differs {
        /// Which: `parent_span_id`, `start`, `attributes.gen_ai.tool.name`, `events.0.name`, …
        field: String,
        /// What was sent; `None` if the backend has more.
        sent: Option<Json>,
        /// What the backend has; `None` if it is missing there.
        held: Option<Json>,
    },
    /// The backend truncated a text, as it is known to do.
    Cut {
        /// Which.
        field: String,
        /// How many bytes are left.
        left: usize,
        /// How many there were.
        of: usize,
    },
    /// The span has no duration, and Jaeger stored a nanosecond.
    Stretched,
    /// The span was too large for the server and was sent without its content.
    ContentRemoved,
}

impl What {
    /// A stable name.
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

    /// Whether it is a known effect that falsifies nothing: a truncated text, a copy, a nanosecond, or
    /// content that was left out.
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
            Self::Copies { copies } => write!(f, "stored {copies} times"),
            Self::Differs { field, sent, held } => {
                write!(f, "{field}: sent {}, stored {}", text(sent), text(held))
            }
            Self::Cut { field, left, of } => {
                write!(
                    f,
                    "{field}: truncated by the backend to {left} of {of} bytes"
                )
            }
            Self::Stretched => f.write_str("end: no duration, stored as one nanosecond"),
            Self::ContentRemoved => f.write_str("too large for the server: sent without content"),
        }
    }
}

impl Finding {
    /// The finding as JSON, as the command prints it. Names are stable.
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
