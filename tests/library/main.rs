//! Recording and reading through the public library, in this process.

mod async_agents;
mod compile_errors;
mod context_assets;
mod deferred_open;
mod diff;
mod event_kinds;
mod events;
#[cfg(feature = "cli")]
mod follow;
mod format_compat;
mod import_atif;
mod import_otlp;
mod interrupted_spans;
mod layers;
mod live_exports;
mod model;
mod other_layers;
mod outcomes;
mod recognize;
mod redaction;
mod request_exports;
mod requests;
mod round_trips;
mod run_formats;
mod sequence_gaps;
mod session_files;
mod sessions;
mod span_cache;
#[cfg(feature = "mirror")]
mod span_cache_model;
mod spans;
mod streamed_messages;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod totals;
mod values;
mod watch;
mod wrapped_layers;
