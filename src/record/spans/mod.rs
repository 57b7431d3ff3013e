//! The six agent spans, the data that is recorded on them, and handles to sessions.
//!
//! Each constructor makes an ordinary [`tracing::Span`], so `.entered()` and `.instrument()` just
//! work. A plain macro with the same name and fields gives the same lines. With a constructor, content
//! (arguments, results, messages) never passes through `tracing` fields, where another layer could print or
//! export it. Ids and names do pass, so that the output of other layers still names the tool.

mod construct;
mod ext;
mod future;
mod session;
mod stream;

pub(crate) use construct::probe;
pub use construct::{
    CompactionRun, ModelCall, PermissionEvaluate, SessionRun, SessionTurn, ToolCall,
    compaction_run, model_call, permission_evaluate, session_run, session_turn, tool_call,
};
pub use ext::SpanExt;
pub use future::{FutureExt, Recorded};
pub use session::Session;
pub use stream::Stream;
