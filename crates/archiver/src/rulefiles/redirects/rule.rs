//! Rules of `_redirects`.

use std::sync::Arc;

use super::template::Template;
use crate::rulefiles::pattern::Pattern;

/// The dialect of a rule file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Netlify's dialect, plus relative paths, and sources for one host without a scheme.
    #[default]
    Cannery,
    /// Netlify's dialect, without conditions on anything but path and host.
    Netlify,
    /// The dialect of Cloudflare Pages.
    Cloudflare,
}

/// One line of a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectRule {
    /// The rule file as passed to [`parse`](super::parse).
    pub file: Arc<str>,
    /// The line, starting at 1.
    pub line: u32,
    /// The host that the rule is for, in lower case and without a port; `None` for all hosts.
    pub host: Option<String>,
    /// The paths that it matches.
    pub source: Pattern,
    /// The response.
    pub action: Action,
    /// Applies also where a file exists.
    pub force: bool,
    /// Doesn't answer for missing assets, because a page isn't a script.
    pub pages_only: bool,
}

/// The response of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A redirect (RFC 9110 §15.4).
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// The target as a URL: `/path`, `//host/path` or `https://host/path`, without query and fragment. The server
        /// percent-encodes captures, and prevents that they make a path begin with `//`, which would name another host.
        target: Template,
        /// The target's query without `?`. If it has none, the request's query is kept.
        query: Option<Template>,
        /// The target's fragment without `#`.
        fragment: Option<String>,
    },
    /// Another resource of the same site.
    Rewrite {
        /// 200, 404 or 410.
        status: u16,
        /// The percent-decoded path of that resource.
        path: Template,
    },
}
