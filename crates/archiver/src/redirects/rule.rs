//! What a line of `_redirects` says, as a value.
//!
//! Never reads or checks anything.

use std::sync::Arc;

use super::template::Template;
use crate::pattern::Pattern;

/// Whose grammar a rule file follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Netlify's grammar, relative paths, and sources for one host without a scheme.
    #[default]
    Cannery,
    /// Netlify's grammar, as far as it depends on nothing but the path and the host.
    Netlify,
    /// Cloudflare Pages' grammar.
    Cloudflare,
}

/// One line of a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectRule {
    /// The rule file, as it was handed to [`parse`].
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: u32,
    /// The one host that the rule is for, in lower case and without a port; `None` for all.
    pub host: Option<String>,
    /// Which paths it matches.
    pub source: Pattern,
    /// What it does.
    pub action: Action,
    /// Whether it also applies where a file exists.
    pub force: bool,
    /// Whether it does not answer for missing assets: a page for everything is no script.
    pub pages_only: bool,
}

/// What a rule does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends the client elsewhere (RFC 9110 §15.4).
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// Where to, in URL spelling: `/path`, `//host/path` or `https://host/path`, without
        /// query and fragment. A capture must be percent-encoded when it is filled in, and one
        /// that would make a path begin with `//` must not: it would name another host.
        target: Template,
        /// The target's own query, without `?`. Where there is none, the request's is kept.
        query: Option<String>,
        /// The target's own fragment, without `#`.
        fragment: Option<String>,
    },
    /// Answers with another resource of the same site.
    Rewrite {
        /// 200, 404 or 410.
        status: u16,
        /// The path of that resource, percent-decoded.
        path: Template,
    },
}
