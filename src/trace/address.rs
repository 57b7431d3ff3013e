//! Where a line stands.

/// Where an event stands in its session: `seg:seq`. A bare `seq` means the first segment.
///
/// ```
/// use spanledger::trace::Address;
/// assert_eq!("2:17".parse(), Ok(Address { seg: 2, seq: 17 }));
/// assert_eq!("17".parse::<Address>().unwrap().to_string(), "1:17");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The segment's number.
    pub seg: u32,
    /// The line's number in it.
    pub seq: u64,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.seg, self.seq)
    }
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseAddressError(String);

impl std::fmt::Display for ParseAddressError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "invalid address {:?}; write SEGMENT:LINE, such as 1:17",
            self.0
        )
    }
}

impl std::error::Error for ParseAddressError {}

impl std::str::FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let (seg, seq) = text.split_once(':').unwrap_or(("1", text));
        match (seg.parse(), seq.parse()) {
            (Ok(seg), Ok(seq)) if seg > 0 && seq > 0 => Ok(Self { seg, seq }),
            _ => Err(ParseAddressError(text.to_owned())),
        }
    }
}
