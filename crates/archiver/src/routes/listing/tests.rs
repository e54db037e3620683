//! Unit tests of folder listings.

use super::*;

fn folder(name: &[u8]) -> Entry {
    Entry { name: name.to_vec(), kind: EntryKind::Folder, modified: None }
}

fn file(name: &[u8], size: u64) -> Entry {
    Entry { name: name.to_vec(), kind: EntryKind::File { size }, modified: None }
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
        "<tr><td><a href=\"./a.txt\"><bdi>a.txt</bdi></a></td><td><data value=\"1536\">1.54 kB</data></td></tr>"
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
        let size = "<data value=\"0\">0 B</data>";
        let expected = format!("<tr><td><a href=\"{href}\"><bdi>{text}</bdi></a></td><td>{size}</td></tr>");
        assert_eq!(row(file(name, 0)), expected);
    }
}

#[test]
fn the_heading_climbs_to_the_root() {
    let heading = |path: &[u8]| {
        let html = Listing::new(path, Vec::new()).html();
        html.lines().find(|line| line.starts_with("<h1>")).unwrap().to_owned()
    };
    assert_eq!(heading(b""), "<h1>Index of /</h1>");
    assert_eq!(heading(b"a"), "<h1>Index of <a href=\"../\">/</a><bdi>a</bdi>/</h1>");
    assert_eq!(
        heading(b"a/<b>"),
        "<h1>Index of <a href=\"../../\">/</a><a href=\"../\"><bdi>a</bdi></a>/<bdi>&lt;b&gt;</bdi>/</h1>"
    );
}

#[test]
fn every_folder_but_the_root_links_to_its_parent() {
    let has_parent = |path: &[u8]| Listing::new(path, vec![file(b"x", 1)]).html().contains(">..</a>");
    assert!(!has_parent(b"") && has_parent(b"a") && has_parent(b"a/b"));
}

#[test]
fn dates_have_a_column_where_they_are_known() {
    let dated = Entry { modified: Some(784_111_777), ..file(b"a.txt", 1) };
    let html = Listing::new(b"", vec![dated.clone(), folder(b"s")]).html();
    let time = "<time datetime=\"1994-11-06T08:49:37Z\">1994-11-06 08:49</time>";
    assert!(html.contains("Modified (UTC)") && html.contains(time), "{html}");
    assert!(!Listing::new(b"", vec![file(b"a.txt", 1)]).html().contains("Modified"));
    let json = Listing::new(b"", vec![dated]).json();
    assert!(json.contains("\"modified\":\"1994-11-06T08:49:37Z\""), "{json}");
}

#[test]
fn totals_count_and_add_up() {
    let totals = |entries| Listing::new(b"", entries).totals();
    assert_eq!(totals(vec![folder(b"a")]), "1 folder");
    assert_eq!(totals(vec![folder(b"a"), folder(b"b"), file(b"c", 999)]), "2 folders, 1 file, 999 B");
    assert_eq!(totals(vec![file(b"c", 500), file(b"d", 1000)]), "2 files, 1.50 kB");
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
fn sizes_are_rounded_to_the_nearest() {
    let cases = [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9_994, "9.99 kB"),
        (9_995, "10.0 kB"),
        (99_949, "99.9 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (3_000_000, "3.00 MB"),
        (67_170_732, "67.2 MB"),
        (u64::MAX, "18.4 EB"),
    ];
    for (bytes, text) in cases {
        assert_eq!(human_size(bytes), text);
    }
}

#[test]
fn the_page_asks_for_nothing_else() {
    let html = Listing::new(b"a", vec![file(b"x", 1)]).html();
    for word in ["<img", "<link", "src=", "url(", "@import", "http", "fetch", "import("] {
        assert!(!html.contains(word), "{word}");
    }
}
