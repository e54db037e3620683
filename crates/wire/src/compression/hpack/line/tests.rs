//! Tests for lines that are encoded in advance.

use super::*;

#[test]
fn static_entries_are_not_encoded_again() {
    let whole = encode_line(3, ":status", b"200");
    assert_eq!(
        (whole.id, whole.static_index, whole.size, whole.literal.as_slice()),
        (NO_LINE_ID, 8, 0, b"".as_slice())
    );
    let named = encode_line(3, "content-encoding", b"br");
    assert_eq!((named.id, named.static_index, named.size), (3, 26, 50));
    assert_eq!(named.literal, b"\x02br");
    let unknown = encode_line(3, "x-a", b"");
    assert_eq!((unknown.id, unknown.static_index, unknown.size), (3, 0, 35));
    assert_eq!(unknown.literal, b"\x03x-a\0");
}

#[test]
fn line_larger_than_the_table_has_no_id() {
    assert_eq!(encode_line(3, "date", &[b'x'; 4060]).id, 3);
    assert_eq!(encode_line(3, "date", &[b'x'; 4061]).id, NO_LINE_ID);
    assert_eq!(encode_line(3, "date", &[b'x'; 70_000]).size, u16::MAX);
}

#[test]
fn encoded_runs_match_the_text() {
    let head = NewHead {
        status: 404,
        sends_etag: false,
        overrides: 0,
        status_line: b"HTTP/1.1 404 Not Found\r\n".to_vec(),
        content_type: b"Content-Type: a/b\r\n".to_vec(),
        representation: Vec::new(),
        resource: b"Vary: Accept-Encoding\r\nX-A: b: c\r\n".to_vec(),
        hpack: Default::default(),
        qpack: Default::default(),
    };

    let mut numbered = Vec::new();
    let runs = encode_head(&head, |name, value| {
        numbered.push(format!("{name}={}", String::from_utf8_lossy(value)));
        7
    });

    assert_eq!(numbered, [":status=404", "content-type=a/b", "vary=Accept-Encoding", "x-a=b: c"]);
    assert_eq!(runs[0], [encode_line(7, ":status", b"404")]);
    assert_eq!(runs[1], [encode_line(7, "content-type", b"a/b")]);
    assert!(runs[2].is_empty());
    assert_eq!(runs[3], [encode_line(7, "vary", b"Accept-Encoding"), encode_line(7, "x-a", b"b: c")]);
}
