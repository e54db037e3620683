//! Proofs that we control a name: responses over HTTP, which the server gives, and DNS records, which a hook sets.

mod dns_hook;
mod records;
mod self_check;

pub(crate) use dns_hook::{DnsHook, Record};
pub(crate) use records::Records;
pub use self_check::SelfCheck;

use crate::names::Name;

/// How we prove control of names.
pub(crate) struct Challenges {
    pub(crate) dns_hook: Option<DnsHook>,
    pub(crate) self_check: SelfCheck,
}

/// How we prove control of one name.
#[derive(Clone, Copy)]
pub(crate) enum Method {
    /// HTTP-01: the server responds to requests for tokens.
    Http,
    /// DNS-01.
    Dns,
    /// A wildcard can only be proven by DNS, and there is no hook.
    Impossible,
}

impl Challenges {
    /// Selects the method for a name. With a hook, DNS records prove all names except for addresses, which have none.
    pub(crate) fn method(&self, name: &Name) -> Method {
        match (name, &self.dns_hook) {
            (Name::Address(_), _) | (Name::Host(_), None) => Method::Http,
            (Name::Host(_) | Name::Wildcard(_), Some(_)) => Method::Dns,
            (Name::Wildcard(_), None) => Method::Impossible,
        }
    }
}
