//! Test harness. This compiles a folder literal and allows us to look up responses.
//!
//! We open archives with the usual reader and decode every body, so that we can compare them with the source
//! files.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cannery_archive::{
    Archive, Coding, Key, KeyBuffer, Loading, Origin, Piece, Record, RecordKind, Resource, ScopeEntry,
};
use cannery_archiver::{Encoder, Error, LinkCheck, Options, Report, compile};
use tempfile::TempDir;

/// A source folder, and where to put the archive.
pub(crate) struct Site {
    pub(crate) options: Options,
    folder: TempDir,
}

impl Site {
    /// Creates a folder with these files. Contents are stored uncompressed by default.
    pub(crate) fn new(files: &[(&str, &str)]) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::new(folder.path().join("site"), folder.path().join("site.cdb"));
        options.encoders = [Encoder::Identity].into();
        options.allow_empty = true;
        // Links and redirects in most tests lead to paths without a file.
        options.check_links = LinkCheck::Off;
        fs::create_dir(folder.path().join("site")).unwrap();
        let site = Site { options, folder };
        for (path, content) in files {
            site.write(path, content);
        }
        site
    }

    /// Writes a file in the folder.
    pub(crate) fn write(&self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) {
        let path = self.source(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Returns the path to a source file.
    pub(crate) fn source(&self, path: impl AsRef<[u8]>) -> PathBuf {
        self.options.sources.join(OsStr::from_bytes(path.as_ref()))
    }

    /// Returns a path next to the source folder.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Lists the names next to the source folder, sorted.
    pub(crate) fn names_beside(&self) -> Vec<String> {
        names(self.folder.path())
    }

    /// Runs a build.
    pub(crate) fn try_build(&self) -> Result<Report, Error> {
        compile(&self.options, &())
    }

    /// Runs a build, then verifies and opens the archive.
    pub(crate) fn build(&self) -> Built {
        let report = self.try_build().unwrap();
        let archive = Archive::open(&self.options.archive, Loading::InMemory).unwrap();
        archive.verify(|_| ()).unwrap();
        Built { report, archive }
    }

    /// Reads the archive.
    pub(crate) fn archive_bytes(&self) -> Vec<u8> {
        fs::read(&self.options.archive).unwrap()
    }
}

/// Lists the names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A new archive with its report.
pub(crate) struct Built {
    pub(crate) report: Report,
    pub(crate) archive: Archive,
}

/// A path's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Page(Page),
    /// Status and target, including `?query` and `#fragment`.
    Redirect(u16, String),
    /// Status and path.
    Rewrite(u16, String),
}

/// A resource with the head of the smallest form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) origin: Origin,
    /// Decoded.
    pub(crate) body: Vec<u8>,
    /// Smallest first.
    pub(crate) forms: Vec<FormOf>,
}

/// One form of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FormOf {
    pub(crate) coding: Coding,
    pub(crate) etag: String,
    pub(crate) head: String,
    pub(crate) sends_etag: bool,
    pub(crate) overrides: u8,
    pub(crate) stored: Vec<u8>,
}

impl Page {
    /// Returns a field's value in the smallest form.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.forms[0].field(name)
    }

    /// Returns the content as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Returns the codings. The smallest form comes first.
    pub(crate) fn codings(&self) -> Vec<Coding> {
        self.forms.iter().map(|form| form.coding).collect()
    }
}

impl FormOf {
    /// Returns a field's value.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// An entry in a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Below {
    Fallback(String, Page),
    ErrorPage(u16, Page),
    /// Ordinal, force, pattern and response. Captures in the pattern are `{n}` or `{n*}`.
    Rule(u32, bool, String, Answer),
}

impl Built {
    /// Returns the record for a percent-decoded path in the default site.
    pub(crate) fn answer(&self, path: impl AsRef<[u8]>) -> Option<Answer> {
        self.answer_on(None, path)
    }

    /// Returns the record for a path on a host.
    pub(crate) fn answer_on(&self, host: Option<&str>, path: impl AsRef<[u8]>) -> Option<Answer> {
        let mut buffer = KeyBuffer::new();
        let key = Key::from_file(path.as_ref().strip_prefix(b"/").unwrap(), &mut buffer).unwrap();
        let record = self.archive.path(host.map(str::as_bytes), key).unwrap()?;
        Some(self.decode(record))
    }

    /// Returns the page for a path in the default site.
    pub(crate) fn page(&self, path: impl AsRef<[u8]>) -> Page {
        self.page_on(None, path)
    }

    /// Returns the page for a path on a host.
    pub(crate) fn page_on(&self, host: Option<&str>, path: impl AsRef<[u8]>) -> Page {
        let shown = String::from_utf8_lossy(path.as_ref()).into_owned();
        match self.answer_on(host, path) {
            Some(Answer::Page(page)) => page,
            other => panic!("no page at {shown}: {other:?}"),
        }
    }

    /// Returns a folder's scope, if there is one. The path must end with `/`.
    pub(crate) fn below(&self, host: Option<&str>, folder: &str) -> Option<Vec<Below>> {
        let mut buffer = KeyBuffer::new();
        let key = Key::from_file(&folder.as_bytes()[1..], &mut buffer).unwrap();
        let host = host.map(str::as_bytes);
        let scopes: Vec<_> = self.archive.scopes(host, key).map(|scope| scope.unwrap()).collect();
        let (_, scope) = scopes.into_iter().find(|(covered, _)| *covered == folder.len())?;
        let is_answer = |entry: &ScopeEntry<'_>| !matches!(entry, ScopeEntry::HeaderRule(_));
        let entry = |entry| match entry {
            ScopeEntry::HeaderRule(_) => unreachable!("left out before"),
            ScopeEntry::Fallback { suffix, record } => {
                Below::Fallback(String::from_utf8(suffix.to_vec()).unwrap(), self.decode_page(record))
            }
            ScopeEntry::ErrorPage { status, record } => Below::ErrorPage(status, self.decode_page(record)),
            ScopeEntry::Rule(rule) => {
                Below::Rule(rule.ordinal, rule.force, rendered(rule.pattern), self.decode(rule.record))
            }
        };
        Some(scope.entries().map(Result::unwrap).filter(is_answer).map(entry).collect())
    }

    /// Whether a host has its own site, or `None` when the archive does not know the host.
    pub(crate) fn has_own_site(&self, host: &str) -> Option<bool> {
        let mut scopes = self.archive.scopes(Some(host.as_bytes()), Key::ROOT);
        scopes.next().map(|scope| scope.unwrap().1.own_site)
    }

    /// Returns the hidden files together with their bytes.
    pub(crate) fn kept(&self) -> Vec<(String, String)> {
        let entries = self.archive.entries().map(|entry| entry.unwrap());
        let kept = entries.filter_map(|entry| match entry.kind() {
            RecordKind::Source(path) => {
                let body = self.archive.body(self.archive.decode_source(&entry).unwrap()).unwrap();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                Some((text(path), text(body)))
            }
            _ => None,
        });
        let mut kept: Vec<_> = kept.collect();
        kept.sort();
        kept
    }

    /// Returns all bodies in the archive.
    pub(crate) fn bodies(&self) -> Vec<Vec<u8>> {
        let entries = self.archive.entries().map(|entry| entry.unwrap());
        let bodies = entries.filter(|entry| matches!(entry.kind(), RecordKind::Body(_)));
        bodies.map(|entry| entry.data.to_vec()).collect()
    }

    /// Returns the sorted diagnostics as `file:line: code`, or `file: code` if there's no line.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let remark = |diagnostic: &cannery_archiver::diagnostic::Diagnostic| match diagnostic.line {
            Some(line) => format!("{}:{line}: {}", diagnostic.file, diagnostic.code),
            None => format!("{}: {}", diagnostic.file, diagnostic.code),
        };
        let mut remarks: Vec<String> = self.report.diagnostics.iter().map(remark).collect();
        remarks.sort();
        remarks
    }

    fn decode(&self, record: Record<'_>) -> Answer {
        match record {
            Record::Resource(resource) => Answer::Page(self.decode_resource(resource)),
            Record::Redirect(redirect) => {
                let mut target = rendered(redirect.target);
                assert_eq!(redirect.has_query, target.contains('?'), "{target}");
                if !redirect.fragment.is_empty() {
                    target += &format!("#{}", std::str::from_utf8(redirect.fragment).unwrap());
                }
                Answer::Redirect(redirect.status, target)
            }
            Record::Rewrite(rewrite) => Answer::Rewrite(rewrite.status, rendered(rewrite.path)),
        }
    }

    fn decode_page(&self, record: Record<'_>) -> Page {
        match self.decode(record) {
            Answer::Page(page) => page,
            other => panic!("{other:?} is no page"),
        }
    }

    fn decode_resource(&self, resource: Resource<'_>) -> Page {
        let mut forms = Vec::new();
        let mut bodies = Vec::new();

        for representation in resource.representations() {
            let representation = representation.unwrap();
            let head = self.archive.head(representation.head).unwrap();
            assert_eq!(head.status, resource.status, "the head belongs to another status");
            let stored = self.archive.body(representation.body).unwrap();
            bodies.push(decoded(representation.coding, stored));
            forms.push(FormOf {
                coding: representation.coding,
                etag: String::from_utf8(representation.etag.to_vec()).unwrap(),
                head: String::from_utf8(head.text.to_vec()).unwrap(),
                sends_etag: head.sends_etag,
                overrides: head.overrides,
                stored: stored.to_vec(),
            });
        }

        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "the forms are of different contents");
        assert!(forms.is_sorted_by_key(|form| form.stored.len()), "the smallest form does not come first");
        Page { status: resource.status, origin: resource.origin, body: bodies.remove(0), forms }
    }
}

fn rendered<'a, E: std::fmt::Debug>(pieces: impl IntoIterator<Item = Result<Piece<'a>, E>>) -> String {
    let piece = |piece| match piece {
        Piece::Literal(literal) => String::from_utf8_lossy(literal).into_owned(),
        Piece::Capture(number) => format!("{{{number}}}"),
        Piece::Splat(number) => format!("{{{number}*}}"),
    };
    pieces.into_iter().map(|inner| piece(inner.unwrap())).collect()
}

/// Decodes a body like a client does.
fn decoded(coding: Coding, stored: &[u8]) -> Vec<u8> {
    match coding {
        Coding::Identity => stored.to_vec(),
        Coding::Gzip => {
            // The content's length is in the last four bytes (RFC 1952 §2.3.1).
            let length = u32::from_le_bytes(*stored.last_chunk().unwrap());
            let mut content = vec![0; length as usize];
            let written = libdeflater::Decompressor::new().gzip_decompress(stored, &mut content).unwrap();
            assert_eq!(written, content.len());
            content
        }
        Coding::Brotli => {
            let mut content = Vec::new();
            brotli::Decompressor::new(stored, 4096).read_to_end(&mut content).unwrap();
            content
        }
        Coding::Zstd => {
            let length = zstd_safe::get_frame_content_size(stored).unwrap().unwrap();
            let mut content = Vec::with_capacity(usize::try_from(length).unwrap());
            zstd_safe::decompress(&mut content, stored).unwrap();
            content
        }
    }
}
