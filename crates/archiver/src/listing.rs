//! A folder's contents as a page for people and as JSON for programs.
//!
//! Both are functions of the names and sizes alone: no dates, no order but that of the bytes, so
//! the same folder gives the same listing on every machine. The page is complete in itself: no
//! script, no image, no request to anywhere. This file never reads a folder.

use std::fmt::Write;

use serde::Serialize;

use crate::percent::{is_unreserved, percent_encode};

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name's bytes, without any `/`.
    pub name: Vec<u8>,
    /// What it stands for.
    pub kind: EntryKind,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder; it is linked with a `/` behind its name.
    Folder,
    /// A file.
    File {
        /// Its length in bytes, before any coding.
        size: u64,
    },
}

/// The listing of one folder: folders first, then files, each sorted by the bytes of the name.
#[derive(Clone, Debug)]
pub struct Listing {
    path: Vec<u8>,
    entries: Vec<Entry>,
}

impl Listing {
    /// Lists the folder at `path`, relative to the site's root, without `/` at either end, and
    /// empty for the root itself.
    pub fn new(path: &[u8], mut entries: Vec<Entry>) -> Listing {
        entries.sort_by(|a, b| (!a.is_folder(), &a.name).cmp(&(!b.is_folder(), &b.name)));
        Listing { path: path.to_vec(), entries }
    }

    /// The page, to be served as `text/html; charset=utf-8` at the folder's path with a `/`
    /// behind it, on which its links depend.
    pub fn html(&self) -> String {
        let mut html = String::with_capacity(1500 + self.entries.len() * 120);
        let title = format!("/{}", shown(&self.path));
        html.push_str(HEAD);
        push(&mut html, format_args!("<title>{}</title>\n{STYLE}</head>\n<body>\n", escaped(&title)));
        self.push_breadcrumb(&mut html);
        html.push_str("<table>\n<thead><tr><th scope=\"col\">Name</th><th scope=\"col\">Size</th></tr></thead>\n<tbody>\n");
        for entry in &self.entries {
            push_row(&mut html, entry);
        }
        if self.entries.is_empty() {
            html.push_str("<tr><td colspan=\"2\">This folder is empty.</td></tr>\n");
        }
        html.push_str("</tbody>\n</table>\n</body>\n</html>\n");
        html
    }

    /// The same as JSON: `{"path": "/docs/", "entries": [{"name", "href", "folder", "size"}, …]}`,
    /// with `size` in bytes and only for files. Bytes of a name that are not UTF-8 are U+FFFD in
    /// `name`; `href` always leads to the entry.
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
        });
        let listing = JsonListing {
            path: format!("/{}{below}", String::from_utf8_lossy(&self.path)),
            entries: entries.collect(),
        };
        // Strings and numbers alone cannot fail to be written.
        serde_json::to_string(&listing).unwrap_or_default() + "\n"
    }

    /// The folders on the way from the root, each a link, and the folder itself.
    fn push_breadcrumb(&self, html: &mut String) {
        let segments: Vec<&[u8]> =
            self.path.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty()).collect();
        html.push_str("<h1>");
        // Links climb rather than begin at `/`, so that they hold where a proxy has put the site
        // below a path of its own.
        for depth in 0..segments.len() {
            let climb = "../".repeat(segments.len() - depth);
            let name = if depth == 0 { "root".to_owned() } else { escaped(&shown(segments[depth - 1])) };
            push(html, format_args!("<a href=\"{climb}\"><bdi>{name}</bdi></a> / "));
        }
        let own = segments.last().map_or("root".to_owned(), |segment| escaped(&shown(segment)));
        push(html, format_args!("<bdi>{own}</bdi></h1>\n"));
    }
}

impl Entry {
    fn is_folder(&self) -> bool {
        self.kind == EntryKind::Folder
    }

    /// A link relative to the folder. `./` keeps a name such as `a:b` from being read as a scheme.
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
}

fn push_row(html: &mut String, entry: &Entry) {
    let name = escaped(&shown(&entry.name));
    let (slash, size) = match entry.kind {
        EntryKind::Folder => ("/", String::new()),
        EntryKind::File { size } => ("", human_size(size)),
    };
    // `bdi` keeps a name in a right-to-left script, or one with direction marks in it, from
    // rearranging its surroundings.
    push(
        html,
        format_args!(
            "<tr><td><a href=\"{}\"><bdi>{name}</bdi>{slash}</a></td><td>{size}</td></tr>\n",
            entry.href()
        ),
    );
}

/// Appends to a string, which cannot fail.
fn push(html: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = html.write_fmt(text);
}

/// A name for reading: U+FFFD stands for what is not UTF-8 and for control characters, which
/// HTML does not allow.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name)
        .chars()
        .map(|character| if character.is_control() { '\u{fffd}' } else { character })
        .collect()
}

/// Text for an element or for an attribute in double quotes.
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

/// Bytes up to 1023, then one decimal in the largest unit of which there is at least one. It is
/// rounded down and in integers, so that no machine rounds otherwise.
fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let exponent = bytes.ilog2() / 10;
    let scale = 1u128 << (10 * exponent);
    let tenths = u128::from(bytes) * 10 / scale;
    let unit = UNITS[exponent as usize - 1];
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<meta name=\"robots\" content=\"noindex\">
";

/// The system's own colours follow its light or dark setting without a rule for either.
const STYLE: &str = "<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.25rem; font-weight: 600; overflow-wrap: anywhere }
table { width: 100%; border-collapse: collapse }
th { font-size: .875rem; font-weight: 500; opacity: .7; text-align: left }
th, td { padding: .3rem .5rem; border-bottom: 1px solid color-mix(in srgb, CanvasText 15%, Canvas) }
td:first-child { overflow-wrap: anywhere }
th:last-child, td:last-child { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
tbody tr:hover { background: color-mix(in srgb, CanvasText 6%, Canvas) }
a { text-decoration: none }
a:hover, a:focus-visible { text-decoration: underline }
</style>
";

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &[u8]) -> Entry {
        Entry { name: name.to_vec(), kind: EntryKind::Folder }
    }

    fn file(name: &[u8], size: u64) -> Entry {
        Entry { name: name.to_vec(), kind: EntryKind::File { size } }
    }

    fn row(entry: Entry) -> String {
        let html = Listing::new(b"", vec![entry]).html();
        html.lines().find(|line| line.starts_with("<tr><td><a")).unwrap().to_owned()
    }

    #[test]
    fn folders_come_first_and_order_of_input_does_not_matter() {
        let entries = vec![file(b"b", 1), folder(b"z"), file(b"B", 2), folder(b"a")];
        let listing = Listing::new(b"docs", entries.clone());
        let reversed = Listing::new(b"docs", entries.into_iter().rev().collect());
        let names: Vec<&[u8]> = listing.entries.iter().map(|entry| &*entry.name).collect();
        assert_eq!(names, [&b"a"[..], b"z", b"B", b"b"]);
        assert_eq!((listing.html(), listing.json()), (reversed.html(), reversed.json()));
    }

    #[test]
    fn a_row_links_and_measures() {
        assert_eq!(
            row(file(b"a.txt", 1536)),
            "<tr><td><a href=\"./a.txt\"><bdi>a.txt</bdi></a></td><td>1.5 KiB</td></tr>"
        );
        assert_eq!(row(folder(b"sub")), "<tr><td><a href=\"./sub/\"><bdi>sub</bdi>/</a></td><td></td></tr>");
    }

    #[test]
    fn odd_names_neither_break_out_nor_break_their_link() {
        let cases: [(&[u8], &str, &str); 6] = [
            (b"<script>&\"'", "./%3Cscript%3E%26%22%27", "&lt;script&gt;&amp;&quot;&#39;"),
            (b"a b?c#d%e", "./a%20b%3Fc%23d%25e", "a b?c#d%e"),
            (b"javascript:alert(1)", "./javascript%3Aalert%281%29", "javascript:alert(1)"),
            (b"caf\xe9", "./caf%E9", "caf\u{fffd}"),
            (b"a\nb\x00", "./a%0Ab%00", "a\u{fffd}b\u{fffd}"),
            ("\u{202e}gpj".as_bytes(), "./%E2%80%AEgpj", "\u{202e}gpj"),
        ];
        for (name, href, text) in cases {
            let expected = format!("<tr><td><a href=\"{href}\"><bdi>{text}</bdi></a></td><td>0 B</td></tr>");
            assert_eq!(row(file(name, 0)), expected);
        }
    }

    #[test]
    fn the_breadcrumb_climbs_to_the_root() {
        let heading = |path: &[u8]| {
            let html = Listing::new(path, Vec::new()).html();
            html.lines().find(|line| line.starts_with("<h1>")).unwrap().to_owned()
        };
        assert_eq!(heading(b""), "<h1><bdi>root</bdi></h1>");
        assert_eq!(
            heading(b"a/<b>"),
            "<h1><a href=\"../../\"><bdi>root</bdi></a> / <a href=\"../\"><bdi>a</bdi></a> / <bdi>&lt;b&gt;</bdi></h1>"
        );
    }

    #[test]
    fn an_empty_folder_says_so() {
        assert!(Listing::new(b"a", Vec::new()).html().contains("This folder is empty."));
        assert_eq!(Listing::new(b"", Vec::new()).json(), "{\"path\":\"/\",\"entries\":[]}\n");
    }

    #[test]
    fn json_says_the_same_with_exact_sizes() {
        let json = Listing::new(b"d", vec![file(b"caf\xe9\"", 1_234_567), folder(b"s")]).json();
        let expected = serde_json::json!({
            "path": "/d/",
            "entries": [
                {"name": "s", "href": "./s/", "folder": true},
                {"name": "caf\u{fffd}\"", "href": "./caf%E9%22", "folder": false, "size": 1_234_567},
            ],
        });
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), expected);
    }

    #[test]
    fn sizes_are_short_and_never_rounded_up() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1023.9 KiB"),
            (1_048_576, "1.0 MiB"),
            (67_170_732, "64.0 MiB"),
            (u64::MAX, "15.9 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(human_size(bytes), text);
        }
    }

    #[test]
    fn the_page_asks_for_nothing_else() {
        let html = Listing::new(b"a", vec![file(b"x", 1)]).html();
        for word in ["<script", "<img", "<link", "src=", "url(", "@import", "http"] {
            assert!(!html.contains(word), "{word}");
        }
    }
}
