//! Fallback pages, error pages, and names that just look similar.

use cannery_archive::Origin;

use crate::site::{Below, Site};

#[test]
fn fallback_pages_apply_below_their_folder() {
    let built =
        Site::new(&[("_200.html", "app"), ("api/_wildcard.json", "{}"), ("d/200.html", "sub")]).build();
    let fallback = |folder: &str| match &built.below(None, folder).unwrap()[..] {
        [Below::Fallback(suffix, page)] => (suffix.clone(), page.status, page.text().to_owned()),
        other => panic!("{folder}: {other:?}"),
    };
    assert_eq!(fallback("/"), ("html".into(), 200, "app".into()));
    assert_eq!(fallback("/api/"), ("json".into(), 200, "{}".into()));
    assert_eq!(fallback("/d/"), ("html".into(), 200, "sub".into()));
    assert_eq!(built.answer("/_200.html"), None);
    assert_eq!(built.answer("/_200"), None);
    assert_eq!(built.answer("/api/_wildcard.json"), None);
    assert_eq!(built.page("/d/200.html").status, 200);
    let kept: Vec<String> = built.kept().into_iter().map(|(path, _)| path).collect();
    assert_eq!(kept, ["_200.html", "api/_wildcard.json"]);
    assert_eq!(built.archive.facts().scope_depth_max, 1);
}

#[test]
fn error_pages_apply_below_their_folder() {
    let built = Site::new(&[("404.html", "none"), ("d/_404.html", "none here")]).build();
    let error_page = |folder: &str| match &built.below(None, folder).unwrap()[..] {
        [Below::ErrorPage(404, page)] => (page.status, page.text().to_owned()),
        other => panic!("{folder}: {other:?}"),
    };
    assert_eq!(error_page("/"), (404, "none".into()));
    assert_eq!(error_page("/d/"), (404, "none here".into()));
    assert_eq!(built.answer("/d/_404.html"), None);
}

#[test]
fn every_error_of_the_server_may_have_a_page() {
    let built =
        Site::new(&[("405.html", "405"), ("_405.html", "late"), ("_500.txt", "500"), ("418.html", "tea")])
            .build();
    let pages: Vec<_> = built.below(None, "/").unwrap();
    let pages = pages.iter().map(|below| match below {
        Below::ErrorPage(status, page) => (*status, page.status, page.text().to_owned()),
        other => panic!("{other:?}"),
    });
    assert_eq!(pages.collect::<Vec<_>>(), [(405, 405, "405".to_owned()), (500, 500, "500".to_owned())]);
    assert_eq!((built.page("/405").status, built.page("/418.html").status), (405, 200));
    assert_eq!((built.answer("/_405.html"), built.answer("/_500.txt")), (None, None));
}

#[test]
fn error_page_answers_its_own_path_with_its_status() {
    let built = Site::new(&[("404.html", "none")]).build();
    for (path, origin) in [("/404.html", Origin::File), ("/404", Origin::Alias)] {
        let page = built.page(path);
        assert_eq!((page.status, page.origin), (404, origin), "{path}");
        assert!(page.forms[0].head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{path}");
    }
}

#[test]
fn error_page_equal_to_another_page_keeps_its_status() {
    let built = Site::new(&[("404.html", "same"), ("index.html", "same")]).build();
    assert_eq!(built.page("/").status, 200);
    assert_eq!(built.page("/404.html").status, 404);
    assert!(
        matches!(&built.below(None, "/").unwrap()[..], [Below::ErrorPage(404, page)] if page.status == 404)
    );
    assert_eq!(built.report.contents, 1);
}

#[test]
fn images_named_like_a_status_are_images() {
    let built = Site::new(&[("200.png", "tile"), ("404.png", "tile")]).build();
    assert_eq!((built.page("/200.png").status, built.page("/404.png").status), (200, 200));
    assert_eq!(built.below(None, "/"), None);
}

#[test]
fn page_in_a_numbered_series_is_an_ordinary_page() {
    let built =
        Site::new(&[("199.html", "a"), ("200.html", "b"), ("x/403.html", "c"), ("x/404.html", "d")]).build();
    assert_eq!(built.below(None, "/"), None);
    assert_eq!(built.page("/200.html").text(), "b");
    assert_eq!(built.remarks(), ["200.html: numbered-page"]);
    assert_eq!(built.report.warnings(), 0, "it is a note");
    let chapters: Vec<(String, &str)> = (190..=600).map(|number| (format!("{number}.html"), "a")).collect();
    let chapters: Vec<(&str, &str)> = chapters.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    assert_eq!(Site::new(&chapters).build().remarks(), ["200.html: numbered-page"], "one note for all");
    // Pages for other errors don't make a numbered series.
    assert!(matches!(
        &built.below(None, "/x/").unwrap()[..],
        [Below::ErrorPage(403, _), Below::ErrorPage(404, _)]
    ));
    let built = Site::new(&[("404.html", "a"), ("405.html", "b"), ("419.html", "c")]).build();
    assert_eq!(built.below(None, "/"), None, "419 is no status code, so these are chapters");
}

#[test]
fn numbers_in_another_folder_or_with_another_suffix_do_not_count() {
    let built = Site::new(&[("404.html", "none"), ("1.htm", "a"), ("d/1.html", "b")]).build();
    assert_eq!(built.page("/404.html").status, 404);
    assert_eq!(built.report.diagnostics, []);
}

#[test]
fn error_pages_are_not_cached() {
    let mut site = Site::new(&[("404.html", "none"), ("a.css", "1")]);
    site.options.immutable = vec!["*".into()];
    site.options.cache_control = Some("max-age=9".into());
    let built = site.build();
    assert_eq!(built.page("/404.html").field("Cache-Control"), Some("no-store"));
    assert_eq!(built.page("/a.css").field("Cache-Control"), Some("max-age=9"));
}

#[test]
fn hidden_files_can_be_left_out() {
    let mut site = Site::new(&[("_redirects", "/x /y\n"), ("_404.html", "none")]);
    let built = site.build();
    let expected =
        [("_404.html".to_owned(), "none".to_owned()), ("_redirects".to_owned(), "/x /y\n".to_owned())];
    assert_eq!(built.kept(), expected);
    site.options.exclude_file_listing = true;
    let built = site.build();
    assert_eq!(built.kept(), []);
    assert!(!built.bodies().contains(&b"/x /y\n".to_vec()), "no record refers to the rules any more");
    assert!(matches!(&built.below(None, "/").unwrap()[..], [Below::ErrorPage(404, _)]));
}

#[test]
fn ignore_file_is_stored_like_other_control_files() {
    let site = Site::new(&[("a.css", "1")]);
    site.write(".canneryignore", "*.map\n");
    assert_eq!(site.build().kept(), [(".canneryignore".to_owned(), "*.map\n".to_owned())]);
}

#[test]
fn second_page_for_a_role_is_reported() {
    let site = Site::new(&[("index.html", "shown"), ("_index.html", "hidden"), ("index.xml", "feed")]);
    site.write("404.html", "shown 404");
    site.write("_404.html", "hidden 404");
    site.write("docs/200.html", "fallback");
    site.write("docs/_wildcard.html", "fallback too");
    let built = site.build();
    assert_eq!(built.page("/").text(), "hidden");
    assert_eq!(
        built.remarks(),
        ["_404.html: role-twice", "docs/_wildcard.html: role-twice", "index.html: role-twice"]
    );
    assert!(built.report.diagnostics.iter().any(|remark| remark.message.contains("because `404.html` is")));
}

#[test]
fn folder_with_the_name_of_a_rule_file_is_reported() {
    let site = Site::new(&[("index.html", "1"), ("_redirects/a.txt", "2"), ("docs/_headers/b.txt", "3")]);
    assert_eq!(site.build().remarks(), ["_redirects: near-miss", "docs/_headers: near-miss"]);
}
