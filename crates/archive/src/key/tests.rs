//! Tests for normal forms and errors, with a reference implementation.

use super::*;
use proptest::prelude::*;

fn key(target: &[u8]) -> Result<Vec<u8>, PathError> {
    Key::from_target(target, &mut KeyBuffer::new()).map(|key| key.bytes().to_vec())
}

#[test]
fn equivalent_paths_have_one_key() {
    for path in [
        "/a/b.html",
        "//a/b.html",
        "/./a/b.html",
        "/a/../a/b.html",
        "/%61/b%2Ehtml",
        "/x/%2e%2E/a//./b.html",
        "/../a/b.html",
    ] {
        assert_eq!(key(path.as_bytes()).unwrap(), b"/a/b.html", "{path}");
    }
}

proptest! {
    #[test]
    fn is_plain_equals_the_bytewise_version(path in "[/.%?#!&0a\\x00-]{0,40}") {
        prop_assert_eq!(is_plain(path.as_bytes()), is_plain_bytewise(path.as_bytes()));
    }

    #[test]
    fn plain_target_equals_its_normal_form(target in "/[/.%?#!a\\x00-]{0,40}") {
        if let Some(plain) = Key::from_plain_target(target.as_bytes()) {
            let mut room = [0; KEY_BYTES_MAX];
            prop_assert_eq!(Ok(plain), normalize(target.as_bytes(), &mut room));
        }
    }
}

#[test]
fn special_bytes_are_found_at_every_position() {
    for length in 2..40 {
        for place in 1..length {
            for fault in ["//", "/.", "%", "?", "#", "\0"] {
                let mut path = vec![b'a'; length];
                path[0] = b'/';
                path.splice(place.., fault.bytes().chain([b'b'; 9])).for_each(drop);
                assert!(!is_plain(&path[..place + fault.len()]), "{fault:?} at the end, {place}");
                assert!(!is_plain(&path), "{fault:?} at {place}");
            }
        }
    }
}

#[test]
fn directories_keep_their_slash() {
    for (target, expected) in [
        ("/", "/"),
        ("/..", "/"),
        ("/.", "/"),
        ("//", "/"),
        ("/a/", "/a/"),
        ("/a/.", "/a/"),
        ("/a//", "/a/"),
        ("/a/b/..", "/a/"),
        ("/a/b/../", "/a/"),
        ("/a/b/../c", "/a/c"),
        ("/...", "/..."),
        ("/.a", "/.a"),
    ] {
        assert_eq!(key(target.as_bytes()).unwrap(), expected.as_bytes(), "{target}");
    }
}

#[test]
fn encoded_slash_is_no_separator() {
    assert_eq!(key(b"/a%2Fb").unwrap(), b"/a\0b");
    assert_eq!(key(b"/a%2f..%2fb").unwrap(), b"/a\0..\0b");
    let mut buffer = KeyBuffer::new();
    let encoded: Vec<u8> = Key::from_target(b"/a%2Fb", &mut buffer)
        .unwrap()
        .percent_encode()
        .flat_map(|piece| piece.bytes().to_vec())
        .collect();
    assert_eq!(encoded, b"/a%2Fb");
}

#[test]
fn path_is_decoded_once() {
    assert_eq!(key(b"/100%2525").unwrap(), b"/100%25");
}

#[test]
fn invalid_paths_are_refused() {
    assert_eq!(key(b""), Err(PathError::NotAbsolute));
    assert_eq!(key(b"a"), Err(PathError::NotAbsolute));
    assert_eq!(key(b"/%"), Err(PathError::Escape));
    assert_eq!(key(b"/%4"), Err(PathError::Escape));
    assert_eq!(key(b"/%4g"), Err(PathError::Escape));
    assert_eq!(key(b"/a%00b"), Err(PathError::Nul));
    assert_eq!(key(&[b"/".as_slice(), &[b'a'; KEY_BYTES_MAX]].concat()), Err(PathError::TooLong));
}

#[test]
fn longest_key_fits() {
    let longest = [b"/".as_slice(), &[b'a'; KEY_BYTES_MAX - 1]].concat();
    assert_eq!(key(&longest).unwrap(), longest);
    let long_escaped = [b"/%61".as_slice(), &[b'a'; KEY_BYTES_MAX - 4]].concat();
    assert_eq!(key(&long_escaped).unwrap().len(), KEY_BYTES_MAX - 2);
}

/// A reference implementation. It decodes, splits and joins with vectors.
fn reference_key(target: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut bytes = target.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
            let value = u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap();
            decoded.push(if value == b'/' { 0 } else { value });
        } else {
            decoded.push(byte);
        }
    }

    let mut segments: Vec<&[u8]> = Vec::new();
    let parts: Vec<&[u8]> = decoded.split(|byte| *byte == b'/').skip(1).collect();
    let is_directory = matches!(parts.last(), Some(&(b"" | b"." | b"..")));
    for part in parts {
        match part {
            b"" | b"." => {}
            b".." => drop(segments.pop()),
            part => segments.push(part),
        }
    }

    let mut path = [b"/".as_slice(), &segments.join(&b'/')].concat();
    if is_directory && !segments.is_empty() {
        path.push(b'/');
    }
    path
}

proptest! {
    #[test]
    fn key_equals_the_reference(target in "/([/.ab]|%2e|%2F|%41|\\.\\./){0,24}") {
        prop_assert_eq!(key(target.as_bytes()).unwrap(), reference_key(target.as_bytes()));
    }

    #[test]
    fn encoded_key_has_the_same_key(target in "/[ -~]{0,40}") {
        if let Ok(once) = key(target.as_bytes()) {
            let encoded: Vec<u8> = percent_encode(&once).flat_map(|piece| piece.bytes().to_vec()).collect();
            prop_assert_eq!(key(&encoded).unwrap(), once);
        }
    }

    #[test]
    fn arbitrary_bytes_are_a_key_or_refused(target in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(key) = key(&target) {
            prop_assert!(key.starts_with(b"/"));
            prop_assert!(!key.windows(2).any(|pair| pair == b"//"));
        }
    }
}
