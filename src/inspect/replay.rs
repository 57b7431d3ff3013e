//! Whether a session can be run again.
