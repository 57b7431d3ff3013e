//! The origin of spans: what a segment's header line says about every span that was opened in it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;

use super::attributes::{key_value, member_name, plain, unsigned};
use super::policy::Policy;
use super::wire::Val;
use crate::mirror::otlp::{InstrumentationScope, KeyValue, Resource};
use crate::trace::typed::{Process, SegmentHeader};
use crate::trace::{RawLine, RawValue, first_line, if_exists, segment_name};

/// The version of the mapping from lines to spans. A resend must have the same bytes, so the segments of
/// another mapping are not sent.
pub const MAPPING: u64 = 1;

/// How many sessions [`OriginCache`] holds.
const MAX_SESSIONS: usize = 4096;

/// The resource, scope and export policy of the spans that were opened in a segment.
///
/// ```
/// use spanledger::mirror::Origin;
/// use spanledger::trace::RawLine;
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
    /// Resource and scope as they are sent.
    resource_bytes: Vec<u8>,
    scope_bytes: Vec<u8>,
}

/// Why a line is not a usable segment header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// It is a line of another kind.
    OtherKind(String),
    /// Its spans have a mapping that this version doesn't know.
    OtherMapping(u64),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherKind(kind) => write!(f, "a `{kind}` line is not a segment header"),
            Self::OtherMapping(found) => {
                let (which, hint) = match *found > MAPPING {
                    true => ("a newer", ": update to export it"),
                    false => ("an older", ""),
                };
                let known = format!("export format {found}, this one knows {MAPPING}");
                write!(f, "recorded by {which} spanledger ({known}){hint}")
            }
        }
    }
}

impl std::error::Error for HeaderError {}

impl Origin {
    /// Reads the header line of a segment.
    pub fn parse(line: &RawLine<'_>) -> Result<Self, HeaderError> {
        let header =
            SegmentHeader::of(line).ok_or_else(|| HeaderError::OtherKind(line.kind.to_string()))?;
        let policy = Policy::of(&header)?;
        let resource = Resource {
            attributes: resource_attributes(header.resource(), header.process()),
            ..Resource::default()
        };
        let scope = header.scope();
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

    /// The origin of a segment's file.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
        Ok(first_line(path, |line| Self::parse(line).ok())?.flatten())
    }

    /// The resource; attributes are sorted by name.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The instrumentation scope.
    pub fn scope(&self) -> &InstrumentationScope {
        &self.scope
    }

    /// What may be sent.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether spans of both have the same resource and scope.
    pub fn sends_as(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.resource_bytes == other.resource_bytes
                && self.scope_bytes == other.scope_bytes)
    }

    pub(crate) fn resource_bytes(&self) -> &[u8] {
        &self.resource_bytes
    }

    pub(crate) fn scope_bytes(&self) -> &[u8] {
        &self.scope_bytes
    }
}

/// The recorded resource and the process, sorted. Backends find spans by `service.name`; if it is missing, it is the
/// specification's default.
fn resource_attributes(
    resource: Option<RawValue<'_>>,
    process: Option<RawValue<'_>>,
) -> Vec<KeyValue> {
    let members = resource.into_iter().flat_map(|value| value.members());
    let mut attributes: Vec<KeyValue> = members
        .filter_map(|(name, value)| Some(key_value(member_name(name).into_owned(), plain(value)?)))
        .collect();
    let process = process.map(Process::from);
    let process = process.as_ref();
    let text = |text: Option<Cow<'_, str>>| text.map(|text| Val::Text(text.into_owned().into()));
    let known = [
        ("process.pid", process.and_then(Process::pid).map(unsigned)),
        ("host.name", text(process.and_then(Process::host))),
        ("service.version", text(process.and_then(Process::version))),
    ];
    for (name, value) in known {
        if let Some(value) = value.filter(|_| !attributes.iter().any(|a| a.key == name)) {
            attributes.push(key_value(name, value));
        }
    }
    if !attributes.iter().any(|a| a.key == "service.name") {
        let exe = process.and_then(Process::exe);
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

/// The origins of segments, each read once.
#[derive(Default)]
pub(crate) struct OriginCache {
    sessions: HashMap<PathBuf, HashMap<u32, Option<Arc<Origin>>>>,
    /// The origin that was read last: the segments of one process have equal ones, which are shared.
    last: Option<Arc<Origin>>,
    /// The last question and its answer: most lines have the same origin as the line before.
    recent: Option<(OsString, u32, Option<Arc<Origin>>)>,
}

impl OriginCache {
    /// The origin of a segment beside `path`. `None` if its header is unknown or gone.
    pub fn get(&mut self, path: &Path, seg: u32) -> io::Result<Option<Arc<Origin>>> {
        if let Some((known, known_seg, origin)) = &self.recent
            && *known_seg == seg
            && known == path.as_os_str()
        {
            return Ok(origin.clone());
        }
        let session = path.parent().unwrap_or(path);
        let known = self.sessions.get(session);
        let origin = match known.and_then(|segments| segments.get(&seg)) {
            Some(known) => known.clone(),
            None => self.read(session, seg)?,
        };
        self.recent = Some((path.as_os_str().to_owned(), seg, origin.clone()));
        Ok(origin)
    }

    fn read(&mut self, session: &Path, seg: u32) -> io::Result<Option<Arc<Origin>>> {
        let read = if_exists(Origin::read(&session.join(segment_name(seg))))?.flatten();
        let read = read.map(|read| match &self.last {
            Some(last) if **last == read => Arc::clone(last),
            _ => Arc::clone(self.last.insert(Arc::new(read))),
        });
        if self.sessions.len() >= MAX_SESSIONS {
            self.sessions.clear();
        }
        let segments = self.sessions.entry(session.to_owned()).or_default();
        segments.insert(seg, read.clone());
        Ok(read)
    }

    /// Forgets a session, because another may have its name by now.
    pub fn forget(&mut self, session: &Path) {
        self.recent = None;
        self.sessions.remove(session);
    }
}

/// The segment that opened the span of a close line.
pub(crate) fn opened_seg(line: &RawLine<'_>) -> u32 {
    let fields = line.fields();
    let opened = fields.iter().find(|(name, _)| *name == "opened_seg");
    let opened = opened.and_then(|(_, seg)| u32::try_from(seg.u64()?).ok());
    opened.unwrap_or(line.seg)
}

#[cfg(test)]
mod tests;
