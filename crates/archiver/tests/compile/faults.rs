//! If a build fails, the error should name the cause and the old archive must be left untouched.

use std::fs;

use cannery_archiver::{Encoder, Error, ErrorClass, FormatChoice, Progress, Stage, compile};

use crate::site::Site;

/// Runs a build that is expected to fail, then checks that the old archive is unchanged and that no
/// other file was left behind.
fn fail(site: &Site) -> Error {
    fs::write(&site.options.archive, "old").unwrap();
    let error = site.try_build().unwrap_err();
    assert_eq!(fs::read(&site.options.archive).unwrap(), b"old");
    let strangers: Vec<String> =
        site.names_beside().into_iter().filter(|name| name.ends_with(".tmp")).collect();
    assert_eq!(strangers, [""; 0], "temporary files are left");
    error
}

#[test]
fn no_encoder_is_a_usage_error() {
    let mut site = Site::new(&[("a.css", "1")]);
    site.options.encoders.clear();
    let error = fail(&site);
    assert!(matches!(error, Error::NoEncoder));
    assert_eq!(error.class(), ErrorClass::Usage);
}

#[test]
fn cache_control_with_a_line_feed_is_a_usage_error() {
    let mut site = Site::new(&[("a.css", "1")]);
    for value in ["no-store\r\nX-Evil: 1", "a\nb", "a\0b"] {
        site.options.cache_control = Some(value.into());
        assert_eq!(fail(&site).class(), ErrorClass::Usage, "{value:?}");
    }
}

#[test]
fn invalid_patterns_are_usage_errors() {
    let mut site = Site::new(&[("a.css", "1")]);
    site.options.ignore = vec!["[z-a]".into()];
    assert_eq!(fail(&site).class(), ErrorClass::Usage);
    site.options.ignore.clear();
    site.options.immutable = vec!["[z-a]".into()];
    let error = fail(&site);
    assert_eq!(error.class(), ErrorClass::Usage);
    assert!(!error.to_string().contains("--ignore"), "it was another flag: {error}");
}

#[test]
fn missing_source_folder_is_named() {
    let mut site = Site::new(&[]);
    site.options.sources = site.beside("nowhere");
    let error = fail(&site);
    assert!(error.to_string().contains("nowhere"), "{error}");
    assert_eq!(error.class(), ErrorClass::Input);
}

#[test]
fn source_folder_that_is_a_file_is_named() {
    let mut site = Site::new(&[("a.css", "1")]);
    site.options.sources = site.source("a.css");
    let error = fail(&site);
    assert!(error.to_string().contains("a.css"), "{error}");
    assert_eq!(error.class(), ErrorClass::Input);
}

/// Modifies the source folder when a stage starts. Another process might do the same.
struct When<F: Fn() + Sync>(Stage, F);

impl<F: Fn() + Sync> Progress for When<F> {
    fn stage(&self, stage: Stage, _: Option<u64>) {
        if stage == self.0 {
            (self.1)();
        }
    }

    fn advance(&self, _: u64) {}
}

#[test]
fn file_removed_during_the_build_is_named() {
    let site = Site::new(&[("a.css", "1"), ("gone.css", "2")]);
    fs::write(&site.options.archive, "old").unwrap();
    let vanish = When(Stage::Read, || fs::remove_file(site.source("gone.css")).unwrap());
    let error = compile(&site.options, &vanish).unwrap_err();
    assert!(matches!(&error, Error::Read { path, .. } if *path == site.source("gone.css")), "{error}");
    assert_eq!(error.class(), ErrorClass::Input);
    assert_eq!(site.archive_bytes(), b"old");
    assert_eq!(site.names_beside(), ["site", "site.cdb"]);
}

#[test]
fn unreadable_file_is_named() {
    let site = Site::new(&[("a.css", "1"), ("odd.css", "2")]);
    // Not even root can read a folder as a file.
    let replace = When(Stage::Read, || {
        fs::remove_file(site.source("odd.css")).unwrap();
        fs::create_dir(site.source("odd.css")).unwrap();
    });
    let error = compile(&site.options, &replace).unwrap_err();
    assert!(matches!(&error, Error::Read { path, .. } if *path == site.source("odd.css")), "{error}");
    assert_eq!(error.class(), ErrorClass::Input);
    assert_eq!(site.names_beside(), ["site"]);
}

#[test]
fn file_changed_before_it_is_read_is_archived_as_it_is_now() {
    let site = Site::new(&[("a.css", "before")]);
    let change = When(Stage::Read, || site.write("a.css", "and long after"));
    compile(&site.options, &change).unwrap();
    let archive = cannery_archive::Archive::open(&site.options.archive, cannery_archive::Loading::InMemory);
    let archive = archive.unwrap();
    archive.verify(|_| ()).unwrap();
    assert_eq!(archive.facts().body_bytes, 14);
}

#[test]
fn file_changed_between_reading_and_encoding_is_an_error() {
    let mut site = Site::new(&[("a.html", &"again and ".repeat(100))]);
    site.options.encoders = [Encoder::Gzip].into();
    let change = When(Stage::Encode, || site.write("a.html", "otherwise ".repeat(100)));
    let error = compile(&site.options, &change).unwrap_err();
    assert!(matches!(&error, Error::Changing { path } if *path == site.source("a.html")), "{error}");
    assert_eq!(error.class(), ErrorClass::Input);
    assert_eq!(site.names_beside(), ["site"]);
}

#[test]
fn strict_turns_warnings_into_an_error_with_the_report() {
    let mut site = Site::new(&[("a.html", "1"), ("_redirects", "/a /b\n")]);
    site.options.strict = true;
    match fail(&site) {
        Error::Strict { path, report } => {
            assert_eq!(path, site.options.archive);
            assert_eq!(report.diagnostics[0].code, "redirect-shadowed");
            assert!(report.archive_bytes > 0 && report.digest.len() == 64);
        }
        other => panic!("{other}"),
    }
    assert_eq!(fail(&site).class(), ErrorClass::Strict);
    site.options.strict = false;
    site.build();
}

#[test]
fn strict_accepts_notes() {
    let mut site = Site::new(&[("1.html", "1"), ("200.html", "2")]);
    site.options.strict = true;
    assert_eq!(site.build().remarks(), ["200.html: numbered-page"]);
}

#[test]
fn archive_without_files_is_valid() {
    let built = Site::new(&[]).build();
    assert_eq!((built.report.files, built.report.folders, built.report.paths), (0, 1, 0));
    assert_eq!(built.answer("/"), None);
}

#[test]
fn long_path_is_reported_or_served() {
    let site = Site::new(&[("a.css", "1")]);
    let name = "n".repeat(255);
    let mut folder = site.options.sources.clone();
    // The kernel limits the length of a path, but not the depth of a tree (e.g. when it was created
    // relative to an open directory).
    for _ in 0..15 {
        folder.push(&name);
    }
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("deep.css"), "deep").unwrap();
    let built = site.build();
    let path = format!("/{}/deep.css", vec![name; 15].join("/"));
    assert_eq!(built.page(path).text(), "deep");
}

#[test]
fn cdb_format_can_be_required() {
    let mut site = Site::new(&[("a.css", "1")]);
    site.options.format = FormatChoice::Cdb;
    assert_eq!(site.build().report.format, "cdb");
}

#[test]
fn any_set_of_encoders_makes_an_archive() {
    for encoder in Encoder::ALL {
        let mut site = Site::new(&[("a.html", &"again and ".repeat(100)), ("empty.html", "")]);
        site.options.encoders = [encoder].into();
        let built = site.build();
        assert_eq!(built.page("/a").text().len(), 1000, "{}", encoder.name());
        assert_eq!(built.page("/empty").body, b"", "{}", encoder.name());
    }
}
