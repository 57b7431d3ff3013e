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
