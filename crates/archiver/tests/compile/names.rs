//! Names of files and pages.

use cannery_archive::Origin;

use crate::site::Site;

#[test]
fn every_file_answers_under_its_own_name() {
    let files = [("a", "1"), ("b/c.css", "2"), ("B/C.css", "3"), ("b/c.CSS", "4"), ("b/deep/er/x.json", "5")];
    let built = Site::new(&files).build();
    for (path, content) in files {
        let page = built.page(format!("/{path}"));
        assert_eq!((page.status, page.origin, page.text()), (200, Origin::File, content), "{path}");
    }
    assert_eq!(built.report.paths, 5);
}

#[test]
fn names_are_bytes() {
    let site =
        Site::new(&[("with space.css", "1"), ("100%25.css", "2"), ("ä/ö.css", "3"), ("a+b&c=d.css", "4")]);
    site.write(b"latin-\xe4.css", "5");
    let built = site.build();
    for (path, content) in [
        (b"/with space.css".as_slice(), "1"),
        (b"/100%25.css", "2"),
        ("/ä/ö.css".as_bytes(), "3"),
        (b"/a+b&c=d.css", "4"),
        (b"/latin-\xe4.css", "5"),
    ] {
        assert_eq!(built.page(path).text(), content, "{}", String::from_utf8_lossy(path));
    }
}

#[test]
fn page_answers_without_its_suffix() {
    let built = Site::new(&[("a.html", "1"), ("b.txt", "2"), ("c.xhtml", "3"), ("d.json", "4")]).build();
    for (path, content) in [("/a", "1"), ("/b", "2"), ("/c", "3")] {
        let page = built.page(path);
        assert_eq!((page.origin, page.text()), (Origin::Alias, content), "{path}");
    }
    assert_eq!(built.answer("/d"), None);
    assert_eq!(built.report.aliases, 3);
}

#[test]
fn page_with_the_preferred_suffix_answers_without_it() {
    let site = Site::new(&[
        ("a.txt", "txt"),
        ("a.xht", "xht"),
        ("a.xhtml", "xhtml"),
        ("a.htm", "htm"),
        ("a.html", "html"),
    ]);
    for suffix in ["html", "htm", "xhtml", "xht", "txt"] {
        assert_eq!(site.build().page("/a").text(), suffix);
        std::fs::remove_file(site.source(format!("a.{suffix}"))).unwrap();
    }
}

#[test]
fn file_takes_precedence_over_a_page_without_suffix() {
    let built = Site::new(&[("a", "bare"), ("a.html", "html"), ("a.txt", "txt")]).build();
    assert_eq!(built.page("/a").text(), "bare");
    assert_eq!(built.page("/a").origin, Origin::File);
    assert_eq!(built.page("/a.html").text(), "html");
    assert_eq!(built.page("/a.txt").text(), "txt");
    assert_eq!(built.report.diagnostics, []);
}

#[test]
fn page_and_folder_of_the_same_name_are_both_served() {
    let built = Site::new(&[("docs.html", "page"), ("docs/index.html", "folder")]).build();
    assert_eq!(built.page("/docs").text(), "page");
    assert_eq!(built.page("/docs/").text(), "folder");
}

#[test]
fn names_without_suffix_can_be_disabled() {
    let mut site = Site::new(&[("a.html", "1")]);
    site.options.exclude_strip = true;
    let built = site.build();
    assert_eq!(built.answer("/a"), None);
    assert_eq!(built.page("/a.html").text(), "1");
}

#[test]
fn skipped_names_are_not_in_the_archive() {
    let mut site =
        Site::new(&[(".git/config", "secret"), ("a.css", "1"), ("b~", "secret"), ("c.map", "secret")]);
    site.write(".canneryignore", "*.map\n");
    site.options.ignore = vec!["!b~".into()];
    let built = site.build();
    assert_eq!(built.answer("/.git/config"), None);
    assert_eq!(built.answer("/c.map"), None);
    assert_eq!(built.page("/b~").text(), "secret");
    let bodies = built.bodies();
    assert_eq!(bodies.iter().filter(|body| *body == b"secret").count(), 1);
    let reasons: u64 = built.report.skipped.iter().map(|group| group.count).sum();
    assert_eq!(reasons, 3, "{:?}", built.report.skipped);
}

#[test]
fn without_default_rules_all_names_are_included() {
    let mut site = Site::new(&[(".hidden.css", "1"), ("x.log", "2")]);
    site.options.default_ignores = false;
    let built = site.build();
    assert_eq!(built.page("/.hidden.css").text(), "1");
    assert_eq!(built.page("/x.log").text(), "2");
}

#[test]
fn symlinks_are_followed_and_loops_are_not() {
    let site = Site::new(&[("a.css", "1")]);
    std::os::unix::fs::symlink("a.css", site.source("b.css")).unwrap();
    std::os::unix::fs::symlink(".", site.source("self")).unwrap();
    let built = site.build();
    assert_eq!(built.page("/b.css").text(), "1");
    assert_eq!(built.answer("/self/a.css"), None);
    assert_eq!(built.remarks(), ["self: symlink-loop"]);
    assert_eq!(built.report.contents, 1);
}
