//! Progress on disk: how far each segment was sent, which spans were refused, and which process is responsible
//! for the rest.

pub(super) mod backlog;
pub(super) mod cursor;
pub(super) mod dead_letters;
pub(super) mod ownership;
