//! `cannery dns`: prints the DNS records that a site needs, in the syntax of zone files (RFC 1035 §5).

use std::path::Path;

use cannery_certificates::{Name, PersistentRecord, account_url};

use super::certificates::failure;
use crate::flags::certificates::Dns;
use crate::output::{self, Failure, one_line};

/// Time to live of the records, in seconds. An hour: mistakes are corrected soon.
const TTL: u32 = 3600;

/// Runs `cannery dns`.
///
/// # Errors
///
/// Returns an error if a name is an address, if the account is unknown, or if writing fails.
pub fn run(flags: &Dns) -> Result<(), Failure> {
    let mut text = String::new();
    for name in flags.name.as_slice() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&records(name, flags)?);
    }
    if let Some(folder) = &flags.account {
        text.push_str("\n; `cannery certificates --dns-persist` (an experiment) proves control by this. It must stay.\n");
        for record in persistent_records(folder, flags)? {
            text.push_str(&format!("{record}\n"));
        }
    }
    output::print(text)
}

/// Returns the records that name the account of a folder.
fn persistent_records(folder: &Path, flags: &Dns) -> Result<Vec<PersistentRecord>, Failure> {
    let directory = flags.directory();
    let account = account_url(folder, &directory).map_err(|error| failure(&error))?;
    let account = account.ok_or_else(|| {
        let message = format!("{} has no account at {directory}", one_line(&folder.display().to_string()));
        Failure::failed(message).hint(
            "`cannery certificates DIR NAMES --dns-persist --agree --once` registers one, and prints the record, too; for another \
             authority, add `--directory-url` and `--authority`, or `--staging`",
        )
    })?;
    PersistentRecord::for_names(flags.name.as_slice(), &flags.authority, &account).ok_or_else(|| {
        Failure::failed(format!(
            "no DNS record can name the authority `{}` and the account {}",
            one_line(&flags.authority),
            one_line(&account)
        ))
    })
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
    if flags.account.is_some() {
        // Neither a hook nor port 80 is needed.
    } else if is_wildcard {
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
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: Dns,
    }

    fn printed(name: &str, port: u16) -> String {
        let words = ["dns", name, "--port", &port.to_string()];
        let flags = Line::try_parse_from(words).unwrap().flags;
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
