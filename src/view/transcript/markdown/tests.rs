use super::*;

#[test]
fn words_have_no_markup() {
    let text = "![x](https://evil.example/?a) <img src=x> *a* `b` www";
    let safe = "!\\[x\\](https&#58;//evil.example/?a) &lt;img src=x&gt; \\*a\\* \\`b\\` www";
    assert_eq!(escaped(text), safe);
}

#[test]
fn code_is_longer_than_its_backticks() {
    assert_eq!(code("a ``b"), "```a ``b```");
    assert_eq!(code("`"), "`` ` ``");
}

#[test]
fn no_line_of_a_text_closes_its_fence() {
    let mut out = Vec::new();
    let text = "a\n````\n![x](http://e)\n```".to_owned();
    let mut page = Markdown::new(&mut out);
    page.fence("", &Body { text, note: None }).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text, "\n`````text\na\n````\n![x](http://e)\n```\n`````\n");
}
