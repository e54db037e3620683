//! Programs with musl for x86-64 get memory functions of their own: those of musl are written for size.

use std::env;

const SOURCE: &str = "src/musl/memory.c";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={SOURCE}");
    let target_is =
        |part: &str, value: &str| env::var(format!("CARGO_CFG_TARGET_{part}")).as_deref() == Ok(value);
    if target_is("ENV", "musl") && target_is("ARCH", "x86_64") {
        // Without these options, the compiler may replace the functions' loops by calls of the functions themselves.
        let mut compiler = cc::Build::new();
        compiler.file(SOURCE).opt_level(2).flag("-ffreestanding");
        compiler.flag_if_supported("-fno-tree-loop-distribute-patterns");
        compiler.cargo_metadata(false).compile("memory");
        let target = env::var("TARGET").unwrap_or_default().replace('-', "_");
        for name in ["CC", "CFLAGS"] {
            println!("cargo:rerun-if-env-changed={name}");
            println!("cargo:rerun-if-env-changed=TARGET_{name}");
            println!("cargo:rerun-if-env-changed={name}_{target}");
        }

        // The whole archive is linked, so that all of them are defined before the C library's archive is searched.
        let directory = env::var("OUT_DIR").unwrap_or_default();
        println!("cargo:rustc-link-search=native={directory}");
        println!("cargo:rustc-link-lib=static:+whole-archive=memory");
    }
}
