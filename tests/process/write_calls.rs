//! Replaces the C library's `write` in this executable, so that a test can shorten or delay the writes of
//! one thread.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;

thread_local! {
    static SHORTENED: Cell<u32> = const { Cell::new(0) };
    static BEFORE_NEXT: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// Makes this thread's next `count` writes write half of their bytes.
pub fn shorten(count: u32) {
    SHORTENED.set(count);
}

/// How many of this thread's writes are still to be shortened.
pub fn left_to_shorten() -> u32 {
    SHORTENED.get()
}

/// Runs `hook` before this thread's next write.
pub fn before_next(hook: impl FnOnce() + 'static) {
    BEFORE_NEXT.set(Some(Box::new(hook)));
}

#[unsafe(no_mangle)]
extern "C" fn write(fd: libc::c_int, bytes: *const c_void, count: usize) -> isize {
    // Threads also write while their thread-local variables are destroyed.
    if let Ok(Some(hook)) = BEFORE_NEXT.try_with(RefCell::take) {
        hook();
    }
    let shortened = SHORTENED.try_with(Cell::get).unwrap_or(0);
    let count = if shortened > 0 {
        SHORTENED.set(shortened - 1);
        count / 2
    } else {
        count
    };
    let part = libc::iovec {
        iov_base: bytes.cast_mut(),
        iov_len: count,
    };
    // SAFETY: the caller's own arguments, and no more bytes than it gave, which are only read.
    unsafe { libc::writev(fd, &part, 1) }
}
