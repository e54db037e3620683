//! The response to our own request for a challenge, if it is not that of this server.

use std::fmt;

/// Why the authority's request for a challenge would fail.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// No HTTP response.
    Nothing {
        /// The address, or the name if it has none.
        at: String,
        /// The error.
        why: String,
        /// Whether this machine can't reach the address's network.
        has_no_route: bool,
    },
    /// A redirect.
    Redirect {
        /// The address.
        at: String,
        /// The status.
        status: u16,
        /// Its target.
        to: String,
    },
    /// A challenge of another account: the server knows another thumbprint.
    OtherAccount {
        /// The address.
        at: String,
        /// The thumbprint.
        thumbprint: String,
    },
    /// A response of another server, or of this one without a thumbprint.
    Other {
        /// The address.
        at: String,
        /// The status.
        status: u16,
        /// The server, as it calls itself.
        server: Option<String>,
        /// The proxy, as it calls itself.
        proxy: Option<String>,
    },
}

impl Found {
    pub(crate) fn hint(&self, thumbprint: &str) -> String {
        match self {
            Found::Nothing { .. } => {
                "start the server on port 80, and let it be reached from the internet: check the A and AAAA records of the name, \
                 firewalls and the router; `--check-via ADDRESS` asks another address, `--no-check` skips this check"
                    .into()
            }
            Found::Redirect { .. } => {
                "let requests below /.well-known/acme-challenge/ through to `cannery-server`, or skip this check with `--no-check` \
                 if the target answers them"
                    .into()
            }
            Found::OtherAccount { .. } | Found::Other { proxy: None, server: None, .. } => {
                format!("start the server with `--acme-thumbprint {thumbprint}`")
            }
            Found::Other { proxy: Some(_), .. } => {
                "let the proxy pass requests below /.well-known/acme-challenge/ to `cannery-server`".into()
            }
            Found::Other { .. } => {
                format!(
                    "another site answers: check the A and AAAA records of the name, or start the server with \
                     `--acme-thumbprint {thumbprint}`"
                )
            }
        }
    }
}

impl Found {
    /// Says what to do if this server already knows the thumbprint, unless the hint is the same.
    pub(crate) fn server_hint(&self, thumbprint: &str) -> Option<String> {
        match self {
            Found::OtherAccount { .. } | Found::Other { proxy: None, .. } => Some(format!(
                "another server answers for this name: check its A and AAAA records; if several servers share the name, start the \
                 others with `--acme-thumbprint {thumbprint}`"
            )),
            Found::Nothing { .. } | Found::Redirect { .. } | Found::Other { .. } => None,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Nothing { at, why, .. } => write!(formatter, "nothing answers at {at} ({why})"),
            Found::Redirect { at, status, to } => {
                write!(formatter, "a redirect ({status}) to {to} came instead from {at}")
            }
            Found::OtherAccount { at, thumbprint } => {
                write!(
                    formatter,
                    "the challenge of another account came instead from {at}, with the thumbprint {thumbprint}"
                )
            }
            Found::Other { at, status, server, proxy } => {
                write!(formatter, "status {status} came instead from {at}")?;
                if let Some(server) = server {
                    write!(formatter, ", from the server `{server}`")?;
                }
                if let Some(proxy) = proxy {
                    write!(formatter, ", through the proxy `{proxy}`")?;
                }
                Ok(())
            }
        }
    }
}
