//! Words that `docs/style.md` replaces by standard terms, in comments and documents.

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::project;

/// The words, in lower case, and what to write instead. Only whole words match, outside of backticks.
const WORDS: [(&str, &str); 14] = [
    ("whoever", "the actor: the client, the peer, the caller, the operator"),
    ("somebody", "the actor: the client, the peer, the caller, the operator"),
    ("anybody", "the actor: the client, the peer, the caller, the operator"),
    ("everybody", "the actor: the client, the peer, the caller, the operator"),
    ("nobody", "the actor with \"no\": no client, no thread"),
    ("shall", "must, should or will"),
    ("anew", "again"),
    ("likewise", "similarly, also"),
    ("thereby", "this way"),
    ("for ever", "forever"),
    ("in the place of", "instead of"),
    ("tells whether", "\"Returns `true` if\""),
    ("says whether", "\"Returns `true` if\""),
    ("lent", "borrow, or send zero-copy"),
];

/// Words that don't open a sentence, unless it is a question.
const OPENINGS: [(&str, &str); 2] = [("What", "the noun"), ("Who", "the actor")];

/// The directories and files that are searched, as paths from the root.
const SEARCHED: [&str; 9] =
    ["crates", "src", "tests", "xtask", "bench", "docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Paths that are not searched: generated files, and texts that name the words.
const SKIPPED: [&str; 6] = [
    "docs/style.md",
    "docs/reference",
    "xtask/src/wording.rs",
    "bench/results",
    "bench/counts",
    "tests/it/sandbox.rs",
];

/// Searches the project. Returns one line for each finding.
pub(crate) fn check() -> Result<Vec<String>, Error> {
    let mut findings = Vec::new();
    for path in SEARCHED {
        search_below(path, &mut findings)?;
    }
    Ok(findings)
}

/// Searches a file, or all files in a directory, in order.
fn search_below(path: &str, findings: &mut Vec<String>) -> Result<(), Error> {
    if SKIPPED.contains(&path) {
        return Ok(());
    }

    let place = project::root().join(path);
    if place.is_dir() {
        let entries = fs::read_dir(&place).map_err(|source| Error::file(&place, source))?;
        let mut names: Vec<_> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        for name in names.iter().filter(|name| *name != "target") {
            search_below(&format!("{path}/{name}"), findings)?;
        }
        return Ok(());
    }

    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    if let Some(extension @ ("rs" | "md")) = extension {
        let text = fs::read_to_string(&place).map_err(|source| Error::file(&place, source))?;
        for (number, instead) in found_in(&text, extension == "rs") {
            findings.push(format!("{path}:{number}: {instead}"));
        }
    }
    Ok(())
}

/// Returns the number of each line with a listed word, and the remedy. Of code, only lines with nothing but a comment count.
fn found_in(text: &str, is_code: bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if is_code && !line.starts_with("//") {
            continue;
        }

        // Every second part is in backticks.
        let prose: Vec<&str> = line.split('`').step_by(2).collect();
        let prose = prose.join("`");
        let mut add = |(word, instead): (&str, &str)| {
            found.push((index + 1, format!("\"{word}\": write {instead}")));
        };
        let lower = format!(" {} ", prose.to_lowercase().replace(|c: char| !c.is_alphanumeric(), " "));
        WORDS.into_iter().filter(|(word, _)| lower.contains(&format!(" {word} "))).for_each(&mut add);
        if !prose.contains('?') {
            let opening = prose.trim_start_matches(['/', '!', ' ', '-', '*']);
            let opens = |(word, _): &(&str, &str)| {
                opening.strip_prefix(*word).is_some_and(|rest| rest.starts_with(' '))
            };
            OPENINGS.into_iter().filter(opens).for_each(&mut add);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_prose_only() {
        let code = "/// Nobody reads it.\nlet nobody = 1; // nobody\n/// The user `nobody`.\n/// What it has.\n/// What is it?\n";
        let lines: Vec<usize> = found_in(code, true).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 4]);
        assert_eq!(found_in("It waits for ever.", false)[0].1, "\"for ever\": write forever");
        assert!(found_in("Every body is sent.", false).is_empty());
    }
}
