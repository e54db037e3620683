//! Compiles the site, which becomes part of the program.

#![forbid(unsafe_code)]

fn main() {
    cannery_build::archive("../site").emit("site.cdb");
}
