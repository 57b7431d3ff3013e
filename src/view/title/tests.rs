use super::*;

#[test]
fn tool_works_while_another_one_waits() {
    // The first tool waits from 2 to 8, the second works from 4 to 6.
    let mut tools = without((0, 10), vec![(2, 8), (3, 5)]);
    tools.extend(without((4, 6), Vec::new()));
    assert_eq!(covered(&mut tools), 6);
    assert_eq!(covered(&mut without((0, 10), vec![(0, 20)])), 0);
    assert_eq!(
        covered(&mut without((5, 10), vec![(0, 6), (9, 30), (40, 50)])),
        3
    );
}
