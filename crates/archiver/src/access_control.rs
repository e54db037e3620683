//! Access control of other servers and hosts in the source folder.
//!
//! We check no passwords and no roles. A line that restricts access elsewhere is therefore an error: ignoring it with a
//! warning would expose the protected pages, and perhaps publish the password.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::access_words::{FIELDS, first_word, known_directive, known_field, quoted};
use crate::diagnostic::Diagnostic;
use crate::rule_error::RuleError;
use crate::site_path::is_host_folder;
use crate::source::Sources;

/// Password files of Apache and nginx.
const PASSWORD_FILES: [&str; 3] = [".htpasswd", ".htdigest", "htpasswd"];

/// Names that are easily mistaken for `_headers` or `_redirects`. Files with these names are published.
const MISTAKEN_NAMES: [&str; 6] =
    ["_header", "_header.txt", "_headers", "_headers.txt", "_redirect", "redirects.txt"];

/// Code that runs before the pages of a folder on Cloudflare Pages.
const MIDDLEWARE: [&str; 4] = ["_middleware.js", "_middleware.ts", "_middleware.mjs", "_middleware.tsx"];

/// Maximum size of a configuration file that is searched.
const CONFIGURATION_BYTES_MAX: u64 = 1 << 20;

/// Reports access control in files that this server doesn't read: configuration of other servers, and rule files in the wrong
/// place or with the wrong name.
pub(crate) fn find(sources: &Sources) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for folder in &sources.folders {
        let folder = &**folder;
        let mut search = |name: &str, find: fn(&str) -> Option<String>| {
            let path = if folder.is_empty() {
                name.as_bytes().to_vec()
            } else {
                [folder, b"/", name.as_bytes()].concat()
            };
            found.extend(first_line(sources, &path, find));
        };
        search(".htaccess", apache);
        for name in PASSWORD_FILES {
            search(name, password);
        }

        let is_root = folder.is_empty() || is_host_folder(folder);
        if is_root {
            search("netlify.toml", netlify);
            search("vercel.json", json);
            search("now.json", json);
            search("firebase.json", json);
            search("staticwebapp.config.json", azure);
            search("routes.json", azure);
            search("web.config", iis);
            search("nginx.conf", directive);
            search("Caddyfile", directive);
            search("Staticfile.auth", password);
            search("_worker.js", script);
        }
        if is_function_folder(folder) {
            for name in MIDDLEWARE {
                search(name, script);
            }
        }
    }

    // `_headers` has an effect only in the root of a site.
    for file in &sources.files {
        let (folder, name) = split(&file.path);
        let is_read = name == b"_headers" && (folder.is_empty() || is_host_folder(folder));
        if !is_read && MISTAKEN_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
            found.extend(first_line(sources, &file.path, basic_auth));
        }
    }
    found
}

/// Reports the first line of a file that is access control, if the file exists and has one. `find` returns what it is, without
/// any part of the line: that could be a password.
fn first_line(sources: &Sources, name: &[u8], find: impl Fn(&str) -> Option<String>) -> Option<Diagnostic> {
    let path = sources.root.join(Path::new(std::ffi::OsStr::from_bytes(name)));
    let metadata = fs::metadata(&path).ok()?;
    if !metadata.is_file() || metadata.len() > CONFIGURATION_BYTES_MAX {
        return None;
    }
    let text = String::from_utf8_lossy(&fs::read(&path).ok()?).into_owned();
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let (number, subject) = (1u32..).zip(text.lines()).find_map(|(number, line)| {
        let line = line.trim();
        let subject = if line.starts_with(['#', ';']) { None } else { find(line) };
        Some((number, subject?))
    })?;
    let message = format!(
        "{subject} is access control, which this server doesn't have, and it doesn't read this file: the pages that it protects \
         would be public; protect them in a proxy in front, and keep this file out of the source folder"
    );
    Some(RuleError::error("access-control", message).at(&String::from_utf8_lossy(name), number))
}

/// Finds the fields that no page about HTTP would begin a line with.
fn basic_auth(line: &str) -> Option<String> {
    known_field(line).filter(|field| matches!(*field, "Basic-Auth" | "WWW-Authenticate")).map(quoted)
}

fn apache(line: &str) -> Option<String> {
    let lower = line.to_ascii_lowercase();
    if lower.contains("all granted") {
        return None;
    }
    let is_header = first_word(&lower) == "header" && lower.contains("www-authenticate");
    // `RewriteRule ^secret - [F,L]` answers 403.
    let flags = lower.rsplit_once('[').and_then(|(_, flags)| flags.strip_suffix(']')).unwrap_or_default();
    let forbids = flags.split(',').any(|flag| matches!(flag.trim(), "f" | "forbidden"));
    let status = lower.split_ascii_whitespace().nth(1).unwrap_or_default();
    match first_word(&lower) {
        "rewriterule" if forbids => Some("`RewriteRule` with the flag `F`".to_owned()),
        "redirect" | "redirectmatch" if matches!(status, "401" | "403") => {
            Some("`Redirect` with the status 401 or 403".to_owned())
        }
        _ if is_header => Some(quoted("WWW-Authenticate")),
        _ => directive(line),
    }
}

fn netlify(line: &str) -> Option<String> {
    let line = line.to_ascii_lowercase();
    let key = line.split('=').next().unwrap_or_default().trim_matches([' ', '\t', '"', '\'', '{']);
    let value = line.split('=').nth(1).unwrap_or_default().trim();
    if line.contains("role =") || line.contains("role=") {
        return Some("the condition `Role`".to_owned());
    }
    if key == "status" && (value.starts_with("401") || value.starts_with("403")) {
        return Some("the status 401 or 403".to_owned());
    }
    known_field(key).map(quoted)
}

/// Finds fields and statuses in JSON of Vercel and Firebase.
fn json(line: &str) -> Option<String> {
    let line = line.to_ascii_lowercase();
    let compact: String = line.chars().filter(|character| !character.is_whitespace()).collect();
    let is_key = |name: &str| compact.contains(&format!("\"key\":\"{}\"", name.to_ascii_lowercase()));
    if let Some(known) = FIELDS.iter().find(|known| is_key(known)) {
        return Some(quoted(known));
    }
    if line.contains("\"passwordprotection\"") {
        return Some(quoted("passwordProtection"));
    }
    denied_status(&line)
}

fn azure(line: &str) -> Option<String> {
    if let Some((_, roles)) = line.split_once("\"allowedRoles\"") {
        // Each visitor has the role `anonymous`.
        let roles = roles.split(']').next().unwrap_or_default();
        return (!roles.contains("\"anonymous\"")).then(|| quoted("allowedRoles"));
    }
    // `responseOverrides` has statuses as keys, which is fine.
    denied_status(&line.to_ascii_lowercase())
}

/// Returns a status by which a rule in JSON denies access.
fn denied_status(line: &str) -> Option<String> {
    let compact: String = line.chars().filter(|character| !character.is_whitespace()).collect();
    let is_denial = ["\"status\":40", "\"statuscode\":40"].into_iter().any(|key| {
        compact.split(key).skip(1).any(|rest| {
            let digits = rest.split(|character: char| !character.is_ascii_digit()).next();
            matches!(digits, Some("1" | "3"))
        })
    });
    is_denial.then(|| "the status 401 or 403".to_owned())
}

/// Finds elements of a `web.config`.
fn iis(line: &str) -> Option<String> {
    const ELEMENTS: [&str; 6] = [
        "authorization",
        "deny",
        "ipSecurity",
        "hiddenSegments",
        "basicAuthentication",
        "windowsAuthentication",
    ];
    let line = line.to_ascii_lowercase();
    let begins = |element: &&&str| {
        line.split('<').skip(1).any(|tag| {
            let name = tag.split(|character: char| !character.is_ascii_alphanumeric()).next();
            name.is_some_and(|name| name.eq_ignore_ascii_case(element))
        })
    };
    ELEMENTS.iter().find(begins).map(|element| format!("`<{element}>`"))
}

/// Finds HTTP authentication in code of another host.
fn script(line: &str) -> Option<String> {
    line.to_ascii_lowercase().contains("www-authenticate").then(|| quoted("WWW-Authenticate"))
}

fn password(line: &str) -> Option<String> {
    line.contains(':').then(|| "a password file".to_owned())
}

fn directive(line: &str) -> Option<String> {
    known_directive(line).map(quoted)
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// Returns `true` for `functions/` of Cloudflare Pages, and folders in it.
fn is_function_folder(folder: &[u8]) -> bool {
    folder == b"functions" || folder.starts_with(b"functions/")
}
