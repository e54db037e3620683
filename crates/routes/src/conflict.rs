//! Decides which of two patterns is more specific, and finds conflicts.

use std::fmt;

use crate::pattern::{Pattern, Segment};
use crate::percent;

/// Some request matches two patterns, and neither is more specific.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    new: String,
    old: String,
    /// Method and path of a request that matches both.
    example: (String, String),
    /// Why neither is more specific.
    cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Both match the same requests.
    Same,
    /// Each of them matches paths that the other one does not.
    Paths,
    /// The new pattern matches fewer methods but more paths.
    NewHasFewerMethods,
    /// The old pattern matches fewer methods but more paths.
    OldHasFewerMethods,
}

/// Whether each of two patterns matches something that the other one does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Excess {
    left: bool,
    right: bool,
}

impl Excess {
    const LEFT: Excess = Excess { left: true, right: false };
    const RIGHT: Excess = Excess { left: false, right: true };
    const NEITHER: Excess = Excess { left: false, right: false };

    /// Combines two parts of the patterns, for example method and path.
    fn and(self, other: Excess) -> Excess {
        Excess { left: self.left || other.left, right: self.right || other.right }
    }
}

impl Conflict {
    /// Returns the conflict between two patterns, if any.
    pub(crate) fn between(new: &Pattern, old: &Pattern) -> Option<Conflict> {
        // A pattern with a host takes precedence over one without, and two different hosts cannot have a
        // request in common.
        if new.host != old.host {
            return None;
        }

        let methods = method_excess(new.method.as_deref(), old.method.as_deref())?;
        let paths = path_excess(&new.segments, &old.segments)?;
        let cause = match (methods.and(paths), paths) {
            (Excess { left: false, right: false }, _) => Cause::Same,
            (Excess { left, right }, _) if left != right => return None,
            (_, Excess { left: true, right: true }) => Cause::Paths,
            (_, Excess { left: true, .. }) => Cause::NewHasFewerMethods,
            _ => Cause::OldHasFewerMethods,
        };

        let method = common_method(new.method.as_deref(), old.method.as_deref());
        Some(Conflict {
            new: new.text.clone(),
            old: old.text.clone(),
            example: (method.to_owned(), common_path(&new.segments, &old.segments)),
            cause,
        })
    }

    /// Returns method and path of a request that matches both patterns.
    #[must_use]
    pub fn example(&self) -> (&str, &str) {
        (&self.example.0, &self.example.1)
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conflict { new, old, example: (method, path), cause } = self;
        write!(formatter, "route `{new}` conflicts with `{old}`: both match {method} {path}, and ")?;

        match cause {
            Cause::Same => write!(formatter, "all requests that either matches; remove one of them"),
            Cause::Paths => {
                write!(formatter, "each matches paths that the other doesn't; make one more specific")
            }
            Cause::NewHasFewerMethods => {
                write!(
                    formatter,
                    "the former has fewer methods, the latter fewer paths; add a method to `{old}`"
                )
            }
            Cause::OldHasFewerMethods => {
                write!(
                    formatter,
                    "the former has fewer paths, the latter fewer methods; add a method to `{new}`"
                )
            }
        }
    }
}

impl std::error::Error for Conflict {}

/// Compares methods. Returns `None` if no method matches both.
fn method_excess(left: Option<&str>, right: Option<&str>) -> Option<Excess> {
    match (left, right) {
        _ if left == right => Some(Excess::NEITHER),
        (None, _) | (Some("GET"), Some("HEAD")) => Some(Excess::LEFT),
        (_, None) | (Some("HEAD"), Some("GET")) => Some(Excess::RIGHT),
        _ => None,
    }
}

/// Compares paths. Returns `None` if no path matches both.
fn path_excess(left: &[Segment], right: &[Segment]) -> Option<Excess> {
    let mut total = Excess::NEITHER;
    for (left_segment, right_segment) in left.iter().zip(right) {
        let excess = match (left_segment, right_segment) {
            (Segment::Rest(_), Segment::Rest(_)) => Excess::NEITHER,
            // Whatever follows in the other pattern is more specific too.
            (Segment::Rest(_), _) => return Some(total.and(Excess::LEFT)),
            (_, Segment::Rest(_)) => return Some(total.and(Excess::RIGHT)),
            (Segment::Slash, Segment::Slash) | (Segment::Capture(_), Segment::Capture(_)) => Excess::NEITHER,
            (Segment::Slash, _) | (_, Segment::Slash) => return None,
            (Segment::Capture(_), Segment::Literal(_)) => Excess::LEFT,
            (Segment::Literal(_), Segment::Capture(_)) => Excess::RIGHT,
            (Segment::Literal(left), Segment::Literal(right)) if left == right => Excess::NEITHER,
            (Segment::Literal(_), Segment::Literal(_)) => return None,
        };
        total = total.and(excess);
    }
    (left.len() == right.len()).then_some(total)
}

/// Returns a method that matches both. There must be one.
fn common_method<'a>(left: Option<&'a str>, right: Option<&'a str>) -> &'a str {
    match (left, right) {
        (Some("GET"), Some(method)) | (Some(method), _) | (None, Some(method)) => method,
        (None, None) => "GET",
    }
}

/// Returns a path that matches both. There must be one.
fn common_path(left: &[Segment], right: &[Segment]) -> String {
    let mut path = String::new();
    for at in 0..left.len().max(right.len()) {
        let segment = match (left.get(at), right.get(at)) {
            (None | Some(Segment::Rest(_)), Some(segment)) => segment,
            (Some(Segment::Capture(_)), Some(segment @ Segment::Literal(_))) => segment,
            (Some(segment), _) => segment,
            (None, None) => break,
        };

        path.push('/');
        match segment {
            Segment::Literal(literal) => percent::encode_segment(literal, &mut path),
            Segment::Capture(name) => percent::encode_segment(name.as_bytes(), &mut path),
            Segment::Slash | Segment::Rest(_) => {}
        }
    }
    path
}

#[cfg(test)]
mod tests;
