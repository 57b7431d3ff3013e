use super::*;

#[test]
fn hex_ids_match_in_any_case_and_with_dashes() {
    let hex = |id: &str| FindId::new(id).hex;
    let trace = Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned());
    assert_eq!(hex("4BF92F3577B34DA6A3CE929D0E0E4736"), trace);
    assert_eq!(hex("4bf92f35-77b3-4da6-a3ce-929d0e0e4736"), trace);
    assert_eq!(
        hex("0xB7AD6B7169203331").as_deref(),
        Some("b7ad6b7169203331")
    );
    assert_eq!(hex("call_1"), None);
    assert_eq!(FindId::new(" Call-A1 ").exact, "Call-A1");
}
