//! What a panic said and where it happened, for the spans that it unwinds.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

use crate::trace::Failure;

/// The message of a panic that no hook of ours has seen.
const NOT_CAPTURED: &str = "panic (message not captured: run the future with `.recorded(span)`, or let your panic hook \
     call the one before it)";
/// The message of a panic whose payload is another value than a text.
const NO_TEXT: &str = "panic (its payload is not a text)";

thread_local! {
    /// The last panic of this thread.
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Adds a panic hook in front of the one that is installed, which still runs. Only once in a process: a
/// hook that the agent installs later and that does not call this one leaves panics without a message.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    // The hook can't be changed by a thread that panics.
    if !std::thread::panicking() {
        INSTALLED.call_once(|| {
            let previous = take_hook();
            set_hook(Box::new(move |info| {
                remember(info);
                previous(info);
            }));
        });
    }
}

fn remember(info: &PanicHookInfo<'_>) {
    let failure = Failure::panic(text_of(info.payload()), info.location());
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Some(failure);
        }
    });
}

/// The last panic of this thread, for a span that it unwinds.
pub(crate) fn last_panic() -> Failure {
    last().unwrap_or_else(|| Failure::panic(NOT_CAPTURED, None))
}

/// The panic with this payload. Its place is known unless it came from another thread by `resume_unwind`,
/// which calls no hook.
pub(crate) fn caught_panic(payload: &(dyn Any + Send)) -> Failure {
    let caught = Failure::panic(text_of(payload), None);
    last()
        .filter(|last| last.text() == caught.text())
        .unwrap_or(caught)
}

fn last() -> Option<Failure> {
    LAST.try_with(|last| last.borrow().clone()).ok().flatten()
}

fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or(NO_TEXT)
}
