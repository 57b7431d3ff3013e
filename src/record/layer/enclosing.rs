//! Finds what encloses a span or an event: the nearest agent span, else a session that a foreign span
//! names, else the implicit session of the outermost span.

use std::sync::Arc;

use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::recorder::Recorder;
use super::span_data::SpanData;
use crate::record::session::{SessionLog, Trace};

#[derive(Debug)]
pub(crate) enum Enclosing {
    Span {
        data: Arc<SpanData>,
        /// It is the span that the search started at.
        exact: bool,
    },
    Session(Arc<SessionLog>),
    Implicit(ImplicitSession),
    Nothing,
}

/// The session and trace shared by agent spans without a run under one foreign span.
#[derive(Clone, Debug)]
pub(crate) struct ImplicitSession {
    pub log: Arc<SessionLog>,
    pub trace: Arc<Trace>,
}

/// The session that a foreign span names in its `session_id` field, for everything inside it.
#[derive(Clone, Debug)]
pub(crate) struct SessionOverride(pub Arc<SessionLog>);

impl Enclosing {
    /// Searches from `start` outwards. Foreign spans have no data of their own, which keeps them cheap;
    /// this walk is the price. Where nothing is found, `implicit` gives the outermost span an implicit
    /// session.
    pub fn find<'a, S>(start: Option<SpanRef<'a, S>>, implicit: Option<&Recorder>) -> Self
    where
        S: LookupSpan<'a>,
    {
        let mut exact = true;
        let mut next = start;
        while let Some(span) = next {
            {
                let extensions = span.extensions();
                if let Some(data) = extensions.get::<Arc<SpanData>>() {
                    let data = Arc::clone(data);
                    return Self::Span { data, exact };
                }
                if let Some(SessionOverride(log)) = extensions.get() {
                    return Self::Session(Arc::clone(log));
                }
                if let Some(session) = extensions.get::<ImplicitSession>() {
                    return Self::Implicit(session.clone());
                }
            }
            exact = false;
            next = span.parent();
            if next.is_none()
                && let Some(recorder) = implicit
            {
                return Self::Implicit(ImplicitSession::of(&span, recorder));
            }
        }
        Self::Nothing
    }
}

impl ImplicitSession {
    /// The implicit session of an outermost span, created if it has none.
    fn of<'a, S: LookupSpan<'a>>(outermost: &SpanRef<'a, S>, recorder: &Recorder) -> Self {
        // Before the extensions are locked: a sampler is the user's code.
        let log = recorder.process.implicit_session("anchor");
        let trace = recorder.new_trace(&log, "anchor", None);
        let mut extensions = outermost.extensions_mut();
        if let Some(session) = extensions.get_mut::<Self>() {
            return session.clone();
        }
        let session = Self { log, trace };
        extensions.insert(session.clone());
        session
    }
}
