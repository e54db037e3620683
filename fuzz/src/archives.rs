//! Arbitrary bytes as an archive, and as a path: neither may panic, and what comes out keeps its promises.

use cannery_archive::{Archive, Key, KeyBuffer, Pieces, Record, ScopeEntry};

/// Opens arbitrary bytes as an archive and asks it everything.
pub fn archive_open(data: &[u8]) {
    let Ok(archive) = Archive::from_bytes(data.to_vec()) else { return };
    let mut buffer = KeyBuffer::new();
    for target in ["/", "/page", "/docs/", "/docs/a/b.html"] {
        let Ok(key) = Key::from_target(target.as_bytes(), &mut buffer) else { panic!("{target} is a path") };
        for host in [None, Some(b"example.com".as_slice())] {
            for record in
                [archive.path(host, key), archive.directory(host, key)].into_iter().flatten().flatten()
            {
                look_into(&archive, record);
            }
            for (covered, scope) in archive.scopes(host, key).flatten() {
                assert!(covered <= key.bytes().len(), "a scope covers a part of the path");
                for entry in scope.entries().flatten() {
                    match entry {
                        ScopeEntry::Fallback { record, .. } | ScopeEntry::ErrorPage { record, .. } => {
                            look_into(&archive, record);
                        }
                        ScopeEntry::Rule(rule) => {
                            end(rule.pattern);
                            look_into(&archive, rule.record);
                        }
                        ScopeEntry::HeaderRule(rule) => end(rule.pattern),
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

fn look_into(archive: &Archive, record: Record<'_>) {
    match record {
        Record::Resource(resource) => {
            for representation in resource.representations().flatten() {
                let _ = archive.head(representation.head).is_ok();
                if let Ok(body) = archive.body(representation.body) {
                    assert_eq!(body.len() as u64, representation.body.length);
                }
            }
        }
        Record::Redirect(redirect) => end(redirect.target),
        Record::Rewrite(rewrite) => end(rewrite.path),
    }
}

fn end(pieces: Pieces<'_>) {
    assert!(pieces.count() <= 1 << 20, "pieces end");
}

/// Makes a key of arbitrary bytes: it is in normal form, and its spelling is its own key.
pub fn key(data: &[u8]) {
    let mut buffer = KeyBuffer::new();
    let Ok(key) = Key::from_target(data, &mut buffer) else { return };
    let bytes = key.bytes();
    assert!(bytes.starts_with(b"/") && !bytes.windows(2).any(|pair| pair == b"//"), "{bytes:?}");
    assert!(
        !bytes[1..].split(|byte| *byte == b'/').any(|segment| segment == b"." || segment == b".."),
        "{bytes:?}"
    );
    let spelled: Vec<u8> = key.percent_encode().flat_map(|piece| piece.bytes().to_vec()).collect();
    let mut again = KeyBuffer::new();
    if let Ok(key) = Key::from_target(&spelled, &mut again) {
        assert_eq!(key.bytes(), bytes);
    }
}
