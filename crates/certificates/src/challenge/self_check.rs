//! Requests a challenge through the public name before the authority does (HTTP-01, RFC 8555 §8.3).
//!
//! The server answers every token with the thumbprint of the account, so we can ask with a token of our own before there is an
//! order. A failed check costs neither an order nor one of the few failures an hour that authorities allow.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rustix::io::Errno;

use crate::error::{Error, Found};
use crate::limits::{CHECK_ADDRESSES_MAX, CHECK_BYTES_MAX, CHECK_TIMEOUT};
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
        let outcomes = ask_addresses(&authority, &host, &random_token()?, thumbprint);
        let is_sufficient = match self {
            // The operator has named one server, whose name may have addresses that it doesn't listen to.
            SelfCheck::Via(_) => outcomes.iter().any(Result::is_ok),
            _ => leads_here(&outcomes),
        };
        if is_sufficient {
            return Ok(());
        }
        let (good, bad): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        Err(Error::Check {
            name: host,
            found: bad.into_iter().filter_map(Result::err).collect(),
            good: good.into_iter().flatten().collect(),
            thumbprint: thumbprint.to_owned(),
        })
    }
}

/// The response of an address: the address itself, if it was the right one.
type Outcome = Result<String, Found>;

/// Whether the authority can ask any of the addresses. That this machine has no route to one, for example without IPv6, says nothing
/// about the authority if another one leads here.
fn leads_here(outcomes: &[Outcome]) -> bool {
    let is_good = |outcome: &Outcome| outcome.is_ok();
    let has_no_route = |outcome: &Outcome| matches!(outcome, Err(Found::Nothing { has_no_route: true, .. }));
    outcomes.iter().any(is_good) && outcomes.iter().all(|outcome| is_good(outcome) || has_no_route(outcome))
}

fn random_token() -> Result<String, Error> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| Error::Crypto { why: "the system has no random numbers".into() })?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// Asks each address of an authority, as long as there is time. There is at least one outcome.
fn ask_addresses(authority: &str, host: &str, token: &str, thumbprint: &str) -> Vec<Outcome> {
    let has_port = has_port(authority);
    let with_port = if has_port { authority.to_owned() } else { format!("{authority}:80") };
    let nothing = |why: &str| {
        vec![Err(Found::Nothing { at: authority.to_owned(), why: why.to_owned(), has_no_route: false })]
    };
    let mut addresses: Vec<SocketAddr> = Vec::new();
    match with_port.to_socket_addrs() {
        Ok(found) => {
            for address in found {
                if !addresses.contains(&address) && addresses.len() < CHECK_ADDRESSES_MAX {
                    addresses.push(address);
                }
            }
        }
        Err(error) => return nothing(&error.to_string()),
    }
    if addresses.is_empty() {
        return nothing("it has no address");
    }

    let end = Instant::now() + CHECK_TIMEOUT;
    let mut outcomes = Vec::new();
    let count = addresses.len();
    for (position, address) in addresses.into_iter().enumerate() {
        // An address that hangs leaves time for the others.
        let rest = u32::try_from(count - position).unwrap_or(1);
        let left = (end.saturating_duration_since(Instant::now()) / rest).max(Duration::from_millis(1));
        let at = if has_port { address.to_string() } else { address.ip().to_string() };
        let outcome = request(address, &at, left, host, token, thumbprint);
        outcomes.push(outcome.map(|()| at));
    }
    outcomes
}

/// Whether this machine has no route to an address, or no address of that family. Nothing is sent: to connect a datagram socket only
/// looks for a route. The error of TCP doesn't tell, because firewalls and routers cause the same ones.
fn has_no_route(address: SocketAddr) -> bool {
    let own: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let looked = UdpSocket::bind(own).and_then(|socket| socket.connect(address));
    looked.is_err_and(|error| {
        matches!(
            error.kind(),
            ErrorKind::AddrNotAvailable | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
        ) || error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error())
    })
}

fn request(
    address: SocketAddr,
    at: &str,
    timeout: Duration,
    host: &str,
    token: &str,
    thumbprint: &str,
) -> Result<(), Found> {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .timeout_global(Some(timeout))
        .user_agent(concat!("cannery/", env!("CARGO_PKG_VERSION")));
    let agent = ureq::Agent::new_with_config(config.build());
    let url = format!("http://{address}/.well-known/acme-challenge/{token}");
    let nothing = |error: ureq::Error| Found::Nothing {
        at: at.to_owned(),
        why: error.to_string(),
        has_no_route: has_no_route(address),
    };
    let mut response = agent.get(&url).header("Host", host).call().map_err(nothing)?;

    let field = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
    let status = response.status().as_u16();
    if response.status().is_redirection() {
        let to = field("location").map_or_else(|| "nowhere".into(), |to| shortened(&to));
        return Err(Found::Redirect { at: at.to_owned(), status, to });
    }
    let server = field("server");
    let proxy = PROXY_FIELDS.iter().find_map(|name| field(name));
    let body = response.body_mut().with_config().limit(CHECK_BYTES_MAX).read_to_string().unwrap_or_default();
    match body.trim_end().strip_prefix(token).and_then(|rest| rest.strip_prefix('.')) {
        Some(found) if status == 200 && found == thumbprint => Ok(()),
        Some(found) if status == 200 => {
            Err(Found::OtherAccount { at: at.to_owned(), thumbprint: shortened(found) })
        }
        _ => Err(Found::Other {
            at: at.to_owned(),
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
    fn every_address_must_lead_here() {
        let good = || Ok("192.0.2.1".to_owned());
        let nothing = |has_no_route| {
            Err(Found::Nothing { at: "192.0.2.2".to_owned(), why: "refused".to_owned(), has_no_route })
        };
        for (outcomes, expected) in [
            (vec![good()], true),
            (vec![good(), good()], true),
            (vec![good(), nothing(false)], false),
            (vec![nothing(true), good()], true),
            (vec![nothing(true)], false),
        ] {
            assert_eq!(leads_here(&outcomes), expected, "{outcomes:?}");
        }

        let error = Error::Check {
            name: "example.com".to_owned(),
            found: vec![
                nothing(false).unwrap_err(),
                Found::Other { at: "192.0.2.3".to_owned(), status: 404, server: None, proxy: None },
            ],
            good: vec!["192.0.2.1".to_owned()],
            thumbprint: THUMBPRINT.to_owned(),
        };
        assert_eq!(
            error.to_string(),
            "http://example.com/ does not lead to this server: nothing answers at 192.0.2.2 (refused); status 404 came instead \
             from 192.0.2.3; 192.0.2.1 leads to it"
        );
    }

    #[test]
    fn outcomes_name_their_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let outcomes = ask_addresses(&format!("localhost:{port}"), "example.com", "token", THUMBPRINT);
        assert!(!outcomes.is_empty() && outcomes.len() <= CHECK_ADDRESSES_MAX, "{outcomes:?}");
        let ports = format!(":{port}");
        for outcome in &outcomes {
            assert!(matches!(outcome, Err(Found::Nothing { at, .. }) if at.ends_with(&ports)), "{outcome:?}");
        }
    }

    #[test]
    fn ports_are_recognized() {
        assert!(has_port("a.example:80") && has_port("[::1]:80"));
        assert!(!has_port("a.example") && !has_port("[::1]"));
    }
}
