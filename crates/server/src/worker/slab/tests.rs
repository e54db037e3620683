//! Unit tests of the slab.

use super::*;

fn insert(slab: &mut Slab<char>, value: char) -> Token {
    slab.insert(|_| Ok::<_, ()>(value)).unwrap()
}

#[test]
fn token_of_removed_value_finds_none() {
    let mut slab = Slab::new();
    let first = insert(&mut slab, 'a');
    slab.remove(first);
    let second = insert(&mut slab, 'b');
    assert_eq!(first.slot, second.slot, "the slot is reused");
    assert_eq!(slab.get_mut(first), None);
    slab.remove(first);
    assert_eq!(slab.get_mut(second), Some(&mut 'b'));
}

#[test]
fn failed_insert_takes_no_slot() {
    let mut slab = Slab::<char>::new();
    assert_eq!(slab.insert(|_| Err("no")), Err("no"));
    assert_eq!(slab.len(), 0);
    let token = insert(&mut slab, 'a');
    assert_eq!((token.slot, slab.len()), (0, 1));
}

#[test]
fn search_continues_after_a_match() {
    let mut slab = Slab::new();
    let tokens = ['a', 'x', 'b', 'x'].map(|value| insert(&mut slab, value));
    slab.remove(tokens[1]);
    let find = |slab: &Slab<char>, slot| slab.find_from(slot, |value| *value == 'x');
    assert_eq!(find(&slab, 0), Some(tokens[3]));
    assert_eq!(find(&slab, 4), None);
    assert_eq!(find(&slab, u32::MAX), None);
}

#[test]
fn last_freed_slot_is_reused_first() {
    let mut slab = Slab::new();
    let tokens = ['a', 'b', 'c'].map(|value| insert(&mut slab, value));
    slab.remove(tokens[0]);
    slab.remove(tokens[2]);
    assert_eq!(tokens.map(|token| slab.get_mut(token).copied()), [None, Some('b'), None]);
    assert_eq!(['d', 'e', 'f'].map(|value| insert(&mut slab, value).slot), [2, 0, 3]);
}
