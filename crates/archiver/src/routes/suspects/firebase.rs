//! Warns about patterns in `firebase.json` of files that Firebase would not have published.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde_json::Value;

use crate::ground::diagnostic::Diagnostic;
use crate::sources::source::Sources;
use crate::tree::folder_file;
use crate::tree::skip::IGNORE_FILE;

const NAME: &str = "firebase.json";

/// Maximum number of bytes to read.
const BYTES_MAX: u64 = 1 << 20;

/// Maximum number of patterns to name, for each site.
const PATTERNS_MAX: usize = 5;

/// Looks for the file in the root, whether or not it is published.
pub(super) fn find(sources: &Sources) -> Vec<Diagnostic> {
    let is_published = sources.files.iter().any(|file| *file.path == *NAME.as_bytes());
    if !is_published && !sources.skipped.iter().any(|skipped| *skipped.path == *NAME.as_bytes()) {
        return Vec::new();
    }
    let mut text = Vec::new();
    let read = folder_file::open(&folder_file::full_path(&sources.root, NAME.as_bytes()))
        .and_then(|file| file.take(BYTES_MAX).read_to_end(&mut text));
    // If it can't be read, or is not JSON, others report this, or Firebase does.
    let (Ok(_), Ok(configuration)) = (read, serde_json::from_slice::<Value>(&text)) else {
        return Vec::new();
    };
    match &configuration["hosting"] {
        Value::Array(sites) => sites.iter().filter_map(|site| ignored(sources, site)).collect(),
        site => ignored(sources, site).into_iter().collect(),
    }
}

/// Warns about the patterns of a site that match published files.
fn ignored(sources: &Sources, site: &Value) -> Option<Diagnostic> {
    // Patterns are relative to this folder.
    let public = site["public"].as_str().unwrap_or(".").trim_start_matches("./").trim_end_matches('/');
    let folder = if matches!(public, "" | ".") { String::new() } else { format!("{public}/") };

    let mut named: Vec<&str> = Vec::new();
    let mut example = None;
    for pattern in site["ignore"].as_array()?.iter().filter_map(Value::as_str) {
        let Some(compiled) = compiled(pattern) else { continue };
        let is_ignored = |path: &[u8]| {
            let path = path.strip_prefix(folder.as_bytes()).filter(|path| *path != NAME.as_bytes())?;
            let path = Path::new(OsStr::from_bytes(path));
            compiled.matched_path_or_any_parents(path, false).is_ignore().then_some(())
        };
        if let Some(file) = sources.files.iter().find(|file| is_ignored(&file.path).is_some()) {
            named.push(pattern);
            example = example.or(Some(&file.path));
        }
    }

    let example = String::from_utf8_lossy(example?);
    let more = named.len().saturating_sub(PATTERNS_MAX);
    named.truncate(PATTERNS_MAX);
    let mut patterns = named.iter().map(|pattern| format!("`{pattern}`")).collect::<Vec<_>>().join(", ");
    if more > 0 {
        patterns.push_str(&format!(" and {more} more"));
    }
    let message = format!(
        "has no effect here, so files that Firebase leaves out by `ignore` are published, such as `{example}`; copy these patterns into \
         `{IGNORE_FILE}`: {patterns}"
    );
    Some(Diagnostic::warning_that(NAME.as_bytes(), "foreign-configuration", message))
}

/// Firebase says that these patterns have the syntax of gitignore.
fn compiled(pattern: &str) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(".");
    builder.add_line(None, pattern).ok()?;
    builder.build().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sources::source::tests::sources;
    use crate::tree::walk::SourceFile;

    /// Returns the messages about this configuration in a folder with these files.
    fn messages(configuration: &str, files: &[&str]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(NAME), configuration).unwrap();
        let mut sources = sources(&root, NAME);
        let stamp = sources.files[0].stamp;
        sources.files.extend(files.iter().map(|path| SourceFile { path: path.as_bytes().into(), stamp }));
        find(&sources).into_iter().map(|diagnostic| diagnostic.message).collect()
    }

    #[test]
    fn patterns_of_published_files_are_named() {
        let defaults = r#"["firebase.json", "**/.*", "**/node_modules/**"]"#;
        let site = |ignore: &str| format!(r#"{{"hosting": {{"public": ".", "ignore": {ignore}}}}}"#);
        assert_eq!(messages(&site(defaults), &["index.html"]), [""; 0]);

        let found =
            messages(&site(r#"["drafts/**", "*.psd", "old"]"#), &["a.psd", "drafts/a.html", "index.html"]);
        let [message] = &found[..] else { panic!("{found:?}") };
        assert!(message.ends_with("`.canneryignore`: `drafts/**`, `*.psd`"), "{message}");
        assert!(message.contains("such as `drafts/a.html`"), "{message}");
    }

    #[test]
    fn each_site_has_its_folder() {
        let configuration = r#"{"hosting": [
            {"public": "./app/", "ignore": ["private"]},
            {"public": "blog", "ignore": ["private"]},
            {"target": "none"}
        ]}"#;
        assert_eq!(messages(configuration, &["app/private/a.html", "private/a.html"]).len(), 1);
        assert_eq!(messages("{}", &["private/a.html"]), [""; 0]);
        assert_eq!(messages("not JSON", &["private/a.html"]), [""; 0]);
    }
}
