//! `include_archive!`, which embeds an archive into the program.
//!
//! The macro contains this crate's only `unsafe` code: a reference to data that is added by the linker. It works even if the user's
//! crate has `#![forbid(unsafe_code)]` because rustc does not report `unsafe_code` in macros from other crates.

/// Embeds an archive into the program, as an [`EmbeddedSite`](crate::EmbeddedSite).
///
/// The archive is the file with this name in Cargo's `OUT_DIR`. You can write it there with `cannery-build` in a build script:
///
/// ```ignore
/// // build.rs
/// fn main() {
///     cannery_build::archive("web/dist").emit("site.cdb");
/// }
/// ```
///
/// ```ignore
/// // main.rs
/// static SITE: cannery::EmbeddedSite = cannery::include_archive!("site.cdb");
///
/// let app = axum::Router::new().fallback_service(SITE.service());
/// ```
///
/// On Linux (x86-64 and AArch64), the linker embeds the archive. This takes a fraction of the time and memory that the compiler
/// would need for an included file. For C libraries (`staticlib`), you need to call `cannery_build::Builder::included`, which
/// leaves it to the compiler there too.
///
/// With `include_archive!(path = "../site.cdb")`, the path is relative to the source file, just like with `include_bytes!`. This
/// should only be used for archives of up to a few megabytes.
///
/// If the archive has another format version, the program does not compile.
#[macro_export]
macro_rules! include_archive {
    (path = $path:literal) => {{
        const ARCHIVE: &[u8] = include_bytes!($path);
        $crate::EmbeddedSite::new(ARCHIVE, ARCHIVE, None)
    }};
    ($name:literal) => {{
        // `cannery-build` has decided who embeds the archive, and has written the files for that. Miri does not have a linker.
        #[cfg(all(cannery_linked = $name, not(miri)))]
        let (beginning, archive) = {
            unsafe extern "C" {
                #[link_name = include_str!(concat!(env!("OUT_DIR"), "/", $name, ".symbol"))]
                static ARCHIVE: [u8; include!(concat!(env!("OUT_DIR"), "/", $name, ".length"))];
            }
            const BEGINNING: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".beginning"));
            // SAFETY: the symbol is named after the digest of the archive, has the archive's length, and nothing writes to it.
            let archive: &'static [u8] = unsafe { &ARCHIVE };
            (BEGINNING, archive)
        };
        #[cfg(not(all(cannery_linked = $name, not(miri))))]
        let (beginning, archive) = {
            const ARCHIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/", $name));
            (ARCHIVE, ARCHIVE)
        };

        let source = include_str!(concat!(env!("OUT_DIR"), "/", $name, ".source"));
        $crate::EmbeddedSite::new(beginning, archive, Some(source))
    }};
}
