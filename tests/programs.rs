//! The programs start. This file compiles in a second, and makes cargo build the programs for tests that only run them.

use std::process::Command;

#[test]
fn programs_know_their_version() {
    for (name, path) in [
        ("cannery", env!("CARGO_BIN_EXE_cannery")),
        ("cannery-archiver", env!("CARGO_BIN_EXE_cannery-archiver")),
        ("cannery-server", env!("CARGO_BIN_EXE_cannery-server")),
    ] {
        let output = Command::new(path).arg("--version").output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed, format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
    }
}
