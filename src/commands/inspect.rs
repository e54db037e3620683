//! `cannery inspect`: what is in an archive, or all about one of its paths.
//!
//! Never changes or repairs anything.

use std::path::Path;

use cannery_archive::{
    Archive, Corrupt, Key, KeyBuffer, Origin, Piece, Pieces, Record, RecordKind, Redirect, Representation,
    Resource, Rewrite,
};
use serde::Serialize;

use super::{archive_stats, key_display, open};
use crate::flags::tools::Inspect;
use crate::format::{Table, bytes, count, counted, percent};
use crate::output::{self, Failure, Paint, one_line};

/// Runs what the command line asked for.
///
/// # Errors
/// The archive is damaged or none, or it has no such path.
pub fn run(flags: &Inspect) -> Result<(), Failure> {
    let archive = open::open(&flags.archive)?;
    let corrupt = open::corrupt(&flags.archive);
    match &flags.path {
        Some(path) => inspect_path(flags, &archive, path),
        None if flags.list && flags.json => output::print_json(&listed(&archive).map_err(corrupt)?),
        None if flags.list => output::print_lines(list(&archive).map_err(corrupt)?),
        None => {
            let census = archive_stats::take(&archive).map_err(corrupt)?;
            if flags.json {
                return output::print_json(&census);
            }
            output::print(overview(&flags.archive, &census, Paint::for_results()))
        }
    }
}

/// What is in the archive, for a person.
fn overview(path: &Path, census: &archive_stats::ArchiveStats, paint: Paint) -> String {
    let head = format!(
        "{}  {}, {}, release {}\n  digest {}\n",
        paint.strong(&path.display().to_string()),
        bytes(census.archive_bytes),
        census.format,
        census.serial,
        census.digest,
    );
    let tables = [counts(census), bodies(census), biggest(census)];
    let tables = tables.iter().filter(|table| !table.is_empty()).map(|table| table.print(2, paint));
    [head].into_iter().chain(tables).collect::<Vec<_>>().join("\n")
}

fn counts(census: &archive_stats::ArchiveStats) -> Table {
    let mut table = Table::default();
    let hosts: Vec<_> = census.hosts.iter().map(|host| one_line(host)).collect();
    let rows = [
        ("files", census.paths.files, String::new()),
        ("aliases", census.paths.aliases, "index pages, and names without suffix".to_owned()),
        ("generated", census.paths.generated, "folder listings".to_owned()),
        ("rules", census.paths.rules, "for one path each".to_owned()),
        ("carried", census.paths.carried, "files of earlier releases".to_owned()),
        ("patterns", census.pattern_rules, "rules for many paths".to_owned()),
        ("fallbacks", census.fallback_pages, "pages for what finds nothing better".to_owned()),
        ("error pages", census.error_pages, String::new()),
        ("hosts", census.hosts.len() as u64, hosts.join(", ")),
        ("sources", census.sources, "kept for `extract`, not served".to_owned()),
        ("heads", census.heads, "distinct response heads".to_owned()),
    ];
    for (name, number, note) in rows {
        if number > 0 {
            table.row(name).number(count(number)).faint(note);
        }
    }
    table
}

fn bodies(census: &archive_stats::ArchiveStats) -> Table {
    let mut table = Table::default();
    for coding in &census.codings {
        table.row(coding.coding).number(count(coding.bodies)).number(bytes(coding.bytes));
    }
    if census.padding_bytes > 0 {
        let row = table.row("padding").number("").number(bytes(census.padding_bytes));
        row.faint("before large bodies, which begin with a page");
    }
    let stored: u64 = census.codings.iter().map(|coding| coding.bytes).sum();
    let saved = census.unshared_bytes.saturating_sub(stored);
    if saved > 0 {
        let share = percent(saved, census.unshared_bytes);
        table
            .row("shared")
            .number("")
            .number(bytes(saved))
            .faint(format!("saved, {share}: equal bytes lie there once"));
    }
    table
}

fn biggest(census: &archive_stats::ArchiveStats) -> Table {
    let mut table = Table::default();
    for body in &census.biggest {
        let paths = if body.paths > 1 { counted(body.paths, "path") } else { String::new() };
        table.row(body.path.clone()).number(bytes(body.bytes)).words(body.coding).faint(paths);
    }
    table
}

/// A path in a list.
#[derive(Debug, Serialize)]
struct Listed {
    path: String,
    origin: &'static str,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    codings: Vec<(&'static str, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

/// Every path on a line of its own, in the order of the archive.
pub(super) fn list(archive: &Archive) -> Result<Vec<String>, Corrupt> {
    Ok(listed(archive)?.iter().map(Listed::line).collect())
}

fn listed(archive: &Archive) -> Result<Vec<Listed>, Corrupt> {
    let mut list = Vec::new();
    for entry in archive.entries() {
        let entry = entry?;
        if let RecordKind::Path(key) = entry.kind() {
            list.push(Listed::of(archive, key, &archive.decode_path(&entry)?)?);
        }
    }
    Ok(list)
}

impl Listed {
    fn of(archive: &Archive, key: &[u8], record: &Record<'_>) -> Result<Listed, Corrupt> {
        let path = key_display::display(key);
        Ok(match record {
            Record::Resource(resource) => Listed {
                path,
                origin: origin(resource.origin),
                status: resource.status,
                media_type: media_type(archive, resource)?,
                codings: codings(resource)?,
                target: None,
            },
            Record::Redirect(redirect) => {
                let target = Some(redirect_target(redirect));
                Listed {
                    path,
                    origin: "rule",
                    status: redirect.status,
                    media_type: None,
                    codings: Vec::new(),
                    target,
                }
            }
            Record::Rewrite(rewrite) => {
                let target = Some(rewrite_target(rewrite));
                Listed {
                    path,
                    origin: "rule",
                    status: rewrite.status,
                    media_type: None,
                    codings: Vec::new(),
                    target,
                }
            }
        })
    }

    fn line(&self) -> String {
        let forms: Vec<_> = self.codings.iter().map(|(name, length)| format!("{name} {length}")).collect();
        let forms = self.media_type.iter().cloned().chain(forms).collect::<Vec<_>>().join(", ");
        let answer = self.target.as_ref().map_or(forms, |target| format!("-> {target}"));
        format!("{}  {:<9}  {}  {answer}", self.status, self.origin, self.path)
    }
}

/// The value of `Content-Type`. `None` if the site has removed it.
fn media_type(archive: &Archive, resource: &Resource<'_>) -> Result<Option<String>, Corrupt> {
    let Some(form) = resource.representations().next() else { return Ok(None) };
    let head = archive.head(form?.head)?;
    let value = head.content_type().strip_prefix(b"Content-Type: ").map(<[u8]>::trim_ascii);
    Ok(value.map(|value| one_line(&String::from_utf8_lossy(value))))
}

fn codings(resource: &Resource<'_>) -> Result<Vec<(&'static str, u64)>, Corrupt> {
    resource
        .representations()
        .map(|found| found.map(|found| (found.coding.name(), found.body.length)))
        .collect()
}

/// The word for where a path comes from.
pub(super) const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::File => "file",
        Origin::Alias => "alias",
        Origin::Generated => "generated",
        Origin::Rule => "rule",
        Origin::Carried => "carried",
    }
}

/// The target of a redirect, with its captures as `{0}`.
pub(super) fn redirect_target(redirect: &Redirect<'_>) -> String {
    let mut text = template(redirect.target);
    if !redirect.fragment.is_empty() {
        text.push('#');
        text.push_str(&String::from_utf8_lossy(redirect.fragment));
    }
    one_line(&text)
}

/// The path that a rule answers from, with its captures as `{0}`.
pub(super) fn rewrite_target(rewrite: &Rewrite<'_>) -> String {
    one_line(&template(rewrite.path))
}

/// A pattern or a template: captures are `{0}`, a splat is `{0…}`.
pub(super) fn template(pieces: Pieces<'_>) -> String {
    // What cannot be decoded ends the text; `verify` tells of it.
    let pieces = pieces.map_while(Result::ok).map(|piece| match piece {
        Piece::Literal(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Piece::Capture(number) => format!("{{{number}}}"),
        Piece::Splat(number) => format!("{{{number}…}}"),
    });
    pieces.collect()
}

fn inspect_path(flags: &Inspect, archive: &Archive, path: &str) -> Result<(), Failure> {
    let absolute = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut buffer = KeyBuffer::new();
    let key = Key::from_target(absolute.as_bytes(), &mut buffer);
    let key = key.map_err(|error| Failure::usage(format!("{}: {error}", one_line(path))))?;
    let corrupt = open::corrupt(&flags.archive);
    let host = flags.host.as_ref().map(String::as_bytes);
    let record = archive.path(host, key).map_err(&corrupt)?.ok_or_else(|| {
        Failure::failed(format!("{}: no path {}", flags.archive.display(), one_line(&absolute)))
            .hint("`cannery inspect --list` lists every path; `cannery explain` says what answers any other")
    })?;
    if flags.json {
        return output::print_json(&Detailed::of(archive, key, &record).map_err(corrupt)?);
    }
    output::print(Detailed::of(archive, key, &record).map_err(corrupt)?.shown(Paint::for_results()))
}

/// All about one path.
#[derive(Debug, Serialize)]
struct Detailed {
    #[serde(flatten)]
    listed: Listed,
    representations: Vec<Detail>,
}

/// One form of a path's content.
#[derive(Debug, Serialize)]
struct Detail {
    coding: &'static str,
    bytes: u64,
    /// Where the body's first byte stands in the file.
    position: u64,
    etag: String,
    /// Where the head's record stands in the file.
    head_position: u64,
    head: String,
}

impl Detailed {
    fn of(archive: &Archive, key: Key<'_>, record: &Record<'_>) -> Result<Detailed, Corrupt> {
        let listed = Listed::of(archive, key.bytes(), record)?;
        let representations = match record {
            Record::Resource(resource) => {
                let details = resource.representations().map(|found| Detail::of(archive, &found?));
                details.collect::<Result<_, _>>()?
            }
            Record::Redirect(_) | Record::Rewrite(_) => Vec::new(),
        };
        Ok(Detailed { listed, representations })
    }

    fn shown(&self, paint: Paint) -> String {
        let Listed { path, origin, status, target, .. } = &self.listed;
        let target = target.as_ref().map_or(String::new(), |target| format!(" -> {target}"));
        let mut text = format!("{}  {origin}, status {status}{target}\n", paint.strong(path));
        for detail in &self.representations {
            text.push('\n');
            text.push_str(&detail.shown());
        }
        text
    }
}

impl Detail {
    fn of(archive: &Archive, found: &Representation<'_>) -> Result<Detail, Corrupt> {
        let head = archive.head(found.head)?;
        archive.body(found.body)?;
        Ok(Detail {
            coding: found.coding.name(),
            bytes: found.body.length,
            position: found.body.position,
            etag: String::from_utf8_lossy(found.etag).into_owned(),
            head_position: found.head,
            head: String::from_utf8_lossy(head.text).into_owned(),
        })
    }

    fn shown(&self) -> String {
        let lines = [
            format!("  {}: {} bytes at {}", self.coding, count(self.bytes), count(self.position)),
            format!("    entity tag \"{}\", head at {}:", self.etag, count(self.head_position)),
        ];
        let head = self.head.lines().map(|line| format!("      {}", one_line(line)));
        lines.into_iter().chain(head).map(|line| line + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::sample::Sample;

    #[test]
    fn a_list_has_a_line_for_each_path() {
        let sample = Sample::write();
        let lines = list(&sample.open()).unwrap();
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[0], "200  file       /index.html  text/html, identity 34");
        assert!(lines.contains(&"302  rule       /go  -> https://example.com/".to_owned()), "{lines:#?}");
        assert!(
            lines.iter().any(|line| line.contains("/a/coded%20only.txt  text/plain, gzip ")),
            "{lines:#?}"
        );
    }

    #[test]
    fn an_overview_names_what_there_is_and_nothing_else() {
        let sample = Sample::write();
        let text = overview(&sample.archive, &archive_stats::take(&sample.open()).unwrap(), Paint::none());
        for words in
            ["cdb, release 0\n", "files        4", "hosts        1  h.test", "patterns     1", "shared"]
        {
            assert!(text.contains(words), "{words} is missing:\n{text}");
        }
        assert!(!text.contains("fallbacks"), "{text}");
    }

    #[test]
    fn one_path_is_shown_in_full() {
        let sample = Sample::write();
        let archive = sample.open();
        let mut buffer = KeyBuffer::new();
        let key = Key::from_target(b"/a/coded%20only.txt", &mut buffer).unwrap();
        let record = archive.path(None, key).unwrap().unwrap();
        let text = Detailed::of(&archive, key, &record).unwrap().shown(Paint::none());
        assert!(text.starts_with("/a/coded%20only.txt  file, status 200\n"), "{text}");
        assert!(text.contains("      Content-Encoding: gzip\n"), "{text}");
    }

    #[test]
    fn a_path_that_is_not_there_is_an_error_with_a_hint() {
        let sample = Sample::write();
        let flags = |path: &str| Inspect {
            archive: sample.archive.clone(),
            path: Some(path.into()),
            host: None,
            list: false,
            json: false,
        };
        assert!(matches!(run(&flags("/missing")), Err(Failure::Message { hint: Some(_), .. })));
        assert!(matches!(run(&flags("/%zz")), Err(Failure::Message { exit: output::Exit::Usage, .. })));
    }
}
