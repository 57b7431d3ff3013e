//! What redaction as a whole must stand up to.

use std::cell::Cell;
use std::sync::LazyLock;

use super::json::NotJson;
use super::*;

mod everyday;
mod json;
mod json_files;
mod json_streams;
mod names;
mod private_keys;
mod properties;
mod rules;
mod streams;

#[path = "../../tests/support/secrets.rs"]
mod tables;

/// Keeps everything in memory, or nothing.
#[derive(Default)]
struct Shelf {
    blobs: Vec<(String, Vec<u8>)>,
    broken: bool,
}

impl Store for Shelf {
    fn put(&mut self, sha256: &str, bytes: &[u8]) -> Result<(), StoreFailed> {
        if self.broken {
            return Err(StoreFailed);
        }
        self.blobs.push((sha256.to_owned(), bytes.to_vec()));
        Ok(())
    }
}

thread_local! {
    /// How many bytes this thread has searched so far.
    static WORK: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn count_work(bytes: usize) {
    WORK.set(WORK.get() + bytes);
}

fn redactor() -> &'static Redactor {
    static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| with(&Redaction::new()));
    &REDACTOR
}

fn with(config: &Redaction) -> Redactor {
    Redactor::new(config, MaskKey::new([7; 32])).expect("the patterns compile")
}

fn text(input: &str) -> String {
    redactor().text(input, &mut Tally::default()).into_owned()
}

/// What `write` writes under `limits`, what it returns, and what it moved and counted.
fn written<T>(
    limits: &Limits,
    mut shelf: Shelf,
    write: impl FnOnce(&mut Output<'_>) -> T,
) -> (String, T, Shelf, Tally) {
    let mut line = Vec::new();
    let mut tally = Tally::default();
    let returned = write(&mut Output {
        line: &mut line,
        limits,
        store: &mut shelf,
        tally: &mut tally,
    });
    let text = String::from_utf8(line).expect("output is UTF-8");
    (text, returned, shelf, tally)
}

fn write_str(key: &str, input: &str) -> String {
    let write =
        |output: &mut Output<'_>| redactor().write_str(redactor().field(key), input, output);
    written(&Limits::default(), Shelf::default(), write).0
}

fn try_json(key: &str, input: &str) -> Result<String, NotJson> {
    let write =
        |output: &mut Output<'_>| redactor().write_json(redactor().field(key), input, output);
    let (text, result, ..) = written(&Limits::default(), Shelf::default(), write);
    result.map(|()| text)
}

/// Writes JSON, or text if it is none, under limits.
fn write_any(limits: &Limits, shelf: Shelf, input: &str) -> (String, Shelf, Tally) {
    let (text, (), shelf, tally) = written(limits, shelf, |output| {
        let name = redactor().field("field");
        if redactor().write_json(name, input, output).is_err() {
            redactor().write_str(name, input, output);
        }
    });
    (text, shelf, tally)
}

fn clean_json(input: &str) -> String {
    try_json("field", input).expect("valid JSON")
}

fn parsed(output: &str) -> serde_json::Value {
    serde_json::from_str(output).expect("output parses")
}

#[test]
fn every_secret_is_masked_in_every_position() {
    let mut leaks = Vec::new();
    for (family, secret) in tables::secrets() {
        let core = tables::core(&secret);
        for (position, input) in tables::positions(&secret) {
            let plain = write_str("message", &input);
            let structured = try_json("message", &input).unwrap_or_default();
            for output in [&plain, &structured] {
                if output.contains(core) {
                    leaks.push(format!("{family} / {position}: {output}"));
                }
            }
        }
    }
    assert!(
        leaks.is_empty(),
        "{} leaks:\n{}",
        leaks.len(),
        leaks.join("\n")
    );
}

#[test]
fn every_secret_with_a_shape_or_context_is_masked_on_its_own() {
    let leaks: Vec<String> = tables::secrets()
        .iter()
        .filter(|(_, secret)| text(secret).contains(tables::core(secret)))
        .map(|(family, secret)| format!("{family}: {}", text(secret)))
        .collect();
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}

#[test]
fn every_look_alike_stays_as_it_is() {
    let mut changed = Vec::new();
    for input in tables::look_alikes() {
        let clean = text(&input);
        if clean != input {
            changed.push(format!("text {input}\n  -> {clean}"));
        }
        let written = parsed(&write_str("message", &input));
        if written != input.as_str() {
            changed.push(format!("write_str {input}\n  -> {written}"));
        }
        if let Ok(structured) = try_json("message", &input)
            && structured != input
        {
            changed.push(format!("write_json {input}\n  -> {structured}"));
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

#[test]
fn masking_what_is_masked_changes_nothing() {
    for (family, secret) in tables::secrets() {
        for (position, input) in tables::positions(&secret) {
            let once = text(&input);
            assert_eq!(text(&once), once, "{family} / {position}");
            if let Ok(once) = try_json("message", &input) {
                assert_eq!(clean_json(&once), once, "{family} / {position}");
            }
        }
    }
}

#[test]
fn the_more_telling_rule_names_the_mask() {
    let key = concat!("s", "k-ant-api03-AbCdEfGh1234567890abcdefgh");
    for input in [
        key.to_owned(),
        format!("ANTHROPIC_API_KEY={key}"),
        format!("Bearer {key}"),
    ] {
        assert!(
            text(&input).contains("rule=anthropic-key "),
            "{}",
            text(&input)
        );
    }
}

#[test]
fn a_mask_tells_rule_length_hash_and_key() {
    let secret = format!(
        "{}{}",
        concat!("gh", "p_"),
        "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    );
    let key = MaskKey::new([7; 32]);
    let masked = text(&format!("use {secret}."));
    let (start, rest) = masked.split_once("hmac=").expect("a hash");
    assert_eq!(start, "use [masked rule=github-pat bytes=40 ");
    assert_eq!(&rest[16..], format!(" key={}].", key.id()));
    assert!(rest[..16].bytes().all(|b| b.is_ascii_hexdigit()));
}

#[test]
fn the_hash_is_the_one_any_hmac_gives() {
    use hmac::{Hmac, KeyInit, Mac};
    let mut hmac = Hmac::<sha2::Sha256>::new_from_slice(&[7; 32]).expect("any length");
    hmac.update(b"hunter2");
    let expected = crate::trace::hex(&hmac.finalize().into_bytes()[..8]);
    assert!(
        MaskKey::new([7; 32])
            .mask("x", b"hunter2")
            .contains(&format!("hmac={expected} "))
    );
}

#[test]
fn a_mask_key_does_not_show_its_secret() {
    let shown = format!("{:?}", MaskKey::new([171; 32]));
    assert!(!shown.contains("171") && !shown.contains("abab"), "{shown}");
}

#[test]
fn a_text_that_only_starts_like_a_mask_protects_nothing() {
    for start in [
        "[masked rule=",
        "[masked rule=x bytes=1 hmac=0123456789abcdef key=0123456]",
    ] {
        let output = text(&format!("password={start}hunter2-Correct"));
        assert!(!output.contains("hunter2"), "{output}");
    }
}

#[test]
fn a_clean_text_is_borrowed() {
    let mut tally = Tally::default();
    let clean = redactor().text("nothing of note in here at all", &mut tally);
    assert!(matches!(clean, std::borrow::Cow::Borrowed(_)));
    assert_eq!(tally, Tally::default());
}

#[test]
fn what_is_found_tells_the_context_from_the_secret() {
    let input = "run --password hunter2-Correct now";
    let found = redactor().find(input);
    assert_eq!(found.len(), 1);
    assert_eq!(&input[found[0].whole.clone()], "--password hunter2-Correct");
    assert_eq!(&input[found[0].secret.clone()], "hunter2-Correct");
    assert_eq!(found[0].rule(), "key:password");
}

#[test]
fn a_url_keeps_all_but_its_password() {
    let output = text("see postgres://app:s3cr3t/with@sign@db.example.com:5432/app for more");
    assert!(
        output.starts_with("see postgres://app:[masked rule=url-password bytes=16 "),
        "{output}"
    );
    assert!(
        output.ends_with("]@db.example.com:5432/app for more"),
        "{output}"
    );
}

#[test]
fn an_aws_secret_is_known_by_the_id_before_it() {
    let secret = "wJalrXUtnFEMIbK7MDENGxbPxRfiCYEXAMPLEKEY";
    let id = concat!("AK", "IAIOSFODNN7EXAMPLQ");
    let output = text(&format!("{id},{secret}"));
    assert!(!output.contains(secret) && !output.contains(id), "{output}");
}

#[test]
fn a_users_rule_masks_its_group_or_its_match() {
    let config = Redaction::new()
        .rule("badge", r"BADGE-(?<secret>\d{6})")
        .rule("Code Word", "swordfish");
    let output = with(&config)
        .text("BADGE-123456 says swordfish", &mut Tally::default())
        .into_owned();
    assert!(
        output.starts_with("BADGE-[masked rule=badge bytes=6 "),
        "{output}"
    );
    assert!(
        output.contains("says [masked rule=Code_Word bytes=9 "),
        "{output}"
    );
}

#[test]
fn a_users_rule_leaves_masks_alone() {
    let redactor = with(
        &Redaction::new()
            .rule("hex", "[0-9a-f]{8,}")
            .rule("word", "masked|rule"),
    );
    let once = redactor
        .text("id 0123456789abcdef0", &mut Tally::default())
        .into_owned();
    assert_eq!(redactor.text(&once, &mut Tally::default()), once);
}

#[test]
fn a_pattern_that_does_not_compile_is_named() {
    let error = Redactor::new(
        &Redaction::new().rule("broken", "(["),
        MaskKey::new([0; 32]),
    )
    .expect_err("the pattern is broken")
    .to_string();
    assert!(
        error.contains("`broken`") && error.contains("`([`"),
        "{error}"
    );
}

#[test]
fn a_users_key_is_matched_on_its_words() {
    let redactor = with(&Redaction::new().key("door code"));
    for input in [
        "front_door_code=x1",
        "doorCode: \"open-up\"",
        "--door-code 4711",
    ] {
        assert!(
            redactor
                .text(input, &mut Tally::default())
                .contains("[masked"),
            "{input}"
        );
    }
}

#[test]
fn an_exempt_key_is_not_masked_but_shapes_under_it_are() {
    let redactor = with(&Redaction::new().exempt_key("team_token"));
    let mut tally = Tally::default();
    assert_eq!(
        redactor.text("teamToken=abcdef-123", &mut tally),
        "teamToken=abcdef-123"
    );
    let shaped = format!(
        "team_token={}{}",
        concat!("gh", "p_"),
        "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    );
    assert!(
        redactor
            .text(&shaped, &mut tally)
            .contains("rule=github-pat ")
    );
}

#[test]
fn without_value_shapes_only_keys_and_own_rules_mask() {
    let redactor = with(
        &Redaction::new()
            .without_value_shapes()
            .rule("own", "sesame"),
    );
    let shaped = format!(
        "{}{}",
        concat!("gh", "p_"),
        "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    );
    let mut tally = Tally::default();
    assert_eq!(redactor.text(&shaped, &mut tally), shaped);
    assert!(
        redactor
            .text("open sesame", &mut tally)
            .contains("rule=own ")
    );
    let write =
        |output: &mut Output<'_>| redactor.write_str(redactor.field("password"), "x", output);
    let (out, ..) = written(&Limits::default(), Shelf::default(), write);
    assert!(out.starts_with("\"[masked rule=key:password "));
}

#[test]
fn a_secret_is_known_by_its_context_in_many_styles() {
    for input in [
        r#"const apiKey: string = "hunter2-Correct";"#,
        r#"password: str = "hunter2-Correct""#,
        r#"Config { password: Some("hunter2-Correct"), user: "x" }"#,
        r#"{\"password\": \"a\\\"hunter2-Correct\"}"#,
        "<password>hunter2-Correct</password>",
        "my password is hunter2-CorrectHorse",
        "API key: hunter2-Correct",
        "curl -H 'Cookie: a=b; c=hunter2-Correct' https://example.com",
        "Set-Cookie: session=hunter2-Correct; Path=/; HttpOnly",
        r#"Authorization: Digest username="ann", response="hunter2-Correct""#,
        "Authorization: AWS4-HMAC-SHA256 Credential=abc/x, Signature=hunter2-Correct",
        "Server=db;User Id=sa;Password=P@ss;hunter2-Correct;Encrypt=true",
        "redis-cli -h host -a hunter2-Correct ping",
        "sshpass -p 'hunter2-Correct' ssh host",
        r#"["--password", "hunter2-Correct"]"#,
        "('API_KEY', 'hunter2-Correct')",
        "redis://:hunter2-Correct@localhost:6379/0",
        "os.environ[\"API_KEY\"] = \"hunter2-Correct\"",
        "client_secret => 'hunter2-Correct'",
        "registry.example.com/:_authToken=hunter2-Correct",
        "machine example.com login ann password hunter2-Correct",
        "line\\npassword=hunter2-Correct\\nnext",
        "\u{1b}[31mpassword\u{1b}[0m password=hunter2-Correct",
    ] {
        let output = text(input);
        assert!(!output.contains("hunter2-Correct"), "{output}");
    }
}

#[test]
fn an_escaped_wide_character_after_a_quote_is_no_part_of_the_value() {
    for wide in ["é", "€", "😀"] {
        let output = text(&format!("password='hunter2-Correct'\\{wide} x"));
        assert!(!output.contains("hunter2"), "{output}");
        assert!(output.ends_with(&format!("'\\{wide} x")), "{output}");
    }
}

#[test]
fn a_secret_that_looks_like_a_name_is_not_named_by_a_mask() {
    for input in [
        "mysqldump -uroot -phunter2secret db",
        "mysqladmin -u root -phunter2secret ping",
    ] {
        let output = text(input);
        assert!(!output.contains("hunter2"), "{output}");
        assert!(!streams::streamed(input).contains("hunter2"), "{output}");
    }
}

/// What was written of a value, how long the beginning is, and how long the rest that was masked.
fn cut_by_work(input: &str, write: impl FnOnce(&str, &mut Output<'_>)) -> (usize, usize) {
    let limits = Limits {
        inline: usize::MAX,
        ..Limits::default()
    };
    let (line, ..) = written(&limits, Shelf::default(), |output| write(input, output));
    let written = parsed(&line);
    let written = written.as_str().expect("a text");
    let (beginning, mask) = written
        .rsplit_once("[masked rule=work-limit bytes=")
        .expect("a mask");
    let (bytes, _) = mask.split_once(' ').expect("a length");
    (beginning.len(), bytes.parse().expect("a number"))
}

#[test]
fn a_value_with_too_many_places_to_look_at_is_cut() {
    let most = 4 * redactor::MOST_HITS;
    let field = || redactor().field("field");
    for unit in ["sk-", "Password: ", "x_key=", "sk-\n"] {
        let text = unit.repeat(most / 2);
        let (beginning, rest) = cut_by_work(&text, |text, output| {
            redactor().write_str(field(), text, output);
        });
        let most = (redactor::MOST_HITS + 1) * unit.len();
        assert!(beginning <= most, "{unit:?}: {beginning}");
        assert_eq!(beginning + rest, text.len(), "{unit:?}");
    }
    let json = format!("[{}\"\"]", "\"sk-\",".repeat(most / 2));
    let (beginning, rest) = cut_by_work(&json, |json, output| {
        let written = redactor().write_json(field(), json, output);
        written.expect("valid JSON");
    });
    assert_eq!(beginning + rest, json.len());
}

#[test]
fn a_value_of_names_is_not_read_again_for_each_of_them() {
    for unit in [
        "x_key=",
        "password: ",
        "\"password\":",
        "token.password/",
        "x_key='",
    ] {
        let text = unit.repeat(2000);
        let before = WORK.get();
        let _ = self::text(&text);
        let per_byte = (WORK.get() - before) / text.len();
        assert!(per_byte <= 40, "{unit:?}: each byte {per_byte} times");
    }
}
