//! Names that a certificate is for: DNS names, wildcards and IP addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::limits::NAMES_MAX;

/// Name of the account key's file, without its extension.
const ACCOUNT_STEM: &str = "account";

/// Length of the longest first name of a certificate. The names of its files are up to 17 bytes longer, and Linux allows 255 bytes.
const FILE_STEM_BYTES_MAX: usize = 230;

/// A name in a certificate. DNS names are lower case and have no final dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A host, such as `www.example.com`.
    Host(String),
    /// All hosts directly below a domain. The value is without `*.`.
    Wildcard(String),
    /// An IP address. Few authorities issue certificates for them.
    Address(IpAddr),
}

/// The names of one certificate, in the given order: at least one, and each of them once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(Vec<Name>);

/// Why a name can't be part of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// The name has letters other than those of DNS.
    #[error("`{0}` is not a DNS name in ASCII: write its labels as `xn--…` (Punycode)")]
    NotAscii(String),
    /// A label is empty, too long, or has other characters than letters, digits and hyphens.
    #[error("`{0}` is neither a DNS name nor an IP address")]
    Malformed(String),
    /// A wildcard isn't the whole first label.
    #[error("`{0}` has a `*` in another place than the first label: only `*.example.com` is possible")]
    Wildcard(String),
    /// A URL, or a name with a port.
    #[error("`{0}` has more than a name: leave out the scheme, the port and the path")]
    Url(String),
    /// A name occurs twice.
    #[error("`{0}` is named twice")]
    Twice(String),
    /// The files of the certificate would have the name of the account key's.
    #[error("`{0}` can't be the first name: the file of the account key has it")]
    AccountKey(String),
    /// The first name is too long for the names of files.
    #[error("`{0}` is too long for the name of a file: put a shorter name first")]
    LongFirst(String),
    /// There are more names than authorities accept.
    #[error("{0} names are too many for a certificate: at most {NAMES_MAX} are possible")]
    TooMany(usize),
}

impl Name {
    /// Returns the domain whose owner must confirm the certificate, or the address.
    pub(crate) fn domain(&self) -> String {
        match self {
            Name::Host(domain) | Name::Wildcard(domain) => domain.clone(),
            Name::Address(address) => address.to_string(),
        }
    }

    /// Returns the name as part of a file name.
    fn file_stem(&self) -> String {
        match self {
            Name::Host(domain) => domain.clone(),
            Name::Wildcard(domain) => format!("_.{domain}"),
            Name::Address(address) => address.to_string().replace(':', "-"),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Host(domain) => formatter.write_str(domain),
            Name::Wildcard(domain) => write!(formatter, "*.{domain}"),
            Name::Address(address) => address.fmt(formatter),
        }
    }
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Name, BadName> {
        let unbracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = unbracketed.parse() {
            return Ok(Name::Address(address));
        }

        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if !name.is_ascii() {
            return Err(BadName::NotAscii(text.to_owned()));
        }
        if name.contains(['/', ':', '?', '@']) {
            return Err(BadName::Url(text.to_owned()));
        }
        let (domain, is_wildcard) = match name.strip_prefix("*.") {
            Some(domain) => (domain, true),
            None => (name.as_str(), false),
        };
        if domain.contains('*') {
            return Err(BadName::Wildcard(text.to_owned()));
        }
        if !is_domain(domain) {
            return Err(BadName::Malformed(text.to_owned()));
        }
        Ok(if is_wildcard { Name::Wildcard(domain.to_owned()) } else { Name::Host(domain.to_owned()) })
    }
}

/// Whether the text is a host name (RFC 1123 §2.1), and can't be mistaken for an IP address.
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let last_is_number = text.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
    text.len() <= 253 && text.split('.').all(is_label) && !last_is_number
}

impl Names {
    /// Returns the names in the given order. The first one names the files of the certificate.
    #[must_use]
    pub fn as_slice(&self) -> &[Name] {
        &self.0
    }

    /// Returns the name of the certificate's files, without their extensions.
    #[must_use]
    pub fn file_stem(&self) -> String {
        self.0[0].file_stem()
    }

    /// Whether these are the same names, in any order.
    pub(crate) fn are(&self, others: &[Name]) -> bool {
        let sorted = |names: &[Name]| {
            let mut names = names.to_vec();
            names.sort_unstable();
            names
        };
        sorted(&self.0) == sorted(others)
    }
}

impl fmt::Display for Names {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, name) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "," };
            write!(formatter, "{separator}{name}")?;
        }
        Ok(())
    }
}

impl FromStr for Names {
    type Err = BadName;

    /// Parses names that are separated by commas.
    fn from_str(text: &str) -> Result<Names, BadName> {
        let mut names: Vec<Name> = Vec::new();
        for part in text.split(',') {
            let name: Name = part.trim().parse()?;
            if names.contains(&name) {
                return Err(BadName::Twice(name.to_string()));
            }
            names.push(name);
        }
        if names.len() > NAMES_MAX {
            return Err(BadName::TooMany(names.len()));
        }
        let names = Names(names);
        let stem = names.file_stem();
        if stem == ACCOUNT_STEM {
            return Err(BadName::AccountKey(stem));
        }
        if stem.len() > FILE_STEM_BYTES_MAX {
            return Err(BadName::LongFirst(stem));
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_normalized() {
        let names: Names = "Example.COM., *.example.com,192.0.2.1,[2001:db8::1]".parse().unwrap();
        assert_eq!(names.to_string(), "example.com,*.example.com,192.0.2.1,2001:db8::1");
        assert_eq!(names.file_stem(), "example.com");
        let stem = |text: &str| text.parse::<Names>().unwrap().file_stem();
        assert_eq!(
            (stem("*.example.com").as_str(), stem("2001:db8::1").as_str()),
            ("_.example.com", "2001-db8--1")
        );
    }

    #[test]
    fn other_texts_are_refused() {
        let long = "a".repeat(64);
        for text in ["", "a,,b", "a..b", "-a.b", "a_b.example", "1.2.3", "1.2.3.400", "..", &long, " "] {
            assert!(matches!(text.parse::<Names>(), Err(BadName::Malformed(_))), "{text}");
        }
        for text in ["https://example.com", "../x", "example.com:443", "example.com/", "me@example.com"] {
            assert!(matches!(text.parse::<Names>(), Err(BadName::Url(_))), "{text}");
        }
        for text in ["*", "a.*.b", "*a.example", "*.*.example"] {
            assert!(matches!(text.parse::<Names>(), Err(BadName::Wildcard(_))), "{text}");
        }
        assert!(matches!("account,b.example".parse::<Names>(), Err(BadName::AccountKey(_))));
        assert!("b.example,account".parse::<Names>().is_ok());
        let long = format!("{0}.{0}.{0}.{0}.example", "a".repeat(58));
        assert!(matches!(long.parse::<Names>(), Err(BadName::LongFirst(_))));
        assert!(format!("a.example,{long}").parse::<Names>().is_ok());
        assert!(matches!("bücher.example".parse::<Names>(), Err(BadName::NotAscii(_))));
        assert!(matches!("a.example,A.example".parse::<Names>(), Err(BadName::Twice(_))));
        let many: Vec<_> = (0..=NAMES_MAX).map(|number| format!("h{number}.example")).collect();
        assert!(matches!(many.join(",").parse::<Names>(), Err(BadName::TooMany(_))));
    }

    #[test]
    fn order_of_names_does_not_matter() {
        let names: Names = "a.example,b.example".parse().unwrap();
        let others = |text: &str| text.parse::<Names>().unwrap().0;
        assert!(names.are(&others("b.example,a.example")));
        assert!(!names.are(&others("b.example")));
        assert!(!names.are(&others("*.example,a.example")));
    }
}
