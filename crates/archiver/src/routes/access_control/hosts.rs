//! Access control in configuration and code for hosting providers.

use super::Found;
use super::tokens::{Pair, Syntax, pairs, tokens};
use crate::rulefiles::access_words::{
    field_in, field_named, has_role, is_denial, known_directive, known_field, quoted, unmistakable, unquoted,
};

const JSON: Syntax = Syntax { comment: "//", marks: "{}[],:", has_lines: false };

const TOML: Syntax = Syntax { comment: "#", marks: "{}[],=", has_lines: false };

const YAML: Syntax = Syntax { comment: "#", marks: "{}[],:", has_lines: false };

/// Returns the first pair that restricts access.
fn first_pair(text: &str, syntax: &Syntax, test: impl Fn(&Pair<'_>) -> Option<String>) -> Option<Found> {
    pairs(&tokens(text, syntax)).find_map(|pair| Some((pair.line, test(&pair)?)))
}

pub(super) fn vercel(text: &str) -> Option<Found> {
    first_pair(text, &JSON, |pair| {
        if pair.is_on("passwordProtection") {
            return Some(quoted("passwordProtection"));
        }
        if pair.is_on("action") && pair.has("deny") {
            return Some(quoted("deny"));
        }
        common(pair)
    })
}

pub(super) fn firebase(text: &str) -> Option<Found> {
    first_pair(text, &JSON, |pair| denied_status(pair, "type").or_else(|| common(pair)))
}

pub(super) fn azure(text: &str) -> Option<Found> {
    first_pair(text, &JSON, |pair| {
        // Every visitor has the role `anonymous`.
        if pair.is_on("allowedRoles") && !pair.has("anonymous") {
            return Some(quoted("allowedRoles"));
        }
        if pair.is_on("allowedIpRanges") {
            return Some(quoted("allowedIpRanges"));
        }
        // `responseOverrides` has statuses as keys, which does not restrict anything.
        common(pair)
    })
}

/// Searches the file of this name for Azure. Many other programs have a file with routes as well, but of another form.
pub(super) fn azure_routes(text: &str) -> Option<Found> {
    if text.contains("\"route\"") { azure(text) } else { None }
}

pub(super) fn heroku(text: &str) -> Option<Found> {
    first_pair(text, &JSON, |pair| {
        let field = field_named(pair.key).and_then(unmistakable)?;
        pair.is_on(pair.key).then(|| quoted(field))
    })
}

pub(super) fn toml(text: &str) -> Option<Found> {
    first_pair(text, &TOML, |pair| {
        // Environment variables of the build, for example `ROLE`.
        let is_variable =
            !pair.key.contains('-') && !pair.key.contains(|letter: char| letter.is_ascii_lowercase());
        if is_variable {
            return None;
        }
        if pair.is_on("Role") {
            return Some("the condition `Role`".to_owned());
        }
        field_named(pair.key).map(quoted).or_else(|| denied_status(pair, "status"))
    })
}

pub(super) fn yaml(text: &str) -> Option<Found> {
    first_pair(text, &YAML, |pair| {
        if pair.is_on("login") && (pair.has("required") || pair.has("admin")) {
            return Some(quoted("login"));
        }
        if pair.is_on("Role") {
            return Some("the condition `Role`".to_owned());
        }
        let names_field = ["key", "name"].iter().any(|key| pair.key.eq_ignore_ascii_case(key));
        let field = names_field.then(|| field_named(pair.values.first()?).and_then(unmistakable)).flatten();
        field.map(quoted).or_else(|| common(pair))
    })
}

/// Finds fields and statuses, which most providers write the same way.
fn common(pair: &Pair<'_>) -> Option<String> {
    if pair.key.eq_ignore_ascii_case("key")
        && let Some(field) = pair.values.first().and_then(|name| field_named(name))
    {
        return Some(quoted(field));
    }
    if let Some(field) = field_named(pair.key).and_then(unmistakable).filter(|_| pair.is_on(pair.key)) {
        return Some(quoted(field));
    }
    denied_status(pair, "status").or_else(|| denied_status(pair, "statusCode"))
}

/// Describes the status if a rule denies access.
fn denied_status(pair: &Pair<'_>, key: &str) -> Option<String> {
    let is_denied = pair.key.eq_ignore_ascii_case(key) && pair.values.iter().any(|value| is_denial(value));
    is_denied.then(|| "the status 401, 403 or 407".to_owned())
}

/// Finds authentication in code that runs for page requests.
pub(super) fn middleware(text: &str) -> Option<Found> {
    function(text).or_else(|| {
        first_code_line(text, |line| {
            let compact: String = line.chars().filter(|character| !character.is_whitespace()).collect();
            let denies = |status: &str| {
                ["status:", "status(", "statuscode:", "statuscode="]
                    .iter()
                    .any(|before| compact.contains(&format!("{before}{status}")))
            };
            (denies("401") || denies("403") || denies("407")).then(|| "the status 401, 403 or 407".to_owned())
        })
    })
}

/// Finds HTTP authentication in a function.
///
/// If a function only denies access to itself, this does not count, since it does not protect any page.
pub(super) fn function(text: &str) -> Option<Found> {
    first_code_line(text, |line| {
        if line.contains("www-authenticate") {
            return Some(quoted("WWW-Authenticate"));
        }
        if line.contains("cf-access-jwt-assertion") {
            return Some(quoted("CF-Access-JWT-Assertion"));
        }
        line.contains("pages-plugin-cloudflare-access").then(|| quoted("pages-plugin-cloudflare-access"))
    })
}

/// Finds HTTP authentication in a script.
///
/// Scripts may also run in pages, where reading this field can have other reasons.
pub(super) fn worker(text: &str) -> Option<Found> {
    if text.contains("401") { function(text) } else { None }
}

/// Returns the first line of code in which `test` finds something, skipping comments.
///
/// Note that lines are passed in lower case.
fn first_code_line(text: &str, test: impl Fn(&str) -> Option<String>) -> Option<Found> {
    let mut is_comment = false;
    (1u32..).zip(text.lines()).find_map(|(number, line)| {
        let line = line.trim_start();
        is_comment |= line.starts_with("/*");
        if is_comment {
            let (_, rest) = line.split_once("*/")?;
            is_comment = false;
            return Some((number, test(&rest.to_ascii_lowercase())?));
        }
        if line.starts_with("//") || line.starts_with('#') {
            return None;
        }
        Some((number, test(&line.to_ascii_lowercase())?))
    })
}

/// Recognizes password files, which consist of `user:password` lines and nothing else.
pub(super) fn passwords(text: &str) -> Option<Found> {
    let lines = (1u32..).zip(text.lines().map(str::trim));
    let mut users = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(['#', ';'])).peekable();
    let (first, _) = *users.peek()?;
    let is_user = |line: &str| {
        line.split_once(':').is_some_and(|(name, password)| {
            !name.is_empty()
                && !name.contains([' ', '\t', '<', '{'])
                && !password.is_empty()
                && !password.starts_with([' ', '/'])
        })
    };
    users.all(|(_, line)| is_user(line)).then(|| (first, "a password file".to_owned()))
}

/// Finds fields, conditions and codes in a file with a name similar to that of a rule file.
pub(super) fn rules(text: &str) -> Option<Found> {
    // Lines in a text about HTTP may well begin with a field, but there are no paths.
    let is_path =
        |line: &str| line.starts_with(['/', '*']) || line.starts_with("./") || line.starts_with("http");
    let lines = || {
        (1u32..).zip(text.lines().map(|line| line.trim())).filter(|(_, line)| !line.starts_with(['#', ';']))
    };
    let has_paths = lines().any(|(_, line)| is_path(unquoted(line)));

    lines().find_map(|(number, line)| {
        let words: Vec<&str> =
            line.split_ascii_whitespace().take_while(|word| !word.starts_with('#')).map(unquoted).collect();
        let (first, rest) = words.split_first()?;
        let begins =
            known_field(line).filter(|field| !is_path(first) && (has_paths || unmistakable(field).is_some()));

        if let Some(field) = begins.or_else(|| if is_path(first) { field_in(rest) } else { None }) {
            return Some((number, quoted(field)));
        }
        if !is_path(first) {
            let directive = known_directive(line).filter(|_| has_paths);
            // May be a rule from Netlify's configuration.
            return match directive {
                Some(directive) => Some((number, quoted(directive))),
                None if line.contains('=') => toml(line).map(|(_, subject)| (number, subject)),
                None => None,
            };
        }

        if has_role(&rest.join(" ")) {
            return Some((number, "the condition `Role=`".to_owned()));
        }
        let code = rest.iter().take(2).find(|word| is_denial(word.trim_end_matches('!')))?;
        Some((number, format!("the code `{code}`")))
    })
}
