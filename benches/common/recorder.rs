//! A recorder, and what a bench is asked for on its command line.

use std::path::Path;

use spanledger::Guard;
use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt;

/// A ledger in `root`, and the subscriber that records into it.
pub fn recorder(root: &Path) -> (Dispatch, Guard) {
    let (layer, guard) = spanledger::builder().root(root).build().expect("a root");
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    (dispatch, guard)
}

/// Whether the bench was started with this flag.
pub fn has_flag(flag: &str) -> bool {
    std::env::args().skip(1).any(|arg| arg == flag)
}
