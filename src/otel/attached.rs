//! Contexts that are current on this thread because an agent span is entered here.
//!
//! Spans may be left in another order than they were entered in, so each guard is found again by its
//! span. A guard that is dropped when the thread's locals already are would end the process: those
//! that are never left are leaked instead.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use opentelemetry::{Context, ContextGuard};

use super::quietly;
use crate::layer::Key;

thread_local! {
    static ATTACHED: RefCell<Vec<(Key, ManuallyDrop<ContextGuard>)>> =
        const { RefCell::new(Vec::new()) };
}

/// Makes a context current until its span is left.
pub(crate) fn attach(key: Key, context: Context) {
    // Attaching and dropping run code of others, which may come back here: never under the borrow.
    let Some(guard) = quietly(|| context.attach()) else {
        return;
    };
    let mut guard = Some(guard);
    let _ = ATTACHED.try_with(|stack| {
        if let Ok(mut stack) = stack.try_borrow_mut() {
            stack.extend(guard.take().map(|guard| (key, ManuallyDrop::new(guard))));
        }
    });
    if guard.is_some() {
        // What can't be found again must not stay.
        quietly(|| drop(guard));
    }
}

/// Takes back what was made current for a span.
pub(crate) fn detach(key: Key) {
    let found = ATTACHED.try_with(|stack| {
        let mut stack = stack.try_borrow_mut().ok()?;
        let at = stack.iter().rposition(|(of, _)| *of == key)?;
        Some(stack.remove(at).1)
    });
    if let Ok(Some(guard)) = found {
        quietly(|| drop(ManuallyDrop::into_inner(guard)));
    }
}
