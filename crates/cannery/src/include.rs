//! `include_archive!`, which makes an archive part of the program.
//!
//! The macro has the only `unsafe` code of the crate: a reference to data that the linker adds. It is expanded in the crate of
//! the user, even under `#![forbid(unsafe_code)]`: rustc doesn't report `unsafe_code` in code from another crate's macro.

/// Makes an archive part of the program, as an [`Embedded`](crate::Embedded) site.
///
/// The file is `NAME` in Cargo's `OUT_DIR`, where `cannery-build` writes it from a build script:
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
/// static SITE: cannery::Embedded = cannery::include_archive!("site.cdb");
///
/// let app = axum::Router::new().fallback_service(SITE.service());
/// ```
///
/// On Linux (x86-64 and AArch64), the linker makes the archive part of the program, which costs a fraction of the time and memory
/// that the compiler needs for included files. `cannery_build::Builder::included` leaves it to the compiler there too, which
/// C libraries (`staticlib`) need.
///
/// `include_archive!(path = "../site.cdb")` includes a file by its path relative to the source file, as `include_bytes!` does. It
/// is meant for archives of a few megabytes.
///
/// An archive of another version of the format is an error of the compiler.
#[macro_export]
macro_rules! include_archive {
    (path = $path:literal) => {{
        const ARCHIVE: &[u8] = include_bytes!($path);
        $crate::Embedded::new(ARCHIVE, ARCHIVE, None)
    }};
    ($name:literal) => {{
        // `cannery-build` has decided how the archive becomes part of the program, and written the files next to it. Miri has no
        // linker.
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
        $crate::Embedded::new(beginning, archive, Some(source))
    }};
}
