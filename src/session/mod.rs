//! The session model: what the lines of a session add up to.
//!
//! Everything here is a fold over [`RawLine`](crate::trace::RawLine)s: feed it lines as they
//! come, whole sessions or parts, finished or not. A session that stopped in the middle folds too:
//! its last spans are open.
//!
//! - [`Store`]: the sessions under a root, found by id, name or path.
//! - [`Summary`]: agent, model, counts, usage, errors, open spans; a few hundred bytes, however long
//!   the trace.
//! - [`Turns`]: a session turn by turn; holds one turn at a time.
//! - [`Hidden`]: what rewinds have hidden; [`Branch`]: the sessions that were branched from one.
//! - [`FindId`], [`texts`]: the lines that have an id, the texts of a session.
//! - [`families`]: which sessions belong together; [`Retention`]: which to remove.
//! - [`turn`], [`line()`], [`body`], [`blob`]: one thing out of a long session.
//!
//! # From a session to messages and calls
//!
//! [`each_turn`] reads a session as [`Turn`]s. A turn has [`Node`]s, spans and events, as a flat list
//! and as a tree of [`Step`]s. [`Node::item`] has the typed fields of a node, by what it is. An exporter
//! is a fold over these:
//!
//! ```
//! use spanledger::session::{Action, Item, Part, Role, Step, each_turn};
//!
//! fn write(step: &Step<'_>, out: &mut Vec<String>) {
//!     match step.node.item() {
//!         Item::ModelCall(call) => {
//!             let usage = call.usage().unwrap_or_default();
//!             let model = call.model_id().unwrap_or_default();
//!             out.push(format!("model {model}: {:?} tokens", usage.output_tokens));
//!         }
//!         Item::ToolCall(call) => {
//!             let denied = step.permissions().any(|one| one.action() == Some(Action::Deny));
//!             let result = call.result().and_then(|result| result.text());
//!             let tool = call.tool_id().unwrap_or_default();
//!             out.push(format!("tool {tool}, denied: {denied}, result: {result:?}"));
//!         }
//!         Item::Message(_) if step.node.role() == Some(Role::User) => {
//!             let calls = |part: &Part<'_>| matches!(part, Part::ToolCall { .. });
//!             assert!(!step.node.parts().any(|part| calls(&part)));
//!             out.push(format!("user: {}", step.node.content().unwrap_or_default()));
//!         }
//!         _ => {}
//!     }
//!     step.inside.iter().for_each(|inner| write(inner, out));
//! }
//!
//! # let dir = tempfile::tempdir()?;
//! # let (layer, guard) = spanledger::builder().root(dir.path()).build()?;
//! # use spanledger::{SpanExt, events, spans};
//! # use tracing_subscriber::prelude::*;
//! # tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
//! #     let _run = spans::session_run("ses_1", "builder").start().entered();
//! #     let _turn = spans::session_turn().start().entered();
//! #     events::message_user("Remove the old files.").emit();
//! #     let tool = spans::tool_call("bash", "call_1").start();
//! #     let permission = spans::permission_evaluate("bash").child_of(&tool).start();
//! #     permission.set("action", "deny");
//! # });
//! # guard.shutdown()?;
//! # let session = spanledger::read::session_dir(dir.path(), "ses_1");
//! let mut out = Vec::new();
//! let damages = each_turn(session, |turn| {
//!     turn.steps().iter().for_each(|step| write(step, &mut out));
//!     Ok::<(), std::io::Error>(())
//! })?;
//! assert_eq!(out, ["user: Remove the old files.", "tool bash, denied: true, result: None"]);
//! assert!(damages.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod branches;
mod check;
mod decision;
mod doctor;
mod facts;
mod failure;
mod family;
mod filter;
mod find;
mod hidden;
mod implicit;
mod item;
mod left_open;
mod lookup;
mod message;
#[cfg(feature = "cli")]
mod monitor;
mod newest;
mod node;
mod peek;
mod retention;
mod search;
mod status;
mod step;
mod store;
mod streamed;
mod subagents;
mod summary;
mod turns;

pub use branches::Branch;
pub use check::Checks;
pub use decision::{Action, PermissionDecision, Wait};
pub use doctor::{CheckHealth, Diagnosis, diagnose_environment, diagnose_root};
pub use facts::{InForce, ModelUsed, RecordedRule, Tool, TurnFacts};
pub(crate) use family::depth_first;
pub use family::{Family, families, tree};
pub use filter::{SessionFilter, TurnFilter};
pub use find::{FindId, IdFound, IdHits, IdKind, IdSearch, SHORTEST_PREFIX, hits_at};
pub(crate) use hidden::{GoneBack, Rewinds};
pub use hidden::{Hidden, HiddenNodes};
pub use item::Item;
pub use lookup::{Excerpt, blob, blobs, body, line, turn, whole};
pub use message::{Part, Role};
#[cfg(feature = "cli")]
pub use monitor::{Monitor, MonitorEvent};
pub use newest::Newest;
pub use node::{Node, NodeState};
pub use retention::{Pruned, Retention};
pub use search::{SearchText, Unsearched, texts};
pub use status::{ErrorRef, OpenSpan, Reported, Status, StatusReport, WaitsFor, Writer};
pub use step::Step;
pub use store::{Entry, ResolveError, Store, Survey, Unreadable};
pub use streamed::{StreamKey, Streamed, Streams, is_delta};
pub use subagents::{SubagentResult, SubagentTotals};
pub use summary::Summary;
pub use turns::{Digests, Turn, Turns, each_turn};

pub(crate) use left_open::read_interrupted;
pub(crate) use node::message_with_causes;
