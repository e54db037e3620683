//! Flags of `cannery`. This includes the other two programs, and commands that read archives.
//!
//! We don't open files here.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use super::certificates::{Certificates, Dns};
use super::follow::Follow;
use super::publish::{Diff, Push, Receive, Rollback, Status};
use super::releases::Releases;
use super::signing::{Keygen, Sign, TrustFlags};
use super::site::Serve;
use super::{About, SHELLS, archiver, end_sentences, examples, one_of, server};
use crate::output::Failure;

/// A parsed command line.
#[derive(Debug)]
pub enum Invocation {
    /// Run a command.
    Run(Command),
    /// Print information about the program.
    About(About),
    /// Print the manual page of the command of this name.
    ManualPage(String),
}

/// Compiles a site folder into one immutable archive, and serves it.
#[derive(Debug, Parser)]
#[command(
    name = "cannery",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    args_override_self = true,
    after_help = examples(
        &[
            "cannery serve public",
            "cannery-archiver public site.cdb",
            "cannery-server site.cdb",
            "cannery explain site.cdb /docs/",
            "cannery help serve",
        ],
        "`cannery archiver` and `cannery server` are the programs `cannery-archiver` and `cannery-server`: one compiles a folder into an \
         archive, the other serves archives. `cannery serve` does both while a folder is edited.\n\n\
         Exit codes: 0 done, 2 wrong usage; the other codes depend on the command.",
    ),
)]
struct Flags {
    /// Print the manual page as troff, for `man -l -`.
    #[arg(long, exclusive = true)]
    man: bool,

    /// Print the list of libraries in the program, as CycloneDX JSON.
    #[arg(long, exclusive = true)]
    sbom: bool,

    /// Print the completions for a shell.
    #[arg(long, value_name = "SHELL", exclusive = true, value_parser = one_of(SHELLS))]
    completions: Option<Shell>,

    #[command(subcommand)]
    command: Option<Command>,
}

/// The commands of `cannery`.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "a doc comment would replace the help text of the command's flags")]
pub enum Command {
    Serve(Serve),
    #[command(display_name = "cannery-archiver")]
    Archiver(Box<archiver::Flags>),
    #[command(display_name = "cannery-server")]
    Server(Box<server::Flags>),
    Inspect(Inspect),
    Verify(Verify),
    Extract(Extract),
    Explain(Explain),
    Bundle(Bundle),
    Image(Image),
    Import(Import),
    Releases(Releases),
    Certificates(Certificates),
    Dns(Dns),
    Push(Box<Push>),
    Rollback(Rollback),
    Status(Status),
    Diff(Diff),
    Receive(Receive),
    Follow(Follow),
    Keygen(Keygen),
    Sign(Sign),
    Completions(Completions),
}

/// Shows what an archive contains, or everything about one of its paths.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &["cannery inspect site.cdb", "cannery inspect site.cdb /docs/", "cannery inspect site.cdb --list"],
        "Exit codes: 0 shown, 1 no such path, 2 wrong usage, 3 bad archive.",
    ),
)]
pub struct Inspect {
    /// The archive, or an executable with one.
    pub archive: PathBuf,

    /// A path as in a URL, such as `/docs/`.
    pub path: Option<String>,

    /// The host of the path. Without it, the path is one of the default site.
    #[arg(long, value_name = "HOST", requires = "path")]
    pub host: Option<String>,

    /// List every path with its media type, codings and sizes.
    #[arg(long, conflicts_with = "path")]
    pub list: bool,

    /// Print the result as one JSON value.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Reads a whole archive and checks every digest and record, and with a public key also its signature.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &["cannery verify site.cdb", "cannery verify site.cdb --public-key site.pub --site example.com"],
        "Exit codes: 0 intact, 2 wrong usage, 3 damaged or not an archive.",
    ),
)]
pub struct Verify {
    /// The archive, or an executable with one.
    pub archive: PathBuf,

    #[command(flatten)]
    pub(crate) trust: TrustFlags,

    /// Print the result as one JSON value.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Writes the files of an archive into a folder, byte for byte. Files that `Content-Encoding` in `_headers` decoded are written
/// decoded.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &["cannery extract site.cdb restored"],
        "Exit codes: 0 done, 2 wrong usage, 3 bad archive, 4 cannot write.",
    ),
)]
pub struct Extract {
    /// The archive, or an executable with one.
    pub archive: PathBuf,

    /// The folder to write to. It is created if it does not exist.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Write even if the folder is not empty, and replace files in it.
    #[arg(long)]
    pub force: bool,

    /// Print only errors.
    #[arg(long)]
    pub quiet: bool,
}

/// Explains how the server would respond to a request, without a server.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &[
            "cannery explain site.cdb /docs/",
            "cannery explain site.cdb https://example.com/old -H 'Accept-Encoding: br'",
            "cannery explain site.cdb /docs/ --host docs.example.com",
        ],
        "Exit codes: 0 explained, for any response, 2 wrong usage, 3 bad archive.",
    ),
)]
pub struct Explain {
    /// The archive, or an executable with one.
    pub archive: PathBuf,

    /// A path or a URL, such as `/docs/?a=b`.
    pub url: String,

    /// The host of the request, instead of that of the URL.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,

    /// A header of the request, such as `Accept-Encoding: br`. Repeatable.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub fields: Vec<String>,

    /// The method of the request.
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    pub method: String,

    /// Also print the position of the body in the archive.
    #[arg(long)]
    pub debug: bool,

    /// Print request and response as JSON: a test vector for other programs that read archives. Fields that the server adds
    /// by its flags, such as `Date` and `X-Frame-Options`, are left out.
    #[arg(long, conflicts_with = "debug")]
    pub json: bool,
}

/// Makes one executable of the server and a site: started without arguments, it serves the site.
#[derive(Debug, Args)]
#[command(
    version,
    override_usage = "cannery bundle [OPTIONS] ARCHIVE --output FILE\n       cannery bundle --replace ARCHIVE FILE",
    after_help = examples(
        &[
            "cannery bundle site.cdb -o app",
            "./app --bind :80",
            "cannery bundle --replace new.cdb app",
            "cannery inspect app",
            "cannery bundle site.cdb -o app-arm64 --server downloads/arm64/cannery-server",
        ],
        "Exit codes: 0 done, 2 wrong usage, 3 bad archive or program, 4 cannot write.",
    ),
)]
pub struct Bundle {
    /// The archive to put into the executable, or with `--replace` the executable.
    #[arg(value_name = "ARCHIVE")]
    pub file: PathBuf,

    /// Write the executable here. An existing file is replaced.
    #[arg(short, long, value_name = "FILE", required_unless_present = "replace")]
    pub output: Option<PathBuf>,

    /// Replace the archive in an executable by this one. A server that runs from it serves the new site at once.
    #[arg(long, value_name = "ARCHIVE", conflicts_with_all = ["output", "server"])]
    pub replace: Option<PathBuf>,

    /// The server. The default is `cannery-server` in the folder of this program.
    #[arg(long, value_name = "FILE")]
    pub server: Option<PathBuf>,

    /// Print only errors.
    #[arg(long, help_heading = "Output")]
    pub quiet: bool,
}

/// Makes a container image of the server and a site, without a container engine. The server and the site are a layer each, so a new
/// release uploads only the site.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &[
            "cannery image site.cdb -o image",
            "skopeo copy oci:image docker://registry.example/site:42",
            "podman run --publish 8080:8080 oci:image",
            "cannery image site.cdb -o oci://registry.example/site:42",
            "cannery image site.cdb -o image --server amd64/cannery-server --server arm64/cannery-server",
        ],
        "Containers run as user 65532 and listen at port 8080. The folder is an OCI image layout. The same server and archive give the \
         same image; `SOURCE_DATE_EPOCH` sets its date of creation. The credentials for a registry are those of Docker's configuration \
         and helpers, or the variable CANNERY_STORE_TOKEN.\n\n\
         Exit codes: 0 done, 1 the registry refuses it or can't be reached, 2 wrong usage, 3 bad archive or program, 4 cannot write.",
    ),
)]
pub struct Image {
    /// The archive, or an executable with one.
    pub archive: PathBuf,

    /// Write the image into this folder, whose earlier image is replaced, or push it to a registry (`oci://REGISTRY/NAME:TAG`).
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,

    /// The tag of the image, unless the address in the registry has one. The default is `latest`.
    #[arg(short, long, value_name = "TAG")]
    pub tag: Option<String>,

    /// Root certificates (PEM) to trust for the registry, instead of those of browsers.
    #[arg(long, value_name = "FILE")]
    pub registry_roots: Option<PathBuf>,

    /// A statically linked `cannery-server`. Repeatable: one for each processor. The default is the one that was installed with
    /// this program.
    #[arg(long = "server", value_name = "FILE")]
    pub servers: Vec<PathBuf>,

    /// Print the result as one JSON value.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Turns an archive of kawipiko into an archive of Cannery, and lists what could not be kept.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &["cannery import kawipiko.cdb -o site.cdb", "cannery import kawipiko.cdb -o site.cdb --strict"],
        "Exit codes: 0 done, 2 wrong usage, 3 bad archive, 4 cannot write, 5 something was lost and `--strict` is given.",
    ),
)]
pub struct Import {
    /// The archive of kawipiko, in the format `kawipiko-2022a`.
    #[arg(value_name = "FILE")]
    pub input: PathBuf,

    /// Write the archive here. An existing file is replaced.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// End with an error if something could not be kept. The archive is written nevertheless.
    #[arg(long)]
    pub strict: bool,

    /// Print the result as one JSON value, with all paths concerned.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Prints the completions of a program for a shell.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &[
            "cannery completions bash > /etc/bash_completion.d/cannery",
            "cannery completions zsh cannery-server > _cannery-server",
        ],
        "Exit codes: 0 done, 2 wrong usage.",
    ),
)]
pub struct Completions {
    /// The shell.
    #[arg(value_parser = one_of(SHELLS))]
    pub shell: Shell,

    /// The program.
    #[arg(
        default_value = "cannery",
        value_parser = one_of([
            ("cannery", Program::Cannery),
            ("cannery-archiver", Program::Archiver),
            ("cannery-server", Program::Server),
        ])
    )]
    pub program: Program,
}

/// One of the three programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `cannery`
    Cannery,
    /// `cannery-archiver`
    Archiver,
    /// `cannery-server`
    Server,
}

impl Program {
    /// Returns the program's clap command.
    #[must_use]
    pub fn command(self) -> clap::Command {
        match self {
            Program::Cannery => command(),
            Program::Archiver => archiver::command(),
            Program::Server => server::command(),
        }
    }
}

/// Returns the clap command.
#[must_use]
pub fn command() -> clap::Command {
    let man = || {
        let help = "Print the manual page as troff, for `man -l -`";
        // A command that flattens flags under a heading would put this one there, too.
        let man = Arg::new("man").long("man").help(help).help_heading(None::<&str>);
        man.action(ArgAction::SetTrue).exclusive(true)
    };
    // The two programs already have this flag.
    let has_man = |inner: &clap::Command| inner.get_arguments().any(|argument| argument.get_id() == "man");
    end_sentences(
        Flags::command().mut_subcommands(|inner| if has_man(&inner) { inner } else { inner.arg(man()) }),
    )
}

/// Parses the command line.
///
/// # Errors
/// The command line is wrong.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, Failure> {
    let matches = super::parse(command(), arguments)?;
    // With `--man`, required arguments of its command are missing. Note that the two programs don't require any and have
    // their own pages.
    if let Some((name, inner)) = matches.subcommand()
        && !matches!(name, "archiver" | "server")
        && inner.get_flag("man")
    {
        return Ok(Invocation::ManualPage(name.to_owned()));
    }
    let flags = Flags::from_arg_matches(&matches)?;
    Ok(match flags {
        Flags { command: Some(command), .. } => Invocation::Run(command),
        Flags { completions: Some(shell), .. } => Invocation::About(About::Completions(shell)),
        Flags { sbom: true, .. } => Invocation::About(About::Sbom),
        // Clap prints the help if there are no arguments.
        Flags { .. } => Invocation::About(About::ManualPage),
    })
}

#[cfg(test)]
mod tests;
