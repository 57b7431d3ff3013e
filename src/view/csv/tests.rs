use super::*;

#[test]
fn formulas_are_text() {
    for formula in [
        "=cmd|'/c calc'!A0",
        "+1+1",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
    ] {
        let cell = cell(formula);
        let inside = cell.trim_start_matches('"');
        assert!(inside.starts_with('\''), "{cell:?}");
    }
    assert_eq!(cell("-12.5"), "-12.5");
}

#[test]
fn quotes_are_doubled() {
    assert_eq!(cell("a\"b\nc"), "\"a\"\"b\nc\"");
}
