//! Words that restrict access on other hosts and servers. In a rule file, these are errors (see
//! [`access_control`](crate::routes::access_control)).

use crate::ground::rule_error::RuleError;

/// Other hosts restrict access with these fields, or they contain credentials.
const FIELDS: [&str; 9] = [
    "Authorization",
    "Basic-Auth",
    "CF-Access-Client-Id",
    "CF-Access-Client-Secret",
    "CF-Access-JWT-Assertion",
    "Cookie",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "WWW-Authenticate",
];

/// Lines start like this when they restrict access in Apache, nginx or Caddy.
const DIRECTIVES: [&str; 16] = [
    "auth_basic",
    "auth_basic_user_file",
    "auth_jwt",
    "auth_request",
    "AuthBasicProvider",
    "AuthDigestDomain",
    "AuthGroupFile",
    "AuthName",
    "AuthType",
    "AuthUserFile",
    "basic_auth",
    "basicauth",
    "deny",
    "forward_auth",
    "Require",
    "Satisfy",
];

/// Rejects a field line that controls access, e.g. `Basic-Auth: user:password`, including typos. Otherwise these would
/// only cause a warning and the pages would be public.
pub(super) fn refuse_field(line: &str) -> Result<(), RuleError> {
    known_field(line).map_or(Ok(()), |name| Err(unsupported(&quoted(name))))
}

/// Rejects a line that controls access in another server's configuration.
pub(super) fn refuse_directive(line: &str) -> Result<(), RuleError> {
    known_directive(line).map_or(Ok(()), |name| Err(unsupported(&quoted(name))))
}

/// Rejects a field like `Basic-Auth: user:password` behind a rule's path.
pub(super) fn refuse_field_in(words: &[&str]) -> Result<(), RuleError> {
    field_in(words).map_or(Ok(()), |name| Err(unsupported(&quoted(name))))
}

/// Rejects a condition in `_redirects` that tests the visitor's role.
pub(super) fn refuse_condition(word: &str) -> Result<(), RuleError> {
    let word = unquoted(word);
    let is_role = word.get(..5).is_some_and(|name| name.eq_ignore_ascii_case("role="));
    if is_role { Err(unsupported("the condition `Role=`")) } else { Ok(()) }
}

/// Rejects a code in `_redirects` that denies access.
pub(super) fn refuse_code(word: &str) -> Result<(), RuleError> {
    let is_denial = is_denial(unquoted(word).trim_end_matches('!'));
    if is_denial { Err(unsupported(&format!("the code `{word}`"))) } else { Ok(()) }
}

/// Returns the field that a line sets for another host.
pub(crate) fn known_field(line: &str) -> Option<&'static str> {
    // `Basic-Auth: user:password`, but also `Basic Auth`, `basic_auth =` and so on.
    let mut words = line.split([' ', '\t', '=', ':']).filter(|word| !word.is_empty());
    let first = words.next()?;
    field_named(first).or_else(|| {
        let (first, second) = (letters(first), letters(words.next()?));
        if first == "basic" && second.starts_with("auth") {
            return Some("Basic-Auth");
        }
        FIELDS.into_iter().find(|known| letters(known) == format!("{first}{second}"))
    })
}

/// Looks for the first word that names an unmistakable field. Paths do not count.
pub(crate) fn field_in(words: &[&str]) -> Option<&'static str> {
    let names = (0..words.len()).filter(|place| !words[*place].contains('/'));
    names.into_iter().find_map(|place| known_field(&words[place..].join(" ")).and_then(unmistakable))
}

/// Finds a field by name, regardless of any marks between the letters. All names that contain `Basic-Auth` count.
pub(crate) fn field_named(name: &str) -> Option<&'static str> {
    let name = letters(name);
    if name.contains("basicauth") {
        return Some("Basic-Auth");
    }
    FIELDS.into_iter().find(|known| letters(known) == name)
}

/// Only returns the field if its name would not occur at the start of data or of a page about HTTP.
pub(crate) fn unmistakable(field: &'static str) -> Option<&'static str> {
    matches!(field, "Basic-Auth" | "WWW-Authenticate").then_some(field)
}

fn letters(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

pub(crate) fn is_denial(code: &str) -> bool {
    matches!(code, "401" | "403" | "407")
}

pub(crate) fn unquoted(word: &str) -> &str {
    word.trim_matches(['"', '\''])
}

pub(crate) fn quoted(name: &str) -> String {
    format!("`{name}`")
}

/// Returns the directive a line starts with, when it restricts access.
pub(crate) fn known_directive(line: &str) -> Option<&'static str> {
    let word = line.split([' ', '\t', '=', ':']).next().unwrap_or(line);
    DIRECTIVES.iter().find(|known| known.eq_ignore_ascii_case(word)).copied()
}

fn unsupported(subject: &str) -> RuleError {
    let message = format!(
        "{subject} is access control, which this server doesn't have: the pages that it protects would be public; remove the line, \
         and protect those pages in a proxy in front"
    );
    RuleError::error("access-control", message)
}
