//! The pages under `docs/`. This module exists in the documentation only; the code on the pages is tested like
//! the README's.

/// A module whose documentation is a page. The links between pages lead to their modules.
macro_rules! page {
    ($name:ident) => {
        #[doc = "[debugging.md]: crate::guide::debugging"]
        #[doc = "[events.md]: crate::guide::events"]
        #[doc = "[files.md]: crate::guide::files"]
        #[doc = "[formats.md]: crate::guide::formats"]
        #[doc = "[inspecting.md]: crate::guide::inspecting"]
        #[doc = "[opentelemetry.md]: crate::guide::opentelemetry"]
        #[doc = "[reading.md]: crate::guide::reading"]
        #[doc = "[sending.md]: crate::guide::sending"]
        #[doc = "[watching.md]: crate::guide::watching"]
        #[doc = ""]
        #[doc = include_str!(concat!("../docs/", stringify!($name), ".md"))]
        pub mod $name {}
    };
}

page!(benchmarks);
page!(debugging);
page!(events);
page!(files);
page!(formats);
page!(inspecting);
#[cfg(any(not(doctest), feature = "tracing-opentelemetry"))]
page!(opentelemetry);
page!(reading);
page!(recording);
page!(redaction);
page!(rig);
#[cfg(any(not(doctest), feature = "mirror"))]
page!(sending);
page!(watching);
