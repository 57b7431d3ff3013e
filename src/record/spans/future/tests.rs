use super::*;

#[test]
fn nested_results_are_looked_into() {
    type Pair = (u8, Vec<String>);
    assert_eq!(
        nested_error(&Ok::<Pair, std::io::Error>((0, Vec::new()))),
        None
    );
    assert_eq!(nested_error(&Some(1)), None);
    assert_eq!(nested_error(&"core::result::Result<"), None);
    let failure = nested_error(&Err::<Pair, String>("no".into())).unwrap();
    assert!(failure.to_json().contains("alloc::string::String"));
    let failure = nested_error(&Err::<u8, Result<u8, (u8, String)>>(Ok(1))).unwrap();
    assert!(
        failure.to_json().contains("Result<u8, (u8, "),
        "{failure:?}"
    );
}
