//! Warns about names that are left out by the built-in rules even though the site seems to need
//! them.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::gitignore::GitignoreBuilder;

use crate::ground::diagnostic::Diagnostic;
use crate::sources::source::Sources;
use crate::tree::folder_file;
use crate::tree::skip::{IGNORE_FILE, IGNORE_FILE_BYTES_MAX, SkipReason};
use crate::tree::walk::Skipped;

/// Maximum number of entries to examine in a folder.
const ENTRIES_MAX: usize = 20_000;

/// Maximum number of bytes of a `.htaccess` in which to look for rules.
const HTACCESS_BYTES_MAX: u64 = 1 << 20;

/// Limits the warnings about pages.
const REPORTED_MAX: usize = 5;

/// Suffixes of pages.
const PAGE_SUFFIXES: [&str; 4] = [".html", ".htm", ".xhtml", ".xht"];

/// Tools keep pages in these folders that belong to no site.
const TOOL_FOLDERS: [&str; 38] = [
    ".angular",
    ".astro",
    ".bundle",
    ".bzr",
    ".cache",
    ".circleci",
    ".doctrees",
    ".docusaurus",
    ".eleventy-cache",
    ".expo",
    ".firebase",
    ".git",
    ".github",
    ".gitlab",
    ".gradle",
    ".hg",
    ".idea",
    ".ipynb_checkpoints",
    ".jekyll-cache",
    ".jekyll-metadata",
    ".netlify",
    ".next",
    ".npm",
    ".nuxt",
    ".nyc_output",
    ".output",
    ".parcel-cache",
    ".quarto",
    ".sass-cache",
    ".svelte-kit",
    ".svn",
    ".temp",
    ".tmp",
    ".tox",
    ".venv",
    ".vercel",
    ".vscode",
    ".wrangler",
];

/// `.htaccess` directives that our rules can express.
const APACHE_RULES: [&str; 14] = [
    "AddType",
    "DirectoryIndex",
    "ErrorDocument",
    "ExpiresByType",
    "ExpiresDefault",
    "FallbackResource",
    "ForceType",
    "Header",
    "Redirect",
    "RedirectMatch",
    "RedirectPermanent",
    "RedirectTemp",
    "RewriteCond",
    "RewriteRule",
];

/// Files, in the root, with patterns of names that other hosts don't publish.
const FOREIGN_IGNORE_FILES: [&str; 3] = [".assetsignore", ".gcloudignore", ".vercelignore"];

/// Diagnostic code for pages that were left out.
pub(crate) const PAGES_LEFT_OUT: &str = "pages-left-out";

/// Warns about names that were left out.
pub(super) fn find(sources: &Sources) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut with_pages = 0;
    for skipped in sources.skipped.iter().filter(|skipped| is_built_in(skipped)) {
        let name = name_of(&skipped.path);
        if name == b".htaccess" {
            found.extend(apache_rules(&sources.root, &skipped.path));
        } else if FOREIGN_IGNORE_FILES.iter().any(|known| *skipped.path == *known.as_bytes()) {
            found.extend(foreign_patterns(sources, &skipped.path));
        } else if name == IGNORE_FILE.as_bytes() && *skipped.path != *name {
            let message = "has no effect in this folder; write its patterns into `.canneryignore` in the root, as `folder/pattern`";
            found.push(Diagnostic::warning_that(&skipped.path, "near-miss", message));
        } else {
            let pages = pages(&sources.root, skipped);
            with_pages += usize::from(pages > 0);
            if pages > 0 && with_pages <= REPORTED_MAX {
                let pages = if pages == 1 { "1 page".to_owned() } else { format!("{pages} pages") };
                found.push(warning(skipped, PAGES_LEFT_OUT, &format!("{pages} that no client can open")));
            }
        }
    }

    if let Some(more) = with_pages.checked_sub(REPORTED_MAX).filter(|more| *more > 0) {
        let message = format!("{more} more names with pages are left out");
        found.push(Diagnostic::warning(b".", PAGES_LEFT_OUT, message));
    }
    found
}

/// Warns about a name that was left out although links lead to it.
pub(crate) fn linked(skipped: &Skipped, links: usize) -> Diagnostic {
    let links =
        if links == 1 { "1 link leads to it".to_owned() } else { format!("{links} links lead to it") };
    warning(skipped, "linked-left-out", &links)
}

/// Whether the name was left out by built-in rules, that is, not by a pattern of the author.
pub(crate) fn is_built_in(skipped: &Skipped) -> bool {
    !matches!(skipped.reason, SkipReason::Pattern { .. })
}

fn warning(skipped: &Skipped, code: &'static str, why: &str) -> Diagnostic {
    let pattern = escaped(name_of(&skipped.path));
    let message = format!(
        "is left out, because {}: {why}; `--ignore '!{pattern}'` publishes it, and `--ignore '{pattern}'` leaves it out without this \
         warning (or the same in a line of `{IGNORE_FILE}`)",
        skipped.reason
    );
    Diagnostic::warning_that(&skipped.path, code, message)
}

/// Escapes a name, so that the gitignore pattern matches nothing else.
fn escaped(name: &[u8]) -> String {
    let mut pattern = String::new();
    for (place, character) in String::from_utf8_lossy(name).chars().enumerate() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\') || place == 0 && matches!(character, '#' | '!') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// Counts the pages below a name that was left out.
fn pages(root: &Path, skipped: &Skipped) -> u64 {
    let name = name_of(&skipped.path);
    let full_path = root.join(OsStr::from_bytes(&skipped.path));
    if !skipped.is_folder {
        // AppleDouble files and editor locks share the suffix of their page.
        let is_companion = name.starts_with(b"._") || name.starts_with(b".#") || name.starts_with(b".~");
        let is_page = skipped.reason == SkipReason::Hidden || skipped.reason == SkipReason::Hash;
        return u64::from(is_page && !is_companion && is_page_name(name) && full_path.is_file());
    }
    if TOOL_FOLDERS.iter().any(|tool| name == tool.as_bytes())
        || matches!(skipped.reason, SkipReason::DesktopFile(_))
    {
        return 0;
    }

    let mut pages = 0;
    let mut seen = 0;
    let mut folders = vec![full_path];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > ENTRIES_MAX {
                return pages;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    pages += u64::from(is_page_name(entry.file_name().as_bytes()));
                }
                _ => {}
            }
        }
    }
    pages
}

fn is_page_name(name: &[u8]) -> bool {
    let lower = name.to_ascii_lowercase();
    PAGE_SUFFIXES.iter().any(|suffix| lower.ends_with(suffix.as_bytes()))
}

/// Warns about the first rule in a `.htaccess`.
fn apache_rules(root: &Path, path: &[u8]) -> Option<Diagnostic> {
    let mut text = Vec::new();
    // A file that can't be read is reported as possible access control.
    let file = folder_file::open(&folder_file::full_path(root, path)).ok()?;
    file.take(HTACCESS_BYTES_MAX).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let directive = |line: &str| {
        let word = line.split_ascii_whitespace().next()?;
        APACHE_RULES.iter().find(|rule| rule.eq_ignore_ascii_case(word)).copied()
    };
    let mut rules = (1u32..).zip(text.lines()).filter_map(|(line, text)| Some((line, directive(text)?)));
    let (line, first) = rules.next()?;
    let others = match rules.count() {
        0 => String::new(),
        1 => " and 1 more rule".to_owned(),
        count => format!(" and {count} more rules"),
    };
    let message = format!(
        "`{first}`{others} have no effect, because this server does not read `.htaccess`; write them as rules in `_redirects` and \
         `_headers` or as a page `404.html`, and remove the file, or name it in `{IGNORE_FILE}`"
    );
    let message = if others.is_empty() { message.replace("` have no", "` has no") } else { message };
    Some(Diagnostic::warning(path, "foreign-configuration", message).at_line(line))
}

/// Warns about a file with patterns in gitignore syntax for another host if they match a file that is published here.
fn foreign_patterns(sources: &Sources, path: &[u8]) -> Option<Diagnostic> {
    let mut text = Vec::new();
    let file = folder_file::open(&folder_file::full_path(&sources.root, path)).ok()?;
    file.take(IGNORE_FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
    let mut builder = GitignoreBuilder::new(".");
    for line in String::from_utf8_lossy(&text).lines() {
        // The other host reports lines that are invalid.
        let _ = builder.add_line(None, line);
    }

    let patterns = builder.build().ok()?;
    let is_ignored = |path: &[u8]| {
        patterns.matched_path_or_any_parents(Path::new(OsStr::from_bytes(path)), false).is_ignore()
    };
    let published = sources.files.iter().find(|file| is_ignored(&file.path))?;
    let message = format!(
        "has no effect here, so files that another host leaves out are published, such as `{}`; copy its lines into `{IGNORE_FILE}`",
        String::from_utf8_lossy(&published.path)
    );
    Some(Diagnostic::warning_that(path, "foreign-configuration", message))
}

fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}
