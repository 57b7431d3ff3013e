use super::*;
use crate::trace::time_text;

#[test]
fn what_is_a_little_earlier_than_1970_is_not_in_the_far_future() {
    let looked_at = 5_000_000_000;
    let ahead = how_far_ahead(0, looked_at);
    for earlier in [0, 1, 1_000, 1_000_000] {
        let wall = (looked_at - earlier).wrapping_add(ahead);
        assert_eq!(&time_text(wall, 9)[..4], "1970");
    }
    assert_eq!(how_far_ahead(looked_at + 7, looked_at), 7);
}
