//! Paths of the source folder as paths of sites: `_hosts/HOST/` is the root of a host's site.

use std::borrow::Cow;

use cannery_archive::split_host;

use crate::hosts::host::is_too_deep;
use crate::hosts::punycode::ascii_host;

/// The top-level folder with a subfolder per host.
const HOSTS_FOLDER: &[u8] = b"_hosts/";

/// The site of a source path, and the path within that site.
pub(crate) enum Site<'p> {
    Default(&'p [u8]),
    Host(Cow<'p, str>, &'p [u8]),
    Invalid(&'static str),
}

pub(crate) fn site_of(path: &[u8]) -> Site<'_> {
    let Some(rest) = path.strip_prefix(HOSTS_FOLDER) else { return Site::Default(path) };
    let Some(slash) = rest.iter().position(|byte| *byte == b'/') else {
        return Site::Invalid("is in `_hosts/`, where only folders named after hosts are served: left out");
    };
    match std::str::from_utf8(&rest[..slash]).ok().and_then(host_of_folder) {
        Some(host) => Site::Host(host, &rest[slash + 1..]),
        None => Site::Invalid(
            "isn't the name of a host as in requests, in lower case and with `xn--` for letters beyond ASCII: left out",
        ),
    }
}

/// Returns a source path with the folder of a wildcard host spelled `*.example.com`, as paths of earlier releases are.
pub(crate) fn canonical(path: &[u8]) -> Cow<'_, [u8]> {
    match path.strip_prefix(b"_hosts/_wildcard.") {
        Some(rest) => Cow::Owned([b"_hosts/*.", rest].concat()),
        None => Cow::Borrowed(path),
    }
}

/// Returns a path of an earlier release in the folder of a wildcard host, with the folder's other spelling.
pub(crate) fn other_wildcard_folder(path: &[u8]) -> Option<Vec<u8>> {
    let rest = path.strip_prefix(b"_hosts/*.")?;
    Some([b"_hosts/_wildcard.", rest].concat())
}

/// Returns `true` for the folder of a host, which is the root of its site.
pub(crate) fn is_host_folder(folder: &[u8]) -> bool {
    matches!(site_of(&[folder, b"/"].concat()), Site::Host(_, b""))
}

/// Returns the folder in `_hosts/` that a file is in, or the file itself if it is directly in `_hosts/`.
pub(crate) fn host_folder(path: &[u8]) -> &[u8] {
    let rest = path.strip_prefix(HOSTS_FOLDER).unwrap_or_default();
    let name = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    &path[..path.len() - rest.len() + name]
}

/// Returns the spelling of a folder in `_hosts/` that is named after a host, but not as in requests.
pub(crate) fn ascii_folder(folder: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(folder.strip_prefix(HOSTS_FOLDER)?).ok()?;
    let host = ascii_host(name)?;
    (host != name && host_of_folder(&host).is_some()).then(|| format!("_hosts/{host}"))
}

/// Returns the host that a folder is named after. `*.example.com` means all hosts below `example.com`, and so does
/// `_wildcard.example.com`, for file systems without `*`.
fn host_of_folder(name: &str) -> Option<Cow<'_, str>> {
    let below = name.strip_prefix("_wildcard.");
    let host = below.map_or(Cow::Borrowed(name), |below| Cow::Owned(format!("*.{below}")));
    is_host(host.strip_prefix("*.").unwrap_or(&host)).then_some(host).filter(|host| !is_too_deep(host))
}

/// Returns `true` for RFC 1123 §2.1 names: labels of letters, digits and hyphens, without a hyphen at either end.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        let plain =
            label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        plain && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Returns the path in the source folder of a stored key.
pub(crate) fn source_path(stored: &[u8]) -> Vec<u8> {
    let (host, key) = split_host(stored);
    let key = key.strip_prefix(b"/").unwrap_or(key);
    match host {
        // Archives have the name of a wildcard host without its asterisk.
        Some(host) if host.starts_with(b".") => [b"_hosts/*".as_slice(), host, b"/", key].concat(),
        Some(host) => [b"_hosts", host, key].join(&b'/'),
        None => key.to_vec(),
    }
}
