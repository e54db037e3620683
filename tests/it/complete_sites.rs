//! Complete sites: the Python documentation, an icon set, and a pyramid of map tiles.

use std::fs;
use std::path::{Path, PathBuf};

use cannery_testkit::tiles;

use crate::harness::{Server, compile, decode, files_below, is_slow, percent_encode, skip_outside};

/// Compiles a folder quickly and serves it.
fn serve(folder: &Path, place: &tempfile::TempDir, flags: &[&str]) -> (Server, PathBuf) {
    let archive = place.path().join("site.cdb");
    compile(folder, &archive, flags);
    (Server::start_on_all_transports(&["--archive", archive.to_str().unwrap()]), archive)
}

fn folder(variable: &str, default: &str) -> PathBuf {
    let folder = std::env::var_os(variable).map_or_else(|| PathBuf::from(default), PathBuf::from);
    assert!(folder.is_dir(), "{} is missing: `cargo xtask test` installs it", folder.display());
    folder
}

#[test]
fn python_documentation_is_served_in_every_coding() {
    if skip_outside() {
        return;
    }
    let folder = folder("CANNERY_PYTHON_DOCS", "/usr/share/doc/python3.11/html");
    let place = tempfile::tempdir().unwrap();
    let flags = ["--compress", "identity,gzip,brotli,zstd", "--compress-level", "gzip=6,brotli=4,zstd=3"];

    let (server, _) = serve(&folder, &place, &flags);
    let mut coded = 0;
    let mut pages = 0;

    for (name, path) in files_below(&folder) {
        if name.starts_with(b".") {
            continue;
        }
        let content = fs::read(path).unwrap();
        let target = format!("/{}", percent_encode(&name));
        for accept_encoding in ["identity", "gzip", "br", "zstd"] {
            let response = server.get_with_coding(&target, accept_encoding);
            let coding = response.field("Content-Encoding");
            coded += usize::from(coding.is_some());
            assert!(coding.is_none_or(|coding| coding == accept_encoding), "{target}: {coding:?}");
            assert_eq!(response.status, 200, "{target}");
            assert!(decode(coding, &response.body) == content, "{target} in {accept_encoding} differs");
        }

        if let Some(stem) = target.strip_suffix(".html") {
            pages += 1;
            assert!(server.get(stem).body == content, "{stem} differs");
            let slashed = server.get(&format!("{target}/"));
            assert_eq!((slashed.status, slashed.field("Location")), (308, Some(target.as_str())));
            if stem.ends_with("/index") {
                let folder = stem.strip_suffix("index").unwrap();
                assert!(server.get(folder).body == content, "{folder} differs");
            }
        }
    }

    assert!(coded > 1500 && pages > 400, "{coded} coded responses, {pages} pages");
}

#[test]
fn icon_set_is_served() {
    if skip_outside() {
        return;
    }
    let modules = folder("CANNERY_NPM", "target/outside/npm");
    let folder = modules.join("node_modules/@fortawesome/fontawesome-free/svgs");
    let place = tempfile::tempdir().unwrap();
    let (server, _) = serve(&folder, &place, &["--compress", "identity,gzip"]);
    let files = files_below(&folder);
    assert!(files.len() > 1500, "{} files", files.len());
    for (name, path) in files {
        let response = server.get_with_coding(&format!("/{}", percent_encode(&name)), "gzip");
        assert_eq!(response.field("Content-Type"), Some("image/svg+xml"));
        assert!(decode(response.field("Content-Encoding"), &response.body) == fs::read(path).unwrap());
    }
}

#[test]
fn tiles_are_deduplicated() {
    let slow = is_slow();
    let pyramid = tiles::Pyramid::new(if slow { 250_000 } else { 5_000 }, 1);
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("tiles");
    pyramid.write_to(&folder).unwrap();

    let (server, archive) = serve(&folder, &place, &[]);
    let files = files_below(&folder);
    let mut distinct: std::collections::HashMap<Vec<u8>, u64> = std::collections::HashMap::new();
    for (name, path) in &files {
        let content = fs::read(path).unwrap();
        distinct.entry(content).or_insert(0);
        assert!(name.ends_with(b".png"));
    }

    let bytes: u64 = distinct.keys().map(|content| content.len() as u64).sum();
    let archived = fs::metadata(archive).unwrap().len();
    let bound = bytes + 120 * files.len() as u64 + 8192;
    assert!(archived <= bound, "{archived} bytes for {} paths and {bytes} distinct bytes", files.len());

    for (name, path) in files.iter().step_by(files.len() / 1000) {
        let response = server.get(&format!("/{}", percent_encode(name)));
        assert!(response.body == fs::read(path).unwrap(), "{name:?}");
    }
}
