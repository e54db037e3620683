//! Folder listings, as HTML pages for people and JSON for programs.
//!
//! Listings only depend on names, sizes and, if the build stores them, modification times, so they are the same on every
//! machine. The page does not load anything else. Rows are sorted by name, unless people use a short inline script to sort them
//! differently.

mod add;
mod rendered;

pub(crate) use add::add;
pub(crate) use rendered::Listings;

use std::fmt::Write;

use cannery_base::date::format_rfc3339;
use serde::Serialize;

use crate::rulefiles::percent::{is_unreserved, percent_encode};

/// An entry in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name without `/`.
    pub name: Vec<u8>,
    /// Folder or file.
    pub kind: EntryKind,
    /// Modification time in seconds since 1970. This is `None` for folders, and in listings without times.
    pub modified: Option<u64>,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder. Links to it end with `/`.
    Folder,
    /// A file.
    File {
        /// Uncompressed length in bytes.
        size: u64,
    },
}

/// A folder listing, in which folders come before files.
///
/// Both are sorted by name, byte by byte.
#[derive(Clone, Debug)]
pub struct Listing {
    path: Vec<u8>,
    entries: Vec<Entry>,
    /// Whether any entry has a modification time. If so, we need a column for it.
    is_dated: bool,
}

impl Listing {
    /// Creates the listing for the folder at `path`. The path should be relative to the site's root and must not begin or end
    /// with `/`. For the root itself, it is empty.
    pub fn new(path: &[u8], mut entries: Vec<Entry>) -> Listing {
        entries.sort_by(|a, b| (!a.is_folder(), &a.name).cmp(&(!b.is_folder(), &b.name)));
        let is_dated = entries.iter().any(|entry| entry.modified.is_some());
        Listing { path: path.to_vec(), entries, is_dated }
    }

    /// Returns the page as `text/html; charset=utf-8`.
    ///
    /// Its URL must end with `/`, otherwise its links will not work.
    pub fn html(&self) -> String {
        let mut html =
            String::with_capacity(HEAD.len() + STYLE.len() + SCRIPT.len() + 500 + self.entries.len() * 200);
        let below = if self.path.is_empty() { "" } else { "/" };
        let title = escaped(&format!("Index of /{}{below}", shown(&self.path)));
        html.push_str(HEAD);
        push(&mut html, format_args!("<title>{title}</title>\n{STYLE}</head>\n<body>\n<main>\n"));
        self.push_heading(&mut html);
        push(&mut html, format_args!("<p>{}</p>\n", self.totals()));

        let modified = if self.is_dated { "<th scope=\"col\">Modified (UTC)</th>" } else { "" };
        html.push_str("<table>\n<thead><tr><th scope=\"col\" aria-sort=\"ascending\">Name</th>");
        push(&mut html, format_args!("<th scope=\"col\">Size</th>{modified}</tr></thead>\n"));
        if !self.path.is_empty() {
            let empty = if self.is_dated { "<td></td><td></td>" } else { "<td></td>" };
            let link = "<a href=\"../\" aria-label=\"Parent folder\">..</a>";
            push(&mut html, format_args!("<tbody><tr><td>{link}</td>{empty}</tr></tbody>\n"));
        }

        html.push_str("<tbody>\n");
        for entry in &self.entries {
            push_row(&mut html, entry, self.is_dated);
        }
        html.push_str("</tbody>\n</table>\n</main>\n");
        if !self.entries.is_empty() {
            html.push_str(SCRIPT);
        }
        html.push_str("</body>\n</html>\n");
        html
    }

    /// Renders the listing as JSON: `{"path": "/docs/", "entries": [{"name", "href", "folder", "size", "modified"}, …]}`.
    ///
    /// Only files have `size` (in bytes). `modified` is in UTC (RFC 3339), if known. Note that `name` may contain U+FFFD if
    /// a name is not UTF-8, but `href` always works.
    pub fn json(&self) -> String {
        let below = if self.path.is_empty() { "" } else { "/" };
        let entries = self.entries.iter().map(|entry| JsonEntry {
            name: String::from_utf8_lossy(&entry.name).into_owned(),
            href: entry.href(),
            folder: entry.is_folder(),
            size: match entry.kind {
                EntryKind::Folder => None,
                EntryKind::File { size } => Some(size),
            },
            modified: entry
                .modified
                .map(|seconds| String::from_utf8_lossy(&format_rfc3339(seconds)).into_owned()),
        });
        let listing = JsonListing {
            path: format!("/{}{below}", String::from_utf8_lossy(&self.path)),
            entries: entries.collect(),
        };

        // Serializing strings and numbers cannot fail.
        serde_json::to_string(&listing).unwrap_or_default() + "\n"
    }

    /// Appends the path as a heading with links to all parent folders.
    fn push_heading(&self, html: &mut String) {
        let segments: Vec<&[u8]> =
            self.path.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty()).collect();
        let Some((own, above)) = segments.split_last() else {
            return html.push_str("<h1>Index of /</h1>\n");
        };

        // We use relative links because the site may be served below some path by a proxy.
        push(html, format_args!("<h1>Index of <a href=\"{}\">/</a>", "../".repeat(segments.len())));
        for (depth, segment) in (1..).zip(above) {
            let climb = "../".repeat(segments.len() - depth);
            push(html, format_args!("<a href=\"{climb}\"><bdi>{}</bdi></a>/", escaped(&shown(segment))));
        }
        push(html, format_args!("<bdi>{}</bdi>/</h1>\n", escaped(&shown(own))));
    }

    /// Returns the number of folders and files, and their total size.
    fn totals(&self) -> String {
        if self.entries.is_empty() {
            return "This folder is empty.".to_owned();
        }
        let folders = self.entries.iter().filter(|entry| entry.is_folder()).count();
        let files = self.entries.len() - folders;
        let bytes = self.entries.iter().map(|entry| match entry.kind {
            EntryKind::Folder => 0,
            EntryKind::File { size } => size,
        });

        let counted = |number: usize, noun: &str| match number {
            0 => None,
            1 => Some(format!("1 {noun}")),
            number => Some(format!("{number} {noun}s")),
        };

        let size = (files > 0).then(|| human_size(bytes.sum()));
        let parts = [counted(folders, "folder"), counted(files, "file"), size];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl Entry {
    fn is_folder(&self) -> bool {
        self.kind == EntryKind::Folder
    }

    /// Returns a relative link.
    ///
    /// It has to begin with `./`, otherwise a name such as `a:b` would be mistaken for a scheme.
    fn href(&self) -> String {
        let slash = if self.is_folder() { "/" } else { "" };
        format!("./{}{slash}", percent_encode(&self.name, is_unreserved))
    }
}

#[derive(Serialize)]
struct JsonListing {
    path: String,
    entries: Vec<JsonEntry>,
}

#[derive(Serialize)]
struct JsonEntry {
    name: String,
    href: String,
    folder: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
}

fn push_row(html: &mut String, entry: &Entry, is_dated: bool) {
    let name = escaped(&shown(&entry.name));
    let (slash, size) = match entry.kind {
        EntryKind::Folder => ("/", String::new()),
        EntryKind::File { size } => ("", format!("<data value=\"{size}\">{}</data>", human_size(size))),
    };
    // Names in right-to-left scripts, or with direction marks, would affect the text around them without `bdi`.
    let link = format!("<a href=\"{}\"><bdi>{name}</bdi>{slash}</a>", entry.href());
    push(html, format_args!("<tr><td>{link}</td><td>{size}</td>"));

    if is_dated {
        let time = entry.modified.map_or(String::new(), |seconds| {
            let timestamp = format_rfc3339(seconds);
            let timestamp = String::from_utf8_lossy(&timestamp);
            let minutes = timestamp[..16].replace('T', " ");
            format!("<time datetime=\"{timestamp}\">{minutes}</time>")
        });
        push(html, format_args!("<td>{time}</td>"));
    }

    html.push_str("</tr>\n");
}

/// Appends to a string, which never fails.
fn push(html: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = html.write_fmt(text);
}

/// Converts a name for display.
///
/// Invalid UTF-8 is replaced with U+FFFD, as are control characters, because these are not allowed in HTML.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name)
        .chars()
        .map(|character| if character.is_control() { '\u{fffd}' } else { character })
        .collect()
}

/// Escapes text for use in an element or a double-quoted attribute.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

/// Formats a number of bytes with three or four digits and decimal units like everywhere in Cannery: `999 B`, `1.50 kB`, `67.2 MB`.
///
/// We use integers to round the result in the same way on every machine.
#[must_use]
pub fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }

    let mut scale = 1000_u128;
    for unit in UNITS {
        // Two decimals up to 9.99, one up to 99.9, and none above. If rounding would give 1,000, then the next unit
        // is used instead.
        for (decimals, steps) in [(2, 100), (1, 10), (0, 1)] {
            let rounded = (u128::from(bytes) * steps * 2 + scale) / (scale * 2);
            if rounded < 1000 {
                let (whole, rest) = (rounded / steps, rounded % steps);
                return match decimals {
                    0 => format!("{whole} {unit}"),
                    decimals => format!("{whole}.{rest:0decimals$} {unit}"),
                };
            }
        }
        scale *= 1000;
    }

    // Unreachable because 2^64 bytes are less than 1,000 EB.
    format!("{bytes} B")
}

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<meta name=\"robots\" content=\"noindex\">
";

/// System colors adapt to the light or dark setting without extra rules.
const STYLE: &str = "<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.25rem; font-weight: 600; overflow-wrap: anywhere }
p, th { font-size: .875rem; color: color-mix(in srgb, CanvasText 75%, Canvas) }
table { width: 100%; border-collapse: collapse }
th { font-weight: 500; text-align: left }
th, td { padding: .3rem .5rem; border-bottom: 1px solid color-mix(in srgb, CanvasText 15%, Canvas) }
td:first-child { overflow-wrap: anywhere }
th:not(:first-child), td:not(:first-child) { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
tbody tr:hover { background: color-mix(in srgb, CanvasText 6%, Canvas) }
a { text-decoration: none }
a:hover, a:focus-visible { text-decoration: underline }
button { all: unset; cursor: pointer }
button:focus-visible { outline: 2px solid }
[aria-sort=ascending] button::after { content: ' \\2191' }
[aria-sort=descending] button::after { content: ' \\2193' }
@media (max-width: 32rem) { time { white-space: normal; display: inline-block; max-width: 6rem } }
</style>
";

/// Turns the column headings into sort buttons. Folders always come first.
const SCRIPT: &str = "<script>
{
  const table = document.querySelector('table'), rows = [...table.tBodies].at(-1)
  const headings = [...table.tHead.rows[0].cells]
  const isFolder = row => row.cells[0].textContent.endsWith('/')
  const collator = new Intl.Collator(undefined, { numeric: true })
  const compare = [
    (a, b) => collator.compare(a.cells[0].textContent, b.cells[0].textContent),
    (a, b) => a.cells[1].firstChild?.value - b.cells[1].firstChild?.value || 0,
    (a, b) => collator.compare(a.cells[2].firstChild?.dateTime, b.cells[2].firstChild?.dateTime),
  ]
  headings.forEach((heading, column) => {
    const button = document.createElement('button')
    button.append(...heading.childNodes)
    heading.append(button)
    button.onclick = () => {
      const sign = heading.ariaSort === 'ascending' ? -1 : 1
      headings.forEach(other => other.removeAttribute('aria-sort'))
      heading.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending')
      rows.append(...[...rows.rows].sort((a, b) =>
        isFolder(b) - isFolder(a) || sign * compare[column](a, b) || compare[0](a, b)))
    }
  })
}
</script>
";

#[cfg(test)]
mod tests;
