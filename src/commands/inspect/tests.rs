//! Tests of `cannery inspect`.

use super::*;
use crate::commands::sample::Sample;

#[test]
fn a_list_has_a_line_for_each_path() {
    let sample = Sample::write();
    let lines = list(&sample.open()).unwrap();
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[0], "200  file       /index.html  text/html, identity 34");
    assert!(lines.contains(&"302  rule       /go  -> https://example.com/".to_owned()), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("/a/coded%20only.txt  text/plain, gzip ")), "{lines:#?}");
}

#[test]
fn an_overview_omits_empty_rows() {
    let sample = Sample::write();
    let text = overview(&sample.archive, &archive_stats::collect(&sample.open()).unwrap(), Paint::none());
    for words in ["cdb, release 0\n", "files        4", "hosts        1  h.test", "patterns     1", "shared"]
    {
        assert!(text.contains(words), "{words} is missing:\n{text}");
    }
    assert!(!text.contains("fallbacks"), "{text}");
}

#[test]
fn a_path_is_shown_in_full() {
    let sample = Sample::write();
    let archive = sample.open();
    let mut buffer = KeyBuffer::new();
    let key = Key::from_target(b"/a/coded%20only.txt", &mut buffer).unwrap();
    let record = archive.path(None, key).unwrap().unwrap();
    let text = Detailed::new(&archive, key, &record).unwrap().render(Paint::none());
    assert!(text.starts_with("/a/coded%20only.txt  file, status 200\n"), "{text}");
    assert!(text.contains("      Content-Encoding: gzip\n"), "{text}");
}

#[test]
fn a_missing_path_is_an_error_with_a_hint() {
    let sample = Sample::write();
    let flags = |path: &str| Inspect {
        archive: sample.archive.clone(),
        path: Some(path.into()),
        host: None,
        list: false,
        json: false,
    };
    assert!(matches!(run(&flags("/missing")), Err(Failure::Message { hint: Some(_), .. })));
    assert!(matches!(run(&flags("/%zz")), Err(Failure::Message { exit: output::Exit::Usage, .. })));
}
