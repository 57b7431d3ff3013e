//! Any bytes: the line reader refuses them or reads them, and both ways of reading agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spanledger::trace::Line;
use spanledger::trace::{Address, RawLine};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = text.parse::<Address>();
    }
    let raw = RawLine::parse(bytes);
    let line = Line::parse(bytes);
    if let (Ok(raw), Ok(line)) = (&raw, &line) {
        // A member given twice may be taken from either place; all others must agree.
        if bytes.windows(5).filter(|w| *w == b"\"seq\"").count() == 1 {
            assert_eq!(raw.seq, line.seq);
        }
        for (key, value) in raw.payload().members() {
            let _ = (key, value.text(), value.u64(), value.f64(), value.value());
        }
    }
});
