//! Chromium opens transcripts: they load nothing, run nothing, and show what a hostile session contains as text.

use std::path::{Path, PathBuf};

use crate::support::chromium::Chromium;
use crate::support::cli::run;
use crate::support::investigation;
use crate::support::proxy::Proxy;

fn page(root: &Path, session: &str, detail: &str) -> PathBuf {
    let path = root.join(format!("{detail}.html"));
    let file = path.to_str().unwrap();
    let args = [
        "transcript",
        session,
        "--detail",
        detail,
        "--hidden",
        "-o",
        file,
    ];
    let done = run(root, &args);
    assert_eq!(done.code, 0, "{done:?}");
    path
}

/// The judge itself: a page that does load things and run a script is noticed.
#[test]
fn requests_and_errors_are_noticed() {
    let Some(chromium) = Chromium::find() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("bad.html");
    let bad = "<img src=http://tracker.test/pixel.png><script>nothing_like_this()</script>";
    std::fs::write(&page, bad).unwrap();
    let proxy = Proxy::start();
    let opened = chromium.open_with_proxy(&page, &proxy.url(""));
    let heads = proxy.heads();
    assert!(
        heads
            .iter()
            .any(|head| head.contains("tracker.test/pixel.png")),
        "{heads:?}"
    );
    let is_error = |line: &String| line.contains("nothing_like_this is not defined");
    assert!(opened.console.iter().any(is_error), "{opened:?}");
}

#[test]
fn hostile_session_loads_and_runs_nothing() {
    let Some(chromium) = Chromium::find() else {
        return;
    };
    let root = investigation::record();
    for detail in ["brief", "normal", "full"] {
        let page = page(root.path(), investigation::SESSION, detail);
        let proxy = Proxy::start();
        let online = chromium.open_with_proxy(&page, &proxy.url(""));
        assert_eq!(proxy.heads(), Vec::<String>::new(), "{detail}");
        let offline = chromium.open_offline(&page);
        for opened in [online, offline] {
            assert_eq!(opened.console, Vec::<String>::new(), "{detail}");
            assert!(opened.dom.contains("Fit the pump curve."), "{detail}");
            assert!(opened.dom.contains("&lt;script&gt;fetch("), "{detail}");
            assert!(!opened.dom.contains("<script"), "{detail}");
            assert_eq!(opened.dom.matches("<h1>").count(), 1, "{detail}");
            assert_eq!(
                opened.dom.matches("</article>").count(),
                opened.dom.matches("<article").count()
            );
        }
    }
}

#[test]
fn line_of_ten_megabytes_opens() {
    let Some(chromium) = Chromium::find() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    investigation::record_long_line(dir.path(), 10 << 20);
    let page = page(dir.path(), "ses_long", "full");
    assert!(page.metadata().unwrap().len() > 20 << 20);
    let proxy = Proxy::start();
    let opened = chromium.open_with_proxy(&page, &proxy.url(""));
    assert_eq!(proxy.heads(), Vec::<String>::new());
    assert_eq!(opened.console, Vec::<String>::new());
    assert!(opened.dom.contains("Write a lot."));
    assert!(opened.dom.len() > 20 << 20);
}

#[test]
fn page_follows_the_theme() {
    let Some(chromium) = Chromium::find() else {
        return;
    };
    let root = investigation::record();
    let page = page(root.path(), investigation::SESSION, "normal");
    let [light, dark] = [false, true].map(|dark| chromium.screenshot(&page, dark));
    assert!(light.len() > 10_000 && dark.len() > 10_000);
    assert_ne!(light, dark);
}
