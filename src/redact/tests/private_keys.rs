//! Private keys of many lines, whole, cut off and prefixed.

use super::*;

#[test]
fn a_private_key_cut_off_is_masked_to_its_end() {
    let dashes = "-".repeat(5);
    let body = "MIIEpAIBAAKCAQEA7bq0Zx1yPq8nT2vQm3LkJ9sWcR4dUeF6gH5iK0oB1aNzXtYv\n".repeat(3);
    let output = text(&format!(
        "key: {dashes}BEGIN RSA PRIVATE KEY{dashes}\n{body}MIIEpAIB"
    ));
    assert!(!output.contains("MIIEpAIB"), "{output}");
}

#[test]
fn a_private_key_with_a_prefix_to_each_line_is_masked() {
    let dashes = "-".repeat(5);
    let body = "MIIEpAIBAAKCAQEA7bq0Zx1yPq8nT2vQm3LkJ9sWcR4dUeF6gH5iK0oB1aNzXtYv";
    let key = [
        &format!("{dashes}BEGIN RSA PRIVATE KEY{dashes}"),
        body,
        body,
        body,
        &body[..20],
        &format!("{dashes}END RSA PRIVATE KEY{dashes}"),
    ];
    let prefixed = |prefix: &dyn Fn(usize) -> String, suffix: &str, lines: usize| {
        let lines = key[..lines].iter().enumerate();
        let lines = lines.map(|(n, line)| format!("{}{line}{suffix}", prefix(n + 8)));
        lines.collect::<Vec<_>>()
    };
    let ways: [(&dyn Fn(usize) -> String, &str); 8] = [
        (&|n| format!("{n:6}\t"), ""),
        (&|_| "> ".into(), ""),
        (&|n| format!("2024-05-01T12:00:{n:02}Z INFO [app] "), ""),
        (&|_| "        ".into(), ""),
        (&|_| "    \"".into(), "\\n\" +"),
        (&|_| "  '".into(), "'"),
        (&|_| "# ".into(), ""),
        (&|n| format!("{n:02x}: "), ""),
    ];
    for (prefix, suffix) in ways {
        // Whole, and cut before its end.
        for lines in [6, 5, 4, 3] {
            for after in ["", "\nThat is all there is to it, and no more."] {
                let text = prefixed(prefix, suffix, lines).join("\n") + after;
                for output in [
                    redactor().text(&text, &mut Tally::default()).into_owned(),
                    streams::streamed(&text),
                ] {
                    assert!(!output.contains(&body[..16]), "{text}\n->\n{output}");
                    assert!(output.ends_with(after.trim_start()), "{text}\n->\n{output}");
                }
            }
        }
    }
    let list = format!("[\"{}\"]", key[..5].join("\", \""));
    assert!(!text(&list).contains(&body[..16]), "{}", text(&list));
}

#[test]
fn of_a_putty_key_file_the_private_lines_and_their_mac_are_masked() {
    let all = tables::secrets();
    let file = |family: &str| {
        &all.iter()
            .find(|(name, _)| *name == family)
            .expect("a row")
            .1
    };
    for family in ["putty-key", "putty-key-3", "putty-key-escaped"] {
        let file = file(family);
        let (public, private) = file.split_once("Private-Lines: 2").expect("a private part");
        let output = text(&format!("{file} and that is it"));
        let (shown, mask) = output
            .split_once("[masked rule=putty-private-key ")
            .expect("a mask");
        assert!(
            shown.starts_with(public) && shown.contains("Private-Lines: 2"),
            "{output}"
        );
        assert!(mask.ends_with("] and that is it"), "{output}");
        // Cut off anywhere, what there is of it is masked.
        for length in 24..private.len() {
            let output = text(&format!("{public}Private-Lines: 2{}", &private[..length]));
            assert!(!output.contains(&private[8..24]), "{output}");
        }
    }
}

#[test]
fn many_backslashes_in_a_private_key_are_read_once() {
    let dashes = "-".repeat(5);
    let backslashes = "\\".repeat(1 << 20);
    let input = format!("{dashes}BEGIN PRIVATE KEY{dashes}{backslashes}");
    assert_eq!(redactor().find(&input).len(), 1);
}

/// A line's prefix is compared by bytes; what it ends inside of is not cut.
#[test]
fn wide_character_in_the_place_of_a_prefix_ends_a_private_key() {
    let dashes = "-".repeat(5);
    for wide in ["😀", "ü", "漢"] {
        let line = format!(
            "{{{}",
            "MIIEpAIBAAKCAQEA7bq0Zx1yPq8nT2vQm3LkJ9sWcR4dUeF6gH5iK0oB"
        );
        let input = format!("{dashes}BEGIN PRIVATE KEY{dashes}\n{line}\n{wide} and more");
        let output = text(&input);
        assert!(output.ends_with(&format!("{wide} and more")), "{output}");
        assert!(!output.contains(&line), "{output}");
    }
}

/// Where a key has headers, or a color behind its title, at every place where it may be cut.
#[test]
fn an_unusual_private_key_is_masked_wherever_a_stream_is_cut() {
    let dashes = "-".repeat(5);
    let line = "cARMsZj9W7SoUyamg64RXWU/0pVRhCziWtNgFW2DICB73uSWHBvKHPSTCgcYJs0s";
    let headers =
        "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF0123456789ABCDEF\n\n";
    for (head, end) in [
        (format!("\n{headers}"), "\n"),
        ("\u{1b}[0m\n".to_owned(), "\n"),
        ("\\u001b[0m\n".to_owned(), "\n"),
        ("\n(nothing that a key has)\n".to_owned(), "\n"),
        (format!("\n> {}", headers.replace('\n', "\n> ")), "\n> "),
    ] {
        let begin = format!("{dashes}BEGIN RSA PRIVATE KEY{dashes}{head}");
        let key =
            format!("{begin}{line}{end}{line}{end}{dashes}END RSA PRIVATE KEY{dashes}\nwords");
        for cut in 0..key.len() {
            let output = redactor().stream([&key[..cut], &key[cut..]]);
            assert!(!output.contains(&line[..16]), "{cut}: {output}");
            assert!(output.ends_with("\nwords"), "{cut}: {output}");
        }
    }
    // Without its END.
    for (head, prefix) in [
        (format!("\n{headers}"), ""),
        (format!("\n> {}", headers.replace('\n', "\n> ")), "> "),
        ("\u{1b}[0m\n".to_owned(), ""),
    ] {
        let key = format!("{dashes}BEGIN RSA PRIVATE KEY{dashes}{head}{line}\n{prefix}{line}");
        let output = text(&key);
        assert!(!output.contains(&line[..16]), "{output}");
    }
}

#[test]
fn a_private_key_in_the_elements_of_an_array_is_masked() {
    let dashes = "-".repeat(5);
    let line = "cARMsZj9W7SoUyamg64RXWU/0pVRhCziWtNgFW2DICB73uSWHBvKHPSTCgcYJs0s";
    let (begin, end) = ["BEGIN", "END"]
        .map(|word| format!("{dashes}{word} PRIVATE KEY{dashes}"))
        .into();
    for lines in [
        serde_json::json!({ "lines": ["cat key", begin, line, line, "cARMsZ==", end, "done"], "n": 1 }),
        serde_json::json!({ "source": [format!("{begin}\n"), format!("{line}\n"), format!("{end}\n"), "done"] }),
    ] {
        let json = lines.to_string();
        for output in [
            clean_json(&json),
            redactor().stream(json.chars().map(String::from)),
        ] {
            assert!(!output.contains(&line[..16]), "{output}");
            assert!(output.contains("done"), "{output}");
        }
    }
    let prose = serde_json::json!([begin, "is how a key begins", "and nothing more"]).to_string();
    assert!(clean_json(&prose).contains("is how a key begins"));
}
