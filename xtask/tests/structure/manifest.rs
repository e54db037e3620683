//! The dependencies in a `Cargo.toml`, read line by line: the subset of TOML that this project uses.
//!
//! Panics on a renamed dependency (`package = "…"`), which it doesn't support.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The dependencies of a manifest.
pub(crate) struct Manifest {
    /// Path from the root of the workspace.
    pub(crate) path: String,
    /// Names of the dependencies of the crate, including those for the build and for single platforms.
    pub(crate) dependencies: BTreeSet<String>,
    /// Names of the dependencies of its tests.
    pub(crate) dev_dependencies: BTreeSet<String>,
}

impl Manifest {
    pub(crate) fn read(root: &Path, path: &str) -> Manifest {
        let text = fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(
            !text.contains("package = \""),
            "{path}: a renamed dependency is not supported; use its original name"
        );
        Manifest {
            path: path.to_owned(),
            dependencies: names_in(&text, is_table_of_dependencies),
            dev_dependencies: names_in(&text, is_table_of_dev_dependencies),
        }
    }

    /// Returns the names of the dependencies of the crate and of its tests.
    pub(crate) fn all_dependencies(&self) -> impl Iterator<Item = &String> {
        self.dependencies.union(&self.dev_dependencies)
    }

    /// Returns the directory of the manifest, from the root of the workspace.
    pub(crate) fn folder(&self) -> String {
        self.path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned())
    }

    /// Returns the name of the directory, which is the crate's short name.
    pub(crate) fn folder_name(&self) -> String {
        self.folder().rsplit('/').next().unwrap_or_default().to_owned()
    }
}

/// Returns the names before `=` or `.` in the tables that `is_table` selects, and those in the tables' own names.
fn names_in(text: &str, is_table: fn(&str) -> bool) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut inside = false;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(table) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            let (before, name) = table.rsplit_once('.').unwrap_or(("", table));
            inside = is_table(table);
            if !inside && is_table(before) {
                names.insert(name.to_owned());
            }
        } else if inside && let Some((name, _)) = line.split_once(['=', '.', ' ']) {
            names.insert(name.trim_matches('"').to_owned());
        }
    }
    names
}

/// Returns `true` if the table has dependencies of the crate. The table `workspace.dependencies` only declares versions.
fn is_table_of_dependencies(table: &str) -> bool {
    table != "workspace.dependencies"
        && table.ends_with("dependencies")
        && !is_table_of_dev_dependencies(table)
}

fn is_table_of_dev_dependencies(table: &str) -> bool {
    table.ends_with("dev-dependencies")
}

#[test]
fn dependencies_are_found_in_each_form() {
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

    let expected = ["blake3", "cc", "libc", "memchr"].map(String::from);
    assert_eq!(names_in(text, is_table_of_dependencies), BTreeSet::from(expected));
    assert_eq!(names_in(text, is_table_of_dev_dependencies), BTreeSet::from(["tempfile".to_owned()]));
}
