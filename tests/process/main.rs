//! What concerns a whole process: its environment and limits, its subscriber, forks, kills, panics,
//! failing disks and the threads that the library starts.

mod arguments;
mod environment;
mod exports;
mod faults;
mod forks;
mod global_subscriber;
mod kill;
mod open_files;
#[cfg(feature = "mirror")]
mod own_threads;
mod panics;
mod processes;
mod segment_header;
mod short_writes;
#[path = "../support/mod.rs"]
mod support;
#[cfg(target_os = "linux")]
mod sync;
// On macOS the standard library syncs by `fcntl`, which can't be replaced so simply.
#[cfg(target_os = "linux")]
mod sync_calls;
mod write_calls;
