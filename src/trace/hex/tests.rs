use super::*;

#[test]
fn ids_are_spelled_as_the_formatter_does() {
    for id in [0, 1, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, u64::MAX] {
        assert_eq!(hex16(id), *format!("{id:016x}").as_bytes());
        let long = u128::from(id) << 64 | u128::from(!id);
        assert_eq!(hex32(long), *format!("{long:032x}").as_bytes());
        assert_eq!(hex(&id.to_be_bytes()).as_bytes(), hex16(id));
    }
}
