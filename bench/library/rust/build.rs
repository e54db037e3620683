//! Embeds the site, for each library that does so in a build script.

#![forbid(unsafe_code)]

fn main() {
    cannery_build::archive("site").emit("site.cdb");
    memory_serve::load_directory("./site");
}
