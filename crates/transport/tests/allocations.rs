//! Tests that an established session does not allocate in order to open a request or seal a
//! response, whether small or large.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::io::{IoSlice, Write};
use std::sync::Arc;

use cannery_transport::{HandshakePermit, SelfSigned};
use support::{Pair, VERSIONS, client_config, context, settings};

#[test]
fn requests_and_responses_allocate_nothing() {
    let context = context(settings(SelfSigned::Ecdsa));
    for version in VERSIONS {
        let mut pair = Pair::connected(&context, &Arc::new(client_config(version, &["h2"])));
        let mut requests: Vec<Vec<u8>> = Vec::new();
        for _ in 0..100 {
            let mut request = Vec::new();
            pair.client.writer().write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            pair.client.write_tls(&mut request).unwrap();
            requests.push(request);
        }

        let head = [b'h'; 200];
        let small = [b's'; 500];
        let large = vec![b'l'; 89_700];
        let mut plain = Vec::with_capacity(1024);
        let mut sealed = Vec::with_capacity(128 * 1024);

        let counted = allocation_counter::measure(|| {
            for (number, request) in requests.iter_mut().enumerate() {
                plain.clear();
                sealed.clear();
                pair.session.open(request, &mut plain, &mut sealed, HandshakePermit::Granted).unwrap();
                let body = if number % 2 == 0 { &small[..] } else { &large };
                pair.session.seal(&[IoSlice::new(&head), IoSlice::new(body)], &mut sealed).unwrap();
            }
        });

        assert_eq!(counted.count_total, 0, "{version:?}");
        assert!(plain.starts_with(b"GET / ") && sealed.len() > large.len(), "{version:?}");
    }
}
