//! Migrations: rules that pages translate compile without a warning, and answer as the pages say.

use std::fs;
use std::path::Path;

use super::{block, blocks, file};
use crate::harness::{pages, run, write_folder};

/// Pages of the site that the rules are for.
const FILES: [(&str, &str); 16] = [
    ("index.html", "home"),
    ("404.html", "missing"),
    ("about.html", "about"),
    ("a/index.html", "a"),
    ("a.txt", "text"),
    ("app/index.html", "app"),
    ("b.html", "b"),
    ("docs/index.html", "docs"),
    ("downloads/a.zip", "zip"),
    ("en/index.html", "en"),
    ("errors/lost.html", "lost"),
    ("fonts/a.woff2", "font"),
    ("home.html", "home"),
    ("news/today.html", "today"),
    ("photo.jpg", "photo"),
    (".well-known/apple-app-site-association", "{}"),
];

/// A request for a URL, and words of the response head.
type Exchange = (&'static str, &'static [&'static str]);

/// Compiles the files with these rules and without a warning.
fn compile(redirects: &str, headers: &str, flags: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    write_folder(&source, &pages(&FILES));
    fs::write(source.join("_redirects"), redirects).unwrap();
    fs::write(source.join("_headers"), headers).unwrap();
    let archive = folder.path().join("site.cdb");
    let places = [source.to_str().unwrap(), archive.to_str().unwrap(), "--strict"];
    let output = run("cannery-archiver", &[&places, flags].concat());
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{redirects}\n{headers}\n{printed}");
    folder
}

fn assert_answers(site: &Path, url: &str, words: &[&str]) {
    let output = run("cannery", &["explain", site.join("site.cdb").to_str().unwrap(), url]);
    let printed = String::from_utf8(output.stdout).unwrap();
    for word in words {
        let is_line = |line: &str| line == *word || line.contains(word) && !word.starts_with("Location");
        assert!(printed.lines().any(is_line), "{url}: no {word:?} in {printed}");
    }
}

/// Returns the block of a page that begins with this line, or nothing.
fn rules(page: &str, first: &str) -> String {
    blocks(page).into_iter().find(|block| block.lines().next() == Some(first)).unwrap_or_default()
}

#[test]
fn translated_examples_answer_as_the_pages_say() {
    let examples: [(&str, &[Exchange]); 6] = [
        (
            "migrating-from-apache",
            &[
                ("http://www.example.com/x", &["301", "Location: https://example.com/x"]),
                ("/old-page", &["301", "Location: /new-page"]),
                ("/blog/a/b", &["301", "Location: /news/a/b"]),
                ("/latest", &["HTTP/1.1 200", "`_redirects:5`", "Content-Length: 5"]),
                ("/photo.jpg", &["200", "Cache-Control: public, max-age=86400"]),
                ("/nothing", &["404", "404.html"]),
            ],
        ),
        (
            "migrating-from-vercel",
            &[
                ("/blog/a", &["308", "Location: /news/a"]),
                ("/old/a/b", &["307", "Location: /docs/a/b"]),
                ("/app/any/route", &["200", "app/index.html"]),
                ("/app/gone.js", &["404"]),
                ("/fonts/a.woff2", &["200", "max-age=31536000, immutable"]),
            ],
        ),
        (
            "migrating-from-github-pages",
            &[
                ("/2019/old-post/", &["301", "Location: /blog/new-post/"]),
                ("/feed", &["301", "Location: /feed.xml"]),
                ("/data/x.json", &["Access-Control-Allow-Origin: *"]),
            ],
        ),
        (
            "migrating-from-firebase",
            &[
                ("/blog/a/b", &["301", "Location: /news/a/b"]),
                ("/shop", &["302", "Location: https://shop.example.com/"]),
                ("/app/any/route", &["200", "app/index.html"]),
                ("/fonts/a.woff2", &["200", "Access-Control-Allow-Origin: *"]),
            ],
        ),
        (
            "migrating-from-s3",
            &[
                ("/docs/a", &["301", "Location: /manual/a"]),
                ("/downloads/a.zip", &["Content-Disposition: attachment"]),
            ],
        ),
        ("languages", &[]),
    ];

    for (page, exchanges) in examples {
        let page = format!("docs/{page}.md");
        let folder = compile(&rules(&page, "# _redirects"), &rules(&page, "# _headers"), &[]);
        for (url, words) in exchanges {
            assert_answers(folder.path(), url, words);
        }
    }
}

#[test]
fn names_with_suffix_redirect() {
    let folder = compile(&rules("docs/rules.md", "# dialect: cloudflare"), "", &[]);
    for (path, target) in [
        ("/index.html", "Location: /"),
        ("/docs/index.html", "Location: /docs/"),
        ("/about.html", "Location: /about"),
        ("/docs", "Location: /docs/"),
        ("/about/", "Location: /about"),
    ] {
        assert_answers(folder.path(), path, &["308", target]);
    }
    for path in ["/", "/docs/", "/about", "/errors/lost"] {
        assert_answers(folder.path(), path, &["HTTP/1.1 200 OK"]);
    }
}

#[test]
fn security_headers_are_removed_for_a_path() {
    let page = "docs/security-headers.md";
    let frame = "X-Frame-Options: sameorigin";

    let head = |headers: &str, url: &str| {
        let folder = compile("", headers, &[]);
        let archive = folder.path().join("site.cdb");
        let output = run("cannery", &["explain", archive.to_str().unwrap(), url]);
        String::from_utf8(output.stdout).unwrap()
    };
    for field in
        [frame, "X-Content-Type-Options: nosniff", "Referrer-Policy: strict-origin-when-cross-origin"]
    {
        assert!(file(page).contains(&format!("| `{field}` |")), "{field}");
        assert!(head("", "/").contains(field), "{field}");
        assert!(!head(&block(page, "! Referrer-Policy"), "/").contains(field), "{field}");
    }

    let embedded: Vec<_> = blocks(page).into_iter().filter(|block| block.starts_with("/embed/*")).collect();
    assert_eq!(embedded.len(), 2);
    for headers in embedded {
        assert!(!head(&headers, "/embed/").contains("X-Frame-Options"), "{headers}");
        assert!(head(&headers, "/").contains(frame), "{headers}");
    }
    assert!(head(&block(page, "/widgets/*"), "/widgets/a.js").contains("Access-Control-Allow-Origin: *"));
}

/// Returns the pages about migration.
fn migration_pages() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let found: Vec<_> =
        names.filter(|name| name.starts_with("migrating-")).map(|name| format!("docs/{name}")).collect();
    assert!(found.len() >= 10, "{found:?}");
    found
}

#[test]
fn rules_of_tables_compile_without_warnings() {
    let mut redirects = 0;
    let mut headers = 0;
    for page in migration_pages() {
        for line in file(&page).lines() {
            if let Some((_, rule)) = line.split_once("`_redirects`: `") {
                compile(rule.split('`').next().unwrap(), "", &[]);
                redirects += 1;
            }
            if let Some((_, rule)) = line.split_once("`_headers`: `") {
                let (pattern, rest) = rule.split_once("`, and below it, indented, `").expect(line);
                let field = rest.split('`').next().unwrap();
                compile("", &format!("{pattern}\n  {field}\n"), &[]);
                headers += 1;
            }
        }
    }
    assert!(redirects > 15 && headers > 5, "{redirects} redirects, {headers} headers");
}

#[test]
fn flags_of_tables_exist() {
    let mut help = String::new();
    for arguments in [
        &["cannery-archiver"][..],
        &["cannery-server"],
        &["cannery", "serve"],
        &["cannery", "releases"],
        &["cannery", "import"],
        &["cannery", "certificates"],
        &["cannery", "push"],
        &["cannery"],
    ] {
        let output = run(arguments[0], &[&arguments[1..], &["--help"]].concat());
        help.push_str(&String::from_utf8(output.stdout).unwrap());
    }

    let is_end = |letter: char| !letter.is_ascii_lowercase() && !letter.is_ascii_digit() && letter != '-';
    for page in migration_pages() {
        for row in file(&page).lines().filter(|line| line.starts_with("| ")) {
            // The first column has the other server's words.
            let ours = row.splitn(3, " | ").skip(1).collect::<String>();
            for flag in ours.split(['`', ' ']).filter(|word| word.starts_with("--")) {
                let flag = flag.split(is_end).next().unwrap();
                assert!(help.contains(flag), "{page}: no program has {flag}: {row}");
            }
        }
    }
}
