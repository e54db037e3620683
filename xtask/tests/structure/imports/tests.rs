//! Unit tests of import cycles, and of imports of modules listed earlier.

use super::*;

fn sources(files: &[(&str, &str)]) -> Vec<Source> {
    files
        .iter()
        .map(|(path, code)| Source { path: format!("src/{path}"), text: String::new(), code: (*code).into() })
        .collect()
}

fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
    cycles("src", &sources(files)).iter().map(|cycle| cycle.join(" -> ")).collect()
}

#[test]
fn mutual_imports_are_a_cycle() {
    let files =
        [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::Thing;"), ("b.rs", "fn f() { super::a::g() }")];
    assert_eq!(cycles_of(&files), ["a -> b -> a"]);
}

#[test]
fn cycle_through_groups_and_reexports_is_found() {
    let files = [
        ("lib.rs", "pub use b::{Other, Thing};"),
        ("a.rs", "use crate::{e::X, Thing};"),
        ("b.rs", "use crate::c::d;"),
        ("c/mod.rs", ""),
        ("c/d.rs", "use super::super::a;"),
        ("e.rs", "use crate::c;"),
    ];
    assert_eq!(cycles_of(&files), ["a -> b -> c -> a"]);
}

#[test]
fn parents_children_and_tests_form_no_cycle() {
    let files = [
        ("lib.rs", "pub use h1::Parser;"),
        ("h1/mod.rs", "pub use parse::Parser; use self::body::Body;"),
        ("h1/parse.rs", "use super::State; use super::body::Body;"),
        ("h1/body.rs", "use crate::limits; #[cfg(test)] mod tests { use crate::h1::parse; }"),
        ("limits.rs", ""),
    ];
    assert_eq!(cycles_of(&files), Vec::<String>::new());
}

#[test]
fn imports_of_modules_listed_earlier_are_found() {
    let files = [
        ("lib.rs", "mod whole; #[cfg(test)] mod net; pub mod part; pub(crate) mod ground;"),
        ("whole.rs", "use crate::part;"),
        ("net.rs", "use crate::whole;"),
        ("part.rs", "#[cfg(test)] mod tests; use crate::{ground::Thing, whole::Other};"),
        ("part/tests.rs", "use crate::net;"),
        ("ground.rs", "#[cfg(test)] mod tests { use crate::part; } fn f() { super::part::g() }"),
    ];
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    assert_eq!(
        against_order("src", "src/lib.rs", &sources(&files)),
        [pair("ground", "part"), pair("part", "whole")]
    );
}

#[test]
fn order_of_rooms_within_a_room_is_held() {
    let files = [
        ("lib.rs", "mod h2; mod frame; mod connection;"),
        ("h2.rs", "mod connection; mod frame; use connection::Connection;"),
        ("h2/connection.rs", "use super::frame;"),
        ("h2/frame.rs", "use super::connection::Connection; use crate::frame;"),
    ];
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let found = against_order("src", "src/h2.rs", &sources(&files));
    assert_eq!(found, [pair("h2::frame", "h2::connection")]);
}
