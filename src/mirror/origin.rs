//! What the first line of a segment fixes for every span that was opened in it.

use std::fmt;
use std::io;
use std::path::Path;

use super::otlp::Resource;
use super::otlp::{InstrumentationScope, KeyValue};
use prost::Message;

use super::attributes::{key_value, member_name, plain};
use super::config::Resolved;
use super::wire::Val;
use crate::reader::{Found, RawLine, RawValue, SegmentReader};

/// The version of the mapping from lines to spans that this crate knows. Bytes of another version
/// are another's to send: a re-send must not differ.
pub const MAPPING: u64 = 1;

/// Who recorded, and what may be sent of it: the first line of a segment, as far as it shapes spans.
///
/// ```
/// use spanledger::{mirror::Origin, reader::RawLine};
/// let line = br#"{"v":1,"seg":1,"seq":1,"ts":"2026-11-16T00:31:05.123456Z","kind":"segment","session_id":"s","payload":{"resource":{"service.name":"agent"},"scope":{"name":"spanledger","version":"0.1.0"},"mirror":{"endpoint":"http://127.0.0.1:4317","content":true,"mapping":1}}}"#;
/// let origin = Origin::parse(&RawLine::parse(line)?)?;
/// assert!(origin.policy().content);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    resource: Resource,
    scope: InstrumentationScope,
    policy: Policy,
    /// Resource and scope as they are sent: equal bytes are the same origin of spans.
    resource_bytes: Vec<u8>,
    scope_bytes: Vec<u8>,
}

/// What was decided about sending when it was recorded. By default nobody was named to send to,
/// content stays here, and nothing is cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// For whom it was recorded, without credentials.
    pub endpoint: Option<String>,
    /// Whether messages, arguments and results are sent.
    pub content: bool,
    /// Where spans are cut.
    pub limits: Limits,
}

/// How much of a span is sent. What is cut is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Longest text of an attribute, in bytes; cut at a character's end.
    pub attribute_length: Option<usize>,
    /// Most attributes of a span; the first ones stay.
    pub attribute_count: Option<usize>,
    /// Most events of a span.
    pub event_count: Option<usize>,
    /// Most links of a span.
    pub link_count: Option<usize>,
}

/// Why a line is nobody's origin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotAnOrigin {
    /// It is not the first line of a segment.
    OtherKind(String),
    /// Its spans are to be mapped in a way that this version doesn't know.
    OtherMapping(u64),
}

impl fmt::Display for NotAnOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherKind(kind) => {
                write!(f, "a `{kind}` line is not the first line of a segment")
            }
            Self::OtherMapping(found) => write!(
                f,
                "its spans are sent by mapping version {found}; this spanledger knows version {MAPPING}"
            ),
        }
    }
}

impl std::error::Error for NotAnOrigin {}

impl Origin {
    /// Reads the first line of a segment.
    pub fn parse(line: &RawLine<'_>) -> Result<Self, NotAnOrigin> {
        if line.kind != "segment" {
            return Err(NotAnOrigin::OtherKind(line.kind.to_string()));
        }
        let (mut resource, mut process, mut scope, mut mirror) = (None, None, None, None);
        for (name, value) in line.payload().members() {
            match name {
                "resource" => resource = Some(value),
                "process" => process = Some(value),
                "scope" => scope = Some(value),
                "mirror" => mirror = Some(value),
                _ => {}
            }
        }
        let policy = mirror.map_or_else(|| Ok(Policy::default()), read_policy)?;
        let resource = Resource {
            attributes: resource_attributes(resource, process),
            ..Resource::default()
        };
        let part = |name| Some(scope?.get(name)?.text()?.into_owned());
        let scope = InstrumentationScope {
            name: part("name").unwrap_or_else(|| "spanledger".to_owned()),
            version: part("version").unwrap_or_default(),
            ..InstrumentationScope::default()
        };
        Ok(Self {
            resource_bytes: resource.encode_to_vec(),
            scope_bytes: scope.encode_to_vec(),
            resource,
            scope,
            policy,
        })
    }

    /// The origin that a segment's file begins with.
    pub(super) fn of_segment(path: &Path) -> io::Result<Option<Self>> {
        let mut reader = SegmentReader::open(path)?;
        while let Some(found) = reader.next()? {
            // Before it can stand only what is left of a first line that a full disk tore.
            if let Found::Line(line) = found {
                return Ok(Self::parse(&line).ok());
            }
        }
        Ok(None)
    }

    /// Who recorded; attributes sorted by their names.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// What recorded.
    pub fn scope(&self) -> &InstrumentationScope {
        &self.scope
    }

    /// What may be sent.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether spans of both go under one resource and scope.
    pub fn sends_as(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.resource_bytes == other.resource_bytes
                && self.scope_bytes == other.scope_bytes)
    }

    pub(super) fn resource_bytes(&self) -> &[u8] {
        &self.resource_bytes
    }

    pub(super) fn scope_bytes(&self) -> &[u8] {
        &self.scope_bytes
    }
}

impl Resolved {
    /// What a segment's first line says of it: all that decides what is sent of it, and for whom.
    pub(crate) fn policy(&self) -> serde_json::Value {
        let limits = &self.limits;
        let mut set = serde_json::Map::new();
        for (name, limit) in [
            ("attribute_length", limits.attribute_length),
            ("attribute_count", limits.attribute_count),
            ("event_count", limits.event_count),
            ("link_count", limits.link_count),
        ] {
            if let Some(limit) = limit {
                set.insert(name.to_owned(), limit.into());
            }
        }
        serde_json::json!({
            "endpoint": self.shown(),
            "content": self.content,
            "limits": set,
            "mapping": MAPPING,
        })
    }
}

fn read_policy(mirror: RawValue<'_>) -> Result<Policy, NotAnOrigin> {
    let mapping = mirror.get("mapping").and_then(|value| value.u64());
    if let Some(found) = mapping.filter(|found| *found != MAPPING) {
        return Err(NotAnOrigin::OtherMapping(found));
    }
    let limits = mirror.get("limits");
    let limit = |name| usize::try_from(limits?.get(name)?.u64()?).ok();
    let endpoint = mirror.get("endpoint").and_then(|value| value.text());
    Ok(Policy {
        endpoint: endpoint.map(|text| text.into_owned()),
        content: mirror.get("content").and_then(|value| value.bool()) == Some(true),
        limits: Limits {
            attribute_length: limit("attribute_length"),
            attribute_count: limit("attribute_count"),
            event_count: limit("event_count"),
            link_count: limit("link_count"),
        },
    })
}

/// What the recorder logged, sorted. Backends find spans by `service.name`: where it was left out,
/// the name stands that the specification gives it.
fn resource_attributes(
    resource: Option<RawValue<'_>>,
    process: Option<RawValue<'_>>,
) -> Vec<KeyValue> {
    let members = resource.into_iter().flat_map(|value| value.members());
    let mut attributes: Vec<KeyValue> = members
        .filter_map(|(name, value)| Some(key_value(member_name(name).into_owned(), plain(value)?)))
        .collect();
    if !attributes.iter().any(|a| a.key == "service.name") {
        let exe = process.and_then(|process| process.get("exe")?.text());
        let file = exe
            .as_deref()
            .and_then(|exe| exe.rsplit(['/', '\\']).next());
        let name = match file {
            Some(file) if !file.is_empty() => format!("unknown_service:{file}"),
            _ => "unknown_service".to_owned(),
        };
        attributes.push(key_value("service.name", Val::Text(name.into())));
    }
    attributes.sort_by(|a, b| a.key.cmp(&b.key));
    attributes.dedup_by(|a, b| a.key == b.key);
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::otlp::any_value::Value;

    fn origin(payload: &str) -> Result<Origin, NotAnOrigin> {
        let line = format!(
            r#"{{"v":1,"seg":1,"seq":1,"ts":"2026-11-16T00:31:05.123456Z","kind":"segment","session_id":"s","payload":{payload}}}"#
        );
        Origin::parse(&RawLine::parse(line.as_bytes()).unwrap())
    }

    #[test]
    fn without_a_mirror_member_content_stays_here_and_nothing_is_cut() {
        let origin = origin(r#"{"resource":null,"scope":{"name":"x","version":"1"}}"#).unwrap();
        assert_eq!(origin.policy(), &Policy::default());
        assert!(!origin.policy().content);
        assert_eq!(origin.scope().name, "x");
        assert_eq!(origin.scope().version, "1");
    }

    #[test]
    fn the_policy_is_read_as_it_was_logged() {
        let origin = origin(
            r#"{"mirror":{"endpoint":"http://h:4317","content":true,"limits":{"attribute_length":64,"attribute_count":9,"event_count":null},"mapping":1}}"#,
        );
        let policy = origin.unwrap().policy;
        assert_eq!(policy.endpoint.as_deref(), Some("http://h:4317"));
        assert!(policy.content);
        assert_eq!(policy.limits.attribute_length, Some(64));
        assert_eq!(policy.limits.attribute_count, Some(9));
        assert_eq!(policy.limits.event_count, None);
    }

    #[test]
    fn a_mapping_of_another_version_is_left_to_others() {
        let found = origin(r#"{"mirror":{"mapping":2}}"#).unwrap_err();
        assert_eq!(found, NotAnOrigin::OtherMapping(2));
        assert!(found.to_string().contains("version 2"));
    }

    #[test]
    fn resource_attributes_are_sorted_typed_and_always_name_the_service() {
        let origin = origin(
            r#"{"process":{"exe":"/opt/bin/planner"},"resource":{"z":true,"a":3,"list":["x","y"],"f":0.5,"big":18446744073709551615,"none":null}}"#,
        );
        let attributes = origin.unwrap().resource.attributes;
        let keys: Vec<_> = attributes.iter().map(|a| a.key.as_str()).collect();
        assert_eq!(keys, ["a", "big", "f", "list", "service.name", "z"]);
        let value = |at: usize| attributes[at].value.clone().unwrap().value.unwrap();
        assert_eq!(value(0), Value::IntValue(3));
        assert_eq!(value(1), Value::StringValue(u64::MAX.to_string()));
        assert_eq!(value(2), Value::DoubleValue(0.5));
        assert!(matches!(value(3), Value::ArrayValue(list) if list.values.len() == 2));
        let service = Value::StringValue("unknown_service:planner".into());
        assert_eq!(value(4), service);
        assert_eq!(value(5), Value::BoolValue(true));
    }

    #[test]
    fn origins_that_differ_in_their_policy_only_send_as_one() {
        let a = origin(r#"{"resource":{"a":1,"b":2}}"#).unwrap();
        let b = origin(r#"{"resource":{"b":2,"a":1},"mirror":{"content":true}}"#).unwrap();
        let c = origin(r#"{"resource":{"a":1,"b":3}}"#).unwrap();
        assert!(a.sends_as(&b));
        assert!(!a.sends_as(&c));
    }
}
