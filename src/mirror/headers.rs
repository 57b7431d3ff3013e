//! Headers that a user adds to requests.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::environment::Found;
use crate::error::Error;

/// Headers that belong to the transport.
const RESERVED: [HeaderName; 8] = [
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::USER_AGENT,
];

/// `name=value,name=value`, values percent-encoded.
pub(super) fn headers_of(found: &Found) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    let items = found.value.split(',').map(str::trim);
    for (at, item) in items.enumerate().filter(|(_, item)| !item.is_empty()) {
        let Some((name, value)) = item.split_once('=') else {
            return Err(Error::Otlp {
                setting: found.name,
                why: format!("item {} is not `name=value`", at + 1),
            });
        };
        let value: Vec<u8> = percent_decode_str(value.trim()).collect();
        let (name, value) = header_of(found.name, name.trim().as_bytes(), &value)?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// A header that may be sent. Its value is never shown.
pub(super) fn header_of(
    setting: &'static str,
    name: &[u8],
    value: &[u8],
) -> Result<(HeaderName, HeaderValue), Error> {
    let refuse = |why: String| Err(Error::Otlp { setting, why });
    let Ok(name) = HeaderName::from_bytes(name) else {
        return refuse("a header's name is none that HTTP allows".to_owned());
    };
    if RESERVED.contains(&name) || name.as_str().starts_with("grpc-") {
        return refuse(format!("the header `{name}` belongs to the transport"));
    }
    let Ok(mut value) = HeaderValue::from_bytes(value) else {
        return refuse(format!(
            "the value of the header `{name}` has characters that HTTP doesn't allow"
        ));
    };
    value.set_sensitive(true);
    Ok((name, value))
}
