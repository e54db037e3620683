//! The dependencies in a `Cargo.toml`, read line by line: as much TOML as this project writes.
//!
//! It does not understand renamed dependencies (`package = "…"`), and says so where it meets one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What a manifest says about dependencies.
pub(crate) struct Manifest {
    /// Its path from the root of the workspace.
    pub(crate) path: String,
    /// Names of all dependencies: of the crate, of its tests, of its build, and of single platforms.
    pub(crate) dependencies: BTreeSet<String>,
}

impl Manifest {
    pub(crate) fn read(root: &Path, path: &str) -> Manifest {
        let text = fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(
            !text.contains("package = \""),
            "{path}: a renamed dependency cannot be checked; use its own name"
        );
        Manifest { path: path.to_owned(), dependencies: dependencies(&text) }
    }

    /// The folder of the manifest, from the root of the workspace.
    pub(crate) fn folder(&self) -> String {
        self.path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned())
    }

    /// The last part of the folder, which is the crate's short name.
    pub(crate) fn folder_name(&self) -> String {
        self.folder().rsplit('/').next().unwrap_or_default().to_owned()
    }
}

/// Names are what stands before `=` or `.` in a table of dependencies, or at the end of the table's own
/// name. The table of the workspace is a price list, not a purchase, and does not count.
fn dependencies(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut inside = false;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(table) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            let (before, name) = table.rsplit_once('.').unwrap_or(("", table));
            inside = is_table_of_dependencies(table);
            if !inside && is_table_of_dependencies(before) {
                names.insert(name.to_owned());
            }
        } else if inside && let Some((name, _)) = line.split_once(['=', '.', ' ']) {
            names.insert(name.trim_matches('"').to_owned());
        }
    }
    names
}

fn is_table_of_dependencies(table: &str) -> bool {
    table != "workspace.dependencies" && table.ends_with("dependencies")
}

#[test]
fn dependencies_are_found_in_every_spelling() {
    let text = r#"
[package]
name = "site"
[workspace.dependencies]
unused = "1"
[dependencies]
memchr.workspace = true
# commented = "1"
blake3 = { version = "1", features = ["std"] }
[dev-dependencies]
tempfile = "3"
[target.'cfg(unix)'.dependencies]
libc = "0.2"
[build-dependencies.cc]
version = "1"
[features]
default = []
"#;
    let expected = ["blake3", "cc", "libc", "memchr", "tempfile"].map(String::from);
    assert_eq!(dependencies(text), BTreeSet::from(expected));
}
