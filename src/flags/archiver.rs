//! Flags of `cannery-archiver`, which turns a site folder into an archive.
//!
//! We don't build here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cannery_archiver::boundary::LinksOut;
use cannery_archiver::{LinkCheck, LinkException, Options};
use cannery_server::config::{Account, SandboxPolicy};
use clap::{Args, CommandFactory, FromArgMatches, Parser, value_parser};

use super::building::{CacheFlags, CachingFlags, ExclusionFlags, ReleaseFlags, RoutingFlags, StorageFlags};
use super::{About, AboutFlags, SANDBOX_POLICIES, end_sentences, examples, one_of, unsupported};
use crate::output::Failure;

/// We refuse these flags from kawipiko's archiver by name, and suggest an alternative for each.
const UNSUPPORTED: [(&str, &str); 2] = [
    ("sources-md5", "the sources of this program are not part of it; `--sbom` lists what it is made of"),
    ("sources-cpio", "the sources of this program are not part of it; `--sbom` lists what it is made of"),
];

/// A parsed command line.
#[derive(Debug)]
pub enum Invocation {
    /// Build.
    Build(Box<Build>),
    /// Compile a folder for a server, after each change again.
    Follow(Box<Follow>),
    /// Print information about the program.
    About(About),
}

/// A build to run.
#[derive(Debug)]
pub struct Build {
    /// The sources, the archive, and all other settings of the build.
    pub options: Options,
    /// How much to print.
    pub output: OutputFlags,
}

/// A folder to compile for a server.
#[derive(Debug)]
pub struct Follow {
    /// The folder, and all other settings of the builds.
    pub options: Options,
    /// The sandbox of the process.
    pub sandbox: SandboxPolicy,
    /// The user to change to.
    pub account: Option<Account>,
    /// Prints only errors.
    pub quiet: bool,
    /// The part of this process.
    pub part: FollowPart,
}

/// The part of a process that works for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowPart {
    /// Starts the process that compiles, and again if that ends.
    Keep,
    /// Compiles the folder.
    Compile(CompileStart),
}

/// A start of the process that compiles a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompileStart {
    /// The server waits for the first archive.
    First,
    /// The server has an archive, so a build that fails is no reason to end.
    Again,
}

/// Both starts with their words on the command line.
const COMPILE_STARTS: [(&str, CompileStart); 2] =
    [("first", CompileStart::First), ("again", CompileStart::Again)];

impl CompileStart {
    /// Returns the word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            CompileStart::First => "first",
            CompileStart::Again => "again",
        }
    }
}

/// Compiles a site folder into one immutable archive.
#[derive(Debug, Parser)]
#[command(
    name = "cannery-archiver",
    version,
    disable_help_flag = true,
    disable_version_flag = true,
    max_term_width = 100,
    args_override_self = true,
    args = unsupported(&UNSUPPORTED),
    after_help = examples(
        &[
            "cannery-archiver public site.cdb",
            "cannery-archiver --sources public --archive site.cdb --strict",
            "cannery-archiver public site.cdb --compress-cache .cache/compressed",
        ],
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 bad sources, 4 cannot write, 5 warnings and --strict.",
    ),
)]
pub struct Flags {
    #[command(flatten, next_help_heading = "Input and output")]
    input: InputFlags,
    #[command(flatten, next_help_heading = "Storage")]
    storage: StorageFlags,
    #[command(flatten, next_help_heading = "Routing")]
    routing: RoutingFlags,
    #[command(flatten, next_help_heading = "Caching")]
    caching: CachingFlags,
    #[command(flatten, next_help_heading = "Exclusions")]
    exclusions: ExclusionFlags,
    #[command(flatten, next_help_heading = "Earlier releases")]
    releases: ReleaseFlags,
    #[command(flatten, next_help_heading = "Build caches")]
    caches: CacheFlags,
    #[command(flatten, next_help_heading = "Output")]
    output: OutputFlags,
    #[command(flatten, next_help_heading = "About the program")]
    about: AboutFlags,
    #[command(flatten)]
    follow: FollowFlags,
}

/// Flags with which `cannery-server --folder` starts this program.
#[derive(Debug, Args)]
struct FollowFlags {
    /// Compile the folder after each change, and send the archives over standard input, a Unix socket, instead of writing
    /// them.
    #[arg(long, hide = true)]
    for_server: bool,

    /// The sandbox of the process.
    #[arg(
        long,
        hide = true,
        value_name = "MODE",
        default_value = "auto",
        value_parser = one_of(SANDBOX_POLICIES)
    )]
    for_server_sandbox: SandboxPolicy,

    /// The user to change to.
    #[arg(long, hide = true, value_name = "USER[:GROUP]")]
    for_server_user: Option<String>,

    /// Be the process that compiles. Without this flag, start it.
    #[arg(long, hide = true, value_name = "START", value_parser = one_of(COMPILE_STARTS))]
    for_server_compile: Option<CompileStart>,
}

impl FollowFlags {
    fn account(&self) -> Result<Option<Account>, Failure> {
        let account = self.for_server_user.as_deref().map(Account::find).transpose();
        account.map_err(|error| Failure::usage(format!("`--for-server-user`: {error}")))
    }
}

#[derive(Debug, Args)]
struct InputFlags {
    /// The site folder, also accepted without the flag.
    #[arg(long = "sources", value_name = "DIR", required_unless_present = "sources")]
    sources_flag: Option<PathBuf>,

    /// The archive to write, also accepted without the flag. An old one is replaced atomically; if the build fails, it is
    /// unchanged.
    #[arg(long = "archive", value_name = "FILE", required_unless_present = "archive")]
    archive_flag: Option<PathBuf>,

    /// The site folder.
    #[arg(value_name = "DIR", conflicts_with = "sources_flag")]
    sources: Option<PathBuf>,

    /// The archive to write.
    #[arg(value_name = "FILE", conflicts_with = "archive_flag")]
    archive: Option<PathBuf>,

    /// The number of threads that read and compress. The default is the number of CPUs. It does not affect the archive.
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Write no archive if there are warnings.
    #[arg(long)]
    strict: bool,

    /// Warn about each internal link of a page or style sheet, and each redirect, that leads to a missing path. Without it,
    /// one note counts them.
    #[arg(long)]
    check_links: bool,

    /// Let the link checker pass over these paths, such as `/api/*`, because a proxy or another program answers them. `*` stands
    /// for anything, and `:name` for one segment. Repeatable.
    #[arg(long, value_name = "PATTERN", value_parser = LinkException::parse, conflicts_with = "no_check_links")]
    check_links_except: Vec<LinkException>,

    /// Do not look for broken links.
    #[arg(long, conflicts_with = "check_links")]
    no_check_links: bool,

    /// Write the archive even if the folder is empty or has no page for `/`. Without this flag, that is an error, because
    /// it is probably the wrong folder.
    #[arg(long)]
    allow_empty: bool,
}

/// How much a build prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct OutputFlags {
    /// Print the progress of the build, even if standard error is not a terminal.
    #[arg(long)]
    pub progress: bool,

    /// Print each path with its codings and sizes.
    #[arg(long)]
    pub debug: bool,

    /// Print only errors.
    #[arg(long, short, conflicts_with_all = ["progress", "debug", "json"])]
    pub quiet: bool,

    /// Print the result as one JSON value.
    #[arg(long)]
    pub json: bool,
}

/// Returns the clap command.
#[must_use]
pub fn command() -> clap::Command {
    end_sentences(Flags::command())
}

/// Parses the command line.
///
/// # Errors
/// The command line is wrong.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, Failure> {
    Flags::from_arg_matches(&super::parse(command(), arguments)?)?.into_invocation()
}

impl Flags {
    /// Turns the flags into settings.
    ///
    /// # Errors
    /// A value is wrong, or a file is missing on the command line.
    pub fn into_invocation(self) -> Result<Invocation, Failure> {
        if let Some(about) = self.about.requested() {
            return Ok(Invocation::About(about));
        }
        let input = self.input;
        let missing = |name| Failure::usage(format!("`--{name}` has no value"));
        let sources = input.sources.or(input.sources_flag).ok_or_else(|| missing("sources"))?;
        let archive = input.archive.or(input.archive_flag).ok_or_else(|| missing("archive"))?;

        // A server that gets its archives from a socket passes this name too.
        if archive == Path::new("-") && !self.follow.for_server {
            return Err(Failure::usage("an archive can't be written to standard output")
                .hint("name a file: `cannery-archiver DIR site.cdb`"));
        }

        let mut options = Options::new(sources, archive);
        options.threads = input.threads.map_or(0, usize::from);
        options.strict = input.strict;
        options.allow_empty = input.allow_empty;
        options.check_links = match (input.check_links, input.no_check_links) {
            (true, _) => LinkCheck::List,
            (false, true) => LinkCheck::Off,
            (false, false) => LinkCheck::Count,
        };
        options.check_links_except = input.check_links_except;
        self.storage.apply(&mut options)?;
        self.routing.apply(&mut options);
        self.caching.apply(&mut options);
        self.exclusions.apply(&mut options);
        self.releases.apply(&mut options);
        self.caches.apply(&mut options);
        if self.follow.for_server {
            let account = self.follow.account()?;
            // The server's user may own other files. People who are merely allowed to write into the folder should not be
            // able to publish these.
            if options.links_out == LinksOut::Reported {
                options.links_out = LinksOut::LeftOut;
            }
            let sandbox = self.follow.for_server_sandbox;
            return Ok(Invocation::Follow(Box::new(Follow {
                options,
                sandbox,
                account,
                quiet: self.output.quiet,
                part: self.follow.for_server_compile.map_or(FollowPart::Keep, FollowPart::Compile),
            })));
        }
        Ok(Invocation::Build(Box::new(Build { options, output: self.output })))
    }
}

#[cfg(test)]
mod tests;
