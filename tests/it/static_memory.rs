//! The memory functions of static programs, under other names in a program of C.

use std::path::Path;
use std::process::Command;

use crate::harness::skip_outside;

#[test]
fn memory_functions_of_static_programs_copy_and_compare() {
    if !cfg!(target_arch = "x86_64") || skip_outside() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("check");
    let names = ["memcpy", "memmove", "memcmp", "bcmp"].map(|name| format!("-D{name}=tested_{name}"));
    // As in `build.rs`. The sanitizer reports accesses beyond the arrays.
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-fno-tree-loop-distribute-patterns"]);
    gcc.arg("-fsanitize=address,undefined").args(names).arg("-o").arg(&program);
    gcc.args(["src/musl/memory.c", "tests/it/static_memory/check.c"].map(|path| root.join(path)));
    assert!(gcc.status().expect("gcc is missing: `cargo xtask test` installs it").success());
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
