use super::*;

#[test]
fn wide_tool_names_keep_the_columns() {
    let facts = TurnFacts {
        tool_catalog: Some(InForce {
            digest: "d".into(),
            body: Some(r#"[{"name":"read"},{"name":"読む"}]"#.into()),
        }),
        called: [("書く".into(), 1)].into(),
        ..TurnFacts::default()
    };
    let lines = tools(&facts, &Style::plain());
    let called = |line: &String| columns(&line[..line.find("called").unwrap()]);
    assert_eq!(called(&lines[1]) - 4, 19);
    assert_eq!(called(&lines[2]), called(&lines[1]));
    assert_eq!(called(&lines[3]), 19);
}
