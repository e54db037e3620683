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

/// Rejects conditions in `_redirects` that test the visitor's role, such as `Role=admin`. Other spellings, for example `Role: admin`
/// or `conditions = {Role = ["admin"]}`, count as well.
pub(super) fn refuse_conditions(text: &str) -> Result<(), RuleError> {
    if has_role(text) { Err(unsupported("the condition `Role=`")) } else { Ok(()) }
}

/// Whether the text behind the path of a rule has a condition on the visitor's role.
pub(crate) fn has_role(text: &str) -> bool {
    let is_mark = |character: char| {
        character.is_whitespace() || matches!(character, '"' | '\'' | '{' | '}' | '[' | ']' | ',')
    };
    let mut rest = text;
    while let Some(start) = rest.find(|character| !is_mark(character)) {
        rest = &rest[start..];
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '-');
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        let value = after.trim_start_matches(is_mark);
        if matches!(&*word.to_ascii_lowercase(), "role" | "roles") && value.starts_with(['=', ':']) {
            return true;
        }
        // Skip the rest of the word, which may be a path with `role=` in its query.
        let is_assignment = after.starts_with('=') && word.eq_ignore_ascii_case("conditions");
        let skipped = if is_assignment { 1 } else { after.find(is_mark).unwrap_or(after.len()) };
        rest = &after[skipped..];
    }
    false
}

/// Rejects a line with a field name as in JSON and TOML, where it may have quotes, or come after the names of tables.
pub(super) fn refuse_nested_field(line: &str) -> Result<(), RuleError> {
    let quoted_names = line.split(['"', '\'']).skip(1).step_by(2);
    let found = quoted_names.chain(bare_names(line)).filter_map(field_named).find_map(unmistakable);
    found.map_or(Ok(()), |name| Err(unsupported(&quoted(name))))
}

/// Returns the names without quotes in a line of TOML, for example `Basic-Auth` in `headers.values.Basic-Auth = "a:b"` and in
/// `values = {Basic-Auth = "a:b"}`.
fn bare_names(line: &str) -> impl Iterator<Item = &str> {
    let first = line.split_once('=').map(|(name, _)| name);
    let table = line.split_once('{').map_or("", |(_, table)| table);
    let in_table = table.split(['{', ',']).filter_map(|pair| Some(pair.split_once(['=', ':'])?.0));
    let names = first.into_iter().chain(in_table).map(str::trim);
    // In a line such as `Set-Cookie: a=b`, the mark belongs to the value.
    let names = names.filter(|name| !name.contains([' ', '\t', ':', '/', '"', '\'']));
    names.filter_map(|name| name.rsplit('.').next())
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
    // A name has two words at most, perhaps with a mark between them.
    let line = |place: usize| words[place..].iter().take(3).copied().collect::<Vec<_>>().join(" ");
    names.into_iter().find_map(|place| known_field(&line(place)).and_then(unmistakable))
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
