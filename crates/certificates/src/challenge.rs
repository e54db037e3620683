//! Proofs that we control a name: responses over HTTP, which the server gives, and DNS records, which a hook or the operator sets.

mod dns_hook;
mod records;
mod self_check;

pub use dns_hook::DnsHook;
pub(crate) use dns_hook::Record;
pub(crate) use records::Records;
pub use self_check::SelfCheck;

use crate::names::Name;

/// How we prove control of names.
pub(crate) struct Challenges {
    pub(crate) dns: DnsProof,
    pub(crate) self_check: SelfCheck,
}

/// Whether and how DNS records prove control of names.
#[derive(Clone, Debug, Default)]
pub enum DnsProof {
    /// They don't: the server answers challenges.
    #[default]
    None,
    /// A program sets a record for each order, and removes it afterwards (DNS-01).
    Hook(DnsHook),
    /// The operator sets a record once (DNS-PERSIST-01, an experiment).
    Persistent,
}

/// How we prove control of one name.
#[derive(Clone, Copy)]
pub(crate) enum Method {
    /// HTTP-01: the server responds to requests for tokens.
    Http,
    /// DNS-01.
    Dns,
    /// DNS-PERSIST-01.
    DnsPersist,
    /// A wildcard can only be proven by DNS, and there is no hook.
    Impossible,
}

impl Challenges {
    pub(crate) fn hook(&self) -> Option<&DnsHook> {
        match &self.dns {
            DnsProof::Hook(hook) => Some(hook),
            DnsProof::None | DnsProof::Persistent => None,
        }
    }

    /// Selects the method for a name. DNS records can prove all names except for addresses, which have none.
    pub(crate) fn method(&self, name: &Name) -> Method {
        match (name, &self.dns) {
            (Name::Address(_), _) | (Name::Host(_), DnsProof::None) => Method::Http,
            (Name::Host(_) | Name::Wildcard(_), DnsProof::Hook(_)) => Method::Dns,
            (Name::Host(_) | Name::Wildcard(_), DnsProof::Persistent) => Method::DnsPersist,
            (Name::Wildcard(_), DnsProof::None) => Method::Impossible,
        }
    }
}
