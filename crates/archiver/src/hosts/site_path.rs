//! Maps paths in the source folder to sites: the root of a host's site is `_hosts/HOST/`.

use std::borrow::Cow;

use cannery_archive::split_host;

use crate::hosts::host::is_too_deep;
use crate::hosts::punycode::ascii_host;

/// Top-level folder with a subfolder for each host.
const HOSTS_FOLDER: &[u8] = b"_hosts/";

/// The site of a source path, with the path inside that site.
pub(crate) enum Site<'p> {
    Default(&'p [u8]),
    Host(Cow<'p, str>, &'p [u8]),
    Invalid(&'static str),
}

pub(crate) fn site_of(path: &[u8]) -> Site<'_> {
    let Some(rest) = path.strip_prefix(HOSTS_FOLDER) else { return Site::Default(path) };
    let Some(slash) = rest.iter().position(|byte| *byte == b'/') else {
        return Site::Invalid(
            "is in `_hosts/`, where only folders named after hosts are served, so it is left out",
        );
    };
    match std::str::from_utf8(&rest[..slash]).ok().and_then(host_of_folder) {
        Some(host) => Site::Host(host, &rest[slash + 1..]),
        None => Site::Invalid(
            "is left out, because its name isn't that of a host as in requests, in lower case and with `xn--` for letters beyond ASCII",
        ),
    }
}

/// Spells the folder of a wildcard host `*.example.com` in a source path. This is how it would be spelled in paths of
/// earlier releases.
pub(crate) fn canonical(path: &[u8]) -> Cow<'_, [u8]> {
    match path.strip_prefix(b"_hosts/_wildcard.") {
        Some(rest) => Cow::Owned([b"_hosts/*.", rest].concat()),
        None => Cow::Borrowed(path),
    }
}

/// If a path of an earlier release is in the folder of a wildcard host, returns the same path with the other
/// spelling of this folder.
pub(crate) fn other_wildcard_folder(path: &[u8]) -> Option<Vec<u8>> {
    let rest = path.strip_prefix(b"_hosts/*.")?;
    Some([b"_hosts/_wildcard.", rest].concat())
}

/// Whether the folder is the root of a host's site.
pub(crate) fn is_host_folder(folder: &[u8]) -> bool {
    matches!(site_of(&[folder, b"/"].concat()), Site::Host(_, b""))
}

/// Returns the subfolder of `_hosts/` that contains a file. If the file is located directly in `_hosts/`,
/// this is the file itself.
pub(crate) fn host_folder(path: &[u8]) -> &[u8] {
    let rest = path.strip_prefix(HOSTS_FOLDER).unwrap_or_default();
    let name = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    &path[..path.len() - rest.len() + name]
}

/// Corrects the spelling of a subfolder of `_hosts/`. This is needed when it is named after a host,
/// but not in the form used in requests.
pub(crate) fn ascii_folder(folder: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(folder.strip_prefix(HOSTS_FOLDER)?).ok()?;
    let host = ascii_host(name)?;
    (host != name && host_of_folder(&host).is_some()).then(|| format!("_hosts/{host}"))
}

/// Returns the host that a folder is named after.
///
/// All hosts below `example.com` can be written `*.example.com` or, for file systems that do not allow `*`,
/// `_wildcard.example.com`.
fn host_of_folder(name: &str) -> Option<Cow<'_, str>> {
    let below = name.strip_prefix("_wildcard.");
    let host = below.map_or(Cow::Borrowed(name), |below| Cow::Owned(format!("*.{below}")));
    is_host(host.strip_prefix("*.").unwrap_or(&host)).then_some(host).filter(|host| !is_too_deep(host))
}

/// Checks a name according to RFC 1123 §2.1.
///
/// Labels consist of letters, digits and hyphens, but MUST NOT begin or end with a hyphen.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        let plain =
            label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        plain && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Converts a stored key to a path in the source folder.
pub(crate) fn source_path(stored: &[u8]) -> Vec<u8> {
    let (host, key) = split_host(stored);
    let key = key.strip_prefix(b"/").unwrap_or(key);
    match host {
        // In archives, wildcard hosts do not have their asterisk.
        Some(host) if host.starts_with(b".") => [b"_hosts/*".as_slice(), host, b"/", key].concat(),
        Some(host) => [b"_hosts", host, key].join(&b'/'),
        None => key.to_vec(),
    }
}
