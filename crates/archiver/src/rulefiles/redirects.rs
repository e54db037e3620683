//! Parser for `_redirects` in three dialects.
//!
//! If we are not able to honor a rule as a whole, it is reported with its line and ignored. For example, it can proxy another
//! origin, or have a condition on the query or the visitor. Note that we do not know yet which paths exist.
//!
//! | dialect | code if none is given | beats a file | `*` | `:name` begins |
//! |---|---|---|---|---|
//! | Cannery | 301 | with `!` | last | a segment |
//! | Netlify | 301 | with `!` | last | a segment |
//! | Cloudflare | 302 | always | once, anywhere | anywhere |
//!
//! Cannery's dialect is based on Netlify's, with two additions: sources and targets may be relative to the folder of the rule
//! file (e.g. `./old`), and `://host/path` is for one host with either scheme. A dialect can be selected in the first line of a
//! file, e.g. `# dialect: cloudflare`. In all dialects, the first matching rule wins. Rules that can never apply because of an
//! earlier one are reported.

mod conflicts;
mod destination;
mod line;
mod rule;
mod template;

use std::sync::Arc;

use cannery_site::{is_asset, suffix};

pub use rule::{Action, Dialect, RedirectRule};
pub use template::{Template, TemplatePiece};

pub(crate) use template::has_reference;

use self::conflicts::AcceptedRules;
use self::line::{Context, ParsedRule};
use crate::ground::diagnostic::{Diagnostic, Severity};
use crate::ground::rule_error::{RuleError, readable_line};
use crate::properties::classify::file_name;
use crate::rulefiles::pattern::{Pattern, PatternPiece};

/// Parses a rule file. `file` is its path for use in diagnostics, while `folder` is its folder relative to the source root (this
/// may be empty).
///
/// Returns rules in file order and diagnostics. Most of the latter are about lines that could not be converted to a rule, but
/// there may also be remarks about rules that were accepted.
pub fn parse(
    text: &[u8],
    file: &str,
    folder: &[u8],
    dialect: Dialect,
) -> (Vec<RedirectRule>, Vec<Diagnostic>) {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut diagnostics = Vec::new();
    let dialect = match stated_dialect(text) {
        Some(Ok(stated)) => stated,
        Some(Err(error)) => {
            diagnostics.push(error.at(file, 1));
            dialect
        }
        None => dialect,
    };

    let context = Context { folder, dialect };
    let mut accepted = AcceptedRules::default();
    let name: Arc<str> = file.into();
    let mut report = |line, error: RuleError| diagnostics.push(error.at(file, line));
    for (line, bytes) in (1u32..).zip(text.split(|&byte| byte == b'\n')) {
        // Files that were joined may repeat it.
        if line > 1 && matches!(stated_dialect(bytes), Some(Ok(stated)) if stated != dialect) {
            let message =
                "a dialect is only read from the first line, so this one has no effect; move it there";
            report(line, RuleError::new("late-dialect", message));
        }
        match readable_line(bytes).and_then(|text| context.parse_rule(text)) {
            Ok(None) => {}
            Ok(Some(ParsedRule { scheme, host, source, action, force, remark })) => {
                let is_catch_all = answers_everything(&source, &action);
                let pages_only = is_catch_all && !force && dialect == Dialect::Cannery;
                let is_by_dialect = match dialect {
                    Dialect::Cannery => false,
                    Dialect::Netlify => !force,
                    Dialect::Cloudflare => true,
                };
                let rule =
                    RedirectRule { file: Arc::clone(&name), line, host, source, action, force, pages_only };
                if is_catch_all && is_by_dialect {
                    report(line, answers_for_assets());
                }
                let rejection = accepted.add(rule, scheme).err();
                for error in remark.into_iter().chain(rejection) {
                    report(line, error);
                }
            }
            Err(error) => report(line, error),
        }
    }

    diagnostics.sort_by_key(|diagnostic| diagnostic.line);
    (accepted.rules, diagnostics)
}

/// Whether a rule answers all paths with the same page, regardless of the last capture, as in `/:page /app.html 200`
/// and `/:lang/* /:lang/index.html 200`.
///
/// Requests for missing assets might be caught by such a rule as well.
fn answers_everything(source: &Pattern, action: &Action) -> bool {
    let Action::Rewrite { status: 200, path } = action else { return false };
    let captures = source.pieces.iter().filter(|piece| !matches!(piece, PatternPiece::Literal(_))).count();
    let Some(last) = captures.checked_sub(1) else { return false };
    let shows_capture = |piece: &TemplatePiece| matches!(piece, TemplatePiece::Capture(number) if usize::from(*number) == last);

    let is_asset_itself = match source.pieces.last() {
        // For example, `/:version/app.js` and `/:name.js` are only about scripts.
        Some(PatternPiece::Literal(end)) => is_asset(suffix(file_name(end))),
        _ => false,
    };
    let is_page = match path.pieces.last() {
        Some(TemplatePiece::Literal(end)) => !is_asset(suffix(file_name(end))),
        _ => true,
    };
    is_page && !is_asset_itself && !path.pieces.iter().any(shows_capture)
}

/// Creates a note for rules that answer requests for missing assets with a page. This is what the provider would
/// do for this dialect.
fn answers_for_assets() -> RuleError {
    let message = "this rule answers requests for missing scripts and images with a page and status 200 too, as this dialect requires; to \
                   exclude them, select Cannery's dialect by `# dialect: cannery` on the first line";
    RuleError { severity: Severity::Note, ..RuleError::new("rewrite-assets", message) }
}

/// Returns the dialect stated in the first line, if any.
fn stated_dialect(text: &[u8]) -> Option<Result<Dialect, RuleError>> {
    let line = text.split(|&byte| byte == b'\n').next()?;
    let comment = std::str::from_utf8(line).ok()?.trim().strip_prefix('#')?;
    let name = comment.trim_start().strip_prefix("dialect:")?.trim();
    Some(match name.to_ascii_lowercase().as_str() {
        "cannery" => Ok(Dialect::Cannery),
        "netlify" => Ok(Dialect::Netlify),
        "cloudflare" => Ok(Dialect::Cloudflare),
        _ => Err(RuleError::new(
            "unknown-dialect",
            format!("`{name}` is not a dialect; write cannery, netlify or cloudflare"),
        )),
    })
}

#[cfg(test)]
mod tests;
