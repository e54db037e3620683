//! Folders: index pages and listings.

use cannery_archive::Origin;

use crate::site::Site;

#[test]
fn preferred_index_page_answers_for_its_folder() {
    let suffixes = ["html", "htm", "xhtml", "xht", "txt", "json", "xml"];
    let names: Vec<String> = ["_index", "index"]
        .iter()
        .flat_map(|stem| suffixes.iter().map(move |suffix| format!("d/{stem}.{suffix}")))
        .collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
    let site = Site::new(&files);
    for name in &names {
        let page = site.build().page("/d/");
        assert_eq!((page.text(), page.origin), (name.as_str(), Origin::Alias));
        std::fs::remove_file(site.source(name)).unwrap();
    }
    assert_eq!(site.build().answer("/d/"), None);
}

#[test]
fn index_page_answers_at_the_root_and_under_its_own_names() {
    let built = Site::new(&[("index.html", "home")]).build();
    for path in ["/", "/index.html", "/index"] {
        assert_eq!(built.page(path).text(), "home", "{path}");
    }
}

#[test]
fn index_page_with_an_underscore_has_no_name() {
    let built = Site::new(&[("_index.html", "home")]).build();
    assert_eq!(built.page("/").text(), "home");
    assert_eq!(built.answer("/_index.html"), None);
    assert_eq!(built.answer("/_index"), None);
    assert_eq!(built.kept(), [("_index.html".to_owned(), "home".to_owned())]);
}

#[test]
fn index_pages_can_be_disabled() {
    let mut site = Site::new(&[("index.html", "home")]);
    site.options.exclude_index = true;
    let built = site.build();
    assert_eq!(built.answer("/"), None);
    assert_eq!(built.page("/index.html").text(), "home");
}

#[test]
fn archive_stores_whether_slashes_redirect() {
    let mut site = Site::new(&[("d/index.html", "1")]);
    assert!(site.build().archive.facts().slash_redirects);
    site.options.exclude_slash_redirects = true;
    assert!(!site.build().archive.facts().slash_redirects);
}

#[test]
fn by_default_no_folder_is_listed() {
    let built = Site::new(&[("d/a.css", "1")]).build();
    assert_eq!(built.answer("/d/"), None);
    assert_eq!(built.answer("/d/_listing.json"), None);
}

#[test]
fn listing_answers_where_no_index_page_does() {
    let mut site = Site::new(&[("index.html", "home"), ("d/a b.css", "12345"), ("d/e/x.css", "1")]);
    site.options.include_folder_listing = true;
    let built = site.build();
    assert_eq!(built.page("/").text(), "home");
    let listing = built.page("/d/");
    assert_eq!(
        (listing.origin, listing.field("Content-Type")),
        (Origin::Generated, Some("text/html; charset=utf-8"))
    );
    assert!(listing.text().contains("a%20b.css") && listing.text().contains("./e/"), "{}", listing.text());
    for folder in ["/", "/d/", "/d/e/"] {
        let json = built.page(format!("{folder}_listing.json"));
        assert_eq!((json.origin, json.field("Content-Type")), (Origin::Generated, Some("application/json")));
        let value: serde_json::Value = serde_json::from_str(json.text()).unwrap();
        assert_eq!(value["path"], folder);
    }
    // There are three JSON listings but only two HTML listings, since the root has its own page.
    assert_eq!(built.report.generated, 5);
}

#[test]
fn file_with_the_name_of_a_listing_is_kept() {
    let mut site = Site::new(&[("_listing.json", "mine")]);
    site.options.include_folder_listing = true;
    let page = site.build().page("/_listing.json");
    assert_eq!((page.text(), page.origin), ("mine", Origin::File));
}

#[test]
fn listing_names_only_served_files() {
    let mut site = Site::new(&[
        ("a.css", "1"),
        ("_redirects", "/x /y"),
        ("_404.html", "gone"),
        (".hidden", "1"),
        ("_hosts/example.com/a.css", "1"),
    ]);
    site.options.include_folder_listing = true;
    let built = site.build();
    let value: serde_json::Value = serde_json::from_str(built.page("/_listing.json").text()).unwrap();
    let names: Vec<&str> =
        value["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a.css"]);
}

#[test]
fn folder_named_like_the_hosts_folder_is_listed() {
    let mut site = Site::new(&[("_hosts.old/a.css", "1")]);
    site.options.include_folder_listing = true;
    assert_eq!(site.build().page("/_hosts.old/").origin, Origin::Generated);
}
