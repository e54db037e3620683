//! Unit tests of the index of certificates by name.

use super::*;

fn index(names: &[&str]) -> NameIndex {
    let mut index = NameIndex::default();
    for (position, name) in names.iter().enumerate() {
        index.add(name, position);
    }
    index
}

#[test]
fn exact_name_precedes_wildcard() {
    let index = index(&["*.example.com", "www.example.com"]);
    assert_eq!(index.find("www.example.com"), [1]);
    assert_eq!(index.find("other.example.com"), [0]);
}

#[test]
fn wildcard_matches_one_label() {
    let index = index(&["*.example.com"]);
    assert_eq!(index.find("a.example.com"), [0]);
    for name in ["a.b.example.com", "example.com", "xexample.com", "example.org", "com", ""] {
        assert!(index.find(name).is_empty(), "{name}");
    }
}

#[test]
fn certificate_names_match_in_any_case() {
    assert_eq!(index(&["WWW.Example.COM"]).find("www.example.com"), [0]);
}

#[test]
fn certificates_of_a_name_are_in_order_and_unique() {
    let names = index(&["a.example", "b.example", "a.example"]);
    assert_eq!(names.find("a.example"), [0, 2]);
    let mut repeated = NameIndex::default();
    repeated.add("a.example", 0);
    repeated.add("A.example", 0);
    assert_eq!(repeated.find("a.example"), [0]);
}
