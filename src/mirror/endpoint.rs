//! Where a signal goes, from what a user wrote.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use super::config::Protocol;
use crate::error::Error;

/// What OTLP over HTTP adds to the address of a server, signal by signal.
pub(super) const PATHS: [&str; 2] = ["/v1/traces", "/v1/metrics"];
/// gRPC's own port: who names it means gRPC.
const GRPC_PORT: u16 = 4317;

/// An endpoint as somebody wrote it.
pub(super) struct Named {
    pub(super) text: String,
    /// Who said so: a variable, or a setter.
    pub(super) setting: &'static str,
    /// Whether it is the whole address, to which nothing is added.
    pub(super) whole: bool,
    /// What is added otherwise.
    pub(super) path: &'static str,
}

/// An endpoint that can be called.
pub(super) struct Endpoint {
    /// Without credentials.
    pub(super) uri: Uri,
    pub(super) protocol: Protocol,
    /// The credentials that stood in the address, as the header that carries them.
    pub(super) authorization: Option<HeaderValue>,
}

impl Named {
    /// `insecure` is asked only if the answer matters. Errors never repeat the address: it may hold
    /// a password.
    pub(super) fn parse(
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
            (None, _) => return self.refuse("it needs http:// or https:// in front"),
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
            .map_err(|error| self.error(error.to_string()))?;
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
            _ => self.refuse("its scheme is neither http nor https"),
        }
    }

    fn authority(&self, text: &str) -> Result<(Authority, Option<u16>), Error> {
        let Ok(authority) = text.to_ascii_lowercase().parse::<Authority>() else {
            return self.refuse("it names no host");
        };
        let port = match &authority.as_str()[authority.host().len()..] {
            _ if authority.host().is_empty() => return self.refuse("it names no host"),
            "" => None,
            port => match port.trim_start_matches(':').parse() {
                Ok(port) if port > 0 => Some(port),
                _ => return self.refuse("its port is no number from 1 to 65535"),
            },
        };
        Ok((authority, port))
    }

    fn path(&self, tail: &str) -> Result<PathAndQuery, Error> {
        let (path, query) = tail.split_at(tail.find('?').unwrap_or(tail.len()));
        let base = path.trim_end_matches('/');
        let path = match self.whole {
            true if path.is_empty() => "/".to_owned(),
            true => path.to_owned(),
            false => {
                // Who names one signal's path means its server.
                let base = PATHS
                    .iter()
                    .find_map(|path| base.strip_suffix(path))
                    .unwrap_or(base);
                format!("{base}{}", self.path)
            }
        };
        format!("{path}{query}")
            .parse()
            .map_err(|_| self.error("its path can't be understood".to_owned()))
    }

    fn refuse<T>(&self, why: &str) -> Result<T, Error> {
        Err(self.error(why.to_owned()))
    }

    fn error(&self, why: String) -> Error {
        Error::Otlp {
            setting: self.setting,
            why,
        }
    }
}

/// `user:password` of an address, as HTTP sends them.
fn basic(credentials: &str) -> HeaderValue {
    let plain: Vec<u8> = percent_decode_str(credentials).collect();
    let value = format!("Basic {}", BASE64_STANDARD.encode(plain));
    let mut value = HeaderValue::try_from(value).expect("base64 fits in a header");
    value.set_sensitive(true);
    value
}

/// An endpoint as it may be shown and logged: no credentials, no query.
pub(super) fn shown(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http");
    let authority = uri.authority().map_or("", Authority::as_str);
    let path = match uri.path() {
        "/" => "",
        path => path,
    };
    format!("{scheme}://{authority}{path}")
}
