//! `cannery import`: an archive of kawipiko, which the test writes itself, becomes one of ours with the same responses.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Output;

use crate::harness::{Server, run};
use crate::random::Random;

/// Names of fields, by their numbers in kawipiko's table.
const STATUS: u32 = 0x1;
const CACHE_CONTROL: u32 = 0x18;
const CONTENT_ENCODING: u32 = 0x1d;
const CONTENT_TYPE: u32 = 0x26;
const ETAG: u32 = 0x2c;
const LOCATION: u32 = 0x3f;
const FRAME_OPTIONS: u32 = 0x72;

/// A value of kawipiko's table, or one of its own.
#[derive(Clone, Copy)]
enum Value {
    Known(u32),
    Own(&'static str),
}
use Value::{Known, Own};

const OK: (u32, Value) = (STATUS, Known(0xd));
const NOT_FOUND: (u32, Value) = (STATUS, Known(0xe));
const HTML: (u32, Value) = (CONTENT_TYPE, Known(0x11));
const TEXT: (u32, Value) = (CONTENT_TYPE, Known(0xf));
const IDENTITY: (u32, Value) = (CONTENT_ENCODING, Known(0x3));
const GZIP: (u32, Value) = (CONTENT_ENCODING, Known(0x5));
const CACHED: (u32, Value) = (CACHE_CONTROL, Known(0x1));

/// Writes archives of kawipiko, as `kawipiko-archiver` does.
#[derive(Default)]
struct Writer {
    records: Vec<(Vec<u8>, Vec<u8>)>,
    known: BTreeMap<Vec<u8>, String>,
}

impl Writer {
    fn new() -> Writer {
        let mut writer = Writer::default();
        writer.put(b"schema", b"kawipiko-2022a");
        writer
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.records.push((key.to_vec(), value.to_vec()));
    }

    /// Returns the key of a block or a body, and the value to store under it if it is new.
    fn number(&mut self, prefix: char, content: &[u8]) -> (String, bool) {
        let tagged = [&[prefix as u8], content].concat();
        if let Some(key) = self.known.get(&tagged) {
            return (key.clone(), false);
        }
        let key = format!("{prefix}{:07x}", self.known.len() + 1);
        self.known.insert(tagged, key.clone());
        (key, true)
    }

    fn add(&mut self, key: &str, fields: &[(u32, Value)], body: &[u8]) {
        let mut meta = Vec::new();
        for (name, value) in fields {
            meta.extend(format!("h{name:07x}").bytes());
            match value {
                Known(number) => meta.extend(format!("H{number:07x}").bytes()),
                Own(text) => {
                    let digits = [text.len() / 625, text.len() / 25 % 25, text.len() % 25];
                    meta.push(b'Z');
                    meta.extend(digits.map(|digit| b'a' + u8::try_from(digit).unwrap()));
                    meta.extend(text.bytes());
                }
            }
        }

        let (meta_key, is_new_meta) = self.number('m', &meta);
        let (data_key, is_new_data) = self.number('d', body);
        self.put(key.as_bytes(), format!("{meta_key}{data_key}").as_bytes());
        if is_new_meta {
            self.put(meta_key.as_bytes(), &meta);
        }
        if is_new_data {
            self.put(data_key.as_bytes(), body);
        }
    }

    /// Returns the file.
    fn finish(mut self) -> Vec<u8> {
        for index in [b"F0000001", b"L0000001", b"R0000001"] {
            self.put(index, b"/a\n");
        }

        let mut file = vec![0; 2048];
        let mut slots = vec![Vec::new(); 256];
        for (key, value) in &self.records {
            let hash = key.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33) ^ u32::from(*byte));
            slots[hash as usize & 0xff].push((hash, u32::try_from(file.len()).unwrap()));
            file.extend(u32::try_from(key.len()).unwrap().to_le_bytes());
            file.extend(u32::try_from(value.len()).unwrap().to_le_bytes());
            file.extend(key);
            file.extend(value);
        }

        for (table, entries) in slots.iter().enumerate() {
            let length = entries.len() * 2;
            let position = u32::try_from(file.len()).unwrap();
            file[table * 8..table * 8 + 4].copy_from_slice(&position.to_le_bytes());
            file[table * 8 + 4..table * 8 + 8].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
            let mut slots = vec![(0, 0); length];
            for (hash, position) in entries {
                let mut place = (hash >> 8) as usize % length;
                while slots[place] != (0, 0) {
                    place = (place + 1) % length;
                }
                slots[place] = (*hash, *position);
            }
            for (hash, position) in slots {
                file.extend(hash.to_le_bytes());
                file.extend(position.to_le_bytes());
            }
        }

        file
    }
}

/// The gzip coding of `compressed\n`.
fn gzipped() -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::best());
    let mut bytes = vec![0; 100];
    let length = compressor.gzip_compress(b"compressed\n", &mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

fn site() -> Vec<u8> {
    let mut writer = Writer::new();
    let page = [OK, CACHED, IDENTITY, HTML];
    writer.add("f:/", &page, b"home");
    writer.add("f:/about", &page, b"about");
    writer.add("f:/about.html", &page, b"about");
    writer.add("f:/docs/index.html", &[OK, IDENTITY, HTML, (ETAG, Own("abc"))], b"docs");
    writer.add("f:/docs/", &[OK, IDENTITY, HTML, (ETAG, Own("abc"))], b"docs");
    writer.add("f:/a b.txt", &[OK, IDENTITY, TEXT, (FRAME_OPTIONS, Own("deny"))], b"name with a space");
    writer.add("f:/z.txt", &[OK, CACHED, GZIP, TEXT], &gzipped());
    writer.add("f:/empty.txt", &[OK, IDENTITY, TEXT], b"");
    writer.add("f:/*", &[NOT_FOUND, CACHED, IDENTITY, HTML], b"missing");
    writer.add("f:/docs/*", &[OK, CACHED, IDENTITY, HTML], b"docs wildcard");
    let long = (CACHE_CONTROL, Own("max-age=86400"));
    writer.add("f:/app/*", &[OK, long, IDENTITY, HTML], b"app wildcard");
    writer.add("f:/gone.html", &[NOT_FOUND, long, IDENTITY, HTML], b"gone");
    let short = (CACHE_CONTROL, Own("max-age=60"));
    writer.add("f:/soon/*", &[OK, short, IDENTITY, HTML], b"soon wildcard");
    writer.add("r:/old", &[(STATUS, Own("301")), CACHED, (LOCATION, Own("/about#top"))], b"");
    writer.add("r:/docs", &[(STATUS, Own("308")), (LOCATION, Own("/docs/"))], b"");
    writer.add("r:://vhost.test/only", &[(STATUS, Own("302")), (LOCATION, Own("https://a.test/x?y=1"))], b"");
    writer.add("l:/", &[OK, IDENTITY, (CONTENT_TYPE, Known(0x14))], b"{}");
    writer.finish()
}

/// A directory with an archive of kawipiko.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(archive: &[u8]) -> Files {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("kawipiko.cdb"), archive).unwrap();
        Files { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn import(&self, flags: &[&str]) -> Output {
        let (input, output) = (self.path("kawipiko.cdb"), self.path("site.cdb"));
        let named = ["import", input.to_str().unwrap(), "-o", output.to_str().unwrap()];
        run("cannery", &[&named, flags].concat())
    }
}

#[test]
fn imported_archive_has_the_same_responses() {
    let files = Files::new(&site());
    let output = files.import(&["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["files"], &report["redirects"], &report["wildcards"]),
        (&9.into(), &3.into(), &4.into())
    );
    let lost = report["lost"].as_object().unwrap();
    let of = |words: &str| {
        let found = lost.iter().find(|(reason, _)| reason.contains(words));
        found.map(|(_, paths)| paths.to_string()).unwrap_or_default()
    };
    assert_eq!(of("ETag"), r#"["/docs/index.html","/docs/"]"#);
    assert_eq!(of("redirect, such"), r#"["/old"]"#);
    assert_eq!(of("listing"), r#"["/"]"#);
    assert_eq!(of("only identity"), r#"["/z.txt"]"#);
    assert_eq!(of("`immutable`"), r#"["/*","/docs/*","/app/*","/gone.html"]"#);
    assert_eq!(lost.len(), 5);

    let archive = files.path("site.cdb");
    assert!(run("cannery", &["verify", archive.to_str().unwrap()]).status.success());
    let server = Server::start_on_all_transports(&[archive.to_str().unwrap()]);
    for (path, status, body) in [
        ("/", 200, "home"),
        ("/about", 200, "about"),
        ("/about.html", 200, "about"),
        ("/docs/", 200, "docs"),
        ("/a%20b.txt", 200, "name with a space"),
        ("/empty.txt", 200, ""),
        ("/missing.png", 404, "missing"),
        ("/docs/a/b.css", 200, "docs wildcard"),
    ] {
        let response = server.get(path);
        assert_eq!((response.status, response.body.as_slice()), (status, body.as_bytes()), "{path}");
    }

    let home = server.get("/");
    assert_eq!(home.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(home.field("cache-control"), Some("public, immutable, max-age=3600"));
    for (path, caching) in [
        ("/missing.png", "public, max-age=3600"),
        ("/docs/a", "public, max-age=3600"),
        ("/app/a", "public, no-cache"),
        ("/gone.html", "no-store"),
        ("/soon/a", "max-age=60"),
    ] {
        assert_eq!(server.get(path).field("cache-control"), Some(caching), "{path}");
    }
    assert_eq!(server.get("/a%20b.txt").field("x-frame-options"), Some("deny"));
    let compressed = server.get_with_coding("/z.txt", "gzip");
    assert_eq!((compressed.field("content-encoding"), &compressed.body), (Some("gzip"), &gzipped()));

    let redirect = |host: &str, path: &str| {
        let response = server.request_host(host, "GET", path, "");
        (response.status, response.field("location").unwrap_or_default().to_owned())
    };
    assert_eq!(redirect("h", "/old"), (301, "/about#top".to_owned()));
    assert_eq!(redirect("h", "/docs"), (308, "/docs/".to_owned()));
    assert_eq!(redirect("vhost.test", "/only"), (302, "https://a.test/x?y=1".to_owned()));
    assert_eq!(server.request_host("vhost.test", "GET", "/", "").body, b"home");
    assert_eq!(server.get("/only").status, 404);
}

#[test]
fn import_is_deterministic_and_strict_on_request() {
    let files = Files::new(&site());
    assert_eq!(files.import(&["--strict"]).status.code(), Some(5));
    let first = fs::read(files.path("site.cdb")).unwrap();
    let output = files.import(&[]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("not kept, 2 times: an `ETag`"));
    assert!(first == fs::read(files.path("site.cdb")).unwrap());
}

#[test]
fn damaged_archive_is_refused() {
    let whole = site();
    let mut version = whole.clone();
    version[2048 + 8 + 6 + 13] = b'b';
    let mut reference = whole.clone();
    let at = whole.windows(8).position(|bytes| bytes == b"m0000001").unwrap();
    reference[at + 1] = b'1';
    let mut record = whole.clone();
    record[2048 + 4] = 200;
    let mut body = whole.clone();
    let gzipped = gzipped();
    let at = whole.windows(gzipped.len()).position(|bytes| bytes == gzipped).unwrap();
    body[at + gzipped.len() - 6] ^= 1;

    for (archive, words) in [
        (body, "a body that cannot be decoded of `/z.txt`"),
        (b"".to_vec(), "not an archive of kawipiko"),
        (vec![7; 5000], "not an archive of kawipiko"),
        (whole[..whole.len() - 1].to_vec(), "damaged archive of kawipiko"),
        ([whole.as_slice(), b"x"].concat(), "damaged archive of kawipiko: the end of the file"),
        (version, "the format `kawipiko-2022b`"),
        (reference, "the head of `/`"),
        (record, "damaged archive of kawipiko"),
    ] {
        let files = Files::new(&archive);
        fs::write(files.path("site.cdb"), "old").unwrap();
        let output = files.import(&[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert!(stderr.contains(words), "`{words}` is not in {stderr}");
        assert_eq!(fs::read(files.path("site.cdb")).unwrap(), b"old", "the old archive stays");
    }

    let files = Files::new(&whole);
    fs::remove_file(files.path("kawipiko.cdb")).unwrap();
    assert_eq!(files.import(&[]).status.code(), Some(3));
}

#[test]
fn changed_bytes_never_cause_a_panic() {
    let whole = site();
    let mut random = Random::new(20);
    let mut refused = 0;

    for _ in 0..120 {
        let mut archive = whole.clone();
        for _ in 0..=random.below(3) {
            let at = random.index(archive.len());
            archive[at] = u8::try_from(random.below(256)).unwrap();
        }
        if random.below(4) == 0 {
            archive.truncate(random.index(whole.len()));
        }

        let files = Files::new(&archive);
        let output = files.import(&[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)) && !stderr.contains("panicked"), "{stderr}");
        refused += u32::from(output.status.code() == Some(3));
        if output.status.success() {
            let archive = files.path("site.cdb");
            assert!(run("cannery", &["verify", archive.to_str().unwrap()]).status.success());
        }
    }

    assert!(refused > 60, "only {refused} were refused");
}
