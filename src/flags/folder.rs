//! Flags shared by all programs that compile a folder, i.e. `cannery-archiver`, `cannery serve`, and `cannery-server`
//! with `--folder`.
//!
//! Messages about a folder may only suggest these flags, so that the remedy will work in each program that prints the
//! message. This is checked by a test.

use std::ffi::OsString;

use cannery_archiver::Options;
use cannery_archiver::boundary::LinksOut;
use cannery_archiver::redirects::Dialect;
use clap::Args;

use super::one_of;

/// Dialects and their words on the command line.
const DIALECTS: [(&str, Dialect); 3] =
    [("cannery", Dialect::Cannery), ("netlify", Dialect::Netlify), ("cloudflare", Dialect::Cloudflare)];

/// Which files are published.
#[derive(Debug, Args)]
pub(super) struct SelectionFlags {
    /// Exclude files that match, in gitignore syntax, such as `*.psd` or `/drafts/`; `!PATTERN` includes them again, such as
    /// `!.net`. Lines of a file `.canneryignore` in the folder do the same. Repeatable.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    ignore: Vec<String>,

    /// Include files that are excluded by default: hidden files, backups, logs, locks and temporary files.
    #[arg(long)]
    no_default_ignores: bool,

    /// Follow symbolic links that lead out of the folder, without a warning. Without this flag, `cannery-server` leaves them out,
    /// and `cannery-archiver` and `cannery serve` follow them with a warning.
    #[arg(long)]
    follow_links: bool,

    /// Accept sparse files whose holes have more than 256 MiB together. An archive has no holes, so it takes much more space.
    #[arg(long)]
    allow_sparse: bool,
}

impl SelectionFlags {
    pub(super) fn apply(&self, options: &mut Options) {
        options.ignore.clone_from(&self.ignore);
        options.default_ignores = !self.no_default_ignores;
        options.links_out = if self.follow_links { LinksOut::Allowed } else { LinksOut::Reported };
        options.allow_sparse = self.allow_sparse;
    }
}

#[derive(Debug, Args)]
pub(super) struct DialectFlag {
    /// The syntax of `_redirects` files.
    #[arg(long, value_name = "DIALECT", default_value = "cannery", value_parser = one_of(DIALECTS))]
    redirects_dialect: Dialect,
}

impl DialectFlag {
    pub(super) fn apply(&self, options: &mut Options) {
        options.dialect = self.redirects_dialect;
    }

    fn word(&self) -> &'static str {
        let found = DIALECTS.iter().find(|(_, dialect)| *dialect == self.redirects_dialect);
        found.expect("each dialect has a word").0
    }
}

#[derive(Debug, Args)]
pub(super) struct ImmutableFlag {
    /// Let clients cache these files for a year, because their content never changes under the same name. In gitignore
    /// syntax: `/assets/` is everything in that folder. Names are detected without this flag if a build tool's manifest, a
    /// digest of the content or an earlier release proves them. Repeatable.
    #[arg(long, value_name = "GLOB")]
    immutable: Vec<String>,
}

impl ImmutableFlag {
    pub(super) fn apply(&self, options: &mut Options) {
        options.immutable.clone_from(&self.immutable);
    }
}

/// All of them, for the programs that serve a folder.
#[derive(Debug, Args)]
pub(super) struct FolderFlags {
    #[command(flatten)]
    selection: SelectionFlags,
    #[command(flatten)]
    dialect: DialectFlag,
    #[command(flatten)]
    immutable: ImmutableFlag,
}

impl FolderFlags {
    pub(super) fn apply(&self, options: &mut Options) {
        self.selection.apply(options);
        self.dialect.apply(options);
        self.immutable.apply(options);
    }

    /// Returns arguments that give these flags to another program. Defaults are left out.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let FolderFlags { selection, dialect, immutable: ImmutableFlag { immutable } } = self;
        let SelectionFlags { ignore, no_default_ignores, follow_links, allow_sparse } = selection;
        let switches = [
            ("--no-default-ignores", *no_default_ignores),
            ("--follow-links", *follow_links),
            ("--allow-sparse", *allow_sparse),
        ];
        let mut arguments: Vec<OsString> = Vec::new();
        arguments.extend(ignore.iter().map(|pattern| format!("--ignore={pattern}").into()));
        arguments.extend(immutable.iter().map(|pattern| format!("--immutable={pattern}").into()));
        arguments.extend(switches.iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag.into()));
        if dialect.redirects_dialect != Dialect::Cannery {
            arguments.push(format!("--redirects-dialect={}", dialect.word()).into());
        }
        arguments
    }
}
