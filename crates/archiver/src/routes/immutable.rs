//! Marks files that are declared immutable with `--immutable`. Clients may keep these for a year.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::contents::content::Contents;
use crate::ground::diagnostic::Diagnostic;
use crate::settings::error::Error;
use crate::settings::options::Options;
use crate::sources::source::Sources;
use crate::tree::skip::PatternError;
use crate::tree::walk::SourceFile;

/// Marks files as fingerprinted when they (or a folder they are in) are matched by a pattern, like in
/// gitignore.
///
/// There is a warning for each pattern without a match.
pub(crate) fn mark(
    options: &Options,
    sources: &Sources,
    contents: &mut Contents,
) -> Result<Vec<Diagnostic>, Error> {
    if options.immutable.is_empty() {
        return Ok(Vec::new());
    }
    let patterns = globs(&options.immutable)?;
    let mut used = HashSet::new();
    for (file, known) in sources.files.iter().zip(&mut contents.by_source) {
        let path = OsStr::from_bytes(&file.path);
        if let Match::Ignore(glob) = patterns.matched_path_or_any_parents(path, false) {
            known.fingerprinted = true;
            used.insert(glob.original());
        }
    }

    let mut warnings = Vec::new();
    for pattern in options.immutable.iter().filter(|pattern| !used.contains(pattern.as_str())) {
        // Earlier patterns count as used, too, even if a later one has decided about this file.
        let alone = globs(std::slice::from_ref(pattern))?;
        let matches = |file: &SourceFile| {
            !alone.matched_path_or_any_parents(OsStr::from_bytes(&file.path), false).is_none()
        };
        if !sources.files.iter().any(matches) {
            let message = format!("`--immutable {pattern}` matches no file");
            warnings.push(Diagnostic::warning(b".", "immutable-unmatched", message));
        }
    }
    Ok(warnings)
}

fn globs(patterns: &[String]) -> Result<Gitignore, PatternError> {
    let mut builder = GitignoreBuilder::new("");
    for pattern in patterns {
        builder.add_line(None, pattern).map_err(|source| PatternError::new(pattern, source))?;
    }
    builder.build().map_err(|source| PatternError::new(&patterns.join(", "), source))
}
