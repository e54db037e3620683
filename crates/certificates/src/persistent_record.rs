//! DNS records that the operator sets once (DNS-PERSIST-01, draft-ietf-acme-dns-persist-01).
//!
//! A record names the authority and our account. Unlike the record of DNS-01, it doesn't depend on the order, so it can stay.

use std::fmt;

use crate::names::Name;

/// Type of the challenge.
pub(crate) const DNS_PERSIST_01: &str = "dns-persist-01";

/// Label of the records below a domain.
const LABEL: &str = "_validation-persist";

/// Time to live in seconds. The authority may rely on an answer for that long.
const TTL: u32 = 3600;

/// Maximum length of a string in a TXT record, in bytes (RFC 1035 §3.3). Resolvers join several.
const STRING_BYTES_MAX: usize = 255;

/// A TXT record by which an account proves control of a domain for as long as it's there. Displayed as in a zone file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistentRecord {
    pub(crate) domain: String,
    /// The domain by which the authority is named, as in CAA records.
    issuer: String,
    /// The account's URL.
    account: String,
    /// Whether it also proves control of `*.DOMAIN`.
    is_for_wildcard: bool,
}

impl PersistentRecord {
    /// Returns the records for these names: one for each domain, because a domain and its wildcard share a record. Addresses can't
    /// have any. Returns `None` if no record can have these texts.
    #[must_use]
    pub fn for_names(names: &[Name], issuer: &str, account: &str) -> Option<Vec<PersistentRecord>> {
        // See RFC 8659 §4.2 for the syntax.
        let is_value = |text: &str| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b";\"\\".contains(&byte))
        };
        if !is_value(issuer) || !is_value(account) {
            return None;
        }
        let mut records: Vec<PersistentRecord> = Vec::new();
        for name in names {
            let (Name::Host(domain) | Name::Wildcard(domain)) = name else { continue };
            let is_for_wildcard = matches!(name, Name::Wildcard(_));
            match records.iter_mut().find(|record| record.domain == *domain) {
                Some(record) => record.is_for_wildcard |= is_for_wildcard,
                None => records.push(PersistentRecord {
                    domain: domain.clone(),
                    issuer: issuer.to_owned(),
                    account: account.to_owned(),
                    is_for_wildcard,
                }),
            }
        }
        Some(records)
    }

    fn value(&self) -> String {
        let policy = if self.is_for_wildcard { "; policy=wildcard" } else { "" };
        format!("{}; accounturi={}{policy}", self.issuer, self.account)
    }
}

impl fmt::Display for PersistentRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{LABEL}.{}. {TTL} IN TXT", self.domain)?;
        // The value is in ASCII.
        for string in self.value().as_bytes().chunks(STRING_BYTES_MAX) {
            write!(formatter, " \"{}\"", String::from_utf8_lossy(string))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Names;

    const ACCOUNT: &str = "https://ca.example/acct/123";

    fn records(names: &str) -> Vec<String> {
        let names: Names = names.parse().unwrap();
        let records = PersistentRecord::for_names(names.as_slice(), "authority.example", ACCOUNT).unwrap();
        records.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn domain_and_its_wildcard_share_a_record() {
        assert_eq!(
            records("example.com,www.example.com,192.0.2.1,*.example.com"),
            [
                "_validation-persist.example.com. 3600 IN TXT \
                 \"authority.example; accounturi=https://ca.example/acct/123; policy=wildcard\"",
                "_validation-persist.www.example.com. 3600 IN TXT \
                 \"authority.example; accounturi=https://ca.example/acct/123\"",
            ]
        );
    }

    #[test]
    fn value_cannot_escape_from_its_record() {
        let names: Names = "example.com".parse().unwrap();
        let record = |account: &str| PersistentRecord::for_names(names.as_slice(), "ca.example", account);
        for account in ["", "https://ca.example/a;policy=wildcard", "a\"b", "a\\", "a b", "a\nb", "\u{e9}"] {
            assert_eq!(record(account), None, "{account:?}");
        }
        let long = "x".repeat(300);
        let text = record(&long).unwrap()[0].to_string();
        let strings: Vec<_> = text.split('"').skip(1).step_by(2).collect();
        assert_eq!((strings[0].len(), strings.concat()), (255, format!("ca.example; accounturi={long}")));
    }
}
