//! Tests programs that embed archives: Cargo builds a package from the files in `crates/build/fixture`, and the tests
//! run its program.
//!
//! The package must not be part of our workspace, where other packages enable the feature `follow` of `cannery`; outside of it,
//! even debug builds serve the embedded bytes. The first build has to compile the archiver and its libraries once more. Later
//! builds will only compile changed files.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

/// Manifest of the package. Paths are relative to the root of our workspace. We will replace `ROOT`
/// with it.
const MANIFEST: &str = r#"
[workspace]

[package]
name = "embedding-fixture"
version = "0.1.0"
edition = "2024"
build = "ROOT/crates/build/fixture/build.rs"

[lib]
path = "ROOT/crates/build/fixture/lib.rs"

[[bin]]
name = "embedding-fixture"
path = "ROOT/crates/build/fixture/main.rs"

[dependencies]
cannery.path = "ROOT/crates/cannery"

[build-dependencies]
cannery-build.path = "ROOT/crates/build"

[profile.dev]
debug = false
"#;

/// All tests share one package directory, so only one of them may build the package and run its
/// program at a time.
static PACKAGE: Mutex<()> = Mutex::new(());

/// A folder, and the package into which its archives are built.
struct Fixture {
    folder: TempDir,
    package: PathBuf,
    _lock: MutexGuard<'static, ()>,
}

impl Fixture {
    fn new() -> Fixture {
        let lock = PACKAGE.lock().unwrap_or_else(PoisonError::into_inner);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("embedding");
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("Cargo.toml"), MANIFEST.replace("ROOT", root.to_str().unwrap())).unwrap();
        // Use the same versions as our workspace, because these have been downloaded already. Cargo will remove those
        // that the package doesn't need.
        fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")).unwrap();

        let fixture = Fixture { folder: TempDir::new().unwrap(), package, _lock: lock };
        fixture.write("index.html", "home");
        fixture.write("part/a.txt", "a");
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), content).unwrap();
    }

    /// Returns the directory of debug builds.
    fn builds(&self) -> PathBuf {
        self.package.join("target/debug")
    }

    /// Has Cargo build the program, with these variables for the build script.
    fn try_build(&self, variables: &[(&str, &str)]) -> Output {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--offline"]).current_dir(&self.package);
        cargo.env("CARGO_TARGET_DIR", "target").env_remove("CARGO_BUILD_TARGET");
        for variable in ["FIXTURE_INCLUDED", "FIXTURE_ZEROED", "FIXTURE_WITHOUT_OTHER"] {
            cargo.env_remove(variable);
        }
        cargo.env("FIXTURE_FOLDER", self.folder.path()).envs(variables.iter().copied());
        cargo.output().unwrap()
    }

    fn build(&self, variables: &[(&str, &str)]) {
        let output = self.try_build(variables);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs the program and returns the contents that its archives have at a path.
    fn run(&self, path: &str) -> [String; 4] {
        let output = Command::new(self.builds().join("embedding-fixture")).arg(path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let contents = ["site", "library's site", "other", "included"].map(|name| {
            let prefix = format!("{name} {path} ");
            text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default().to_owned()
        });
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        contents
    }

    /// Lists the names of the files that the build script has written for an archive, except for the archive
    /// itself. They are sorted.
    fn parts(&self, archive: &str) -> Vec<String> {
        let builds = fs::read_dir(self.builds().join("build")).unwrap();
        let outputs = builds
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("embedding-fixture-"))
            .map(|entry| entry.path().join("out"))
            .filter(|output| output.join(archive).exists());
        // Earlier compilers may have left their own.
        let newest = outputs.max_by_key(|output| modified(&output.join(archive))).unwrap();
        let files = fs::read_dir(newest).unwrap();
        let names = files.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut parts: Vec<_> = names
            .filter_map(|name| Some(name.strip_prefix(archive)?.strip_prefix('.')?.to_owned()))
            .collect();
        parts.sort();
        parts
    }
}

fn modified(path: &Path) -> std::time::SystemTime {
    path.metadata().unwrap().modified().unwrap()
}

/// Whether archives are linked. Other targets include each of them.
const IS_LINKED: bool = cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));

#[test]
#[ignore = "the first build takes minutes; `cargo xtask test` runs it"]
fn changes_of_the_folder_are_built() {
    let fixture = Fixture::new();
    fixture.build(&[]);
    assert_eq!(fixture.run("/"), ["home"; 4]);
    assert_eq!(fixture.run("/part/a.txt"), ["a", "a", "missing", "a"]);

    // The program has bytes of its own until it is built again.
    fixture.write("index.html", "changed");
    assert_eq!(fixture.run("/"), ["home"; 4]);
    fixture.write("part/deeper/b.txt", "b");
    fixture.build(&[]);
    assert_eq!(fixture.run("/"), ["changed"; 4]);
    assert_eq!(fixture.run("/part/deeper/b.txt"), ["b", "b", "missing", "b"]);

    fixture.write("part/deeper/b.txt", "other");
    fixture.build(&[]);
    assert_eq!(fixture.run("/part/deeper/b.txt"), ["other", "other", "missing", "other"]);

    fs::remove_file(fixture.path("part/deeper/b.txt")).unwrap();
    fixture.build(&[]);
    assert_eq!(fixture.run("/part/deeper/b.txt"), ["missing"; 4]);
    assert_eq!(fixture.run("/"), ["changed"; 4]);
}

#[test]
#[ignore = "the first build takes minutes; `cargo xtask test` runs it"]
fn archive_may_change_between_linked_and_included() {
    const LINKED_PARTS: [&str; 4] = ["beginning", "length", "source", "symbol"];
    let fixture = Fixture::new();
    fixture.build(&[]);
    assert_eq!(fixture.parts("included.cdb"), ["source"]);
    if IS_LINKED {
        assert_eq!(fixture.parts("site.cdb"), LINKED_PARTS);
    }

    fixture.write("index.html", "included");
    fixture.build(&[("FIXTURE_INCLUDED", "1")]);
    assert_eq!(fixture.run("/"), ["included"; 4]);
    assert_eq!(fixture.parts("site.cdb"), ["source"]);

    fixture.write("index.html", "linked");
    fixture.build(&[]);
    assert_eq!(fixture.run("/"), ["linked"; 4]);
    if IS_LINKED {
        assert_eq!(fixture.parts("site.cdb"), LINKED_PARTS);
    }
}

#[test]
#[ignore = "the first build takes minutes; `cargo xtask test` runs it"]
fn archive_of_another_version_is_an_error_of_the_compiler() {
    let fixture = Fixture::new();
    for file in ["site.cdb.beginning", "included.cdb"] {
        let output = fixture.try_build(&[("FIXTURE_ZEROED", file)]);
        let errors = String::from_utf8(output.stderr).unwrap();
        // Where the compiler includes each archive, it doesn't read this file.
        if file == "included.cdb" || IS_LINKED {
            assert!(!output.status.success(), "{file}");
            let message = "not an archive of the format version that this release of cannery reads";
            assert!(errors.contains(message), "{file}: {errors}");
        }
    }
    fixture.build(&[]);
}

/// `OUT_DIR` still has the archive of the first build.
#[test]
#[ignore = "the first build takes minutes; `cargo xtask test` runs it"]
fn archive_that_is_not_built_any_more_is_an_error_of_the_compiler() {
    let fixture = Fixture::new();
    fixture.build(&[]);
    let output = fixture.try_build(&[("FIXTURE_WITHOUT_OTHER", "1")]);
    let errors = String::from_utf8(output.stderr).unwrap();
    let message = "the build script of this package hasn't built `other.cdb`: \
                   call `cannery_build::archive(FOLDER).emit(\"other.cdb\")` in build.rs";
    assert!(!output.status.success() && errors.contains(message), "{errors}");
    assert!(!errors.contains("couldn't read"), "{errors}");
    fixture.build(&[]);
}

/// Only the build script tells Cargo about the condition that the macro uses.
#[test]
#[ignore = "the first build takes minutes; `cargo xtask test` runs it"]
fn package_without_build_script_gets_an_error_and_no_warning() {
    let mut fixture = Fixture::new();
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("embedding-nothing");
    fs::create_dir_all(package.join("src")).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let cannery = root.join("crates/cannery");
    let manifest = format!(
        "[workspace]\n[package]\nname = \"embedding-nothing\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
         [dependencies]\ncannery.path = {cannery:?}\n[profile.dev]\ndebug = false\n"
    );
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    fs::copy(fixture.package.join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    let program = "static SITE: cannery::EmbeddedSite = cannery::include_archive!(\"site.cdb\");\n\
        fn main() { println!(\"{SITE:?}\"); }\n";
    fs::write(package.join("src/main.rs"), program).unwrap();

    let target = std::mem::replace(&mut fixture.package, package).join("target");
    let output = fixture.try_build(&[("CARGO_TARGET_DIR", target.to_str().unwrap())]);
    let errors = String::from_utf8(output.stderr).unwrap();
    let message = "the build script of this package hasn't built `site.cdb`";
    assert!(!output.status.success() && errors.contains(message), "{errors}");
    assert!(!errors.contains("unexpected `cfg`"), "{errors}");
}
