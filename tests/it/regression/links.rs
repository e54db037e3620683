//! Broken links: counted by default, listed on request, and looked up as the server looks up requests.

use crate::harness::{pages, run, write_folder};

/// Builds a folder literal. Returns the exit code and standard error.
fn build(files: &[(&'static str, &'static str)], flags: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    let archive = folder.path().join("site.cdb");
    write_folder(&source, &pages(files));
    let mut arguments = vec!["--sources", source.to_str().unwrap(), "--archive", archive.to_str().unwrap()];
    arguments.extend(flags);
    let output = run("cannery-archiver", &arguments);
    assert_eq!(output.status.success(), archive.exists());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Returns the lines about broken links, sorted.
fn broken(files: &[(&'static str, &'static str)]) -> Vec<String> {
    let (_, printed) = build(files, &["--check-links"]);
    let lines = printed.lines().filter(|line| line.contains("[broken-link]"));
    let mut lines: Vec<_> = lines
        .map(|line| line.split(" is broken").next().unwrap().replace(" warning: the link to", ""))
        .collect();
    lines.sort();
    lines
}

#[test]
fn broken_links_are_counted_or_listed() {
    let files = [
        ("index.html", "<p>home\n<a href=gone.html>gone</a> <a href=gone.html>again</a>"),
        ("a/b.html", "<img src=../gone.html>\n<link rel=stylesheet href=\"/style.css\">"),
        ("style.css", "body {\n  background: url(no.png)\n}"),
    ];
    let (status, printed) = build(&files, &["--strict"]);
    assert_eq!(status, Some(0), "{printed}");
    let note = ".: note: 3 internal links lead to 2 paths that are not found; `cannery-archiver --check-links` lists \
                them [broken-links]\n";
    assert_eq!(printed, note);

    let (status, printed) = build(&files, &["--check-links"]);
    let expected = "a/b.html:1: warning: the link to `../gone.html` is broken: `/gone.html` answers 404 [broken-link]\n\
                    index.html:2: warning: the link to `gone.html` is broken: `/gone.html` answers 404 [broken-link]\n\
                    style.css:2: warning: the link to `no.png` is broken: `/no.png` answers 404 [broken-link]\n";
    assert_eq!((status, printed.starts_with(expected)), (Some(0), true), "{printed}");
    assert_eq!(build(&files, &["--check-links", "--strict"]).0, Some(5));
    let (status, printed) = build(&files, &["--no-check-links"]);
    assert_eq!((status, printed.contains("broken")), (Some(0), false), "{printed}");
}

#[test]
fn links_resolve_like_requests() {
    let links = "<a href=/guide></a><a href=/guide/></a><a href=docs></a><a href='/old/x?q#f'></a><a href=/away/x></a>\
                 <a href=/a%20b></a><a href='a b'></a><a href='#top'></a><a href=mailto:me></a><a href=//other.example/x></a>\
                 <a href=https://a.example/page></a><a href=/app/any/page></a><a href=/__/heartbeat></a>\
                 <img src=data:,x srcset='/pic.png 1x'><a href=/404.html></a>";
    let files = [
        ("index.html", links),
        ("guide.html", "guide"),
        ("docs/index.html", "<base href=/guide/><a href=none></a><a href=//b.a.example/none></a>"),
        ("a b.html", "a"),
        ("404.html", "not found"),
        ("app/_200.html", "app"),
        ("pic.png", "pic"),
        ("_redirects", "/old/* /guide 301\n/away/* https://other.example/:splat\n/dead/* /docs/:splat\n"),
        ("_hosts/a.example/page.html", "<a href=/guide.html></a><a href=//a.example/page></a>"),
        (
            "sub/index.html",
            "<a href=/dead/x></a><a href=../../guide></a><a href=x.js></a><img src=/app/x.js>",
        ),
    ];

    let expected = [
        "_hosts/a.example/page.html:1: `/guide.html`",
        "docs/index.html:1: `none`",
        "sub/index.html:1: `/app/x.js`",
        "sub/index.html:1: `/dead/x`",
        "sub/index.html:1: `x.js`",
    ];

    let found: Vec<_> = broken(&files).iter().map(|line| line.replace(":  ", ": ")).collect();
    assert_eq!(found, expected);
}

#[test]
fn redirects_to_missing_pages_are_noted() {
    let files = [
        ("index.html", "home"),
        (
            "_redirects",
            "/a /\n/dead /no-such-page 301\n/b/* /none\n/c /dead\n/d https://other.example/none\n/e/* /:splat\n",
        ),
    ];
    let (status, printed) = build(&files, &["--strict"]);
    assert_eq!((status, printed.matches("[redirect-target-missing]").count()), (Some(0), 3), "{printed}");
    assert!(
        printed.contains("_redirects:2: note: redirects to `/no-such-page`, which answers 404"),
        "{printed}"
    );
    assert_eq!(build(&files, &["--strict", "--check-links"]).0, Some(5));
}

/// The suffix alone decided, so links to routes of an app such as `/blog/node.js` were called broken.
#[test]
fn link_is_looked_up_as_a_browser_uses_it() {
    let links = "<a href=/blog/node.js></a><area href=/blog/deno.ts><iframe src=/demo/app.js></iframe>\
                 <link rel=canonical href=/docs/next.js><meta http-equiv=refresh content='9; url=/to/vue.js'>\
                 <a href=/page/of.js></a><a href=/folder/of.js></a>\
                 <a href=/list.pdf></a><script src=/gone.js></script><img src=/route><a href=/gone.js></a>\
                 <link rel=stylesheet href=/gone.css>";
    let page = [("index.html", links), ("page/of.js.html", "page"), ("folder/of.js/index.html", "folder")];
    for kind in [("200.html", "app"), ("_redirects", "/* /index.html 200\n/from /blog/node.js 301\n")] {
        let files: Vec<_> = page.iter().chain(&[kind]).copied().collect();
        let expected = ["/gone.css", "/gone.js", "/list.pdf", "/route"];
        let expected = expected.map(|link| format!("index.html:1: `{link}`"));
        let found: Vec<_> =
            broken(&files).iter().map(|line| line.replace(":1:", ":1: ").replace("  ", " ")).collect();
        assert_eq!(found, expected, "{kind:?}");
    }
    let files = [("index.html", "<a href=/blog/node.js></a>"), ("blog/node.js.html", "page")];
    assert_eq!(broken(&files), Vec::<String>::new());
}
