//! `spanledger transcript`: pages, bundles, and what must not be in them.

use std::io::{Read, Write};
use std::path::Path;

use crate::support::cli::{Done, run};
use crate::support::{investigation, rich_session};

fn page(root: &Path, args: &[&str]) -> Done {
    let all = [&["transcript", investigation::SESSION], args].concat();
    let done = run(root, &all);
    assert_eq!(done.code, 0, "{done:?}");
    done
}

#[test]
fn page_has_what_happened() {
    let root = investigation::record();
    let html = page(root.path(), &[]).out;
    for expected in [
        "<article class=\"user person\"",
        "<article class=\"tool failed\"",
        "<article class=\"tool stopped\"",
        "<span class=\"f bad\">CANCELLED</span>",
        "exit 124",
        "Timeout: no output for 30 s",
        "<img alt=\"fit_1.svg\" src=\"data:image/svg+xml;base64,",
        "using Plots\nk = 0.4",
        "<details class=\"sub\" open><summary>subagent ses_calibrate-review",
        "It is sound.",
        "2 messages summarized",
        "Two fits were made.",
        "back to msg_2",
        "2 messages, 1 call",
        "(stopped here)",
        "The larger step",
        "<h2>Attempts</h2>",
        "is outside the output directory",
    ] {
        assert!(html.contains(expected), "{expected}: {html}");
    }
    assert!(!html.contains("rm -rf data"), "{html}");
    // Each attempt has its figure and the code that made it beside.
    let (_, tree) = html.split_once("<h2>Attempts</h2>").unwrap();
    assert_eq!(tree.matches("<img alt=\"fit").count(), 3, "{tree}");
    for code in ["k = 0.4", "k = 0.2", "k = 0.3"] {
        assert!(tree.contains(&format!("using Plots\n{code}")), "{tree}");
    }
    let hidden = page(root.path(), &["--hidden"]).out;
    assert!(
        hidden.contains("<article class=\"tool denied gone\""),
        "{hidden}"
    );
    assert!(hidden.contains("DENIED by manifest"), "{hidden}");
}

#[test]
fn page_has_no_markup_of_the_session() {
    let root = investigation::record();
    for detail in ["brief", "normal", "full"] {
        let html = page(root.path(), &["--detail", detail, "--hidden"]).out;
        for forbidden in [
            "<script",
            "<iframe",
            "<a href=\"j",
            "<base",
            "src=\"http",
            "href=\"http",
            "<h1>not",
            "<svg o",
            "<!--",
            "\u{202e}",
            "\u{200b}",
            "\x1b",
            "\0",
        ] {
            assert!(!html.contains(forbidden), "{detail}: {forbidden:?}");
        }
        assert_eq!(html.matches("<link ").count(), 1, "{detail}");
        assert_eq!(html.matches("<style>").count(), 1, "{detail}");
        assert_eq!(html.matches("</main>").count(), 1, "{detail}");
        let opened = html.matches("<article").count();
        assert_eq!(opened, html.matches("</article>").count(), "{detail}");
        let markdown = page(root.path(), &["--format", "markdown", "--detail", detail]).out;
        assert!(!markdown.contains(['\u{202e}', '\x1b', '\0']), "{detail}");
        assert_eq!(outside_fences(&markdown), Vec::<&str>::new(), "{detail}");
    }
}

/// The lines of a Markdown page with an image, a link or HTML, where these have a meaning.
fn outside_fences(markdown: &str) -> Vec<&str> {
    let mut fence: Option<&str> = None;
    let mut found = Vec::new();
    for line in markdown.lines() {
        let text = line.trim_start();
        let marks = &text[..text.len() - text.trim_start_matches('`').len()];
        match fence {
            Some(open) if text == open => fence = None,
            Some(_) => {}
            None if marks.len() >= 3 => fence = Some(marks),
            None => {
                let text = without_code(text);
                let is_markup =
                    |(at, _): (usize, &str)| at == 0 || text.as_bytes()[at - 1] != b'\\';
                let has = |what: &str| text.match_indices(what).any(is_markup);
                if has("<") || has("](") || has("![") {
                    found.push(line);
                }
            }
        }
    }
    assert_eq!(fence, None, "a fence is open at the end");
    found
}

/// A line without its inline code, by the rule of Markdown: a run of backticks closes with one of the same length.
fn without_code(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let escaped = rest[..at].ends_with('\\');
        let run = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        let after = &rest[at + run..];
        let mut closing = None;
        let mut from = 0;
        while let Some(found) = after[from..].find('`') {
            let start = from + found;
            let length = after[start..].len() - after[start..].trim_start_matches('`').len();
            if length == run {
                closing = Some(start + length);
                break;
            }
            from = start + length;
        }
        out.push_str(&rest[..at]);
        rest = match closing.filter(|_| !escaped) {
            Some(end) => &after[end..],
            None => after,
        };
    }
    out + rest
}

#[test]
fn every_event_has_its_place() {
    let root = rich_session::record();
    for format in ["html", "markdown"] {
        for detail in ["brief", "normal", "full"] {
            let args = [
                "transcript",
                rich_session::SESSION,
                "--format",
                format,
                "--detail",
                detail,
                "--hidden",
            ];
            let done = run(root.path(), &args);
            assert_eq!(done.code, 0, "{done:?}");
            assert!(done.out.contains("INTERRUPTED"), "{format} {detail}");
            assert!(
                done.out.contains("events missing: disk full"),
                "{format} {detail}"
            );
            let has_blob = done.out.matches("case ok").count() >= 1000;
            assert_eq!(has_blob, detail == "full", "{format} {detail}");
            let has_fields = done.out.contains("tool_kind: execute");
            assert_eq!(has_fields, detail == "full", "{format} {detail}");
        }
    }
}

#[test]
fn one_turn() {
    let root = investigation::record();
    let html = page(root.path(), &["--turn", "2"]).out;
    assert!(html.contains("Only turn 2 is shown."), "{html}");
    assert!(html.contains("Try a larger step."), "{html}");
    assert!(!html.contains("Fit the pump curve."), "{html}");
    let done = run(
        root.path(),
        &["transcript", investigation::SESSION, "--turn", "9"],
    );
    assert_eq!((done.code, done.out.as_str()), (2, ""), "{done:?}");
    assert!(done.err.contains("has no turn 9"), "{done:?}");
}

#[test]
fn bundle_has_artifacts_and_blobs() {
    let root = investigation::record();
    std::fs::write(root.path().join("secret"), "outside").unwrap();
    let file = root.path().join("bundle.zip");
    let path = file.to_str().unwrap();
    let done = page(root.path(), &["--bundle", "-o", path, "--json"]);
    let names: Vec<_> = done.json()["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        names.contains(&"\"artifacts/fit_1.svg\"".to_owned()),
        "{done:?}"
    );
    assert!(
        done.err.contains("not in the bundle: artifacts/etc/passwd"),
        "{done:?}"
    );
    let mut zip = zip::ZipArchive::new(std::fs::File::open(&file).unwrap()).unwrap();
    assert_eq!(zip.len(), names.len());
    let mut text = |name: &str| {
        let mut text = String::new();
        zip.by_name(name)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    };
    assert_eq!(text("artifacts/fit_2.svg"), investigation::FIGURE);
    assert_eq!(text("artifacts/fit 3 \"<b>.svg"), investigation::FIGURE);
    let html = text("transcript.html");
    assert!(
        html.contains("href=\"artifacts/fit%203%20%22%3Cb%3E.svg\""),
        "{html}"
    );
    let manifest: serde_json::Value = serde_json::from_str(&text("manifest.json")).unwrap();
    assert_eq!(manifest["sessions"][0], investigation::SESSION);
    // No temporary file is left.
    let left = std::fs::read_dir(root.path()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().contains(".part")),
        "{left:?}"
    );
    // Blobs in full.
    let root = rich_session::record();
    let file = root.path().join("rich.zip");
    let path = file.to_str().unwrap();
    let args = [
        "transcript",
        rich_session::SESSION,
        "--hidden",
        "--bundle",
        "-o",
        path,
    ];
    let done = run(root.path(), &args);
    assert_eq!(done.code, 0, "{done:?}");
    let mut zip = zip::ZipArchive::new(std::fs::File::open(&file).unwrap()).unwrap();
    let blob = (0..zip.len()).find_map(|at| {
        let mut file = zip.by_index(at).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        file.name().unwrap().starts_with("blobs/").then_some(text)
    });
    assert_eq!(blob.unwrap(), "case ok\n".repeat(1000));
}

#[test]
fn usage_errors() {
    let root = investigation::record();
    for args in [
        &["--bundle"][..],
        &["--json"],
        &["-o", "/nowhere/at/all.html"],
        &["--format", "pdf"],
    ] {
        let all = [&["transcript", investigation::SESSION], args].concat();
        let done = run(root.path(), &all);
        assert_eq!(done.code, 2, "{args:?} {done:?}");
    }
    let done = run(root.path(), &["transcript", "ses_none"]);
    assert_eq!(done.code, 2, "{done:?}");
}

/// A session of 72 MiB, in turns of 128 KiB. Its page is written while no more than 64 MiB of memory can be had.
#[test]
fn memory_does_not_grow_with_the_session() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("sessions/ses_big");
    std::fs::create_dir_all(&dir).unwrap();
    let mut file =
        std::io::BufWriter::new(std::fs::File::create(dir.join("trace.0001.jsonl")).unwrap());
    let mut seq = 0;
    let mut line = |kind: &str, turn: u64, payload: &str| {
        seq += 1;
        let head = format!(r#"{{"v":1,"seg":1,"seq":{seq},"ts":"2026-11-16T00:00:00.{seq:06}Z""#);
        let place = format!(r#""kind":"{kind}","session_id":"ses_big","turn":{turn}"#);
        let span = format!(r#""trace_id":"{:032x}","span_id":"{turn:016x}""#, 1);
        writeln!(file, r#"{head},{place},{span},"payload":{{{payload}}}}}"#).unwrap();
    };
    let text = format!(
        r#""content":"{}""#,
        "a text of 32 KiB, with <b>&. ".repeat(1100)
    );
    let turns = 72 * 8;
    for turn in 1..=turns {
        line("turn_start", turn, "");
        (0..4).for_each(|_| line("message_user", turn, &text));
        line("turn_end", turn, r#""duration_ns":1000,"outcome":"ok""#);
    }
    drop(file);
    for args in ["--detail full", "--turn 300"] {
        let limited = "ulimit -d 65536; exec \"$0\" --root \"$1\" transcript ses_big";
        let done = std::process::Command::new("sh")
            .args(["-c", &format!("{limited} {args} --format markdown")])
            .arg(env!("CARGO_BIN_EXE_spanledger"))
            .arg(root.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{args}: {errors}");
        let page = String::from_utf8(done.stdout).unwrap();
        let titles = page.lines().filter(|line| line.starts_with("## Turn "));
        let wanted = if args.starts_with("--turn") {
            1
        } else {
            turns as usize
        };
        assert_eq!(titles.count(), wanted, "{args}");
    }
}
