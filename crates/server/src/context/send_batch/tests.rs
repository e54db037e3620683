//! Unit tests of send batches.

use super::*;

#[test]
fn responses_come_out_in_order_with_their_bytes() {
    let mut batch = SendBatch::new();
    let tokens = [1, 2].map(|slot| Token { slot, generation: 7 });
    let body = Some(Body { archive: 3, extent: Extent { position: 5, length: 7 } });
    let responses = [(tokens[0], b"first".as_slice(), None), (tokens[1], b"and second", body)];
    for (token, inline, body) in responses {
        batch.push(inline);
        if let Some(body) = body {
            batch.push_body(body);
        }
        batch.complete(token);
        assert!(!batch.is_full());
    }

    batch.push(b"of a connection that panicked");
    batch.push_body(Body { archive: 9, extent: Extent { position: 1, length: 1 } });
    batch.drop_incomplete();
    for (token, inline, body) in responses {
        let (popped, range) = batch.pop().unwrap();
        assert_eq!((popped, batch.bytes(range)), (token, inline));
        assert_eq!(batch.pop_body(), body);
        assert!(!batch.is_empty());
    }
    assert_eq!((batch.pop(), batch.pop_body()), (None, None));
    assert!(batch.is_empty());

    batch.push(b"third");
    batch.complete(tokens[0]);
    assert_eq!((batch.pop(), batch.pop_body()), (Some((tokens[0], 0..5)), None));
}

#[test]
fn batch_is_bounded() {
    let token = Token { slot: 0, generation: 0 };
    let mut batch = SendBatch::new();
    for count in 1..=RESPONSES_MAX {
        batch.complete(token);
        assert_eq!(batch.is_full(), count == RESPONSES_MAX);
    }

    let mut batch = SendBatch::new();
    while !batch.is_full() {
        batch.push(&[0; INLINE_BYTES_MAX]);
        batch.complete(token);
    }
    assert!((BATCH_BYTES_MAX - INLINE_BYTES_MAX..=BATCH_BYTES_MAX).contains(&batch.bytes.len()));

    assert!(SendBatch::fits(1) && SendBatch::fits(INLINE_BYTES_MAX));
    assert!(!SendBatch::fits(0) && !SendBatch::fits(INLINE_BYTES_MAX + 1));
}
