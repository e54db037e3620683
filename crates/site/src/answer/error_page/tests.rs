//! Tests the content of built-in pages, and how we escape it.

use super::*;

fn shown(page: &ErrorPage<'_>) -> String {
    let mut bytes = Vec::new();
    page.for_each_piece(&mut |piece| bytes.extend_from_slice(piece));
    assert_eq!(bytes.len(), page.len());
    String::from_utf8(bytes).unwrap()
}

#[test]
fn page_shows_status_and_path_and_links_home() {
    let page = shown(&ErrorPage::new(404).unwrap().with_subject(b"/a/b"));
    for part in ["404", "<main>", "<code>/a/b</code>", "<a href=\"/\">", "</main></html>\n"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!shown(&ErrorPage::new(404).unwrap().with_subject(b"/")).contains("href"));
    assert!(!shown(&ErrorPage::new(421).unwrap().with_subject(b"example.com")).contains("href"));
}

#[test]
fn requested_path_is_escaped() {
    let page = shown(&ErrorPage::new(404).unwrap().with_subject(b"/<b>\"'&\xff\n"));
    assert!(page.contains("<code>/&lt;b&gt;&quot;&#39;&amp;\u{fffd}\u{fffd}</code>"), "{page}");
}

#[test]
fn long_path_is_truncated() {
    let page = shown(&ErrorPage::new(414).unwrap().with_subject(&[b'a'; 5000]));
    assert!(page.len() < 1500 && page.contains("a…</code>"), "{}", page.len());
}

#[test]
fn success_has_no_page() {
    assert!(ErrorPage::new(200).is_none() && ErrorPage::new(204).is_none());
}
