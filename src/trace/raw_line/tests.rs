use super::*;

const LINE: &str = r#"{"v":1,"seg":2,"seq":17,"ts":"2026-11-16T00:31:05.123456Z","kind":"tool_call","session_id":"a\"b","turn":2,"trace_id":"00000000000000000000000000000001","span_id":"0000000000000002","payload":{"tool_id":"bash","args":{"a":[1,"]}"]},"n":-1.5e3,"t":true,"z":null,"e":{}}}"#;

#[test]
fn a_raw_line_says_the_same_as_the_parsed_one() {
    let raw = RawLine::parse(LINE.as_bytes()).unwrap();
    let line = Line::parse(LINE.as_bytes()).unwrap();
    assert_eq!(raw.address().to_string(), line.address());
    assert_eq!(raw.session_id, line.session_id);
    assert_eq!(raw.span_id, line.span_id.as_deref());
    for (key, value) in raw.payload().members() {
        assert_eq!(value.value().as_ref(), line.payload.get(key), "{key}");
    }
    assert_eq!(raw.payload().members().count(), line.payload.len());
}

#[test]
fn the_items_of_an_array_come_in_order_and_of_nothing_else() {
    let items = |text| -> Vec<_> { RawValue { text }.items().map(|v| v.json()).collect() };
    assert_eq!(
        items(r#"[1, "a,]" ,{"b":[2,3]},[],null]"#),
        ["1", r#""a,]""#, r#"{"b":[2,3]}"#, "[]", "null"]
    );
    for none in ["[]", "{}", "3", r#""[1]""#, "[", "]", ""] {
        assert!(items(none).is_empty(), "{none}");
    }
}

#[test]
fn a_line_cut_anywhere_is_damaged() {
    for end in 0..LINE.len() {
        assert!(RawLine::parse(&LINE.as_bytes()[..end]).is_err(), "{end}");
        assert!(
            RawLine::read(&LINE.as_bytes()[..end], true).is_err(),
            "{end}"
        );
    }
}

/// Another order, blanks, escapes and unknown members cost time and change nothing.
#[test]
fn a_line_in_another_form_says_the_same() {
    let shown = |line: RawLine<'_>| {
        let payload: Vec<_> = line
            .payload()
            .members()
            .map(|(n, v)| (n, v.json()))
            .collect();
        let head = (line.seg, line.seq, line.ts, line.kind, line.session_id);
        let ids = (line.turn, line.trace_id, line.span_id, line.parent_span_id);
        format!("{head:?} {ids:?} {payload:?}")
    };
    let usual = LINE.replace(r#"a\"b"#, "ab");
    let parsed = RawLine::parse(usual.as_bytes()).unwrap();
    assert!(RawLine::usual(&usual, false).is_some());
    let expected = shown(parsed);
    let moved = usual.replacen(r#""v":1,"#, "", 1);
    let moved = format!(r#"{},"v":1}}"#, &moved[..moved.len() - 1]);
    for other in [
        moved,
        usual.replace(r#""ab""#, r#""\u0061b""#),
        usual.replacen(r#","turn""#, r#" , "new":[1,{}], "turn""#, 1),
        usual.replacen(r#""turn":2,"#, r#""turn":3,"turn": 2,"#, 1),
        format!("{},\"new\":{{}}}} ", &usual[..usual.len() - 1]),
    ] {
        assert_eq!(
            shown(RawLine::parse(other.as_bytes()).unwrap()),
            expected,
            "{other}"
        );
        assert_eq!(
            shown(RawLine::read(other.as_bytes(), true).unwrap()),
            expected,
            "{other}"
        );
    }
    for text in [LINE, &usual] {
        let line = RawLine::read(text.as_bytes(), true).unwrap();
        let fields: Vec<_> = line.fields().iter().map(|(n, v)| (*n, v.json())).collect();
        let members: Vec<_> = line
            .payload()
            .members()
            .map(|(n, v)| (n, v.json()))
            .collect();
        assert_eq!(fields, members);
    }
}

#[test]
fn a_newer_version_is_told_by_its_number() {
    let newer = LINE.replacen("\"v\":1", "\"v\":9", 1);
    let error = RawLine::parse(newer.as_bytes()).unwrap_err();
    assert_eq!(error, LineError::Newer { found: 9 });
}

#[test]
fn half_a_surrogate_pair_loses_nothing_else() {
    let value = RawValue::new(r#"{"a":"x\ud83d","b":1}"#);
    assert_eq!(value.get("a").unwrap().text().unwrap(), "x\u{fffd}");
    let parsed = serde_json::json!({"a": "x\u{fffd}", "b": 1});
    assert_eq!(value.value(), Some(parsed));
}
