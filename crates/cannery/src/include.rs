//! `include_archive!`, which embeds an archive into the program.
//!
//! The macro contains the only `unsafe` code of this crate: a reference to data that is added by the linker. Note that it can be
//! used in crates with `#![forbid(unsafe_code)]` too, because rustc does not report `unsafe_code` in macros from other crates.

/// Embeds an archive into the program, as an [`EmbeddedSite`](crate::EmbeddedSite).
///
/// The argument is the name of an archive that a build script of the same package has built with `cannery-build`:
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
/// On Linux (x86-64 and AArch64), the linker will embed the archive. This only takes a fraction of the time and memory that
/// the compiler would need to include a file. C libraries (`staticlib`) have to leave it to the compiler there too, by
/// calling `cannery_build::Builder::included`.
///
/// With `include_archive!(path = "../site.cdb")`, the path is relative to the source file, just like with `include_bytes!`. This
/// form should only be used for archives of up to a few megabytes.
///
/// If the archive has another format version, or if the build script has not built one with this name, the program does not compile.
///
/// # Safety
///
/// The macro expands to a reference to data that the linker adds, which is `unsafe`. This is sound, because the build script declares
/// the symbol with the length of the archive that it has written. Crates with `#![forbid(unsafe_code)]` can use the macro.
#[macro_export]
macro_rules! include_archive {
    (path = $path:literal) => {{
        const ARCHIVE: &[u8] = include_bytes!($path);
        $crate::EmbeddedSite::new(ARCHIVE, ARCHIVE, None)
    }};
    ($name:literal) => {{
        // `cannery-build` has decided whether the linker or the compiler should embed the archive, and has written the
        // files for it. Miri does not have a linker. Cargo only expects the condition if there is a build script that declares it.
        #[allow(unexpected_cfgs)]
        let (beginning, archive) = {
            #[cfg(all(cannery_linked = $name, not(miri)))]
            let embedded = {
                unsafe extern "C" {
                    #[link_name = include_str!(concat!($crate::archive_path!($name), ".symbol"))]
                    static ARCHIVE: [u8; include!(concat!($crate::archive_path!($name), ".length"))];
                }
                const BEGINNING: &[u8] = include_bytes!(concat!($crate::archive_path!($name), ".beginning"));
                // SAFETY: the symbol is named after the digest of the archive, has the archive's length, and nothing writes to it.
                let archive: &'static [u8] = unsafe { &ARCHIVE };
                (BEGINNING, archive)
            };
            #[cfg(not(all(cannery_linked = $name, not(miri))))]
            let embedded = {
                const ARCHIVE: &[u8] = include_bytes!($crate::archive_path!($name));
                (ARCHIVE, ARCHIVE)
            };
            embedded
        };

        let source = include_str!(concat!($crate::archive_path!($name), ".source"));
        $crate::EmbeddedSite::new(beginning, archive, Some(source))
    }};
}

/// Returns the path of an archive. The build script sets the variable only for archives of its last run, as `OUT_DIR` may also have
/// those of earlier ones.
#[doc(hidden)]
#[macro_export]
macro_rules! archive_path {
    ($name:literal) => {
        env!(
            concat!("CANNERY_ARCHIVE_", $name),
            concat!(
                "the build script of this package hasn't built `",
                $name,
                "`: call `cannery_build::archive(FOLDER).emit(\"",
                $name,
                "\")` in build.rs"
            )
        )
    };
}
