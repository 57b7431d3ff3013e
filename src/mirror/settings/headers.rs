//! Headers that a user adds to requests.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::environment::{Variable, invalid};
use crate::error::Error;

/// Headers that the transport sets.
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
pub(crate) fn headers_of(variable: &Variable) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    let items = variable.value.split(',').map(str::trim);
    for (at, item) in items.enumerate().filter(|(_, item)| !item.is_empty()) {
        let Some((name, value)) = item.split_once('=') else {
            let why = format!("item {} is not `name=value`", at + 1);
            return Err(invalid(variable.name, why));
        };
        let value: Vec<u8> = percent_decode_str(value.trim()).collect();
        let (name, value) = header_of(variable.name, name.trim().as_bytes(), &value)?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// A header that a user may set. Its value is never shown.
pub(crate) fn header_of(
    setting: &'static str,
    name: &[u8],
    value: &[u8],
) -> Result<(HeaderName, HeaderValue), Error> {
    let Ok(name) = HeaderName::from_bytes(name) else {
        return Err(invalid(setting, "invalid header name"));
    };
    if RESERVED.contains(&name) || name.as_str().starts_with("grpc-") {
        return Err(invalid(
            setting,
            format!("header {name} is set by spanledger"),
        ));
    }
    let Ok(mut value) = HeaderValue::from_bytes(value) else {
        return Err(invalid(setting, format!("invalid value of header {name}")));
    };
    value.set_sensitive(true);
    Ok((name, value))
}
