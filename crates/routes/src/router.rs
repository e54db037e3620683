//! A router: one tree of path segments per host.
//!
//! A lookup descends segment by segment, trying text before captures, and captures before the rest of the
//! path. Since conflicts are errors, the first route that it finds is the most specific one. If a branch ends
//! without a route, the lookup backtracks; however, it visits each node at most once (regardless of the path)
//! and never goes deeper than the longest pattern.
//!
//! Methods are stored in the leaves. This way, a single descent is enough to find out that a path only has
//! routes for other methods.

use std::fmt;

use crate::captures::Captures;
use crate::conflict::Conflict;
use crate::pattern::{Pattern, Segment, SyntaxError};
use crate::percent::{self, Decoded};

/// Finds the most specific pattern for a request.
#[derive(Debug)]
pub struct Router<T> {
    routes: Vec<Route<T>>,
    /// Routes without a host.
    any_host: Node,
    /// Routes for each host, sorted by name.
    hosts: Vec<(Box<str>, Node)>,
}

#[derive(Debug)]
struct Route<T> {
    pattern: Pattern,
    value: T,
}

/// The routes below some sequence of segments.
#[derive(Debug, Default)]
struct Node {
    /// Child nodes for text, sorted.
    literals: Vec<(Box<[u8]>, Node)>,
    /// The child node for a capture.
    capture: Option<Box<Node>>,
    /// Routes whose path ends here.
    end: Leaf,
    /// Routes whose path ends here with a `/`.
    slash: Leaf,
    /// Routes that match the rest of the path after a `/`.
    rest: Leaf,
}

/// The routes for a path. Each has a method and the route's index.
#[derive(Debug, Default)]
struct Leaf(Vec<(Option<Box<str>>, usize)>);

/// Why a pattern cannot be added to a router.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The text is not a valid pattern.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// It conflicts with another pattern.
    #[error(transparent)]
    Conflict(#[from] Conflict),
}

/// The result of a lookup.
#[derive(Debug)]
// Exhaustive: the server has to handle every kind.
pub enum Lookup<'r, 'p, T> {
    /// A pattern matches.
    Found(Match<'r, 'p, T>),
    /// Patterns match this path, but not this method.
    OtherMethods(Methods<'r>),
    /// No pattern matches this path.
    Missing,
}

/// The most specific pattern that matches a request.
#[derive(Debug)]
#[non_exhaustive]
pub struct Match<'r, 'p, T> {
    /// Number of the pattern. They are numbered in the order they were added, from 0.
    pub number: usize,
    /// Value of the pattern.
    pub value: &'r T,
    /// The pattern as it was added.
    pub pattern: &'r str,
    /// The captured parts of the path.
    pub captures: Captures<'r, 'p>,
}

/// The methods that a path has routes for, sorted. [`Display`](fmt::Display) formats them as a value of
/// `Allow`, e.g. `GET, HEAD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Methods<'r> {
    names: Vec<&'r str>,
    /// Number of the most specific pattern.
    first: usize,
}

impl<T> Default for Router<T> {
    fn default() -> Router<T> {
        Router { routes: Vec::new(), any_host: Node::default(), hosts: Vec::new() }
    }
}

impl<T> Router<T> {
    /// Adds a pattern and its value.
    ///
    /// # Errors
    ///
    /// Returns [`RouteError`] if the pattern cannot be parsed or conflicts with an earlier pattern, in which
    /// case the router remains unchanged.
    pub fn add(&mut self, pattern: &str, value: T) -> Result<(), RouteError> {
        let pattern = Pattern::parse(pattern)?;
        if let Some(conflict) =
            self.routes.iter().find_map(|route| Conflict::between(&pattern, &route.pattern))
        {
            return Err(conflict.into());
        }

        let tree = match &pattern.host {
            None => &mut self.any_host,
            Some(host) => child(&mut self.hosts, host),
        };
        tree.leaf(&pattern.segments).0.push((pattern.method.clone(), self.routes.len()));
        self.routes.push(Route { pattern, value });
        Ok(())
    }

    /// Finds the most specific pattern for a request.
    ///
    /// `host` is the value of `Host` or the authority of the target; its port (if any) will be ignored.
    /// `path` is percent-encoded and does not include the query. Note that this only allocates if the result
    /// is [`Lookup::OtherMethods`].
    pub fn find<'r, 'p>(&'r self, method: &[u8], host: Option<&[u8]>, path: &'p [u8]) -> Lookup<'r, 'p, T> {
        let mut is_known = false;
        let found = self.trees(host).find_map(|tree| {
            tree.visit(path, &mut |leaf| {
                is_known |= !leaf.0.is_empty();
                leaf.route(method)
            })
        });

        // Typically, a request that does not match can be rejected at its first segment, so checking the
        // whole path comes last.
        if !(found.is_some() || is_known) || !is_clean(path) {
            return Lookup::Missing;
        }
        match found {
            Some(number) => {
                let Route { pattern, value } = &self.routes[number];
                let captures = Captures::new(pattern, path);
                Lookup::Found(Match { number, value, pattern: &pattern.text, captures })
            }
            None => Lookup::OtherMethods(self.methods(host, path)),
        }
    }

    /// Returns the value of the most specific pattern for a path, if that pattern is for all methods.
    pub(crate) fn find_any(&self, host: Option<&[u8]>, path: &[u8]) -> Option<&T> {
        match self.find(b"", host, path) {
            Lookup::Found(found) => Some(found.value),
            Lookup::OtherMethods(_) | Lookup::Missing => None,
        }
    }

    /// Returns `true` if no patterns have been added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Returns the value of the pattern with this number.
    pub(crate) fn value(&self, number: usize) -> &T {
        &self.routes[number].value
    }

    /// Returns all patterns and their values in the order they were added.
    pub fn patterns(&self) -> impl Iterator<Item = (&str, &T)> {
        self.routes.iter().map(|route| (route.pattern.text.as_str(), &route.value))
    }

    /// Returns the trees to search for a host, by precedence.
    fn trees(&self, host: Option<&[u8]>) -> impl Iterator<Item = &Node> {
        let name = host.filter(|_| !self.hosts.is_empty()).and_then(host_name);
        let of_host = name.and_then(|name| {
            let in_lower_case = || name.iter().map(u8::to_ascii_lowercase);
            let place = self.hosts.binary_search_by(|(host, _)| host.bytes().cmp(in_lower_case())).ok()?;
            Some(&self.hosts[place].1)
        });
        of_host.into_iter().chain([&self.any_host])
    }

    /// Returns the methods that this path has routes for.
    fn methods(&self, host: Option<&[u8]>, path: &[u8]) -> Methods<'_> {
        let mut methods = Vec::new();
        let mut first = None;
        for tree in self.trees(host) {
            // Never accept a leaf, so that we will see all that match.
            let _: Option<usize> = tree.visit(path, &mut |leaf| {
                methods.extend(leaf.0.iter().filter_map(|(method, _)| method.as_deref()));
                first = first.or_else(|| leaf.0.first().map(|(_, number)| *number));
                None
            });
        }
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.sort_unstable();
        methods.dedup();
        Methods { names: methods, first: first.unwrap_or_default() }
    }
}

impl Node {
    /// Returns the leaf for a pattern. Adds nodes on the way if necessary.
    fn leaf(&mut self, segments: &[Segment]) -> &mut Leaf {
        match segments {
            [] => &mut self.end,
            [Segment::Literal(literal), after @ ..] => child(&mut self.literals, literal).leaf(after),
            [Segment::Capture(_), after @ ..] => self.capture.get_or_insert_default().leaf(after),
            [Segment::Slash, ..] => &mut self.slash,
            [Segment::Rest(_), ..] => &mut self.rest,
        }
    }

    /// Calls `visit` with matching leaves, most specific first, until it returns a route.
    fn visit<'r>(&'r self, path: &[u8], visit: &mut impl FnMut(&'r Leaf) -> Option<usize>) -> Option<usize> {
        let Some((slash, path)) = path.split_first() else { return visit(&self.end) };
        if *slash != b'/' {
            return None;
        }
        if path.is_empty() {
            return visit(&self.slash).or_else(|| visit(&self.rest));
        }
        let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
        let (segment, after) = path.split_at(end);
        if segment.is_empty() {
            return None;
        }

        if let Some(node) = self.literal(segment)
            && let Some(route) = node.visit(after, visit)
        {
            return Some(route);
        }
        if let Some(node) = &self.capture
            && let Some(route) = node.visit(after, visit)
        {
            return Some(route);
        }
        visit(&self.rest)
    }

    /// Returns the child node for a percent-encoded segment.
    fn literal(&self, segment: &[u8]) -> Option<&Node> {
        let place = if segment.contains(&b'%') {
            self.literals.binary_search_by(|(literal, _)| literal.iter().copied().cmp(Decoded::new(segment)))
        } else {
            self.literals.binary_search_by(|(literal, _)| (**literal).cmp(segment))
        };
        Some(&self.literals[place.ok()?].1)
    }
}

impl Leaf {
    /// Finds the route for a method. If there is none, this falls back to the route for `GET` (if the
    /// method is `HEAD`) and then to the route for all methods.
    fn route(&self, method: &[u8]) -> Option<usize> {
        let find = |wanted: Option<&[u8]>| {
            let mut routes = self.0.iter();
            routes.find(|(method, _)| method.as_deref().map(str::as_bytes) == wanted).map(|(_, route)| *route)
        };
        find(Some(method))
            .or_else(|| if method == b"HEAD" { find(Some(b"GET")) } else { None })
            .or_else(|| find(None))
    }
}

impl<'r> Methods<'r> {
    /// Returns the methods in order.
    pub fn iter(&self) -> impl Iterator<Item = &'r str> {
        self.names.iter().copied()
    }

    /// Returns the number of the most specific pattern for the path.
    #[must_use]
    pub fn first(&self) -> usize {
        self.first
    }
}

impl fmt::Display for Methods<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, method) in self.names.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(formatter, "{separator}{method}")?;
        }
        Ok(())
    }
}

/// Returns the node for a key in a sorted list, adding it if necessary.
fn child<'n, K>(nodes: &'n mut Vec<(Box<K>, Node)>, key: &K) -> &'n mut Node
where
    K: Ord + ?Sized,
    Box<K>: for<'k> From<&'k K>,
{
    let place = match nodes.binary_search_by(|(other, _)| (**other).cmp(key)) {
        Ok(place) => place,
        Err(place) => {
            nodes.insert(place, (key.into(), Node::default()));
            place
        }
    };
    &mut nodes[place].1
}

/// Returns the host in an authority, without port and final dot.
fn host_name(authority: &[u8]) -> Option<&[u8]> {
    let host = match authority {
        [b'[', ..] => &authority[..=authority.iter().position(|byte| *byte == b']')?],
        _ => authority.split(|byte| *byte == b':').next()?,
    };
    Some(host.strip_suffix(b".").unwrap_or(host))
}

/// Whether a path has no empty segments before its end, no dot segments, and no invalid escapes.
pub(crate) fn is_clean(path: &[u8]) -> bool {
    let Some(path) = path.strip_prefix(b"/") else { return false };
    let mut segments = path.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        if (segment.is_empty() && !is_last) || percent::is_dots(segment) {
            return false;
        }
    }
    percent::invalid_escape(path).is_none()
}

#[cfg(test)]
mod tests;
