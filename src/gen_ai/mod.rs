//! The GenAI conventions of OpenTelemetry, as they are read: which spans they describe, our names of their
//! attributes, and the messages that attributes hold.

mod content;
mod history;
mod messages;
mod names;

pub(crate) use content::Content;
pub(crate) use history::{ChainTip, History, MessageKey, PastTip};
pub(crate) use messages::events;
pub(crate) use names::{
    Ending, OPERATION, identity, kind_of, only_reason, our_name, usual_operation,
};
