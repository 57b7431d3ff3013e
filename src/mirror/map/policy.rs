//! What may be sent of a session: recorded in each segment's header, so that every process that sends a
//! span sends the same bytes.

use super::origin::{HeaderError, MAPPING};
use crate::trace::RawValue;
use crate::trace::typed::MirrorPolicy;

/// The settings that decide what is sent of a session. By default there is no endpoint, content is not
/// sent, and nothing is truncated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// The endpoint that was configured, without credentials.
    pub endpoint: Option<String>,
    /// Whether messages, arguments and results are sent.
    pub content: bool,
    /// How much of a span is sent.
    pub limits: Limits,
    /// Whether cache-write tokens are called `gen_ai.usage.cache_write.input_tokens`, not
    /// `gen_ai.usage.cache_creation.input_tokens`.
    pub cache_write_name: bool,
    /// Whether the cost of a model call is also sent as `gen_ai.usage.cost`.
    pub usage_cost: bool,
}

/// How much of a span is sent. Markers say what was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest text of an attribute, in bytes; truncated at the end of a character.
    pub attribute_length: Option<usize>,
    /// The number of attributes of a span; the first ones stay.
    pub attribute_count: Option<usize>,
    /// The number of events of a span.
    pub event_count: Option<usize>,
    /// The number of links of a span.
    pub link_count: Option<usize>,
}

impl Policy {
    /// Reads the `mirror` member of a segment's header.
    pub(crate) fn parse(mirror: RawValue<'_>) -> Result<Self, HeaderError> {
        let mirror = MirrorPolicy::from(mirror);
        // A segment that was recorded for no endpoint has none.
        let mapping = mirror.mapping().unwrap_or(MAPPING);
        if mapping != MAPPING {
            return Err(HeaderError::OtherMapping(mapping));
        }
        let limits = mirror.limits();
        let limit = |name| usize::try_from(limits?.get(name)?.u64()?).ok();
        Ok(Self {
            endpoint: mirror.endpoint().map(|text| text.into_owned()),
            content: mirror.content() == Some(true),
            limits: Limits {
                attribute_length: limit("attribute_length"),
                attribute_count: limit("attribute_count"),
                event_count: limit("event_count"),
                link_count: limit("link_count"),
            },
            cache_write_name: mirror.cache_write_name() == Some(true),
            usage_cost: mirror.usage_cost() == Some(true),
        })
    }
}
