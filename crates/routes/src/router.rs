//! A router: a tree of path segments for each host.
//!
//! A lookup descends by segment, and tries text before captures and captures before the rest of a path. Since conflicts are
//! errors, the first route found is the most specific one. If a branch ends without a route, the lookup backtracks. It visits
//! each node at most once, whatever the path is, and no deeper than the longest pattern.
//!
//! Methods are in the leaves. A lookup thus learns in one descent whether a path has routes for other methods only.

use std::fmt;

use crate::captures::Captures;
use crate::conflict::Conflict;
use crate::pattern::{Pattern, Segment, SyntaxError};
use crate::percent::{self, Decoded};

/// Finds the value of the most specific pattern that matches a request.
#[derive(Debug)]
pub struct Router<T> {
    routes: Vec<Route<T>>,
    /// The routes without a host.
    any_host: Node,
    /// The routes of each host, sorted by its name.
    hosts: Vec<(Box<str>, Node)>,
}

#[derive(Debug)]
struct Route<T> {
    pattern: Pattern,
    value: T,
}

/// The routes below a sequence of segments.
#[derive(Debug, Default)]
struct Node {
    /// The nodes below text, sorted by it.
    literals: Vec<(Box<[u8]>, Node)>,
    /// The node below a capture.
    capture: Option<Box<Node>>,
    /// The routes with a path that ends here.
    end: Leaf,
    /// The routes with a path that ends here with a `/`.
    slash: Leaf,
    /// The routes that match the rest of the path after a `/`.
    rest: Leaf,
}

/// The routes of one path: pairs of a method and the index of the route.
#[derive(Debug, Default)]
struct Leaf(Vec<(Option<Box<str>>, usize)>);

/// A pattern can't be added to a router.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// It isn't a pattern.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// It conflicts with one of the other patterns.
    #[error(transparent)]
    Conflict(#[from] Conflict),
}

/// The result of a lookup.
#[derive(Debug)]
pub enum Lookup<'r, 'p, T> {
    /// A pattern matches.
    Found(Match<'r, 'p, T>),
    /// Patterns match the path, but not the method.
    OtherMethods(Methods<'r>),
    /// No pattern matches the path.
    Missing,
}

/// The most specific pattern that matches a request.
#[derive(Debug)]
pub struct Match<'r, 'p, T> {
    /// The number of the pattern, in the order in which patterns were added, from 0 on.
    pub number: usize,
    /// The value of the pattern.
    pub value: &'r T,
    /// The pattern as it was added.
    pub pattern: &'r str,
    /// The parts of the path that it captures.
    pub captures: Captures<'r, 'p>,
}

/// The methods of a path, sorted. [`Display`](fmt::Display) writes them as the value of `Allow`, such as `GET, HEAD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Methods<'r>(Vec<&'r str>);

impl<T> Default for Router<T> {
    fn default() -> Router<T> {
        Router { routes: Vec::new(), any_host: Node::default(), hosts: Vec::new() }
    }
}

impl<T> Router<T> {
    /// Adds a pattern with its value.
    ///
    /// # Errors
    ///
    /// Returns [`RouteError`] if the pattern can't be parsed, or if it conflicts with a pattern that was added before. The
    /// router is then unchanged.
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

    /// Finds the most specific pattern that matches a request.
    ///
    /// `host` is the value of `Host` or the authority of the target; a port doesn't count. `path` is percent-encoded and has no
    /// query. Doesn't allocate, unless the result is [`Lookup::OtherMethods`].
    pub fn find<'r, 'p>(&'r self, method: &[u8], host: Option<&[u8]>, path: &'p [u8]) -> Lookup<'r, 'p, T> {
        let mut is_known = false;
        let found = self.trees(host).find_map(|tree| {
            tree.visit(path, &mut |leaf| {
                is_known |= !leaf.0.is_empty();
                leaf.route(method)
            })
        });

        // Most requests that no pattern matches end at the first segment, so the rest of the path is checked last.
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

    /// Returns `true` if there are no patterns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Returns the patterns and their values in the order in which they were added.
    pub fn patterns(&self) -> impl Iterator<Item = (&str, &T)> {
        self.routes.iter().map(|route| (route.pattern.text.as_str(), &route.value))
    }

    /// Returns the trees for a host, by precedence.
    fn trees(&self, host: Option<&[u8]>) -> impl Iterator<Item = &Node> {
        let name = host.filter(|_| !self.hosts.is_empty()).and_then(host_name);
        let of_host = name.and_then(|name| {
            let in_lower_case = || name.iter().map(u8::to_ascii_lowercase);
            let place = self.hosts.binary_search_by(|(host, _)| host.bytes().cmp(in_lower_case())).ok()?;
            Some(&self.hosts[place].1)
        });
        of_host.into_iter().chain([&self.any_host])
    }

    /// Returns the methods that have a route for this path.
    fn methods(&self, host: Option<&[u8]>, path: &[u8]) -> Methods<'_> {
        let mut methods = Vec::new();
        for tree in self.trees(host) {
            // We accept no leaf, so that it visits every one that matches the path.
            let _: Option<usize> = tree.visit(path, &mut |leaf| {
                methods.extend(leaf.0.iter().filter_map(|(method, _)| method.as_deref()));
                None
            });
        }
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.sort_unstable();
        methods.dedup();
        Methods(methods)
    }
}

impl Node {
    /// Returns the leaf of a pattern, and adds the nodes that lead to it.
    fn leaf(&mut self, segments: &[Segment]) -> &mut Leaf {
        match segments {
            [] => &mut self.end,
            [Segment::Literal(literal), after @ ..] => child(&mut self.literals, literal).leaf(after),
            [Segment::Capture(_), after @ ..] => self.capture.get_or_insert_default().leaf(after),
            [Segment::Slash, ..] => &mut self.slash,
            [Segment::Rest(_), ..] => &mut self.rest,
        }
    }

    /// Calls `visit` with each leaf that matches the path, the most specific first, until it returns a route.
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

    /// Returns the node below a percent-encoded segment.
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
    /// Returns the route for a method: its own, or that for `GET` if it is `HEAD`, or that for every method.
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
        self.0.iter().copied()
    }
}

impl fmt::Display for Methods<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, method) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(formatter, "{separator}{method}")?;
        }
        Ok(())
    }
}

/// Returns the node of a key in a sorted list, and adds it if it isn't there.
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

/// Returns the host of an authority, without its port and without a final dot.
fn host_name(authority: &[u8]) -> Option<&[u8]> {
    let host = match authority {
        [b'[', ..] => &authority[..=authority.iter().position(|byte| *byte == b']')?],
        _ => authority.split(|byte| *byte == b':').next()?,
    };
    Some(host.strip_suffix(b".").unwrap_or(host))
}

/// Returns `true` if a path has no empty segment before its end, no `.` or `..`, and only valid escapes.
fn is_clean(path: &[u8]) -> bool {
    let Some(path) = path.strip_prefix(b"/") else { return false };
    let mut segments = path.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        let is_dots = || Decoded::new(segment).eq(*b".") || Decoded::new(segment).eq(*b"..");
        if (segment.is_empty() && !is_last) || is_dots() {
            return false;
        }
    }
    percent::invalid_escape(path).is_none()
}

#[cfg(test)]
mod tests;
