//! The pages under `docs/`. This module exists in the documentation only; the code of the pages is tested like
//! that of the README.

/// A module whose documentation is a page. The links between pages lead to their modules.
macro_rules! page {
    ($name:ident, $path:literal, $($feature:literal),*) => {
        #[cfg(any(not(doctest), all($(feature = $feature),*)))]
        #[doc = "[events.md]: crate::guide::events"]
        #[doc = "[format.md]: crate::guide::format"]
        #[doc = "[opentelemetry.md]: crate::guide::opentelemetry"]
        #[doc = "[reading.md]: crate::guide::reading"]
        #[doc = "[sending.md]: crate::guide::sending"]
        #[doc = ""]
        #[doc = include_str!($path)]
        pub mod $name {}
    };
}

page!(benchmarks, "../docs/benchmarks.md",);
page!(events, "../docs/events.md",);
page!(format, "../docs/format.md",);
page!(opentelemetry, "../docs/opentelemetry.md", "tracing-opentelemetry");
page!(reading, "../docs/reading.md",);
page!(recording, "../docs/recording.md",);
page!(redaction, "../docs/redaction.md",);
page!(rig, "../docs/rig.md",);
page!(sending, "../docs/sending.md", "mirror");
