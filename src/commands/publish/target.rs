//! Targets: release directories on other machines or on this one, as users write them.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::output::{Failure, one_line};

/// A release directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// On another machine, through `ssh`.
    Remote {
        /// The host, with the user if one is given, as `ssh` expects it.
        host: String,
        /// The directory on the host. A relative one is in the user's home.
        directory: String,
    },
    /// On this machine.
    Local(PathBuf),
}

impl Target {
    /// Parses a target like `scp` does: it is on another machine if there is a `:` before the first `/`.
    pub(super) fn parse(text: &str) -> Result<Target, Failure> {
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(Failure::usage(format!(
                "`{}` is not a target: `{}` is not supported",
                one_line(text),
                one_line(scheme)
            ))
            .hint("name a directory: USER@HOST:DIR through ssh, or DIR on this machine"));
        }
        let (host, directory) = match split_host(text) {
            Some(parts) => parts,
            None if text.is_empty() => return Err(Failure::usage("a target is empty")),
            None if text.contains('@') && !text.contains('/') && !Path::new(text).exists() => {
                return Err(Failure::usage(format!("`{}` does not name a directory", one_line(text))).hint(
                    format!(
                        "write {0}:DIR, such as `{0}:/srv/site`; `./{0}` is on this machine",
                        one_line(text)
                    ),
                ));
            }
            None => return Ok(Target::Local(PathBuf::from(text))),
        };

        if ["file", "http", "https", "oci", "s3"].contains(&&*host) && directory.starts_with('/') {
            return Err(Failure::usage(format!("`{}` has too few slashes", one_line(text)))
                .hint(format!("write {host}://…; a directory on a host with that name is `{host}:./DIR`")));
        }
        // `ssh` would take such a host for a flag, which could run another program.
        if host.is_empty() || host.starts_with('-') || host.contains(char::is_whitespace) {
            return Err(Failure::usage(format!("`{}` does not name a host", one_line(text)))
                .hint("write USER@HOST:DIR, such as `web@example.com:/srv/site`"));
        }
        // The shell on the host expands `~`, but not in quotes.
        let directory = directory.strip_prefix("~/").unwrap_or(directory);
        if directory.is_empty() || directory == "~" {
            return Err(Failure::usage(format!("`{}` does not name a directory", one_line(text)))
                .hint(format!("write {host}:DIR, such as `{host}:/srv/site`")));
        }
        Ok(Target::Remote { host: host.to_owned(), directory: directory.to_owned() })
    }
}

/// Splits host and directory, or returns `None` if there is no host. The brackets of an IPv6 address are removed.
fn split_host(text: &str) -> Option<(String, &str)> {
    let before_path = &text[..text.find('/').unwrap_or(text.len())];
    if let Some((start, rest)) = before_path.split_once('[')
        && let Some((address, _)) = rest.split_once("]:")
    {
        let end = start.len() + 1 + address.len() + 2;
        return Some((format!("{start}{address}"), &text[end..]));
    }
    let colon = before_path.find(':')?;
    Some((text[..colon].to_owned(), &text[colon + 1..]))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Remote { host, directory } => write!(f, "{}:{}", one_line(host), one_line(directory)),
            Target::Local(path) => f.write_str(&one_line(&path.display().to_string())),
        }
    }
}

/// Quotes a word for a POSIX shell.
pub(super) fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(host: &str, directory: &str) -> Target {
        Target::Remote { host: host.to_owned(), directory: directory.to_owned() }
    }

    #[test]
    fn targets_are_parsed_like_those_of_scp() {
        let parse = |text: &str| Target::parse(text).unwrap();
        assert_eq!(parse("web@example.com:/srv/site"), remote("web@example.com", "/srv/site"));
        assert_eq!(parse("host:site"), remote("host", "site"));
        assert_eq!(parse("host:~/site"), remote("host", "site"));
        assert_eq!(parse("web@[2001:db8::1]:/srv"), remote("web@2001:db8::1", "/srv"));
        assert_eq!(parse("host:a:b"), remote("host", "a:b"));
        for local in ["/srv/site", "site", "./a:b", "/srv/a:b"] {
            assert_eq!(parse(local), Target::Local(local.into()));
        }
    }

    #[test]
    fn hosts_are_never_flags() {
        for text in
            ["-oProxyCommand=x:/srv", ":/srv", "host:", "host:~", "", "oci://a/b", "s3://a", "a b:/srv"]
        {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn targets_with_a_forgotten_part_are_no_directories_or_hosts() {
        for text in ["web@example.com", "file:/srv/store", "oci:/site", "s3:/bucket", "https:/example.com"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
        assert_eq!(Target::parse("./web@example.com").unwrap(), Target::Local("./web@example.com".into()));
        assert_eq!(Target::parse("file:srv").unwrap(), remote("file", "srv"));
    }

    #[test]
    fn words_are_quoted_for_shells() {
        assert_eq!(quote("/srv/it's; rm"), r"'/srv/it'\''s; rm'");
    }
}
