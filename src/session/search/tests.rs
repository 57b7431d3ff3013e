use super::*;

fn all(json: &str) -> Vec<String> {
    let mut out = Vec::new();
    let take = &mut |field: String, leaf: Leaf<'_>| {
        out.push(match leaf {
            Leaf::Text(text) => format!("{field}={text}"),
            Leaf::Blob(sha256, size) => format!("{field}@{sha256}:{}", size.unwrap_or(0)),
        });
        Ok::<(), ()>(())
    };
    each_leaf("args".to_owned(), RawValue::new(json), 0, take).unwrap();
    out
}

#[test]
fn texts_have_their_path_and_are_unescaped() {
    assert_eq!(all(r#""a\nb""#), ["args=a\nb"]);
    assert_eq!(
        all(r#"{"cmd":"ls","list":["x",{"y":"z}"}],"n":-3,"t":true,"e":{}}"#),
        [
            "args.cmd=ls",
            "args.list=x",
            "args.list.y=z}",
            "args.n=-3",
            "args.t=true"
        ]
    );
}

#[test]
fn a_blob_marker_yields_the_blob_only() {
    assert_eq!(
        all(r#"[{"$blob":"ab","bytes":9,"head":"secret"},"after"]"#),
        ["args@ab:9", "args=after"]
    );
}

#[test]
fn malformed_json_ends_the_search() {
    for json in ["", "\"", "{\"a\":", "[[[", "}}}", "{\"a\"}", "nul"] {
        all(json);
    }
}
