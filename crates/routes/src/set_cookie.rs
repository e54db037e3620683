//! Cookies that responses set (RFC 6265bis).
//!
//! Browsers ignore a cookie without a word if its attributes contradict each other, so we check what they do.

use std::fmt::Write;
use std::time::Duration;

use crate::field_names::is_token_byte;

/// Browsers ignore cookies whose name and value are longer than this (RFC 6265bis §5.7), in bytes.
const PAIR_BYTES_MAX: usize = 4096;

/// Browsers ignore attributes that are longer than this (RFC 6265bis §5.6), in bytes.
const ATTRIBUTE_BYTES_MAX: usize = 1024;

/// A cookie for [`Response::with_cookie`](crate::Response::with_cookie).
///
/// By default, it is as a session should be: for all paths of this host alone, until the browser is closed, not for scripts
/// (`HttpOnly`), not for requests that other sites cause except for links (`SameSite=Lax`), and for encrypted connections only
/// (`Secure`). Most browsers also accept such a cookie from `http://localhost`.
///
/// ```
/// # extern crate cannery_routes as cannery;
/// use std::time::Duration;
///
/// use cannery::{Response, SetCookie};
///
/// let cookie = SetCookie::new("__Host-session", "31d4d96e").with_max_age(Duration::from_secs(86_400));
/// let response = Response::new(204).with_cookie(cookie);
/// let expected = "__Host-session=31d4d96e; Path=/; Max-Age=86400; Secure; HttpOnly; SameSite=Lax";
/// assert_eq!(response.header("Set-Cookie"), Some(expected));
/// ```
///
/// To remove a cookie, set it again with the same path and domain, and [`Duration::ZERO`] as its age.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct SetCookie {
    name: String,
    value: String,
    path: String,
    domain: Option<String>,
    max_age: Option<Duration>,
    is_secure: bool,
    is_http_only: bool,
    same_site: SameSite,
}

/// With which requests of other sites a browser sends a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SameSite {
    /// With none, not even if the user follows a link.
    Strict,
    /// Only if the user follows a link.
    #[default]
    Lax,
    /// With all. The cookie must be `Secure`.
    None,
}

impl SetCookie {
    /// Creates a cookie. The value may have letters, digits and most signs, but no spaces, quotes, commas, semicolons or backslashes.
    /// Encode other values, for example in base64.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> SetCookie {
        SetCookie {
            name: name.into(),
            value: value.into(),
            path: "/".to_owned(),
            domain: None,
            max_age: None,
            is_secure: true,
            is_http_only: true,
            same_site: SameSite::default(),
        }
    }

    /// Sets the path below which the cookie is sent. Note that this does not protect it from pages at other paths.
    pub fn with_path(self, path: impl Into<String>) -> SetCookie {
        SetCookie { path: path.into(), ..self }
    }

    /// Also sends the cookie to all subdomains of this domain, which has to be the host or a parent of it.
    pub fn with_domain(self, domain: impl Into<String>) -> SetCookie {
        SetCookie { domain: Some(domain.into()), ..self }
    }

    /// Sets how long the cookie is kept, in whole seconds. Browsers keep it for 400 days at most.
    pub fn with_max_age(self, max_age: Duration) -> SetCookie {
        SetCookie { max_age: Some(max_age), ..self }
    }

    /// Chooses whether the cookie is only sent over encrypted connections.
    pub fn with_secure(self, is_secure: bool) -> SetCookie {
        SetCookie { is_secure, ..self }
    }

    /// Chooses whether the cookie is hidden from scripts.
    pub fn with_http_only(self, is_http_only: bool) -> SetCookie {
        SetCookie { is_http_only, ..self }
    }

    /// Chooses with which requests of other sites the cookie is sent.
    pub fn with_same_site(self, same_site: SameSite) -> SetCookie {
        SetCookie { same_site, ..self }
    }

    /// Returns the value of the `Set-Cookie` field, or why browsers would refuse or misread it.
    pub(crate) fn to_field(&self) -> Result<String, String> {
        if let Some(why) = self.fault() {
            return Err(format!("a handler sets the cookie {:?}, {why}", self.name));
        }
        let mut field = format!("{}={}; Path={}", self.name, self.value, self.path);
        // Writing to a string cannot fail.
        if let Some(domain) = &self.domain {
            let _ = write!(field, "; Domain={domain}");
        }
        if let Some(max_age) = self.max_age {
            let _ = write!(field, "; Max-Age={}", max_age.as_secs());
        }
        for (is_set, attribute) in [(self.is_secure, "; Secure"), (self.is_http_only, "; HttpOnly")] {
            if is_set {
                field.push_str(attribute);
            }
        }
        let _ = write!(field, "; SameSite={:?}", self.same_site);
        Ok(field)
    }

    fn fault(&self) -> Option<&'static str> {
        let has_prefix = |prefix: &str| {
            // Browsers ignore the case of prefixes, because some servers do (RFC 6265bis §5.7).
            self.name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        let is_host = has_prefix("__Host-");
        let is_http = has_prefix("__Http-") || has_prefix("__Host-Http-");
        let needs_secure = is_host || is_http || has_prefix("__Secure-");

        if self.name.is_empty() || !self.name.bytes().all(is_token_byte) {
            return Some("whose name RFC 6265 §4.1.1 forbids");
        }
        if !self.value.bytes().all(is_value_byte) {
            return Some("whose value RFC 6265 §4.1.1 forbids: encode it, for example in base64");
        }
        if self.name.len() + self.value.len() > PAIR_BYTES_MAX {
            return Some("whose name and value are longer than the 4,096 bytes that browsers accept");
        }
        if !self.path.starts_with('/') || !is_attribute(&self.path) {
            return Some(
                "whose path doesn't begin with `/`, is too long, or has a character that must be encoded",
            );
        }
        let is_domain = |domain: &String| {
            let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
            !domain.is_empty() && domain.bytes().all(is_of_name) && is_attribute(domain)
        };
        if !self.domain.as_ref().is_none_or(is_domain) {
            return Some("whose domain isn't a host name");
        }
        if !self.is_secure && self.same_site == SameSite::None {
            return Some("which needs `Secure` because of `SameSite=None`");
        }
        if !self.is_secure && needs_secure {
            return Some("which needs `Secure` because of the prefix of its name");
        }
        if !self.is_http_only && is_http {
            return Some("which needs `HttpOnly` because of the prefix of its name");
        }
        if is_host && (self.path != "/" || self.domain.is_some()) {
            return Some("which needs the path `/` and no domain because of the prefix of its name");
        }
        None
    }

    /// Returns `true` if browsers would replace the cookie of a `Set-Cookie` field by this one (RFC 6265bis §5.7).
    pub(crate) fn replaces(&self, field: &str) -> bool {
        let mut parts = field.split(';').map(|part| part.split_once('=').unwrap_or((part, "")));
        let name = parts.next().map_or("", |(name, _)| name.trim());
        let (mut path, mut domain) = ("", None);
        for (attribute, value) in parts {
            match attribute.trim() {
                name if name.eq_ignore_ascii_case("path") => path = value.trim(),
                name if name.eq_ignore_ascii_case("domain") => domain = Some(value.trim()),
                _ => {}
            }
        }
        name == self.name && path == self.path && domain == self.domain.as_deref()
    }
}

/// Returns `true` for bytes that the value of a cookie may contain.
fn is_value_byte(byte: u8) -> bool {
    matches!(byte, b'!' | b'#'..=b'+' | b'-'..=b':' | b'<'..=b'[' | b']'..=b'~')
}

fn is_attribute(value: &str) -> bool {
    value.len() <= ATTRIBUTE_BYTES_MAX
        && value.bytes().all(|byte| matches!(byte, b'!'..=b'~') && byte != b';')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HandlerError, Response};

    fn field(cookie: &SetCookie) -> String {
        cookie.to_field().unwrap()
    }

    #[test]
    fn attributes_are_written() {
        let cookie = SetCookie::new("a", "b");
        assert_eq!(field(&cookie), "a=b; Path=/; Secure; HttpOnly; SameSite=Lax");
        let open = cookie.with_secure(false).with_http_only(false).with_same_site(SameSite::Strict);
        assert_eq!(field(&open), "a=b; Path=/; SameSite=Strict");
        let all = SetCookie::new("a", "")
            .with_path("/b c".replace(' ', "%20"))
            .with_domain("example.com")
            .with_max_age(Duration::from_millis(1999))
            .with_same_site(SameSite::None);
        assert_eq!(
            field(&all),
            "a=; Path=/b%20c; Domain=example.com; Max-Age=1; Secure; HttpOnly; SameSite=None"
        );
    }

    #[test]
    fn cookies_that_browsers_refuse_are_faults() {
        let cookie = |name: &str| SetCookie::new(name, "b");
        let long = |bytes| SetCookie::new("a", "b".repeat(bytes - 1));
        for refused in [
            cookie(""),
            cookie("a b"),
            cookie("a=b"),
            cookie("é"),
            SetCookie::new("a", "b c"),
            SetCookie::new("a", "b; Domain=example.com"),
            SetCookie::new("a", "b\r\nX: y"),
            SetCookie::new("a", "\"b\""),
            SetCookie::new("a", "b,c"),
            SetCookie::new("a", "b\\c"),
            SetCookie::new("a", "ü"),
            long(PAIR_BYTES_MAX + 1),
            cookie("a").with_path(""),
            cookie("a").with_path("b"),
            cookie("a").with_path("/; Secure"),
            cookie("a").with_path("/é"),
            cookie("a").with_path("/".repeat(ATTRIBUTE_BYTES_MAX + 1)),
            cookie("a").with_domain(""),
            cookie("a").with_domain("a b"),
            cookie("a").with_domain("example.com; Path=/"),
            cookie("a").with_domain("example.com:80"),
            cookie("a").with_secure(false).with_same_site(SameSite::None),
            cookie("__Secure-a").with_secure(false),
            cookie("__secure-a").with_secure(false),
            cookie("__Host-a").with_secure(false),
            cookie("__Host-a").with_path("/a"),
            cookie("__HOST-a").with_domain("example.com"),
            cookie("__Http-a").with_http_only(false),
            cookie("__Host-Http-a").with_http_only(false),
            cookie("__Host-Http-a").with_path("/a"),
        ] {
            let why = refused.to_field().expect_err("browsers refuse it");
            assert!(why.starts_with("a handler sets the cookie "), "{why}");
            assert!(why.len() < 250, "{why}");
            let response = Response::new(200).with_cookie(refused);
            assert_eq!(response.checked().unwrap_err().to_string(), why);
        }
        for accepted in [
            cookie("__Secure-a").with_domain("example.com").with_path("/a"),
            cookie("__Host-a").with_http_only(false),
            cookie("__Http-a").with_path("/a"),
            cookie("__Host-Http-a"),
            cookie("Host-a").with_secure(false),
            SetCookie::new("a", "eyJh=.!#$%&'()*+-/:<>?@[]^_`{|}~"),
            long(PAIR_BYTES_MAX),
        ] {
            field(&accepted);
        }
    }

    #[test]
    fn cookie_of_the_same_name_path_and_domain_is_replaced() {
        let fields = |response: Response| -> Vec<String> {
            let cookies = response.headers().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
            cookies.map(|(_, value)| value.split("; Secure").next().unwrap().to_owned()).collect()
        };
        let response = Response::new(200)
            .append_header("set-cookie", "a=1;path=/ ;HttpOnly")
            .with_cookie(SetCookie::new("a", "2").with_path("/b"))
            .with_cookie(SetCookie::new("a", "3").with_domain("example.com"))
            .with_cookie(SetCookie::new("b", "4"))
            .with_cookie(SetCookie::new("a", "5"));
        assert_eq!(
            fields(response),
            ["a=2; Path=/b", "a=3; Path=/; Domain=example.com", "b=4; Path=/", "a=5; Path=/"]
        );
        // The response will be made from the error later.
        let failed = Response::from(HandlerError::new(401, "No.")).with_cookie(SetCookie::new("a", ""));
        let mut error = failed.checked().unwrap_err();
        let edits = error.take_edits();
        let response = edits.into_iter().fold(error.to_response(), |mut response, edit| {
            response.apply(edit);
            response
        });
        assert_eq!(fields(response), ["a=; Path=/"]);
    }
}
