//! Calls all functions of the reader. They must return, and all results must be inside the file.

use cannery_archive::{
    Archive, Candidates, Key, KeyBuffer, Pieces, Record, RecordKind, RuleFilter, Scope, ScopeEntry,
};

/// Paths to look up, including all paths and directories of the sample archive.
const TARGETS: [&str; 6] = ["/", "/page", "/shown", "/old", "/docs/", "/docs/a/b.html"];

/// Opens an archive and calls everything.
pub(crate) fn exercise(bytes: Vec<u8>) {
    let Ok(archive) = Archive::from_bytes(bytes) else { return };
    let mut buffer = KeyBuffer::new();
    for target in TARGETS {
        let key = Key::from_target(target.as_bytes(), &mut buffer).expect("the targets above are paths");
        for host in [None, Some(b"example.com".as_slice())] {
            exercise_path(&archive, host, key);
        }
    }

    let mut before = 0;
    for entry in archive.entries().flatten() {
        assert!(entry.data_position > before, "the iterator advances");
        before = entry.data_position;
        let _ = archive.entry(entry.key).is_ok();
        let _ = archive.decode_source(&entry).map(|extent| archive.body(extent).is_ok());
        match entry.kind() {
            RecordKind::Path(_) => {
                if let Ok(record) = archive.decode_path(&entry) {
                    exercise_record(&archive, record);
                }
            }
            RecordKind::Scope(_) => {
                if let Ok(scope) = archive.decode_scope(&entry) {
                    exercise_scope(&archive, scope);
                }
            }
            RecordKind::Head(_) => {
                let _ = (archive.head(entry.position).is_ok(), archive.plain_head(entry.position).is_ok());
            }
            _ => {}
        }
    }

    let _ = archive.manifest().is_ok();
    let _ = archive.verify(|_| {}).is_ok();
}

fn exercise_path(archive: &Archive, host: Option<&[u8]>, key: Key<'_>) {
    for record in [archive.path(host, key), archive.directory(host, key)].into_iter().flatten().flatten() {
        exercise_record(archive, record);
    }
    for (covered, scope) in archive.scopes(host, key).flatten() {
        assert!(covered <= key.bytes().len(), "a scope covers a part of the path");
        exercise_scope(archive, scope);
    }
}

fn exercise_scope(archive: &Archive, scope: Scope<'_>) {
    let mut candidates = Candidates::default();
    for path in ["", "x", "x/", "a/b.html", "docs/"] {
        let path_bytes = path.as_bytes();
        let _ =
            scope.first_rule(RuleFilter::Forcing, path_bytes, &mut candidates, |_| Ok(None::<()>)).is_ok();
        let _ = scope.first_rule_for_asset(path_bytes, &mut candidates, |_| Ok(None::<()>)).is_ok();
        for path in [Some(path.as_bytes()), None] {
            let _ = scope.header_rules(path, &mut candidates, |_| Ok(())).is_ok();
        }
    }

    for entry in scope.entries().flatten() {
        match entry {
            ScopeEntry::Fallback { record, .. } | ScopeEntry::ErrorPage { record, .. } => {
                exercise_record(archive, record);
            }
            ScopeEntry::Rule(rule) => {
                exhaust(archive, rule.pattern);
                exercise_record(archive, rule.record);
            }
            ScopeEntry::HeaderRule(rule) => {
                exhaust(archive, rule.pattern);
                let _ = rule.fields.count();
            }
        }
    }
}

fn exercise_record(archive: &Archive, record: Record<'_>) {
    match record {
        Record::Resource(resource) => {
            for representation in resource.representations().flatten() {
                if let Ok(head) = archive.head(representation.head) {
                    assert!(head.text.len() <= archive.bytes().len());
                    let runs =
                        [head.hpack.content_type(), head.hpack.representation(), head.hpack.resource()];
                    let lines = runs.into_iter().flatten().count() + head.hpack.lines().count();
                    assert!(lines <= archive.bytes().len(), "each line takes at least a byte");
                    for lines in [head.qpack().all(), head.qpack().lines(), head.qpack().resource()] {
                        assert!(lines.representations().len() <= archive.bytes().len());
                        assert!(lines.count() <= archive.bytes().len(), "each line takes at least a byte");
                    }
                }
                if let Ok(body) = archive.body(representation.body) {
                    assert_eq!(body.len() as u64, representation.body.length);
                }
            }
        }
        Record::Redirect(redirect) => exhaust(archive, redirect.target),
        Record::Rewrite(rewrite) => exhaust(archive, rewrite.path),
    }
}

fn exhaust(archive: &Archive, pieces: Pieces<'_>) {
    assert!(pieces.count() <= archive.bytes().len(), "each piece takes at least a byte");
}
