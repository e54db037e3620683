//! Host names that we may respond to when web pages from elsewhere must not be able to read the response.
//!
//! Consider a page that, once loaded, directs its own host name to this machine (DNS rebinding). The browser
//! would then assume that our responses have the same origin as the page and let its scripts read them.
//! However, such requests still contain the page's host name, which allows us to detect them.

use std::net::IpAddr;

use cannery_site::{Request, Target};

use crate::config::HostPattern;

/// IP addresses, `localhost` and names below it, plus any names that were configured.
#[derive(Debug, Clone)]
pub(crate) struct TrustedHosts {
    names: Vec<HostPattern>,
}

impl TrustedHosts {
    pub(crate) fn new(names: &[HostPattern]) -> TrustedHosts {
        TrustedHosts { names: names.to_vec() }
    }

    /// Returns `true` if `host` is trusted. It must not contain a port or a final dot.
    pub(crate) fn includes(&self, host: &[u8]) -> bool {
        is_local(host) || self.names.iter().any(|pattern| pattern.specificity(host).is_some())
    }
}

/// Finds the host names in a request, both in the target and in `Host` or `:authority`. Browsers will
/// always send one.
pub(crate) fn requested_hosts<'r>(request: &Request<'r>) -> impl Iterator<Item = &'r [u8]> {
    let host_of = |authority| Target { authority, path: b"/", query: None }.host(None);
    let target = Target::parse(request.target).and_then(|target| target.authority);
    [host_of(target), host_of(request.host)].into_iter().flatten()
}

/// Whether this is an IP address, `localhost`, or a name below it. No foreign DNS record can direct these
/// to this machine (RFC 6761 §6.3).
fn is_local(host: &[u8]) -> bool {
    let text = std::str::from_utf8(host).unwrap_or_default();
    let literal = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if literal.parse::<IpAddr>().is_ok() {
        return true;
    }
    let last_label = text.rsplit('.').next().unwrap_or_default();
    last_label.eq_ignore_ascii_case("localhost") && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    use cannery_site::Method;

    use super::*;

    #[test]
    fn only_localhost_and_addresses_are_local() {
        let local = ["localhost", "LOCALHOST", "app.localhost", "127.0.0.1", "[::1]", "10.0.0.7"];
        assert!(local.iter().all(|host| is_local(host.as_bytes())));
        let others = [
            "example.com",
            "localhost.example.com",
            "mylocalhost",
            "127.0.0.1.nip.io",
            "1",
            ".localhost",
            "",
        ];
        assert!(!others.iter().any(|host| is_local(host.as_bytes())));
    }

    #[test]
    fn configured_names_are_trusted() {
        let names = ["site.test", "*.tunnel.example"].map(|text| HostPattern::parse(text).unwrap());
        let trusted = TrustedHosts::new(&names);
        for (host, expected) in [
            ("Site.Test", true),
            ("a.tunnel.example", true),
            ("tunnel.example", false),
            ("a.site.test", false),
        ] {
            assert_eq!(trusted.includes(host.as_bytes()), expected, "{host}");
        }
    }

    #[test]
    fn every_host_of_a_request_counts() {
        let hosts = |target, host| {
            let request = Request { host, ..Request::new(Method::Get, target) };
            requested_hosts(&request)
                .map(|host| String::from_utf8_lossy(host).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(hosts(b"/", Some(b"a.example:8080".as_slice())), ["a.example"]);
        assert_eq!(hosts(b"*", Some(b"[::1]:80".as_slice())), ["[::1]"]);
        assert_eq!(hosts(b"http://b.example./", Some(b"a.example".as_slice())), ["b.example", "a.example"]);
        assert!(hosts(b"/", None).is_empty());
    }
}
