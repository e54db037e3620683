//! Unit tests of certificate selection by name.

use super::*;

fn names(all: &[&str]) -> Names {
    let mut names = Names::default();
    for (place, name) in all.iter().enumerate() {
        names.add(name, place);
    }
    names
}

#[test]
fn an_exact_name_comes_before_a_wildcard() {
    let names = names(&["*.example.com", "www.example.com"]);
    assert_eq!(names.find("www.example.com"), [1]);
    assert_eq!(names.find("other.example.com"), [0]);
}

#[test]
fn a_wildcard_stands_for_one_label() {
    let names = names(&["*.example.com"]);
    assert_eq!(names.find("a.example.com"), [0]);
    for name in ["a.b.example.com", "example.com", "xexample.com", "example.org", "com", ""] {
        assert!(names.find(name).is_empty(), "{name}");
    }
}

#[test]
fn names_of_certificates_match_in_any_case() {
    assert_eq!(names(&["WWW.Example.COM"]).find("www.example.com"), [0]);
}

#[test]
fn a_name_has_all_its_certificates_in_order_and_once() {
    let names = names(&["a.example", "b.example", "a.example"]);
    assert_eq!(names.find("a.example"), [0, 2]);
    let mut twice = Names::default();
    twice.add("a.example", 0);
    twice.add("A.example", 0);
    assert_eq!(twice.find("a.example"), [0]);
}
