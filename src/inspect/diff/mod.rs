//! What differs between two sessions.
