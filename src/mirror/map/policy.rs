//! What may be sent of a session: recorded in each segment's header, so that every process that sends a
//! span sends the same bytes.

use super::digest_key::DigestKey;
use super::origin::{HeaderError, MAPPING};
use crate::trace::RawValue;
use crate::trace::typed::{MirrorPolicy, SegmentHeader};

/// The settings that decide what is sent of a session. By default there is no endpoint, content is not
/// sent, and nothing is truncated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// The endpoint that was configured, without credentials.
    pub endpoint: Option<String>,
    /// Whether messages, arguments and results are sent.
    pub content: bool,
    /// Which other texts are sent.
    pub texts: Texts,
    /// How much of a span is sent.
    pub limits: Limits,
    /// Whether cache-write tokens are called `gen_ai.usage.cache_write.input_tokens`, not
    /// `gen_ai.usage.cache_creation.input_tokens`.
    pub cache_write_name: bool,
    /// Whether the cost of a model call is also sent as `gen_ai.usage.cost`.
    pub usage_cost: bool,
    /// The key of the digests that are sent in place of content. Without it there are none.
    pub(crate) digest_key: Option<DigestKey>,
}

/// Which texts besides messages, arguments and results are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Texts {
    /// The messages, causes, details and stacks of errors.
    pub error_text: bool,
    /// The messages and fields of log events.
    pub log_messages: bool,
    /// Directories, files, the program's path and its arguments.
    pub paths: bool,
    /// Fields that are not in the schema.
    pub custom_fields: bool,
}

impl Texts {
    /// Their names in a header.
    pub(crate) const NAMES: [&str; 4] = ["error_text", "log_messages", "paths", "custom_fields"];

    pub(crate) fn new([error_text, log_messages, paths, custom_fields]: [bool; 4]) -> Self {
        Self {
            error_text,
            log_messages,
            paths,
            custom_fields,
        }
    }

    /// Those whose setting differs from that of content.
    pub(crate) fn unlike(&self, content: bool) -> impl Iterator<Item = (&'static str, bool)> {
        let Self {
            error_text,
            log_messages,
            paths,
            custom_fields,
        } = *self;
        let settings = [error_text, log_messages, paths, custom_fields];
        let settings = Self::NAMES.into_iter().zip(settings);
        settings.filter(move |(_, sent)| *sent != content)
    }
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
    /// The policy of a segment.
    pub(crate) fn of(header: &SegmentHeader<'_>) -> Result<Self, HeaderError> {
        let policy = header.mirror().map_or(Ok(Self::default()), Self::parse)?;
        let salt = header.digest_salt();
        Ok(Self {
            digest_key: salt.and_then(|salt| DigestKey::parse(&salt)),
            ..policy
        })
    }

    /// Reads the `mirror` member of a segment's header.
    pub(crate) fn parse(mirror: RawValue<'_>) -> Result<Self, HeaderError> {
        let mirror = MirrorPolicy::from(mirror);
        // A segment that was recorded for no endpoint has none.
        let mapping = mirror.mapping().unwrap_or(MAPPING);
        if mapping != MAPPING {
            return Err(HeaderError::OtherMapping(mapping));
        }
        let limits = mirror.limits();
        let content = mirror.content() == Some(true);
        let limit = |name| usize::try_from(limits?.get(name)?.u64()?).ok();
        Ok(Self {
            endpoint: mirror.endpoint().map(|text| text.into_owned()),
            content,
            texts: Texts {
                error_text: mirror.error_text().unwrap_or(content),
                log_messages: mirror.log_messages().unwrap_or(content),
                paths: mirror.paths().unwrap_or(content),
                custom_fields: mirror.custom_fields().unwrap_or(content),
            },
            digest_key: None,
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
