//! Arbitrary bytes as an archive, and as a path. Neither may panic, and results keep their invariants.

use cannery_archive::{Archive, Key, KeyBuffer, Pieces, Record, ScopeEntry};

/// Opens arbitrary bytes as an archive and calls every function of it.
pub fn archive_open(data: &[u8]) {
    let Ok(archive) = Archive::from_bytes(data.to_vec()) else { return };
    let mut buffer = KeyBuffer::new();
    for target in ["/", "/page", "/docs/", "/docs/a/b.html"] {
        let Ok(key) = Key::from_target(target.as_bytes(), &mut buffer) else { panic!("{target} is a path") };
        for host in [None, Some(b"example.com".as_slice())] {
            for record in
                [archive.path(host, key), archive.directory(host, key)].into_iter().flatten().flatten()
            {
                check_record(&archive, record);
            }

            for (covered, scope) in archive.scopes(host, key).flatten() {
                assert!(covered <= key.bytes().len(), "a scope covers a part of the path");
                for entry in scope.entries().flatten() {
                    match entry {
                        ScopeEntry::Fallback { record, .. } | ScopeEntry::ErrorPage { record, .. } => {
                            check_record(&archive, record);
                        }
                        ScopeEntry::Rule(rule) => {
                            check_pieces(rule.pattern);
                            check_record(&archive, rule.record);
                        }
                        ScopeEntry::HeaderRule(rule) => check_pieces(rule.pattern),
                    }
                }
            }
        }
    }

    for entry in archive.entries().flatten() {
        let _ = (archive.decode_path(&entry).is_ok(), archive.decode_scope(&entry).is_ok());
    }
    let _ = (archive.manifest().is_ok(), archive.verify(|_| {}).is_ok());
}

fn check_record(archive: &Archive, record: Record<'_>) {
    match record {
        Record::Resource(resource) => {
            for representation in resource.representations().flatten() {
                if let Ok(head) = archive.head(representation.head) {
                    let bytes = archive.bytes().len();
                    assert!(head.hpack.all().count() <= bytes, "each line takes at least a byte");
                    assert!(head.qpack().all().count() <= bytes, "each line takes at least a byte");
                }
                if let Ok(body) = archive.body(representation.body) {
                    assert_eq!(body.len() as u64, representation.body.length);
                }
            }
        }
        Record::Redirect(redirect) => check_pieces(redirect.target),
        Record::Rewrite(rewrite) => check_pieces(rewrite.path),
    }
}

/// Asserts that an iterator over pieces ends.
fn check_pieces(pieces: Pieces<'_>) {
    assert!(pieces.count() <= 1 << 20, "pieces end");
}

/// Makes a key of arbitrary bytes. The key is normalized, and its percent-encoded form parses to the same key.
pub fn key(data: &[u8]) {
    let mut buffer = KeyBuffer::new();
    let Ok(key) = Key::from_target(data, &mut buffer) else { return };
    let bytes = key.bytes();
    assert!(bytes.starts_with(b"/") && !bytes.windows(2).any(|pair| pair == b"//"), "{bytes:?}");
    assert!(
        !bytes[1..].split(|byte| *byte == b'/').any(|segment| segment == b"." || segment == b".."),
        "{bytes:?}"
    );

    let encoded: Vec<u8> = key.percent_encode().flat_map(|piece| piece.bytes().to_vec()).collect();
    let mut again = KeyBuffer::new();
    if let Ok(key) = Key::from_target(&encoded, &mut again) {
        assert_eq!(key.bytes(), bytes);
    }
}
