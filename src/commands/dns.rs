//! `cannery dns`: prints the DNS records that a site needs, in the syntax of zone files (RFC 1035 §5).

use cannery_certificates::Name;

use crate::flags::certificates::Dns;
use crate::output::{self, Failure};

/// Time to live of the records, in seconds. An hour: mistakes are corrected soon.
const TTL: u32 = 3600;

/// Runs `cannery dns`.
///
/// # Errors
///
/// Returns an error if a name is an address, or if writing fails.
pub fn run(flags: &Dns) -> Result<(), Failure> {
    let mut text = String::new();
    for name in flags.name.as_slice() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&records(name, flags)?);
    }
    output::print(text)
}

fn records(name: &Name, flags: &Dns) -> Result<String, Failure> {
    let (domain, is_wildcard) = match name {
        Name::Host(domain) => (domain, false),
        Name::Wildcard(domain) => (domain, true),
        Name::Address(address) => {
            return Err(Failure::usage(format!("{address} is an address: only names have DNS records")));
        }
    };
    let alpn = if flags.without_http3 { "h2" } else { "h3,h2" };
    let mut text = String::new();
    let mut put = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };

    put("; The addresses of the server: replace them.".into());
    put(format!("{name}. {TTL} IN A 192.0.2.1"));
    put(format!("{name}. {TTL} IN AAAA 2001:db8::1"));
    put("; Browsers learn before their first visit which protocols the server speaks (RFC 9460).".into());
    match flags.port {
        443 => put(format!("{name}. {TTL} IN HTTPS 1 . alpn=\"{alpn}\"")),
        // The name of the record has the port of the URL (RFC 9460 §9.1).
        port if is_wildcard => {
            put(format!("; A wildcard can't have such a record for port {port}: add one for each host."));
        }
        port => put(format!("_{port}._https.{name}. {TTL} IN HTTPS 1 {name}. alpn=\"{alpn}\" port={port}")),
    }
    let tag = if is_wildcard { "issuewild" } else { "issue" };
    put("; Only this authority may issue certificates (RFC 8659).".into());
    put(format!("{domain}. {TTL} IN CAA 0 {tag} \"{}\"", flags.authority));
    if is_wildcard {
        put("; The hook of `cannery certificates --dns-hook` sets this for each order, with another value."
            .into());
        put(format!("; _acme-challenge.{domain}. 60 IN TXT \"...\""));
    } else {
        put("; The authority checks the name at port 80 of all these addresses: let `cannery-server --acme-thumbprint` answer there.".into());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(name: &str, port: u16) -> String {
        let flags = Dns {
            name: name.parse().unwrap(),
            port,
            without_http3: false,
            authority: "letsencrypt.org".into(),
        };
        flags.name.as_slice().iter().map(|name| records(name, &flags).unwrap()).collect()
    }

    #[test]
    fn host_has_https_and_caa() {
        let text = printed("example.com", 443);
        assert!(text.contains("\nexample.com. 3600 IN HTTPS 1 . alpn=\"h3,h2\"\n"), "{text}");
        assert!(text.contains("\nexample.com. 3600 IN CAA 0 issue \"letsencrypt.org\"\n"), "{text}");
        assert!(text.contains("port 80"), "{text}");
    }

    #[test]
    fn other_ports_are_part_of_the_name() {
        let text = printed("example.com", 8443);
        let record = "\n_8443._https.example.com. 3600 IN HTTPS 1 example.com. alpn=\"h3,h2\" port=8443\n";
        assert!(text.contains(record), "{text}");
    }

    #[test]
    fn wildcard_needs_another_tag_and_a_challenge() {
        let text = printed("*.example.com", 443);
        assert!(text.contains("\n*.example.com. 3600 IN HTTPS 1 ."), "{text}");
        assert!(text.contains("\nexample.com. 3600 IN CAA 0 issuewild \"letsencrypt.org\"\n"), "{text}");
        assert!(text.contains("_acme-challenge.example.com."), "{text}");
    }
}
