//! Compares the router to a simple model. The set of possible requests is small, so the model can try every
//! pattern with every request.
//!
//! In the model, a pattern is a set of requests, and it is more specific than another one if it is a proper
//! subset. Two patterns conflict if they have requests in common, unless one of them is more specific.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use cannery_routes::{Lookup, RouteError, Router};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Requests can have one more method than patterns, and the same goes for segments and hosts.
const METHODS: [&str; 4] = ["GET", "HEAD", "POST", "PUT"];
const HOSTS: [&str; 3] = ["h.example", "i.example", "j.example"];
const SEGMENTS: [&str; 3] = ["a", "b", "z"];
/// The longest path has one more segment than the longest pattern.
const DEPTH: usize = 4;

#[derive(Debug, Clone, Copy)]
enum Part {
    Text(&'static str),
    Capture,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Segment,
    Exact,
    Subtree,
    Rest,
}

/// A pattern as data (the model cannot parse).
#[derive(Debug, Clone)]
struct Model {
    method: Option<&'static str>,
    host: Option<&'static str>,
    parts: Vec<Part>,
    end: End,
}

#[derive(Debug, Clone)]
struct Request {
    method: &'static str,
    host: &'static str,
    segments: Vec<&'static str>,
    ends_with_slash: bool,
}

impl Model {
    fn text(&self) -> String {
        let mut text = self.method.map_or(String::new(), |method| format!("{method} "));
        text += self.host.unwrap_or("");
        for (index, part) in self.parts.iter().enumerate() {
            text += &match part {
                Part::Text(literal) => format!("/{literal}"),
                Part::Capture => format!("/{{c{index}}}"),
            };
        }
        text + match self.end {
            End::Segment => "",
            End::Exact => "/{$}",
            End::Subtree => "/",
            End::Rest => "/{rest...}",
        }
    }

    fn matches(&self, request: &Request) -> bool {
        let method_matches = match self.method {
            None => true,
            Some("GET") => ["GET", "HEAD"].contains(&request.method),
            Some(method) => method == request.method,
        };

        let length = self.parts.len();
        let end_matches = match self.end {
            End::Segment => request.segments.len() == length && !request.ends_with_slash,
            End::Exact => request.segments.len() == length && request.ends_with_slash,
            End::Subtree | End::Rest => request.segments.len() > length || request.ends_with_slash,
        };
        let part_matches = |(part, segment): (&Part, &&str)| match part {
            Part::Text(literal) => literal == segment,
            Part::Capture => true,
        };

        method_matches
            && self.host.is_none_or(|host| host == request.host)
            && request.segments.len() >= length
            && end_matches
            && self.parts.iter().zip(&request.segments).all(part_matches)
    }

    /// Returns the indexes of all requests that the pattern matches.
    fn matched(&self, universe: &[Request]) -> BTreeSet<usize> {
        (0..universe.len()).filter(|index| self.matches(&universe[*index])).collect()
    }
}

impl Request {
    fn path(&self) -> String {
        let path: String = self.segments.iter().map(|segment| format!("/{segment}")).collect();
        path + if self.ends_with_slash { "/" } else { "" }
    }
}

/// Returns all possible requests.
fn universe() -> Vec<Request> {
    let mut paths: Vec<Vec<&'static str>> = vec![vec![]];
    let mut longest = paths.clone();
    for _ in 0..DEPTH {
        longest = longest
            .iter()
            .flat_map(|path| SEGMENTS.map(|segment| [path.as_slice(), &[segment]].concat()))
            .collect();
        paths.extend_from_slice(&longest);
    }
    let mut requests = Vec::new();
    for segments in paths {
        for (method, host) in METHODS.into_iter().flat_map(|method| HOSTS.map(|host| (method, host))) {
            requests.push(Request { method, host, segments: segments.clone(), ends_with_slash: true });
            if !segments.is_empty() {
                requests.push(Request { method, host, segments: segments.clone(), ends_with_slash: false });
            }
        }
    }
    requests
}

fn model() -> impl Strategy<Value = Model> {
    let part = prop_oneof![
        Just(Part::Text(SEGMENTS[0])),
        Just(Part::Text(SEGMENTS[1])),
        Just(Part::Capture),
        Just(Part::Capture)
    ];
    let method = option::weighted(0.6, select(&METHODS[..3]));
    let host = option::weighted(0.3, select(&HOSTS[..2]));
    let end = select(&[End::Segment, End::Segment, End::Exact, End::Subtree, End::Rest][..]);
    (method, host, vec(part, 0..DEPTH), end).prop_map(|(method, host, parts, end)| {
        // If there are no parts, the path is just `/`.
        let end = if parts.is_empty() && matches!(end, End::Segment) { End::Exact } else { end };
        Model { method, host, parts, end }
    })
}

/// Computes the result that we expect for a request, which can be a pattern, a list of methods, or
/// neither.
fn expected(models: &[(Model, BTreeSet<usize>)], universe: &[Request], index: usize) -> Option<String> {
    let request = &universe[index];
    let matching: Vec<_> = models.iter().filter(|(_, matched)| matched.contains(&index)).collect();
    let with_host = matching.iter().any(|(model, _)| model.host.is_some());
    let candidates = matching.iter().filter(|(model, _)| model.host.is_some() == with_host);
    if let Some((model, _)) = candidates.min_by_key(|(_, matched)| matched.len()) {
        return Some(model.text());
    }
    let methods: Vec<_> = METHODS
        .into_iter()
        .filter(|method| {
            models.iter().any(|(model, _)| model.matches(&Request { method, ..request.clone() }))
        })
        .collect();
    (!methods.is_empty()).then(|| format!("({})", methods.join(", ")))
}

/// Percent-encodes all bytes of a path that have their bit set. Slashes stay.
fn encode(path: &str, mut bits: u64) -> String {
    path.chars()
        .map(|character| {
            bits = bits.rotate_right(1);
            if character != '/' && bits & 1 == 1 {
                format!("%{:02x}", u32::from(character))
            } else {
                character.into()
            }
        })
        .collect()
}

fn result(lookup: Lookup<'_, '_, String>) -> Option<String> {
    match lookup {
        Lookup::Found(found) => Some(found.value.clone()),
        Lookup::OtherMethods(methods) => Some(format!("({methods})")),
        Lookup::Missing => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn router_agrees_with_the_model(models in vec(model(), 1..8), bits: u64) {
        let universe = universe();
        let mut router = Router::default();
        let mut added: Vec<(Model, BTreeSet<usize>)> = Vec::new();
        for model in models {
            let matched = model.matched(&universe);
            let conflicts = added.iter().any(|(other, others)| {
                let is_nested = matched.is_subset(others) != others.is_subset(&matched);
                other.host == model.host && !is_nested && !matched.is_disjoint(others)
            });
            match router.add(&model.text(), model.text()) {
                Ok(()) => prop_assert!(!conflicts, "no conflict found for {}", model.text()),
                Err(RouteError::Conflict(conflict)) => {
                    prop_assert!(conflicts, "{conflict}");
                    continue;
                }
                Err(error) => prop_assert!(false, "{error}"),
            }
            added.push((model, matched));
        }

        for (index, request) in universe.iter().enumerate() {
            let path = encode(&request.path(), bits);
            let lookup = router.find(request.method.as_bytes(), Some(request.host.as_bytes()), path.as_bytes());
            prop_assert_eq!(result(lookup), expected(&added, &universe, index), "{:?}", request);
        }
    }

    #[test]
    fn conflict_has_an_example_that_both_match(left in model(), right in model()) {
        let mut router = Router::default();
        router.add(&left.text(), ()).unwrap();
        if let Err(RouteError::Conflict(conflict)) = router.add(&right.text(), ()) {
            let (method, path) = conflict.example();
            for model in [&left, &right] {
                let mut alone = Router::default();
                alone.add(&model.text(), ()).unwrap();
                let host = model.host.map(str::as_bytes);
                let lookup = alone.find(method.as_bytes(), host, path.as_bytes());
                prop_assert!(matches!(lookup, Lookup::Found(_)), "{conflict}");
            }
        }
    }

    #[test]
    fn no_request_panics(method: Vec<u8>, host: Option<Vec<u8>>, path in vec(path_byte(), 0..40)) {
        let mut router = Router::default();
        for pattern in ["/", "/{a}/{$}", "/{a}/{b}/c", "/a/{b}/c/{rest...}", "a/", "[::1]/"] {
            router.add(pattern, ()).unwrap();
        }
        if let Lookup::Found(found) = router.find(&method, host.as_deref(), &path) {
            found.captures.iter().for_each(drop);
        }
    }

    #[test]
    fn no_pattern_panics(text in r"[GET ]{0,5}[a:.\[\]]{0,4}(/[a{}.$%2Fé]{0,5}){0,4}", any: String) {
        let mut router = Router::default();
        for pattern in [text, any] {
            if let Err(error) = router.add(&pattern, ()) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}

/// Any byte, but mostly those that matter.
fn path_byte() -> impl Strategy<Value = u8> {
    prop_oneof![4 => select(&b"//a.%2e"[..]), 1 => any::<u8>()]
}
