//! Rules of `_redirects`.

use std::sync::Arc;

use super::template::Template;
use crate::rulefiles::pattern::Pattern;

/// Rule files come in these dialects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Like Netlify's dialect, but paths may be relative and the scheme may be omitted in sources
    /// for one host.
    #[default]
    Cannery,
    /// Like Netlify's, but conditions can only test path and host.
    Netlify,
    /// From Cloudflare Pages.
    Cloudflare,
}

/// A line in a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectRule {
    /// The rule file as passed to [`parse`](super::parse).
    pub file: Arc<str>,
    /// Starts at 1.
    pub line: u32,
    /// The only host with this rule, in lower case and without a port, or `None` for all hosts.
    pub host: Option<String>,
    /// Which paths it matches.
    pub source: Pattern,
    /// The response.
    pub action: Action,
    /// Applies even where a file exists.
    pub force: bool,
    /// Does not answer for missing assets because a page is not a script.
    pub pages_only: bool,
}

/// How a rule responds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A redirect (RFC 9110 §15.4).
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// A URL of the form `/path`, `//host/path` or `https://host/path`, without query and fragment. The server will
        /// percent-encode captures. It also needs to ensure that they do not make a path start with `//`, because this
        /// would name another host.
        target: Template,
        /// The part without `?`. When the target does not have a query, we need to keep the query of
        /// the request.
        query: Option<Template>,
        /// Without `#`.
        fragment: Option<String>,
    },
    /// Another resource of the same site.
    Rewrite {
        /// 200, 404 or 410.
        status: u16,
        /// That resource's path, percent-decoded.
        path: Template,
    },
}
