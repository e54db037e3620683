//! Access control of other servers and hosts in the source folder.
//!
//! We check no passwords and no roles. A line that restricts access elsewhere is therefore an error: ignoring it with a
//! warning would expose the protected pages, and perhaps publish the password.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::diagnostic::Diagnostic;
use crate::rule_error::RuleError;
use crate::source::Sources;

/// Fields by which other hosts restrict access, and fields that contain credentials.
const FIELDS: [&str; 9] = [
    "authorization",
    "basic-auth",
    "cf-access-client-id",
    "cf-access-client-secret",
    "cf-access-jwt-assertion",
    "cookie",
    "proxy-authenticate",
    "proxy-authorization",
    "www-authenticate",
];

/// Words that begin a line of an Apache, nginx or Caddy configuration that restricts access.
const DIRECTIVES: [&str; 12] = [
    "auth_basic",
    "auth_basic_user_file",
    "auth_request",
    "authname",
    "authtype",
    "authuserfile",
    "basic_auth",
    "basicauth",
    "deny",
    "forward_auth",
    "require",
    "satisfy",
];

/// Password files of Apache and nginx.
const PASSWORD_FILES: [&[u8]; 3] = [b".htpasswd", b".htdigest", b"htpasswd"];

/// Maximum size of a configuration file that is searched.
const CONFIGURATION_BYTES_MAX: u64 = 1 << 20;

/// Rejects a field of `_headers` that is access control.
pub(crate) fn refuse_field(name: &str) -> Result<(), RuleError> {
    let is_refused = FIELDS.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is_refused { Err(unsupported(&format!("`{name}`"))) } else { Ok(()) }
}

/// Rejects a line that is access control in another server's configuration.
pub(crate) fn refuse_directive(line: &str) -> Result<(), RuleError> {
    if is_directive(line) { Err(unsupported(&format!("`{}`", first_word(line)))) } else { Ok(()) }
}

/// Rejects a condition of `_redirects` on the visitor's role.
pub(crate) fn refuse_condition(word: &str) -> Result<(), RuleError> {
    let is_role = word.get(..5).is_some_and(|name| name.eq_ignore_ascii_case("role="));
    if is_role { Err(unsupported(&format!("the condition `{word}`"))) } else { Ok(()) }
}

/// Rejects a code of `_redirects` that denies access.
pub(crate) fn refuse_code(word: &str) -> Result<(), RuleError> {
    let is_denial = matches!(word.trim_end_matches('!'), "401" | "403" | "407");
    if is_denial { Err(unsupported(&format!("the code `{word}`"))) } else { Ok(()) }
}

/// Reports access control in configuration files of other servers.
pub(crate) fn find(sources: &Sources) -> Vec<Diagnostic> {
    let in_folder = |folder: &[u8], name: &[u8]| match folder {
        b"" => name.to_vec(),
        folder => [folder, b"/", name].concat(),
    };
    let apache = sources.folders.iter().flat_map(|folder| {
        let rules = first_line(sources, &in_folder(folder, b".htaccess"), |line| {
            is_directive(line) && !line.to_ascii_lowercase().contains("all granted")
        });
        let passwords = PASSWORD_FILES
            .iter()
            .filter_map(|name| first_line(sources, &in_folder(folder, name), |line| line.contains(':')));
        rules.into_iter().chain(passwords).collect::<Vec<_>>()
    });
    let netlify = first_line(sources, b"netlify.toml", |line| {
        let line = line.to_ascii_lowercase();
        line.trim_start().starts_with("basic-auth") || line.contains("role =") || line.contains("role=")
    });
    let azure = first_line(sources, b"staticwebapp.config.json", |line| line.contains("\"allowedRoles\""));
    let buildpack = first_line(sources, b"Staticfile.auth", |line| line.contains(':'));
    apache.chain(netlify).chain(azure).chain(buildpack).collect()
}

/// Reports the first line of a file that is access control, if the file exists and has one.
fn first_line(sources: &Sources, name: &[u8], is_control: impl Fn(&str) -> bool) -> Option<Diagnostic> {
    let path = sources.root.join(Path::new(std::ffi::OsStr::from_bytes(name)));
    let metadata = fs::metadata(&path).ok()?;
    if !metadata.is_file() || metadata.len() > CONFIGURATION_BYTES_MAX {
        return None;
    }
    let text = String::from_utf8_lossy(&fs::read(&path).ok()?).into_owned();
    let (number, line) = (1u32..).zip(text.lines()).find(|(_, line)| {
        let line = line.trim();
        !line.starts_with(['#', ';']) && is_control(line)
    })?;
    let message = format!(
        "`{}` is access control, and this server does not read this file: the pages that it protects would be public; \
         host them elsewhere, and keep this file out of the source folder",
        first_word(line.trim())
    );
    Some(RuleError::error("access-control", message).at(&String::from_utf8_lossy(name), number))
}

fn is_directive(line: &str) -> bool {
    let word = first_word(line);
    DIRECTIVES.iter().any(|known| known.eq_ignore_ascii_case(word))
}

fn first_word(line: &str) -> &str {
    line.split([' ', '\t', '=', ':']).next().unwrap_or(line)
}

fn unsupported(subject: &str) -> RuleError {
    let message = format!(
        "{subject} is access control, which this server does not have: the pages that it protects would be public; remove \
         the line, and host those pages elsewhere"
    );
    RuleError::error("access-control", message)
}
