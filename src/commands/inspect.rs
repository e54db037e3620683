//! `cannery inspect`: prints the contents of an archive, or everything about one of its paths. The archive is never
//! written to.

use std::path::Path;

use cannery_archive::{
    Archive, Corrupt, Key, KeyBuffer, Origin, Piece, Pieces, Record, RecordKind, Redirect, Representation,
    Resource, Rewrite,
};
use serde::Serialize;

use super::archive_stats::{self, ArchiveStats};
use super::{key_display, open};
use crate::flags::tools::Inspect;
use crate::format::{Table, bytes, count, counted, percent};
use crate::output::{self, Failure, Paint, one_line};

/// Runs `cannery inspect`.
///
/// # Errors
///
/// Returns an error if the file isn't an archive or is damaged, or if it does not contain the path.
pub fn run(flags: &Inspect) -> Result<(), Failure> {
    let archive = open::open(&flags.archive)?;
    let corrupt = open::corrupt(&flags.archive);
    match &flags.path {
        Some(path) => inspect_path(flags, &archive, path),
        None if flags.list && flags.json => output::print_json(&listed(&archive).map_err(corrupt)?),
        None if flags.list => output::print_lines(list(&archive).map_err(corrupt)?),
        None => {
            let stats = archive_stats::collect(&archive).map_err(corrupt)?;
            if flags.json {
                return output::print_json(&stats);
            }
            output::print(overview(&flags.archive, &stats, Paint::for_results()))
        }
    }
}

/// Renders the statistics of an archive as tables.
fn overview(path: &Path, stats: &ArchiveStats, paint: Paint) -> String {
    let head = format!(
        "{}  {}, {}, release {}\n  digest {}\n",
        paint.strong(&path.display().to_string()),
        bytes(stats.archive_bytes),
        stats.format,
        stats.serial,
        stats.digest,
    );
    let tables = [counts(stats), bodies(stats), largest(stats)];
    let tables = tables.iter().filter(|table| !table.is_empty()).map(|table| table.render(2, paint));
    [head].into_iter().chain(tables).collect::<Vec<_>>().join("\n")
}

fn counts(stats: &ArchiveStats) -> Table {
    let mut table = Table::default();
    let hosts: Vec<_> = stats.hosts.iter().map(|host| one_line(host)).collect();
    let rows = [
        ("files", stats.paths.files, String::new()),
        ("aliases", stats.paths.aliases, "index pages, and names without suffix".to_owned()),
        ("generated", stats.paths.generated, "folder listings".to_owned()),
        ("rules", stats.paths.rules, "for one path each".to_owned()),
        ("carried", stats.paths.carried, "files of earlier releases".to_owned()),
        ("patterns", stats.pattern_rules, "rules for many paths".to_owned()),
        ("fallbacks", stats.fallback_pages, "pages for paths without a file".to_owned()),
        ("error pages", stats.error_pages, String::new()),
        ("hosts", stats.hosts.len() as u64, hosts.join(", ")),
        ("sources", stats.sources, "kept for `extract`, not served".to_owned()),
        ("heads", stats.heads, "distinct response heads".to_owned()),
    ];

    for (name, number, note) in rows {
        if number > 0 {
            table.row(name).number(count(number)).faint(note);
        }
    }
    table
}

fn bodies(stats: &ArchiveStats) -> Table {
    let mut table = Table::default();
    for coding in &stats.codings {
        table.row(coding.coding).number(count(coding.bodies)).number(bytes(coding.bytes));
    }
    if stats.padding_bytes > 0 {
        let row = table.row("padding").number("").number(bytes(stats.padding_bytes));
        row.faint("before large bodies, which are aligned to pages");
    }

    let stored: u64 = stats.codings.iter().map(|coding| coding.bytes).sum();
    let saved = stats.unshared_bytes.saturating_sub(stored);
    if saved > 0 {
        let share = percent(saved, stats.unshared_bytes);
        table
            .row("shared")
            .number("")
            .number(bytes(saved))
            .faint(format!("saved, {share}: equal bodies are stored once"));
    }
    table
}

fn largest(stats: &ArchiveStats) -> Table {
    let mut table = Table::default();
    for body in &stats.biggest {
        let paths = if body.paths > 1 { counted(body.paths, "path") } else { String::new() };
        table.row(body.path.clone()).number(bytes(body.bytes)).text(body.coding).faint(paths);
    }
    table
}

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

/// Returns a line for each path, in archive order.
pub(super) fn list(archive: &Archive) -> Result<Vec<String>, Corrupt> {
    Ok(listed(archive)?.iter().map(Listed::line).collect())
}

fn listed(archive: &Archive) -> Result<Vec<Listed>, Corrupt> {
    let mut list = Vec::new();
    for entry in archive.entries() {
        let entry = entry?;
        if let RecordKind::Path(key) = entry.kind() {
            list.push(Listed::new(archive, key, &archive.decode_path(&entry)?)?);
        }
    }
    Ok(list)
}

impl Listed {
    fn new(archive: &Archive, key: &[u8], record: &Record<'_>) -> Result<Listed, Corrupt> {
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

/// Returns the value of `Content-Type`, or `None` when the site removes this field.
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

pub(super) const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::File => "file",
        Origin::Alias => "alias",
        Origin::Generated => "generated",
        Origin::Rule => "rule",
        Origin::Carried => "carried",
    }
}

/// Returns the target of a redirect. Captures are shown as `{0}`.
pub(super) fn redirect_target(redirect: &Redirect<'_>) -> String {
    let mut text = template(redirect.target);
    if !redirect.fragment.is_empty() {
        text.push('#');
        text.push_str(&String::from_utf8_lossy(redirect.fragment));
    }
    one_line(&text)
}

/// Returns the path that a rule rewrites to. Captures are shown as `{0}`.
pub(super) fn rewrite_target(rewrite: &Rewrite<'_>) -> String {
    one_line(&template(rewrite.path))
}

/// Formats a pattern or template.
///
/// Captures are shown as `{0}`, a splat as `{0…}`.
pub(super) fn template(pieces: Pieces<'_>) -> String {
    // If we fail to decode one of the pieces, the text just ends there. `cannery verify` will
    // report this.
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
        Failure::failed(format!("{} has no path {}", flags.archive.display(), one_line(&absolute)))
            .hint("`cannery inspect --list` lists every path; `cannery explain` explains the response for any other")
    })?;

    if flags.json {
        return output::print_json(&Detailed::new(archive, key, &record).map_err(corrupt)?);
    }
    output::print(Detailed::new(archive, key, &record).map_err(corrupt)?.render(Paint::for_results()))
}

/// Everything about one path.
#[derive(Debug, Serialize)]
struct Detailed {
    #[serde(flatten)]
    listed: Listed,
    representations: Vec<DetailedRepresentation>,
}

/// One of a path's representations.
#[derive(Debug, Serialize)]
struct DetailedRepresentation {
    coding: &'static str,
    bytes: u64,
    /// File offset of the body.
    position: u64,
    etag: String,
    /// File offset of the head record.
    head_position: u64,
    head: String,
}

impl Detailed {
    fn new(archive: &Archive, key: Key<'_>, record: &Record<'_>) -> Result<Detailed, Corrupt> {
        let listed = Listed::new(archive, key.bytes(), record)?;
        let representations = match record {
            Record::Resource(resource) => {
                let details =
                    resource.representations().map(|found| DetailedRepresentation::new(archive, &found?));
                details.collect::<Result<_, _>>()?
            }
            Record::Redirect(_) | Record::Rewrite(_) => Vec::new(),
        };
        Ok(Detailed { listed, representations })
    }

    fn render(&self, paint: Paint) -> String {
        let Listed { path, origin, status, target, .. } = &self.listed;
        let target = target.as_ref().map_or(String::new(), |target| format!(" -> {target}"));
        let mut text = format!("{}  {origin}, status {status}{target}\n", paint.strong(path));
        for detail in &self.representations {
            text.push('\n');
            text.push_str(&detail.render());
        }
        text
    }
}

impl DetailedRepresentation {
    fn new(archive: &Archive, found: &Representation<'_>) -> Result<DetailedRepresentation, Corrupt> {
        let head = archive.head(found.head)?;
        archive.body(found.body)?;
        Ok(DetailedRepresentation {
            coding: found.coding.name(),
            bytes: found.body.length,
            position: found.body.position,
            etag: String::from_utf8_lossy(found.etag).into_owned(),
            head_position: found.head,
            head: String::from_utf8_lossy(head.text).into_owned(),
        })
    }

    fn render(&self) -> String {
        let lines = [
            format!("  {}: {} bytes at {}", self.coding, count(self.bytes), count(self.position)),
            format!("    entity tag \"{}\", head at {}:", self.etag, count(self.head_position)),
        ];
        let head = self.head.lines().map(|line| format!("      {}", one_line(line)));
        lines.into_iter().chain(head).map(|line| line + "\n").collect()
    }
}

#[cfg(test)]
mod tests;
