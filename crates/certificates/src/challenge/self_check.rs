//! Requests a challenge through the public name before the authority does (HTTP-01, RFC 8555 §8.3).
//!
//! The server answers every token with the thumbprint of the account, so we can ask with a token of our own before there is an
//! order. A failed check costs neither an order nor one of the few failures an hour that authorities allow.

use std::net::ToSocketAddrs;

use aws_lc_rs::rand;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::error::{Error, Found};
use crate::limits::{CHECK_BYTES_MAX, CHECK_TIMEOUT};
use crate::names::Name;

/// Headers by which proxies and content delivery networks can be recognized.
const PROXY_FIELDS: [&str; 4] = ["via", "x-served-by", "x-cache", "cf-ray"];

/// Where to send our own requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelfCheck {
    /// To the addresses of the name, as the authority does.
    PublicName,
    /// To this host and port, for machines that can't reach their own public address.
    Via(String),
    /// Nowhere.
    Off,
}

impl SelfCheck {
    /// Requests a random token.
    pub(crate) fn run(&self, name: &Name, thumbprint: &str) -> Result<(), Error> {
        let host = match name {
            Name::Address(address) if address.is_ipv6() => format!("[{address}]"),
            other => other.domain(),
        };
        let authority = match self {
            SelfCheck::Off => return Ok(()),
            SelfCheck::PublicName => host.clone(),
            SelfCheck::Via(address) => address.clone(),
        };
        let token = random_token()?;
        let result = request(&authority, &host, &token, thumbprint);
        result.map_err(|found| Error::Check {
            name: host,
            found: Box::new(found),
            thumbprint: thumbprint.to_owned(),
        })
    }
}

fn random_token() -> Result<String, Error> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| Error::Crypto { why: "the system has no random numbers".into() })?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn request(authority: &str, host: &str, token: &str, thumbprint: &str) -> Result<(), Found> {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .timeout_global(Some(CHECK_TIMEOUT))
        .user_agent(concat!("cannery/", env!("CARGO_PKG_VERSION")));
    let agent = ureq::Agent::new_with_config(config.build());
    let url = format!("http://{authority}/.well-known/acme-challenge/{token}");
    let nothing = |why: String| Found::Nothing { at: addresses(authority), why };
    let mut response =
        agent.get(&url).header("Host", host).call().map_err(|error| nothing(error.to_string()))?;

    let field = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
    let status = response.status().as_u16();
    if response.status().is_redirection() {
        let to = field("location").map_or_else(|| "nowhere".into(), |to| shortened(&to));
        return Err(Found::Redirect { status, to });
    }
    let server = field("server");
    let proxy = PROXY_FIELDS.iter().find_map(|name| field(name));
    let body = response.body_mut().with_config().limit(CHECK_BYTES_MAX).read_to_string().unwrap_or_default();
    match body.trim_end().strip_prefix(token).and_then(|rest| rest.strip_prefix('.')) {
        Some(found) if status == 200 && found == thumbprint => Ok(()),
        Some(found) if status == 200 => Err(Found::OtherAccount { thumbprint: shortened(found) }),
        _ => Err(Found::Other {
            at: addresses(authority),
            status,
            server: server.map(|text| shortened(&text)),
            proxy: proxy.map(|text| shortened(&text)),
        }),
    }
}

/// Shortens a text of another party for a message.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Returns the addresses of a host, so that operators see where its DNS records lead.
fn addresses(authority: &str) -> String {
    let with_port = if has_port(authority) { authority.to_owned() } else { format!("{authority}:80") };
    let Ok(addresses) = with_port.to_socket_addrs() else { return authority.to_owned() };
    let addresses: Vec<_> = addresses.map(|address| address.ip().to_string()).take(4).collect();
    if addresses.len() == 1 && authority.contains(&addresses[0]) {
        return authority.to_owned();
    }
    format!("{authority} ({})", addresses.join(", "))
}

fn has_port(authority: &str) -> bool {
    authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
        && !authority.ends_with(']')
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const THUMBPRINT: &str = "9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI";

    /// Asks a server that sends this response, in which TOKEN is replaced.
    fn ask(response: &str) -> Result<(), Error> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let response = response.to_owned();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            let mut buffer = [0; 1024];
            while !head.ends_with(b"\r\n\r\n") {
                let count = stream.read(&mut buffer).unwrap();
                head.extend_from_slice(&buffer[..count]);
            }
            let head = String::from_utf8(head).unwrap();
            let token = head.split("/.well-known/acme-challenge/").nth(1).unwrap().split(' ').next().unwrap();
            // A client that has read enough may close the connection.
            let _ = stream.write_all(response.replace("TOKEN", token).as_bytes());
            head
        });
        let result = SelfCheck::Via(address).run(&"example.com".parse().unwrap(), THUMBPRINT);
        let head = server.join().unwrap().to_ascii_lowercase();
        assert!(head.contains("\r\nhost: example.com\r\n"), "{head}");
        result
    }

    fn found(response: &str) -> (String, String) {
        let error = ask(response).unwrap_err();
        (error.to_string(), error.hint().unwrap())
    }

    #[test]
    fn response_of_this_account_is_accepted() {
        ask(&format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nTOKEN.{THUMBPRINT}")).unwrap();
    }

    #[test]
    fn message_says_what_came_instead() {
        let (message, hint) =
            found("HTTP/1.1 301 Moved\r\nLocation: https://example.com/x\r\nContent-Length: 0\r\n\r\n");
        assert!(message.contains("a redirect (301) to https://example.com/x"), "{message}");
        assert!(hint.contains("--no-check"), "{hint}");

        let (message, hint) = found("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nTOKEN.other");
        assert!(message.contains("another account") && message.contains("thumbprint other"), "{message}");
        assert!(hint.contains(THUMBPRINT), "{hint}");

        let (message, hint) = found("HTTP/1.1 404 No\r\nServer: nginx\r\nContent-Length: 0\r\n\r\n");
        assert!(message.contains("status 404") && message.contains("`nginx`"), "{message}");
        assert!(hint.contains("another site"), "{hint}");

        let (message, hint) = found("HTTP/1.1 502 No\r\nVia: 1.1 varnish\r\nContent-Length: 0\r\n\r\n");
        assert!(message.contains("the proxy `1.1 varnish`"), "{message}");
        assert!(hint.contains("let the proxy"), "{hint}");

        let (_, hint) = found("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
        assert!(hint.contains("--acme-thumbprint"), "{hint}");
    }

    #[test]
    fn endless_response_is_not_read_to_its_end() {
        let body = "x".repeat(100_000);
        let (message, _) = found(&format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{body}"));
        assert!(message.contains("status 200"), "{message}");
    }

    #[test]
    fn closed_port_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let error =
            SelfCheck::Via(address.clone()).run(&"example.com".parse().unwrap(), THUMBPRINT).unwrap_err();
        assert!(error.to_string().contains(&format!("nothing answers at {address}")), "{error}");
        assert!(error.hint().unwrap().contains("port 80"));
    }

    #[test]
    fn ports_are_recognized() {
        assert!(has_port("a.example:80") && has_port("[::1]:80"));
        assert!(!has_port("a.example") && !has_port("[::1]"));
    }
}
