//! JSON in, JSON out: what is kept, what is masked, what is moved out.

use super::*;

fn limits(inline: usize, value: usize) -> Limits {
    Limits {
        inline,
        value,
        head: 8,
        depth: 64,
    }
}

/// Writes under limits, and gives back the output, the shelf and the tally.
fn write(input: &str, limits: &Limits, broken: bool) -> (serde_json::Value, Shelf, Tally) {
    let shelf = Shelf {
        broken,
        ..Shelf::default()
    };
    let (output, shelf, tally) = write_any(limits, shelf, input);
    assert!(!output.contains('\n'));
    (parsed(&output), shelf, tally)
}

#[test]
fn order_spelling_and_duplicates_are_kept() {
    let input = r#"{"z":1.10,"a":-0,"a":1E+2,"n":12345678901234567890123,"s":"\u00e9\/"}"#;
    assert_eq!(clean_json(input), input);
}

#[test]
fn white_space_between_values_is_dropped() {
    assert_eq!(clean_json("{ \"a\" : [ 1 ,\n\t2 ] }\r\n"), r#"{"a":[1,2]}"#);
}

#[test]
fn what_is_not_one_json_value_is_refused_and_nothing_written() {
    for input in [
        "",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "1 2",
        "nul",
        "01",
        "1.",
        "\"\n\"",
        "\"\\x\"",
        "[1}",
        "{1:2}",
        "+1",
        "{\"a\"}",
        "]",
        "\"\\u12g4\"",
        "-",
        "1e",
    ] {
        let write = |output: &mut Output<'_>| {
            output.line.extend_from_slice(b"before");
            redactor().write_json(redactor().field("k"), input, output)
        };
        let (out, result, ..) = written(&Limits::default(), Shelf::default(), write);
        assert_eq!(result, Err(NotJson), "{input}");
        assert_eq!(out, "before");
    }
}

#[test]
fn a_sensitive_name_masks_strings_and_containers_whole() {
    let output = parsed(&clean_json(
        r#"{"api_key":{"id":7},"cookies":["a=b"],"secret":"x","b":1}"#,
    ));
    for (key, bytes) in [("api_key", 8), ("cookies", 7), ("secret", 1)] {
        let mask = output[key].as_str().expect("a mask");
        assert!(
            mask.starts_with(&format!("[masked rule=key:{key} bytes={bytes} ")),
            "{mask}"
        );
    }
    assert_eq!(output["b"], 1);
}

#[test]
fn numbers_are_masked_under_passwords_but_not_under_tokens() {
    let output = clean_json(
        r#"{"password":123456,"otp":42,"token":17,"api_key":3,"secret":true,"passcode":null}"#,
    );
    assert!(
        !output.contains("123456") && !output.contains(":42"),
        "{output}"
    );
    assert!(
        output.contains(r#""token":17,"api_key":3,"secret":true,"passcode":null"#),
        "{output}"
    );
}

#[test]
fn empty_values_under_sensitive_names_stay() {
    let input = r#"{"password":"","token":{},"secret":[],"auth":"none"}"#;
    assert_eq!(clean_json(input), input);
}

#[test]
fn a_secret_in_a_member_name_is_masked() {
    let key = format!(
        "{}{}",
        concat!("gh", "p_"),
        "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    );
    let output = clean_json(&format!(r#"{{"{key}":1,"{key}_password":"x"}}"#));
    assert!(!output.contains(&key), "{output}");
}

#[test]
fn the_element_after_a_sensitive_flag_is_masked() {
    let output =
        clean_json(r#"{"argv":["deploy","--password","letmein","--fast","-v","letmein2"]}"#);
    assert!(!output.contains(r#""letmein""#), "{output}");
    assert!(output.contains(r#""--fast","-v","letmein2""#), "{output}");
}

#[test]
fn an_array_that_is_a_command_line_is_searched_as_one() {
    for input in [
        r#"["curl","-u","ann:letmein","https://example.com"]"#,
        r#"{"argv": ["/usr/bin/mysql", "-u", "root", "-pletmein", "app"]}"#,
        r#"["docker","login","-p","letmein","registry.example.com"]"#,
        r#"["sshpass","-p","letmein","ssh","host"]"#,
        r#"["curl","--user","ann:letmein","--token","letmein"]"#,
    ] {
        let output = clean_json(input);
        assert!(!output.contains("letmein"), "{output}");
        assert_eq!(clean_json(&output), output);
        let elements = |json: &str| json.matches('"').count();
        assert_eq!(elements(&output), elements(input), "{output}");
    }
    let input = r#"["curl","-s","https://example.com/a:b"]"#;
    assert_eq!(clean_json(input), input);
}

#[test]
fn the_value_of_a_named_pair_is_masked() {
    let output = clean_json(
        r#"[{"name":"API_KEY","kind":"env","value":"letmein"},{"name":"HOME","value":"here"}]"#,
    );
    assert!(
        !output.contains("letmein") && output.contains("here"),
        "{output}"
    );
}

#[test]
fn json_inside_strings_is_cleaned_at_every_level() {
    let mut input = r#"{ "password": "letmein", "n": 1.50 }"#.to_owned();
    for level in 1..=12 {
        input = format!(
            r#"{{"level":{level},"body":{}}}"#,
            serde_json::Value::from(input)
        );
        let output = clean_json(&input);
        assert!(!output.contains("letmein"), "level {level}: {output}");
        parsed(&output);
        if level > 10 {
            break;
        }
    }
}

#[test]
fn json_inside_a_string_keeps_its_white_space() {
    let inner = "{\n  \"password\": \"letmein\",\n  \"n\": 1.50\n}";
    let output = parsed(&write_str("body", inner));
    let clean = output.as_str().expect("a string");
    assert!(
        clean.starts_with("{\n  \"password\": \"[masked ")
            && clean.ends_with("\",\n  \"n\": 1.50\n}")
    );
}

#[test]
fn half_a_surrogate_pair_becomes_a_replacement_character() {
    assert_eq!(
        parsed(&clean_json(r#"["\ud800","a\udc00b","\ud83d\ude00"]"#)),
        serde_json::json!(["\u{fffd}", "a\u{fffd}b", "😀"])
    );
}

#[test]
fn control_characters_are_escaped() {
    let input = "a\u{0}\u{1f}\n\r\t\u{8}\u{c}\"\\\u{7f}é\u{2028}";
    assert_eq!(parsed(&write_str("field", input)), input);
}

#[test]
fn a_million_levels_hide_no_password() {
    let depth = 1_000_000;
    let input = format!(
        "{}{{\"password\":\"letmein\"}}{}",
        "[".repeat(depth),
        "]".repeat(depth)
    );
    let (output, shelf, tally) = write(&input, &Limits::default(), false);
    assert_eq!(output["media_type"], "application/json");
    assert_eq!(tally.masked, 1);
    let stored = String::from_utf8_lossy(&shelf.blobs[0].1);
    assert!(!stored.contains("letmein"));
    assert!(stored.contains("[masked rule=key:password "));
}

#[test]
fn json_too_deep_to_read_back_is_written_as_a_string() {
    let input = format!(
        "{}{{\"token\":\"letmein\"}}{}",
        "[".repeat(65),
        "]".repeat(65)
    );
    let output = parsed(&clean_json(&input));
    let inner = output.as_str().expect("a string");
    assert!(inner.starts_with("[[[") && inner.contains("[masked rule=key:token "));
}

#[test]
fn a_long_string_is_moved_out_and_the_rest_stays() {
    let long = "é".repeat(100);
    let input = format!(r#"{{"a":"{long}","b":1}}"#);
    let (output, shelf, tally) = write(&input, &limits(190, 1000), false);
    assert_eq!(shelf.blobs[0].1, long.as_bytes());
    assert_eq!(output["a"]["$blob"], shelf.blobs[0].0.as_str());
    assert_eq!(output["b"], 1);
    assert_eq!(tally.cut, 0);
}

#[test]
fn a_moved_string_says_where_how_long_and_how_it_starts() {
    let long = format!("é{}", "x".repeat(300));
    let mut limits = limits(250, 1000);
    limits.head = 2;
    let (output, shelf, _) = write(&format!(r#"["{long}"]"#), &limits, false);
    assert_eq!(
        output,
        serde_json::json!([{"$blob": shelf.blobs[0].0, "bytes": 302, "media_type": "text/plain", "head": "é"}])
    );
}

#[test]
fn a_head_ends_on_a_character() {
    let mut limits = limits(50, 1000);
    limits.head = 3;
    let (output, _, _) = write(&"é".repeat(100), &limits, false);
    assert_eq!(output["head"], "é");
}

#[test]
fn a_long_value_is_moved_out_whole() {
    let input = format!("[{}1]", "1,".repeat(300));
    let (output, shelf, tally) = write(&input, &limits(100, 10_000), false);
    assert_eq!(shelf.blobs[0].1, input.as_bytes());
    assert_eq!(
        output,
        serde_json::json!({"$blob": shelf.blobs[0].0, "bytes": input.len(), "media_type": "application/json"})
    );
    assert_eq!(tally.cut, 0);
}

#[test]
fn a_failing_store_cuts_and_says_so() {
    let (output, _, tally) = write(&"x".repeat(200), &limits(100, 1000), true);
    assert_eq!(output["$cut"]["bytes"], 200);
    assert_eq!(output["$cut"]["rule"], "blob-failed");
    assert_eq!(output["head"], "xxxxxxxx");
    assert_eq!(output.get("$blob"), None);
    assert_eq!(tally.cut, 1);
}

#[test]
fn beyond_the_value_limit_the_front_is_kept_and_the_rest_cut() {
    let (output, shelf, tally) = write(&format!("{}é", "x".repeat(199)), &limits(100, 200), false);
    assert_eq!(shelf.blobs[0].1.len(), 199);
    assert_eq!(output["$blob"], shelf.blobs[0].0.as_str());
    assert_eq!(output["bytes"], 199);
    assert_eq!(output["$cut"]["bytes"], 2);
    assert_eq!(output["$cut"]["rule"], "value-limit");
    assert_eq!(tally.cut, 1);
}

#[test]
fn a_secret_across_a_limit_is_masked_before_anything_is_cut() {
    let secret = format!(
        "{}{}",
        concat!("gh", "p_"),
        "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    );
    let (output, shelf, tally) = write(
        &format!("{} {secret}", "x".repeat(90)),
        &limits(50, 110),
        false,
    );
    assert!(!output.to_string().contains("p_A1b2"));
    assert!(!String::from_utf8_lossy(&shelf.blobs[0].1).contains("p_A1b2"));
    assert_eq!(tally, Tally { masked: 1, cut: 1 });
}

#[test]
fn a_hundred_megabytes_are_no_trouble() {
    let mut text = "all quiet on the western front; ".repeat(100 * 1024 * 1024 / 32);
    text.push_str(" password=letmein-2024");
    let found = redactor().find(&text);
    assert_eq!(found.len(), 1);
    assert_eq!(&text[found[0].secret.clone()], "letmein-2024");
}

#[test]
fn the_schema_of_a_parameter_is_no_secret() {
    let input = r#"{"properties":{"password":{"type":"string","description":"of the user"}}}"#;
    assert_eq!(clean_json(input), input);
    let output = clean_json(r#"{"properties":{"password":{"plain":"letmein"},"token":"letmein"}}"#);
    assert!(!output.contains("letmein"), "{output}");
}

#[test]
fn a_name_like_a_header_is_masked_once() {
    let name = "Cookie: Cookie: Aa\u{e9}AKIAIOSFODNN7EXAMPLQAuthorization: Bearer ";
    let once = clean_json(&serde_json::json!({ name: "ab" }).to_string());
    assert!(once.contains("[masked rule=key:"), "{once}");
    assert_eq!(clean_json(&once), once);
}
