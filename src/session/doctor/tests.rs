use super::*;

#[test]
fn filters_that_turn_the_target_off_are_found() {
    for off in [
        "off",
        "warn",
        "error,my_app=debug",
        "my_app=debug",
        "info,spanledger=off",
    ] {
        assert!(turns_off(off), "{off}");
    }
    for on in [
        "",
        "info",
        "debug",
        "warn,spanledger=info",
        "my_app=warn,info",
        "spanledger",
    ] {
        assert!(!turns_off(on), "{on}");
    }
}
