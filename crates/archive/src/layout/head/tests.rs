//! Checks that heads can be decoded after encoding.

use super::*;

#[test]
fn encoded_head_is_decoded() {
    let line = NewHpackLine { id: 3, static_index: 59, size: 51, literal: b"\x0fAccept-Encoding".to_vec() };
    let representation = b"\x5f\x2c\x0fAccept-Encoding".to_vec();
    let qpack_line = NewQpackLine { id: 3, size: 51, representation };
    let new = NewHead {
        status: 200,
        sends_etag: true,
        overrides: 5,
        status_line: b"HTTP/1.1 200 OK\r\n".to_vec(),
        content_type: b"Content-Type: text/html\r\n".to_vec(),
        representation: b"Content-Encoding: br\r\n".to_vec(),
        resource: b"Vary: Accept-Encoding\r\n".to_vec(),
        hpack: [vec![], vec![], vec![], vec![line]],
        qpack: [vec![], vec![], vec![], vec![qpack_line]],
    };

    let bytes = new.encode().unwrap();
    let head = Head::decode(&bytes, 0).unwrap();

    assert_eq!((head.status, head.sends_etag, head.overrides), (200, true, 5));
    assert_eq!(head.content_type(), b"Content-Type: text/html\r\n");
    assert_eq!(head.representation(), b"Content-Encoding: br\r\n");
    assert_eq!(head.resource(), b"Vary: Accept-Encoding\r\n");
    assert_eq!(head.text, [head.status_line(), head.lines()].concat());
    assert_eq!(head.hpack.resource().collect::<Vec<_>>(), [new.hpack[3][0].as_line()]);
    assert!(head.hpack.is_valid());
    assert_eq!(head.qpack().all().collect::<Vec<_>>(), [new.qpack[3][0].as_line()]);
    assert!(head.qpack().is_valid());
    assert!(head.lines().ends_with(b"Content-Encoding: br\r\nVary: Accept-Encoding\r\n"));
}

#[test]
fn truncated_head_is_corrupt() {
    let new = NewHead {
        status: 404,
        sends_etag: false,
        overrides: 0,
        status_line: b"HTTP/1.1 404 Not Found\r\n".to_vec(),
        content_type: Vec::new(),
        representation: Vec::new(),
        resource: b"Cache-Control: no-store\r\n".to_vec(),
        hpack: Default::default(),
        qpack: Default::default(),
    };
    let bytes = new.encode().unwrap();
    for length in 0..bytes.len() {
        let head = Head::decode(&bytes[..length], 9);
        assert!(
            head.is_err() || head.is_ok_and(|head| !head.hpack.is_valid() || !head.qpack().is_valid()),
            "truncated to {length} bytes"
        );
    }
}
