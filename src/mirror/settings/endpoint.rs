//! Parses an endpoint as a user wrote it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use super::config::Protocol;
use super::environment::invalid;
use crate::error::Error;

/// What OTLP over HTTP appends to the server's address, per signal.
pub(crate) const PATHS: [&str; 2] = ["/v1/traces", "/v1/metrics"];
/// The standard port of OTLP over gRPC, which implies the protocol.
const GRPC_PORT: u16 = 4317;

/// Stands for a part of a path that is not shown.
const MASK: &str = "***";
/// A longer part of a path may be a token.
const MAX_WORD: usize = 20;

/// An endpoint as a user wrote it.
pub(crate) struct EndpointSetting {
    pub(crate) text: String,
    /// The variable or setter that it came from.
    pub(crate) setting: &'static str,
    /// What OTLP over HTTP appends to it, unless it is complete.
    pub(crate) path: Option<&'static str>,
}

/// An endpoint that requests can be sent to.
pub(crate) struct Endpoint {
    /// Without credentials.
    pub(crate) uri: Uri,
    pub(crate) protocol: Protocol,
    /// The credentials of the address as a header.
    pub(crate) authorization: Option<HeaderValue>,
}

impl EndpointSetting {
    /// `insecure` is called only if it matters. Errors never repeat the address, which may hold a
    /// password.
    pub(crate) fn parse(
        &self,
        protocol: Option<Protocol>,
        insecure: impl FnOnce() -> Result<bool, Error>,
    ) -> Result<Endpoint, Error> {
        let (scheme, rest) = match self.text.split_once("://") {
            Some((scheme, rest)) => (Some(self.scheme(scheme)?), rest),
            None => (None, self.text.as_str()),
        };
        let rest = rest.split('#').next().unwrap_or(rest);
        let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (credentials, authority) = match authority.rsplit_once('@') {
            Some((credentials, authority)) => (Some(credentials), authority),
            None => (None, authority),
        };
        let (authority, port) = self.authority(authority)?;
        let protocol = protocol.unwrap_or(match port {
            Some(GRPC_PORT) => Protocol::Grpc,
            _ => Protocol::HttpProtobuf,
        });
        let scheme = match (scheme, protocol) {
            (Some(scheme), _) => scheme,
            (None, Protocol::Grpc) if insecure()? => Scheme::HTTP,
            (None, Protocol::Grpc) => Scheme::HTTPS,
            (None, _) => return self.refuse("the scheme is missing: http:// or https://"),
        };
        let path = match protocol {
            Protocol::Grpc => PathAndQuery::from_static("/"),
            _ => self.path(tail)?,
        };
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(authority)
            .path_and_query(path)
            .build()
            .map_err(|error| invalid(self.setting, error))?;
        Ok(Endpoint {
            uri,
            protocol,
            authorization: credentials.map(basic),
        })
    }

    fn scheme(&self, scheme: &str) -> Result<Scheme, Error> {
        match scheme.to_ascii_lowercase().as_str() {
            "http" => Ok(Scheme::HTTP),
            "https" => Ok(Scheme::HTTPS),
            _ => self.refuse("the scheme must be http or https"),
        }
    }

    fn authority(&self, text: &str) -> Result<(Authority, Option<u16>), Error> {
        let Ok(authority) = text.to_ascii_lowercase().parse::<Authority>() else {
            return self.refuse("the host is missing");
        };
        let port = match &authority.as_str()[authority.host().len()..] {
            _ if authority.host().is_empty() => return self.refuse("the host is missing"),
            "" => None,
            port => match port.trim_start_matches(':').parse() {
                Ok(port) if port > 0 => Some(port),
                _ => return self.refuse("the port must be a number from 1 to 65535"),
            },
        };
        Ok((authority, port))
    }

    fn path(&self, tail: &str) -> Result<PathAndQuery, Error> {
        let (path, query) = tail.split_at(tail.find('?').unwrap_or(tail.len()));
        let base = path.trim_end_matches('/');
        let path = match self.path {
            None if path.is_empty() => "/".to_owned(),
            None => path.to_owned(),
            Some(appended) => {
                // An address with the path of another signal means the same server.
                let base = PATHS
                    .iter()
                    .find_map(|path| base.strip_suffix(path))
                    .unwrap_or(base);
                format!("{base}{appended}")
            }
        };
        format!("{path}{query}")
            .parse()
            .map_err(|_| invalid(self.setting, "invalid path"))
    }

    fn refuse<T>(&self, why: &str) -> Result<T, Error> {
        Err(invalid(self.setting, why))
    }
}

/// `user:password` of an address as an `Authorization` header.
fn basic(credentials: &str) -> HeaderValue {
    let plain: Vec<u8> = percent_decode_str(credentials).collect();
    let value = format!("Basic {}", BASE64_STANDARD.encode(plain));
    let mut value = HeaderValue::try_from(value).expect("base64 fits in a header");
    value.set_sensitive(true);
    value
}

/// The server of a recorded endpoint: its host, and its port unless that is the scheme's default. A
/// session is sent to the server that it was recorded for, even after its protocol, scheme or path was
/// corrected. Compare without regard to case.
pub(crate) fn server(endpoint: &str) -> &str {
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("", endpoint));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = rest[..end].rsplit('@').next().unwrap_or_default();
    let default_port = match scheme.eq_ignore_ascii_case("https") {
        true => ":443",
        false => ":80",
    };
    authority.strip_suffix(default_port).unwrap_or(authority)
}

/// An endpoint without credentials and query, for logs and the trace. Some servers take a token in the
/// path: parts of it that may be one are masked.
pub(crate) fn shown(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http");
    let authority = uri.authority().map_or("", Authority::as_str);
    let parts = uri.path().trim_start_matches('/').split('/');
    let parts = parts.map(|part| if is_plain(part) { part } else { MASK });
    let path = parts.collect::<Vec<_>>().join("/");
    match path.as_str() {
        "" => format!("{scheme}://{authority}"),
        path => format!("{scheme}://{authority}/{path}"),
    }
}

/// The parts of an endpoint's path and query that are not shown.
pub(crate) fn hidden(uri: &Uri) -> impl Iterator<Item = &str> {
    let parts = uri.path().split('/').filter(|part| !is_plain(part));
    let query = uri.query().unwrap_or_default().split('&');
    parts.chain(query.filter_map(|pair| Some(pair.split_once('=')?.1)))
}

/// Whether a part of a path is a word or a version, such as `otlp` or `v1`, and not a token.
fn is_plain(part: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || "-_.".contains(c);
    let version = part.strip_prefix('v').filter(|number| number.len() <= 2);
    part.len() <= MAX_WORD && part.chars().all(is_letter)
        || version.is_some_and(|number| number.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
