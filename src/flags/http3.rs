//! HTTP/3 flags.
//!
//! We don't open sockets here.

use cannery_server::config::{Address, EarlyData, Http3, ServerId};
use clap::Args;

use crate::output::Failure;

#[derive(Debug, Args)]
pub(super) struct Http3Flags {
    /// Listen here for HTTP/3, by UDP, with the certificates of `--bind-tls`. Addresses as for `--bind`, except `unix:`.
    /// Repeatable. Responses over TLS tell clients of it (`Alt-Svc`).
    #[arg(long, value_name = "ADDRESS")]
    bind_quic: Vec<Address>,

    /// The host and port at which clients reach HTTP/3, if a router or a load balancer maps them: `HOST:PORT`, or
    /// `:PORT` for the host of the request. The default is the port of the first socket for HTTP/3.
    #[arg(long, value_name = "[HOST]:PORT", value_parser = parse_alternative)]
    http3_alt_svc: Option<String>,

    /// Serve no HTTP/3, even if there is a `--bind-quic`, or a socket for it from a service manager.
    #[arg(long)]
    http3_disable: bool,

    /// The number of this server, by which a load balancer for QUIC routes datagrams: 16 hexadecimal digits, which become
    /// a part of connection IDs.
    #[arg(long, value_name = "HEX", value_parser = parse_server_id)]
    quic_server_id: Option<ServerId>,

    /// Answer GET and HEAD of clients that come back before their handshake is done, which saves them a round trip (0-RTT).
    /// An attacker that has recorded such a request can't repeat it to the same process. Sessions are then resumed once, and only
    /// by the process that has begun them.
    #[arg(long)]
    early_data: bool,
}

impl Http3Flags {
    /// Returns `true` if the server listens for HTTP/3.
    pub(super) fn has_address(&self) -> bool {
        !self.bind_quic.is_empty()
    }

    /// Listens on port 443 of every address.
    pub(super) fn listen_by_default(&mut self) {
        self.bind_quic.push(Address::Every(443));
    }

    /// Returns the first flag that only works with a socket, if one is given.
    pub(super) fn flag_for_sockets(&self) -> Option<&'static str> {
        let flags = [
            ("--http3-alt-svc", self.http3_alt_svc.is_some()),
            ("--quic-server-id", self.quic_server_id.is_some()),
            ("--early-data", self.early_data),
        ];
        let mut given = flags.into_iter().filter(|(_, is_given)| *is_given && !self.http3_disable);
        given.next().map(|(flag, _)| flag)
    }

    /// Returns `true` if sockets from a service manager remain unused, too.
    pub(super) fn is_disabled(&self) -> bool {
        self.http3_disable
    }

    /// Tells if requests are answered before the handshake is complete.
    pub(super) fn early_data(&self) -> EarlyData {
        if self.early_data { EarlyData::Accepted } else { EarlyData::Refused }
    }

    /// Returns the settings, or `None` if HTTP/3 is disabled. Those of sockets from a service manager are the same.
    ///
    /// # Errors
    /// There's an address but no certificate, or an address is a local socket.
    pub(super) fn into_http3(self, has_certificate: bool) -> Result<Option<Http3>, Failure> {
        if self.http3_disable {
            return Ok(None);
        }
        if self.bind_quic.iter().any(|address| matches!(address, Address::Local(_))) {
            return Err(Failure::usage("`--bind-quic` needs an IP address: UDP has no local sockets"));
        }
        if !self.bind_quic.is_empty() && !has_certificate {
            return Err(Failure::usage("`--bind-quic` needs a certificate")
                .hint("`--tls-bundle FILE` names one, `--tls-self-ecdsa` creates one for tests"));
        }

        let mut http3 = Http3::default();
        http3.listen = self.bind_quic;
        http3.alternative = self.http3_alt_svc;
        http3.server_id = self.quic_server_id;
        Ok(Some(http3))
    }
}

/// Parses an authority for `Alt-Svc` (RFC 7838 §3). The host is optional, the port isn't.
fn parse_alternative(text: &str) -> Result<String, String> {
    let is_valid = text.rsplit_once(':').is_some_and(|(host, port)| {
        let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
        host.bytes().all(is_host_byte) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if is_valid { Ok(text.to_owned()) } else { Err("write `HOST:PORT`, or `:PORT`".to_owned()) }
}

/// Parses eight bytes from hexadecimal digits.
fn parse_server_id(text: &str) -> Result<ServerId, String> {
    let is_hexadecimal = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u64::from_str_radix(text, 16).ok().filter(|_| is_hexadecimal);
    let number = number.ok_or_else(|| "write 16 hexadecimal digits".to_owned())?;
    Ok(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_have_a_port() {
        for text in [":443", "example.com:8443", "[2001:db8::1]:443"] {
            assert_eq!(parse_alternative(text).as_deref(), Ok(text));
        }
        for text in ["443", "example.com", ":0", ":65536", "a\"b:443", "a b:443"] {
            assert!(parse_alternative(text).is_err(), "{text}");
        }
    }

    #[test]
    fn server_ids_have_eight_bytes() {
        assert!(parse_server_id("0123456789abcdef").is_ok());
        for text in ["", "0123456789abcde", "0123456789abcdef0", "+123456789abcdef", "0123456789abcdeg"] {
            assert!(parse_server_id(text).is_err(), "{text}");
        }
    }
}
