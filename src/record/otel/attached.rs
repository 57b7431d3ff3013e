//! The contexts that are current on this thread because an agent span is entered here.
//!
//! Spans may be exited in another order than they were entered in, so each guard is kept by its span. A guard
//! that is dropped while the thread's locals are destroyed would abort the process, so guards of spans that
//! are never exited are leaked.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use opentelemetry::{Context, ContextGuard};

use super::quietly;
use crate::record::layer::Key;

thread_local! {
    static ATTACHED: RefCell<Vec<(Key, ManuallyDrop<ContextGuard>)>> =
        const { RefCell::new(Vec::new()) };
}

/// Makes a context current until its span is exited.
pub(crate) fn attach(key: Key, context: Context) {
    // Attaching and dropping may run the user's code, so neither happens under the borrow.
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
        // A guard that `detach` could not find must not stay.
        quietly(|| drop(guard));
    }
}

/// Ends what `attach` did for a span.
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
