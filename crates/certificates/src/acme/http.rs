//! HTTP requests to the authority, with bounds on time and memory.
//!
//! `instant-acme` is asynchronous, and this process does one thing after another: a request blocks until its response is complete.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use cannery_base::date::parse_http_date;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, Request, Response};
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use ureq::tls::{RootCerts, TlsConfig};

use crate::error::Error;
use crate::limits::{REQUEST_TIMEOUT, RESPONSE_BYTES_MAX, RETRY_AFTER_MAX};

const PROBLEM_JSON: &str = "application/problem+json";

/// A client for one authority. Clones share what is known about the last response.
#[derive(Clone)]
pub(super) struct Http {
    agent: ureq::Agent,
    last: Arc<Mutex<LastResponse>>,
}

/// The parts of a response that `instant-acme` doesn't pass on.
#[derive(Clone, Debug, Default)]
pub(super) struct LastResponse {
    pub(super) url: String,
    pub(super) retry_after: Option<Duration>,
}

/// Why there is no response that `instant-acme` could parse.
#[derive(Debug)]
pub(super) enum HttpFault {
    /// No complete response.
    Broken(String),
    /// An error without a problem document, for example of a proxy.
    Status(u16),
    /// A redirect, which is not possible for signed requests.
    Redirect(String),
}

impl StdError for HttpFault {}

impl fmt::Display for HttpFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpFault::Broken(why) => formatter.write_str(why),
            HttpFault::Status(status) => write!(formatter, "status {status}"),
            HttpFault::Redirect(to) => write!(formatter, "a redirect to {to}"),
        }
    }
}

impl Http {
    /// Returns a client that trusts the web's root certificates, or only those in `roots` (PEM).
    pub(super) fn new(roots: Option<&[u8]>) -> Http {
        let roots = match roots {
            Some(pem) => {
                let roots = CertificateDer::pem_slice_iter(pem).flatten();
                RootCerts::new_with_certs(
                    &roots.map(|der| ureq::tls::Certificate::from_der(&der).to_owned()).collect::<Vec<_>>(),
                )
            }
            None => RootCerts::WebPki,
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = TlsConfig::builder().root_certs(roots).unversioned_rustls_crypto_provider(provider).build();
        let config = ureq::Agent::config_builder()
            .https_only(true)
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(REQUEST_TIMEOUT))
            .user_agent(concat!("cannery/", env!("CARGO_PKG_VERSION"), " instant-acme"));
        Http { agent: ureq::Agent::new_with_config(config.build()), last: Arc::default() }
    }

    /// Returns what is known about the last response.
    pub(super) fn last(&self) -> LastResponse {
        self.last.lock().map(|last| last.clone()).unwrap_or_default()
    }

    /// Gets a document without a signature.
    pub(super) fn get(&self, url: &str) -> Result<Bytes, HttpFault> {
        let broken = |error: http::Error| HttpFault::Broken(error.to_string());
        let request = Request::get(url).body(Bytes::new()).map_err(broken)?;
        let response = self.exchange(request)?;
        if !response.status().is_success() {
            return Err(HttpFault::Status(response.status().as_u16()));
        }
        Ok(response.into_body())
    }

    /// Sends a request, and returns its response or problem document.
    pub(super) fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpFault> {
        let url = request.uri().to_string();
        self.remember(LastResponse { url: url.clone(), retry_after: None });
        let (head, body) = request.into_parts();
        let sent = if body.is_empty() {
            self.agent.run(Request::from_parts(head, ()))
        } else {
            self.agent.run(Request::from_parts(head, body.to_vec()))
        };
        let mut response = sent.map_err(|error| HttpFault::Broken(error.to_string()))?;
        let retry_after = limit_retry_after(response.headers_mut(), SystemTime::now());
        self.remember(LastResponse { url, retry_after });

        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            return Err(HttpFault::Redirect(to.unwrap_or("nowhere").to_owned()));
        }
        let is_problem = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.starts_with(PROBLEM_JSON)));
        if (status.is_client_error() || status.is_server_error()) && !is_problem {
            return Err(HttpFault::Status(status.as_u16()));
        }
        let body = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| HttpFault::Broken(error.to_string()))?;
        Ok(response.map(|_| Bytes::from(body)))
    }

    fn remember(&self, response: LastResponse) {
        if let Ok(mut last) = self.last.lock() {
            *last = response;
        }
    }
}

impl HttpClient for Http {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let http = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            // The bodies of requests have no public method that returns their bytes, but those of responses do.
            let mut body = BytesResponse::from(Response::new(body)).body;
            let body = body.into_bytes().await.map_err(instant_acme::Error::Other)?;
            let response = http.exchange(Request::from_parts(head, body));
            let (parts, body) =
                response.map_err(|fault| instant_acme::Error::Other(Box::new(fault)))?.into_parts();
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}

/// Checks that there are root certificates in a PEM file.
pub(super) fn has_roots(pem: &[u8]) -> bool {
    CertificateDer::pem_slice_iter(pem).next().is_some_and(|first| first.is_ok())
}

impl HttpFault {
    /// Translates to an error for operators.
    pub(super) fn into_error(self, last: LastResponse) -> Error {
        let LastResponse { url, retry_after } = last;
        match self {
            HttpFault::Broken(why) => Error::Unreachable { url, why },
            HttpFault::Status(status) if status >= 500 || status == 429 => {
                Error::Failing { url, status, detail: None, retry_after }
            }
            HttpFault::Status(status) => {
                Error::Senseless { why: format!("status {status} without an explanation at {url}") }
            }
            HttpFault::Redirect(to) => Error::Senseless { why: format!("a redirect from {url} to {to}") },
        }
    }
}

/// Returns the time to wait according to `Retry-After`, and limits that in the field, too: `instant-acme` adds it to the present moment,
/// which panics if there is no such moment.
fn limit_retry_after(headers: &mut HeaderMap, now: SystemTime) -> Option<Duration> {
    let asked_for = retry_after(headers, now).map(|time| time.min(RETRY_AFTER_MAX));
    headers.remove(RETRY_AFTER);
    if let Some(time) = asked_for {
        headers.insert(RETRY_AFTER, time.as_secs().into());
    }
    asked_for
}

/// Returns the time to wait according to `Retry-After`, in either of its forms (RFC 9110 §10.2.3).
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    let date = parse_http_date(value.as_bytes(), now)?;
    Some(Duration::from_secs(date.saturating_sub(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_limited() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000);
        for (value, expected) in [
            ("7200", Some(7200)),
            ("18446744073709551615", Some(86_400)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(86_400)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("18446744073709551616", None),
            ("-1", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            let time = limit_retry_after(&mut headers, now);
            assert_eq!(time.map(|time| time.as_secs()), expected, "{value}");
            let field = headers.get(RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(field, expected.map(|seconds: u64| seconds.to_string()), "{value}");
        }
    }
}
