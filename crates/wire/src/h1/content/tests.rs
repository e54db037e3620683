//! Tests for content we discard.

use super::*;
use crate::limits::CONTENT_SKIPPED_BYTES_MAX;

/// Reads `input` in pieces of `piece` bytes. Returns the length of the content and whether it has ended.
fn skip(input: &[u8], piece: usize) -> Result<(usize, bool), Unreadable> {
    let mut content = Content::new(Framing::Chunked, CONTENT_SKIPPED_BYTES_MAX).unwrap();
    let mut skipped = 0;
    for bytes in input.chunks(piece) {
        skipped += content.skip(bytes)?;
        if content.is_done() {
            break;
        }
    }
    Ok((skipped, content.is_done()))
}

#[test]
fn chunks_are_skipped_at_any_split() {
    for body in [
        "0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "a;name=\"value\"\r\n0123456789\r\n00\r\n\r\n",
        "1\r\nx\r\n0\r\nTrailer: va:lue\r\nOther:\r\n\r\n",
        "0000000000000005\r\nhello\r\n0\r\n\r\n",
        "1F\r\nGET / HTTP/1.1\r\nHost: inner\r\n\r\n\r\n0\r\n\r\n",
    ] {
        let input = format!("{body}GET / HTTP/1.1\r\n");
        for piece in 1..=input.len() {
            assert_eq!(skip(input.as_bytes(), piece), Ok((body.len(), true)), "{body:?} by {piece}");
        }
    }
}

#[test]
fn invalid_chunks_are_refused() {
    let long = "x".repeat(usize::from(CHUNK_LINE_BYTES_MAX) + 1);
    for body in [
        "\r\n\r\n",
        ";\r\n",
        "g\r\n",
        "0x5\r\nhello\r\n",
        "+5\r\nhello\r\n",
        " 5\r\nhello\r\n",
        "5 \r\nhello\r\n",
        "5\nhello\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello!\n0\r\n\r\n",
        "5\r\nhello\n\n0\r\n\r\n",
        "5;a\nb\r\nhello\r\n",
        "5;a\rb\r\nhello\r\n",
        "0\r\n\n",
        "0\r\na: \rb\r\n\r\n",
        "123456789\r\n",
        "ffffffff\r\n",
        "ffffffffffffffff\r\n",
        "10000000000000000\r\n",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        &format!("5;{long}\r\n"),
        &format!("0\r\n{long}: a\r\n"),
        &format!("0\r\na: {long}\r\n"),
        "0\r\nno colon\r\n\r\n",
        "0\r\nname\r\n\r\n",
        "0\r\n: no name\r\n\r\n",
        "0\r\na : space before the colon\r\n\r\n",
        "0\r\na: b\r\n folded\r\n\r\n",
        "0\r\na: b\0\r\n\r\n",
    ] {
        let input = format!("{body}{}", "y".repeat(100_000));
        for piece in [1, 7, input.len()] {
            assert_eq!(skip(input.as_bytes(), piece), Err(Unreadable), "{body:?} by {piece}");
        }
    }
}

#[test]
fn content_is_bounded() {
    let chunk = format!("400\r\n{}\r\n", "z".repeat(1024));
    assert_eq!(skip(chunk.repeat(64).as_bytes(), 1000), Err(Unreadable));
    assert_eq!(Content::new(Framing::Length(CONTENT_SKIPPED_BYTES_MAX + 1), CONTENT_SKIPPED_BYTES_MAX), None);
}

#[test]
fn chunks_may_be_longer_than_32_bits() {
    let size = (1_u64 << 32) + 16;
    let mut content = Content::new(Framing::Chunked, u64::MAX).unwrap();
    let head = format!("{size:x}\r\n");
    assert_eq!(content.skip(head.as_bytes()), Ok(head.len()));
    let block = vec![b'x'; 1 << 20];
    let mut read = 0;
    for _ in 0..1 << 12 {
        assert_eq!(content.read(&block, |bytes| read += bytes.len() as u64), Ok(block.len()));
    }
    let rest = b"0123456789abcdef\r\n0\r\n\r\nGET";
    let used = content.read(rest, |bytes| read += bytes.len() as u64).unwrap();
    assert_eq!((read, used, content.is_done()), (size, rest.len() - 3, true));
}

#[test]
fn content_is_read_without_its_framing_at_any_split() {
    for (framing, body, content) in [
        (Framing::Length(5), "hello", "hello"),
        (Framing::Chunked, "5;a=b\r\nhello\r\n2\r\n, \r\n1\r\nx\r\n0\r\nTrailer: x\r\n\r\n", "hello, x"),
    ] {
        let input = format!("{body}GET / HTTP/1.1\r\n");
        for piece in 1..=input.len() {
            let mut reading = Content::new(framing, 1000).unwrap();
            let mut read = Vec::new();
            let mut used = 0;
            for bytes in input.as_bytes().chunks(piece) {
                used += reading.read(bytes, |data| read.extend_from_slice(data)).unwrap();
                if reading.is_done() {
                    break;
                }
            }
            assert_eq!((used, read.as_slice()), (body.len(), content.as_bytes()), "{body:?} by {piece}");
        }
    }
}
