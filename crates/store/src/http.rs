//! An HTTP client with bounds on time and memory, which never sends credentials to another host.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Instant;

use http::header::{AUTHORIZATION, HeaderName, LOCATION};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use ureq::Body;
use ureq::config::ConfigBuilder;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::typestate::AgentScope;

use crate::error::{StoreError, StoreErrorKind};
use crate::limits::{
    CONNECT_TIMEOUT, IDLE_TIMEOUT, MACHINE_CONNECT_TIMEOUT, MACHINE_TIMEOUT, REDIRECTS_MAX,
    RESPONSE_BYTES_MAX, RESPONSE_TIMEOUT,
};

/// A client. Connections are kept.
#[derive(Clone)]
pub(crate) struct Http {
    agent: ureq::Agent,
    /// Whether credentials may be sent without TLS to other machines.
    allows_plain_credentials: bool,
    follows_redirects: bool,
}

/// A request, perhaps with content.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) content: Option<Content<'a>>,
    /// The target in messages, if the URL has a signature that no log should have.
    pub(crate) name: Option<String>,
}

/// Content of a request.
#[derive(Clone, Copy)]
pub(crate) enum Content<'a> {
    Bytes(&'a [u8]),
    /// A whole file, which is read while it's sent.
    File(&'a File),
}

impl<'a> Call<'a> {
    pub(crate) fn new(method: Method, url: impl Into<String>) -> Call<'a> {
        Call { method, url: url.into(), headers: HeaderMap::new(), content: None, name: None }
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Result<Call<'a>, StoreError> {
        let value = HeaderValue::from_str(value).map_err(|_| {
            StoreError::wrong(format!("`{name}` has characters that no header field may have"))
        })?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Returns what messages call the request's target.
    pub(crate) fn shown(&self) -> &str {
        self.name.as_ref().unwrap_or(&self.url)
    }

    pub(crate) fn content(self, content: &'a [u8]) -> Call<'a> {
        self.with(Content::Bytes(content))
    }

    pub(crate) fn with(mut self, content: Content<'a>) -> Call<'a> {
        self.content = Some(content);
        self
    }
}

impl Http {
    /// Returns a client that trusts the web's root certificates, or only those in `roots` (PEM).
    pub(crate) fn new(roots: Option<&[u8]>, allows_plain_credentials: bool) -> Http {
        let agent = ureq::Agent::new_with_config(config(roots).build());
        Http { agent, allows_plain_credentials, follows_redirects: true }
    }

    /// Returns a client for services of the machine itself, which no proxy can reach, and which answer at once if they exist. They have no
    /// reason to redirect, and their secrets are in fields of their own, so redirects aren't followed.
    pub(crate) fn for_machine() -> Http {
        let config = config(None)
            .proxy(None)
            .timeout_connect(Some(MACHINE_CONNECT_TIMEOUT))
            .timeout_recv_response(Some(MACHINE_TIMEOUT));
        let agent = ureq::Agent::new_with_config(config.build());
        Http { agent, allows_plain_credentials: true, follows_redirects: false }
    }

    /// Sends a request, and follows redirects if it has no content. Credentials are sent only to the host of the first URL.
    pub(crate) fn send(&self, call: &Call<'_>) -> Result<Response<Body>, StoreError> {
        let first = parse_url(&call.url)?;
        let mut url = first.clone();
        for _ in 0..=REDIRECTS_MAX {
            let mut headers = call.headers.clone();
            if !is_same_host(&first, &url) {
                headers.remove(AUTHORIZATION);
            }
            if headers.contains_key(AUTHORIZATION)
                && !self.allows_plain_credentials
                && is_plain(&url.to_string())
            {
                return Err(plain_credentials(call.shown()));
            }
            let response = self.send_once(call, &url, headers)?;
            let is_redirect = matches!(
                response.status(),
                StatusCode::MOVED_PERMANENTLY
                    | StatusCode::FOUND
                    | StatusCode::TEMPORARY_REDIRECT
                    | StatusCode::PERMANENT_REDIRECT
            );
            if !is_redirect || call.content.is_some() || !self.follows_redirects {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let location =
                location.ok_or_else(|| StoreError::wrong(format!("{} redirects nowhere", call.shown())))?;
            let next = resolve(&url, location)?;
            if url.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
                return Err(StoreError::wrong(format!(
                    "{} redirects to an address without TLS",
                    call.shown()
                )));
            }
            url = next;
        }
        Err(StoreError::wrong(format!("{} redirects more than {REDIRECTS_MAX} times", call.shown())))
    }

    fn send_once(
        &self,
        call: &Call<'_>,
        url: &Uri,
        headers: HeaderMap,
    ) -> Result<Response<Body>, StoreError> {
        let mut request = Request::builder().method(call.method.clone()).uri(url.clone());
        if let Some(all) = request.headers_mut() {
            *all = headers;
        }
        let broken = |error: &dyn std::fmt::Display| {
            StoreError::new(StoreErrorKind::Unreachable, format!("{}: {error}", host(url)))
        };
        let response = match call.content {
            Some(Content::Bytes(bytes)) => {
                let request = request.body(bytes).map_err(|error| broken(&error))?;
                self.agent.run(request)
            }
            Some(Content::File(mut file)) => {
                // An attempt without the right authorization may have read it.
                file.seek(SeekFrom::Start(0)).map_err(|error| {
                    StoreError::new(StoreErrorKind::Local, format!("cannot read what is uploaded: {error}"))
                })?;
                let request = request.body(file).map_err(|error| broken(&error))?;
                self.agent.run(request)
            }
            None => {
                let request = request.body(()).map_err(|error| broken(&error))?;
                self.agent.run(request)
            }
        };
        response.map_err(|error| no_response(url, &error))
    }
}

/// Explains why a server has sent no response.
fn no_response(url: &Uri, error: &ureq::Error) -> StoreError {
    let host = host(url);
    let failure = |message| StoreError::new(StoreErrorKind::Unreachable, message);
    let rustls_error = match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()),
        _ => None,
    };
    match (rustls_error, error) {
        (Some(rustls::Error::InvalidMessage(_)), _) => {
            failure(format!("{host} sends something other than TLS, as a port for plain HTTP does"))
                .hint("name the port on which that server has TLS, or turn TLS on there")
        }
        (_, ureq::Error::Protocol(error)) if url.scheme_str() == Some("http") => {
            failure(format!("{host} sends something other than HTTP, as a port for TLS does: {error}"))
                .hint("write `https://`, or name the port of that server for plain HTTP")
        }
        _ => failure(format!("{host}: {error}")),
    }
}

fn config(roots: Option<&[u8]>) -> ConfigBuilder<AgentScope> {
    let roots = match roots {
        Some(pem) => {
            let roots = CertificateDer::pem_slice_iter(pem).flatten();
            let roots = roots.map(|der| ureq::tls::Certificate::from_der(&der).to_owned());
            RootCerts::new_with_certs(&roots.collect::<Vec<_>>())
        }
        None => RootCerts::WebPki,
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = TlsConfig::builder().root_certs(roots).unversioned_rustls_crypto_provider(provider).build();
    ureq::Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .accept_encoding("identity")
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_resolve(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(IDLE_TIMEOUT))
        .timeout_per_read(Some(IDLE_TIMEOUT))
        .timeout_per_write(Some(IDLE_TIMEOUT))
        .user_agent(concat!("cannery/", env!("CARGO_PKG_VERSION")))
}

/// Reads a response into memory.
pub(crate) fn read_all(response: Response<Body>, bytes_max: u64, url: &str) -> Result<Vec<u8>, StoreError> {
    let lost = |why: &dyn std::fmt::Display| {
        StoreError::new(StoreErrorKind::Unreachable, format!("{url}: the connection was lost: {why}"))
    };
    let began = Instant::now();
    let mut bytes = Vec::new();
    let mut reader = response.into_body().into_reader().take(bytes_max + 1);
    let mut part = [0; 8192];
    loop {
        match reader.read(&mut part) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(lost(&error)),
        }
        if began.elapsed() > RESPONSE_TIMEOUT {
            return Err(lost(&"it is too slow"));
        }
    }
    if bytes.len() as u64 > bytes_max {
        return Err(StoreError::wrong(format!("{url} is longer than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// Turns a status that wasn't expected into an error.
pub(crate) fn unexpected(response: Response<Body>, url: &str) -> StoreError {
    let status = response.status();
    let kind = match status.as_u16() {
        401 | 403 => StoreErrorKind::Denied,
        404 | 410 => StoreErrorKind::Missing,
        429 | 500.. => StoreErrorKind::Failing,
        _ => StoreErrorKind::Wrong,
    };
    let mut message = format!("{url} answers {status}");
    let mut wants_tls = false;
    // Most stores explain it in a few words.
    if let Ok(body) = read_all(response, RESPONSE_BYTES_MAX, url)
        && let Ok(text) = std::str::from_utf8(&body)
    {
        // In the words of Go's servers, of nginx, of Apache, and of ours.
        let complaints = [
            "to an HTTPS server",
            "to HTTPS port",
            "speaking plain HTTP to an SSL-enabled",
            "Plain HTTP on an HTTPS port",
        ];
        wants_tls = status == StatusCode::BAD_REQUEST && complaints.iter().any(|words| text.contains(words));
        let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
        if !text.is_empty() && !text.starts_with('<') {
            message = format!("{message}: {text}");
        }
    }
    let error = StoreError::new(kind, message);
    match kind {
        _ if wants_tls => {
            error.hint("this port is for TLS: write `https://`, or name the port for plain HTTP")
        }
        StoreErrorKind::Denied => error.hint("check the credentials, and what they permit"),
        StoreErrorKind::Failing => error.hint("try again later, or read the log of that server"),
        _ => error,
    }
}

pub(crate) fn parse_url(url: &str) -> Result<Uri, StoreError> {
    let parsed: Option<Uri> = url.parse().ok();
    let parsed =
        parsed.filter(|url| url.host().is_some() && matches!(url.scheme_str(), Some("http" | "https")));
    let Some(parsed) = parsed else {
        return Err(StoreError::wrong(format!("`{url}` is not an address of HTTP")));
    };
    // A password must not end up in messages, and a name before the `@` can look like the host.
    if parsed.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        let host = parsed.host().unwrap_or_default();
        return Err(StoreError::wrong(format!(
            "the address of `{host}` has a user or a password before the host"
        )));
    }
    Ok(parsed)
}

/// Resolves the value of a `Location` field against the URL of the request.
pub(crate) fn resolve(base: &Uri, location: &str) -> Result<Uri, StoreError> {
    // A query may have a URL, too.
    let start = location.split(['/', '?', '#']).next().unwrap_or_default();
    if start.contains(':') {
        return parse_url(location);
    }
    let scheme = base.scheme_str().unwrap_or("https");
    let authority = base.authority().map_or("", |authority| authority.as_str());
    if let Some(rest) = location.strip_prefix("//") {
        return parse_url(&format!("{scheme}://{rest}"));
    }
    if location.starts_with('/') {
        return parse_url(&format!("{scheme}://{authority}{location}"));
    }
    if location.starts_with('?') {
        return parse_url(&format!("{scheme}://{authority}{}{location}", base.path()));
    }
    let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    parse_url(&format!("{scheme}://{authority}{folder}/{location}"))
}

/// Returns whether credentials for one URL may be sent to another one.
pub(crate) fn is_same_host(a: &Uri, b: &Uri) -> bool {
    a.scheme_str() == b.scheme_str()
        && a.host().map(str::to_ascii_lowercase) == b.host().map(str::to_ascii_lowercase)
        && port(a) == port(b)
}

fn port(url: &Uri) -> u16 {
    url.port_u16().unwrap_or(if url.scheme_str() == Some("http") { 80 } else { 443 })
}

fn host(url: &Uri) -> &str {
    url.authority().map_or("the server", |authority| authority.as_str())
}

/// Returns whether requests for a URL leave this machine without TLS.
pub(crate) fn is_plain(url: &str) -> bool {
    url.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://")) && !is_loopback(&url[7..])
}

/// The error about a URL to which credentials aren't sent.
pub(crate) fn plain_credentials(url: &str) -> StoreError {
    let message =
        format!("{url} has no TLS, so credentials aren't sent there: anyone on the way could read them");
    StoreError::new(StoreErrorKind::Plain, message)
}

/// Returns whether host and port, which a path may follow, are of this machine. With a user before the host, they never are.
pub(crate) fn is_loopback(authority: &str) -> bool {
    let host = authority.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains('@') {
        return false;
    }
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Encodes pairs for a query or a form.
pub(crate) fn encode_form(pairs: &[(&str, &str)]) -> String {
    let encode = |text: &str| {
        text.bytes().fold(String::new(), |mut out, byte| {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                out.push(char::from(byte));
            } else {
                out.push_str(&format!("%{byte:02X}"));
            }
            out
        })
    };
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn locations_are_resolved() {
        let base = parse_url("https://a.example/v2/x?y=1").unwrap();
        let resolve = |location: &str| resolve(&base, location).map(|url| url.to_string()).ok();
        assert_eq!(resolve("/z").as_deref(), Some("https://a.example/z"));
        assert_eq!(resolve("z").as_deref(), Some("https://a.example/v2/z"));
        assert_eq!(resolve("//b.example/z").as_deref(), Some("https://b.example/z"));
        assert_eq!(resolve("http://b.example/z").as_deref(), Some("http://b.example/z"));
        assert_eq!(resolve("file:///etc/passwd"), None);
        // Storage may name the origin of a blob.
        let from = "?from=https://b.example/z";
        assert_eq!(resolve(&format!("/z{from}")).unwrap(), format!("https://a.example/z{from}"));
        assert_eq!(resolve(&format!("z{from}")).unwrap(), format!("https://a.example/v2/z{from}"));
        assert_eq!(resolve(from).unwrap(), format!("https://a.example/v2/x{from}"));
        assert_eq!(resolve("https://b.example/z?from=/a").unwrap(), "https://b.example/z?from=/a");
        assert_eq!(resolve("//user@b.example/z"), None);
    }

    #[test]
    fn credentials_belong_to_scheme_host_and_port() {
        let same = |a: &str, b: &str| is_same_host(&parse_url(a).unwrap(), &parse_url(b).unwrap());
        assert!(same("https://a.example/x", "https://A.example:443/y"));
        assert!(!same("https://a.example/", "http://a.example/"));
        assert!(!same("https://a.example/", "https://a.example:8443/"));
        assert!(!same("https://a.example/", "https://b.a.example/"));
    }

    #[test]
    fn loopback_addresses_are_known() {
        for text in ["127.0.0.1:80/x", "localhost", "[::1]:5000", "127.1.2.3"] {
            assert!(is_loopback(text), "{text}");
        }
        for text in [
            "localhost.example",
            "10.0.0.1",
            "[2001:db8::1]:5000",
            "",
            "127.0.0.1:80@b.example/",
            "[::1]@b.example",
        ] {
            assert!(!is_loopback(text), "{text}");
        }
        for (url, plain) in [
            ("http://10.0.0.1/", true),
            ("HTTP://store.example/", true),
            ("http://localhost.example/", true),
            ("https://store.example/", false),
            ("http://LOCALHOST:5000/", false),
            ("http://[::1]/", false),
            ("http://127.0.0.1:80@evil.example/", true),
        ] {
            assert_eq!(is_plain(url), plain, "{url}");
        }
    }

    #[test]
    fn addresses_with_a_password_are_refused_without_showing_it() {
        let error = parse_url("https://user:secret@a.example/").unwrap_err();
        assert!(error.message.contains("a.example") && !error.message.contains("secret"), "{error}");
        assert!(parse_url("https://a.example/@/b?c=d@e").is_ok());
    }

    #[test]
    fn metadata_services_cannot_redirect() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let service = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let head = io::BufReader::new(&stream).lines().map(Result::unwrap);
            assert!(head.take_while(|line| !line.is_empty()).any(|line| line.ends_with(": secret")));
            // No service listens there.
            let fields = "Location: http://127.0.0.1:1/\r\nContent-Length: 0\r\nConnection: close";
            write!(stream, "HTTP/1.1 302 Found\r\n{fields}\r\n\r\n").unwrap();
        });
        let token = HeaderName::from_static("x-aws-ec2-metadata-token");
        let call = Call::new(Method::GET, &url).header(token, "secret").unwrap();
        assert_eq!(Http::for_machine().send(&call).unwrap().status(), StatusCode::FOUND);
        service.join().unwrap();
    }

    #[test]
    fn forms_are_encoded() {
        assert_eq!(encode_form(&[("scope", "a:b,c d"), ("x", "ä")]), "scope=a%3Ab%2Cc%20d&x=%C3%A4");
    }
}
