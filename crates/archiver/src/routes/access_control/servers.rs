//! Access control in Apache, nginx, Caddy, lighttpd and IIS configuration.
//!
//! Many configurations hide names such as `.htaccess`. This can be ignored, because we don't publish such
//! names anyway.

use super::Found;
use super::tokens::{Syntax, Token, tokens};
use crate::rulefiles::access_words::{is_denial, quoted};

/// In nginx, statements end with a mark, and line ends do not matter.
const NGINX: Syntax = Syntax { comment: "#", marks: "{};", has_lines: false };

const CADDY: Syntax = Syntax { comment: "#", marks: "{};", has_lines: true };

const LIGHTTPD: Syntax = Syntax { comment: "#", marks: "{}(),", has_lines: true };

/// Searches a configuration file if it is not clear from its name which server it is for.
pub(super) fn any(text: &str) -> Option<Found> {
    let is_apache = text.lines().any(|line| {
        let line = line.trim_start();
        line.starts_with('<')
            && line[1..].starts_with(|first: char| first == '/' || first.is_ascii_alphabetic())
    });
    if is_apache { apache(text) } else { nginx(text).or_else(|| lighttpd(text)) }
}

pub(super) fn apache(text: &str) -> Option<Found> {
    let statements = joined_lines(text);

    // `Order allow,deny` denies access by default. However, it is followed by `Allow from all` on many
    // sites.
    let allows_all = statements.iter().any(|(_, line)| line == "allow from all");
    let mut blocks = Blocks::default();

    for (number, line) in &statements {
        if line.starts_with("</") {
            blocks.leave();
        } else if line.starts_with('<') {
            blocks.enter(line);
        } else if !blocks.are_harmless()
            && let Some(subject) = apache_statement(line, allows_all)
        {
            return Some((*number, subject));
        }
    }
    None
}

/// Returns Apache's statements in lower case.
///
/// Continuation lines are joined, and words are separated by a single space.
fn joined_lines(text: &str) -> Vec<(u32, String)> {
    let mut joined = Vec::new();
    let mut begun: Option<(u32, String)> = None;
    for (number, line) in (1u32..).zip(text.lines()) {
        let (first, mut statement) = begun.take().unwrap_or((number, String::new()));
        match line.strip_suffix('\\') {
            Some(part) => {
                statement.push_str(part);
                begun = Some((first, statement));
            }
            None => {
                statement.push_str(line);
                joined.push((first, statement));
            }
        }
    }
    joined.extend(begun);

    let with_spaces =
        |text: &str| text.split_ascii_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    joined
        .into_iter()
        .map(|(number, line)| (number, with_spaces(&line)))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// Describes how an Apache statement, in lower case, restricts access.
fn apache_statement(line: &str, allows_all: bool) -> Option<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let (directive, arguments) = words.split_first()?;
    let argument = arguments.first().copied().unwrap_or_default();
    let rest = arguments.join(" ");

    let is_found = match *directive {
        "require" => rest != "all granted",
        "allow" => rest != "from all" && argument == "from",
        "deny" => argument == "from",
        "order" => matches!(&*rest, "allow,deny" | "allow, deny" | "mutual-failure") && !allows_all,
        "satisfy" | "sslrequire" => true,
        "sslverifyclient" => argument != "none",
        "redirect" | "redirectmatch" => {
            let target = arguments.get(1).copied().unwrap_or_default();
            if is_denial(argument) && !names_hidden(target, true) {
                return Some("`Redirect` with the status 401, 403 or 407".to_owned());
            }
            false
        }
        "rewriterule" => {
            // For example, `RewriteRule ^secret - [F,L]` answers 403.
            let flags =
                rest.rsplit_once('[').and_then(|(_, flags)| flags.strip_suffix(']')).unwrap_or_default();
            let denies = |flag: &str| {
                let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
                matches!(name, "f" | "forbidden") || matches!(name, "r" | "redirect") && is_denial(value)
            };
            if flags.split(',').any(|flag| denies(flag.trim())) && !names_hidden(argument, true) {
                return Some("`RewriteRule` that answers 401, 403 or 407".to_owned());
            }
            false
        }
        "rewritecond" => {
            const VARIABLES: [&str; 5] = [
                "%{http:authorization}",
                "%{remote_addr}",
                "%{remote_host}",
                "%{remote_user}",
                "%{ssl_client_",
            ];
            if VARIABLES.iter().any(|variable| argument.contains(variable)) {
                return Some("`RewriteCond` on the visitor".to_owned());
            }
            false
        }
        "header" if rest.contains("www-authenticate") => return Some(quoted("WWW-Authenticate")),
        // This includes `AuthType`, `AuthGroupFile`, `AuthLDAPURL` and so on.
        _ => {
            directive.starts_with("auth")
                && directive.len() > 4
                && directive.bytes().all(|byte| byte.is_ascii_alphabetic())
        }
    };
    if !is_found {
        return None;
    }
    // Since lower case is hard to read, the official spelling is used where known.
    const SPELLINGS: [&str; 12] = [
        "Allow",
        "AuthBasicProvider",
        "AuthDigestDomain",
        "AuthGroupFile",
        "AuthName",
        "AuthType",
        "AuthUserFile",
        "Deny",
        "Order",
        "Require",
        "Satisfy",
        "SSLVerifyClient",
    ];
    let known = SPELLINGS.into_iter().find(|known| known.eq_ignore_ascii_case(directive));
    Some(quoted(known.unwrap_or(directive)))
}

/// The blocks around a statement.
#[derive(Default)]
struct Blocks {
    /// For each block, whether it or a block around it is harmless.
    is_harmless: Vec<bool>,
}

impl Blocks {
    /// Enters a block that begins with this text in lower case.
    fn enter(&mut self, text: &str) {
        self.is_harmless.push(self.are_harmless() || is_harmless_block(text));
    }

    fn leave(&mut self) {
        self.is_harmless.pop();
    }

    fn are_harmless(&self) -> bool {
        self.is_harmless.last().is_some_and(|is_harmless| *is_harmless)
    }
}

/// Returns `true` if a block (in lower case) only restricts names that are not published, or methods that are not answered anyway.
fn is_harmless_block(block: &str) -> bool {
    let text = block.trim_matches(['<', '>', ' ']);
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut words = rest.split(' ');
    // For example, `location ~ /\.ht` and `<Files ~ "^\.ht">` contain a regular expression.
    let pattern = rest.rsplit(' ').next().unwrap_or(rest);
    let is_regex = name.ends_with("match") || rest.starts_with('~');

    match name {
        "limitexcept" | "limit_except" => words.any(|method| method == "get"),
        "limit" => !words.any(|method| method == "get"),
        // The usual default for a whole server.
        "directory" if pattern.trim_matches('"') == "/" => true,
        "directory" | "directorymatch" | "files" | "filesmatch" | "location" | "locationmatch" => {
            names_hidden(pattern, is_regex)
        }
        _ => false,
    }
}

/// Whether a pattern (in lower case) can only match names that begin with a dot, since these are
/// not published.
fn names_hidden(pattern: &str, is_regex: bool) -> bool {
    // `(^|/)` may come before a name, for example in `(^|/)\.git`.
    let pattern = pattern.replace(['"', '\''], "").replace("(^|/)", "/").replace("(?:^|/)", "/");

    let mut depth = 0;
    for character in pattern.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            '|' if depth <= 0 => return false,
            _ => {}
        }
    }

    // `.well-known` is published, and an optional dot also matches other names.
    let is_well_known = pattern.contains("well-known") && !pattern.contains("(?!");
    let is_optional = pattern.contains("\\.?") || pattern.contains("\\.*");
    if is_well_known || is_optional {
        return false;
    }

    let is_apache = pattern.match_indices(".ht").any(|(place, _)| {
        let rest = &pattern[place + 3..];
        rest.is_empty()
            || rest.starts_with(['*', '$', '[', '('])
            || ["access", "passwd", "digest", "group"].iter().any(|name| rest.starts_with(name))
    });

    if is_regex {
        return is_apache || pattern.starts_with("^\\.") || pattern.contains("/\\.");
    }
    let begins_name = |rest: &str| rest.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    is_apache
        || pattern.strip_prefix('.').is_some_and(begins_name)
        || pattern.match_indices("/.").any(|(place, _)| begins_name(&pattern[place + 2..]))
}

pub(super) fn nginx(text: &str) -> Option<Found> {
    first_statement(&tokens(text, &NGINX), |words| {
        let (directive, arguments) = words.split_first()?;
        let argument = arguments.first().map_or("", |word| &*word.text);
        let is_on = !arguments.is_empty() && argument != "off";
        match &*directive.text.to_ascii_lowercase() {
            "auth_basic" if is_on => Some("auth_basic"),
            "auth_basic_user_file" if is_on => Some("auth_basic_user_file"),
            "auth_jwt" if is_on => Some("auth_jwt"),
            "auth_request" if is_on => Some("auth_request"),
            "deny" if is_on => Some("deny"),
            "satisfy" if is_on => Some("satisfy"),
            "secure_link" if is_on => Some("secure_link"),
            "ssl_verify_client" if is_on => Some("ssl_verify_client"),
            "return" if is_denial(argument) => Some("return"),
            "add_header" if argument.eq_ignore_ascii_case("www-authenticate") => Some("WWW-Authenticate"),
            _ => None,
        }
    })
}

pub(super) fn caddy(text: &str) -> Option<Found> {
    first_statement(&tokens(text, &CADDY), |words| {
        const DIRECTIVES: [&str; 7] =
            ["authenticate", "authorize", "basic_auth", "basicauth", "forward_auth", "jwtauth", "remote_ip"];
        // Matchers may be on the same line as their name such as `@office remote_ip 10.0.0.0/8`.
        let directive =
            words.iter().find(|word| !word.is_quoted && !word.text.starts_with('@') && !word.is("not"))?;
        if let Some(known) = DIRECTIVES.into_iter().find(|known| directive.is(known)) {
            return Some(known);
        }

        if directive.is("client_ip") {
            return Some("client_ip");
        }

        let has_code = words.iter().skip(1).any(|word| is_denial(&word.text));
        if directive.is("respond") && has_code {
            return Some("respond");
        }
        if directive.is("error") && has_code {
            return Some("error");
        }

        let sets =
            words.iter().skip(1).any(|word| word.is("www-authenticate") || word.is("+www-authenticate"));
        sets.then_some("WWW-Authenticate")
    })
}

pub(super) fn lighttpd(text: &str) -> Option<Found> {
    first_statement(&tokens(text, &LIGHTTPD), |words| {
        let first = words.first()?;
        if first.text.starts_with("auth.require") {
            return Some("auth.require");
        }
        if first.text.starts_with("auth.backend") {
            return Some("auth.backend");
        }
        // The usual list only contains suffixes of backup copies.
        let denies = words.iter().any(|word| word.is_quoted && !word.text.starts_with(['.', '~']));
        (first.text.starts_with("url.access-deny") && denies).then_some("url.access-deny")
    })
}

/// Returns the first statement that restricts access, ignoring statements in harmless blocks.
fn first_statement(tokens: &[Token], test: impl Fn(&[Token]) -> Option<&'static str>) -> Option<Found> {
    let mut blocks = Blocks::default();
    for statement in
        tokens.split_inclusive(|token| ["{", "}", ";", "\n"].iter().any(|mark| token.is_mark(mark)))
    {
        let (last, before) = statement.split_last()?;
        let has_end = ["{", "}", ";", "\n"].iter().any(|mark| last.is_mark(mark));
        let words = if has_end { before } else { statement };
        if let Some(first) = words.first()
            && !blocks.are_harmless()
            && let Some(subject) = test(words)
        {
            return Some((first.line, quoted(subject)));
        }

        if last.is_mark("{") {
            let words: Vec<&str> = words.iter().map(|word| &*word.text).collect();
            blocks.enter(&words.join(" ").to_ascii_lowercase());
        } else if last.is_mark("}") {
            blocks.leave();
        }
    }
    None
}

/// Finds elements in a `web.config`.
pub(super) fn iis(text: &str) -> Option<Found> {
    let mut line = 1;
    let mut rest = text;
    let mut is_authorization = false;

    while let Some(start) = rest.find('<') {
        line += u32::try_from(rest[..start].matches('\n').count()).unwrap_or(u32::MAX);
        rest = &rest[start..];
        let end =
            if rest.starts_with("<!--") { rest.find("-->") } else { rest.find('>') }.unwrap_or(rest.len());
        let tag = &rest[..end];
        if !tag.starts_with("<!--") {
            let lower = tag[1..].to_ascii_lowercase();
            let name = lower
                .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '/')
                .next()
                .unwrap_or_default();
            let name = name.trim_end_matches('/');

            match name {
                "authorization" => is_authorization = !lower.ends_with('/'),
                "/authorization" => is_authorization = false,
                _ => {}
            }

            if let Some(subject) = iis_element(name, &lower, is_authorization) {
                return Some((line, subject));
            }
        }
        line += u32::try_from(tag.matches('\n').count()).unwrap_or(u32::MAX);
        rest = &rest[end..];
    }
    None
}

/// Describes how an element, in lower case, restricts access.
fn iis_element(name: &str, tag: &str, is_authorization: bool) -> Option<String> {
    let attribute = |name: &str| {
        let (_, rest) = tag.split_once(&format!(" {name}"))?;
        let rest = rest.trim_start().strip_prefix('=')?.trim_start();
        let quote = rest.chars().next()?;
        rest.strip_prefix(quote)?.split(quote).next()
    };

    let is_on = attribute("enabled") != Some("false");

    let element = match name {
        "deny" if !is_authorization => "deny",
        "allow" | "add" | "deny"
            if is_authorization && !attribute("users").is_some_and(|users| users.contains('*')) =>
        {
            "authorization"
        }
        "add" | "deny" if name == "deny" || attribute("accesstype") == Some("deny") => "authorization",
        "add" if attribute("name") == Some("www-authenticate") => return Some(quoted("WWW-Authenticate")),
        "add" if attribute("input").is_some_and(|input| input.contains("{remote_")) => {
            return Some("a condition on the visitor".to_owned());
        }
        "action" if attribute("statuscode").is_some_and(is_denial) => {
            return Some("the status 401, 403 or 407".to_owned());
        }
        "action" if matches!(attribute("type"), Some("abortrequest" | "abort_request")) => {
            return Some("`AbortRequest`".to_owned());
        }
        // Client certificates.
        "access" if attribute("sslflags").is_some_and(|flags| flags.contains("cert")) => "access",
        "denyurlsequences" if !tag.ends_with('/') => "denyUrlSequences",
        "denystrings" if !tag.ends_with('/') => "denyStrings",
        "hiddensegments" => "hiddenSegments",
        "ipsecurity" => "ipSecurity",
        "anonymousauthentication" if !is_on => "anonymousAuthentication",
        "basicauthentication" if is_on => "basicAuthentication",
        "digestauthentication" if is_on => "digestAuthentication",
        "windowsauthentication" if is_on => "windowsAuthentication",
        _ => return None,
    };
    Some(format!("`<{element}>`"))
}
