//! How many files a typical change touches: what must agree should be in one place.
//!
//! Each example was added in the way that others of its kind would be. We count the files of the product whose code names it.

use std::fmt::Write;

use crate::sources::{self, is_part_of_identifier};

/// A kind of change.
struct Kind {
    name: &'static str,
    /// Names that were added, each with its change alone.
    examples: &'static [&'static str],
    /// How many files may name an example.
    files_max: usize,
}

const KINDS: [Kind; 3] = [
    // A coding also has a file of its own.
    Kind { name: "a content coding", examples: &["Coding::Zstd", "Coding::Brotli"], files_max: 4 },
    Kind { name: "an effect of a header rule", examples: &["HeaderEffect::Join"], files_max: 5 },
    Kind {
        name: "a flag",
        examples: &["acme_webroot", "proxy_protocol", "exclude_slash_redirects", "previous_age_days"],
        files_max: 4,
    },
];

/// Returns each example with the files that name it, and the remarks about those that have too many.
fn count() -> (String, Vec<String>) {
    let product = ["crates", "src"].into_iter().flat_map(|folder| sources::below(crate::root(), folder));
    let product: Vec<_> = product.filter(|source| is_product(&source.path)).collect();

    let mut table = String::new();
    let mut findings = Vec::new();
    for Kind { name, examples, files_max } in KINDS {
        for example in examples {
            let names_it = |code: &str| sources::has_word(code, example, is_part_of_identifier);
            let files = product.iter().filter(|source| names_it(without_tests(&source.code)));
            let files: Vec<_> = files.map(|source| source.path.as_str()).collect();
            assert!(!files.is_empty(), "{example} is gone: take another example of {name}");

            writeln!(table, "{name} ({example}): {}", files.join(" ")).expect("a string takes all");
            if files.len() > files_max {
                findings.push(format!("{name} ({example}): {} files, {}", files.len(), files.join(" ")));
            }
        }
    }
    (table, findings)
}

fn is_product(path: &str) -> bool {
    !["/tests", "/simulation", "/examples/", "/benches/"].iter().any(|part| path.contains(part))
}

/// Returns the code before the module of tests at the end of a file.
fn without_tests(code: &str) -> &str {
    code.split("#[cfg(test)]\nmod tests").next().unwrap_or(code)
}

/// `cargo test --package xtask --test structure spread -- --nocapture` prints the files.
#[test]
fn changes_touch_few_files() {
    let (table, findings) = count();
    println!("{table}");
    crate::report("Bring together what changes together.", &findings);
}
