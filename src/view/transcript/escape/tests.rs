use super::*;

#[test]
fn text_is_escaped() {
    let text = "<b a='x'>\"&\u{202e}\x1b[0m\n\t</b>";
    let escaped = "&lt;b a=&#39;x&#39;&gt;&quot;&amp;\\u{202e}\\x1b[0m\n\t&lt;/b&gt;";
    assert_eq!(Text(text).to_string(), escaped);
}

#[test]
fn masks_are_marked() {
    let mut out = Vec::new();
    write_text(&mut out, "key=[masked rule=x bytes=3] <i> [masked rule=").unwrap();
    let expected = "key=<mark>[masked rule=x bytes=3]</mark> &lt;i&gt; [masked rule=";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
