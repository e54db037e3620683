//! Messages for programs that use `cannery-build`. These do not have flags, so we need to name methods in
//! messages instead.

use crate::ground::diagnostic::{Diagnostic, Severity};
use crate::settings::error::Error;

/// A flag and the method that has the same effect.
struct Method {
    flag: &'static str,
    name: &'static str,
    takes_value: bool,
}

const METHODS: [Method; 4] = [
    Method { flag: "--allow-sparse", name: "allow_sparse", takes_value: false },
    Method { flag: "--follow-links", name: "follow_links", takes_value: false },
    Method { flag: "--ignore", name: "ignore", takes_value: true },
    Method { flag: "--immutable", name: "immutable", takes_value: true },
];

/// Describes a diagnostic with its file and line.
#[must_use]
pub fn describe(diagnostic: &Diagnostic) -> String {
    let line = diagnostic.line.map_or_else(String::new, |line| format!(":{line}"));
    format!("{}{line}: {}", diagnostic.file, with_methods(&diagnostic.message))
}

/// Describes why no archive was built.
///
/// When this is due to diagnostics, they are appended, one per line.
#[must_use]
pub fn describe_error(error: &Error) -> String {
    let (report, severity, cause) = match error {
        Error::Sources { report, .. } => (report, Severity::Error, "the folder has errors"),
        Error::Strict { report, .. } => {
            (report, Severity::Warning, "the folder causes warnings, which `.strict()` refuses")
        }
        _ => return with_methods(&error.to_string()),
    };
    let found = report.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity);
    let lines: String = found.map(|diagnostic| format!("\n  {}", describe(diagnostic))).collect();
    format!("{cause}:{lines}")
}

/// Replaces flags in backticks, such as `--ignore '*.log'`, with calls of their methods.
fn with_methods(text: &str) -> String {
    let mut parts = text.split('`');
    let mut result = parts.next().unwrap_or_default().to_owned();
    // Every second part was between backticks.
    for (index, part) in parts.enumerate() {
        result.push('`');
        match index % 2 {
            0 => result.push_str(&method_of(part).unwrap_or_else(|| part.to_owned())),
            _ => result.push_str(part),
        }
    }
    result
}

fn method_of(code: &str) -> Option<String> {
    let (flag, value) = match code.split_once(' ') {
        Some((flag, value)) => (flag, Some(value.trim_matches('\''))),
        None => (code, None),
    };
    let method = METHODS.iter().find(|method| method.flag == flag)?;
    let argument = match value {
        Some(value) => format!("{value:?}"),
        None if method.takes_value => "…".to_owned(),
        None => String::new(),
    };
    Some(format!(".{}({argument})", method.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::options::Options;

    #[test]
    fn flags_become_methods() {
        for (text, expected) in [
            ("leave it out with `--ignore`", "leave it out with `.ignore(…)`"),
            ("`--ignore '!.net'` publishes `tags/.net`", "`.ignore(\"!.net\")` publishes `tags/.net`"),
            (
                "`--ignore node_modules`, or `--follow-links`",
                "`.ignore(\"node_modules\")`, or `.follow_links()`",
            ),
            ("`--immutable '/assets/'` says so", "`.immutable(\"/assets/\")` says so"),
            ("`x` accept it with `--allow-sparse`", "`x` accept it with `.allow_sparse()`"),
            ("start with `--https-redirect`", "start with `--https-redirect`"),
            ("an odd ` and --ignore", "an odd ` and --ignore"),
        ] {
            assert_eq!(with_methods(text), expected);
        }
    }

    #[test]
    fn error_names_the_lines_at_fault() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("site");
        std::fs::create_dir(&source).unwrap();
        for (name, text) in [("index.html", "home"), ("page.html.bak", "old"), ("_headers", "/*\n  X: 1\n")] {
            std::fs::write(source.join(name), text).unwrap();
        }
        let mut options = Options::new(&source, folder.path().join("site.cdb"));
        options.strict = true;
        let failed = |options: &Options| describe_error(&crate::compile(options, &()).unwrap_err());
        let text = failed(&options);
        assert!(
            text.starts_with("the folder causes warnings, which `.strict()` refuses:\n  page.html.bak: "),
            "{text}"
        );
        assert!(text.contains("`.ignore(") && !text.contains("--"), "{text}");

        std::fs::write(source.join("_headers"), "/*\n  Basic-Auth: a:b\n").unwrap();
        let text = failed(&options);
        assert!(text.starts_with("the folder has errors:\n  _headers:2: `Basic-Auth`"), "{text}");
        assert!(!text.contains("page.html.bak"), "{text}");
    }
}
