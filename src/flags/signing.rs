//! Flags of `cannery keygen` and `cannery sign`, and those by which other commands sign releases or demand signatures.

use std::path::PathBuf;

use clap::Args;

use super::examples;

/// Which signatures are demanded.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TrustFlags {
    /// Accept only releases that this key of minisign has signed: a file, or the key itself, which starts with `RW`. Repeatable.
    #[arg(long, value_name = "KEY", help_heading = "Signatures")]
    pub(crate) public_key: Vec<String>,

    /// Accept only releases that are signed for this site. Without this flag, the site of the first one counts.
    #[arg(long, value_name = "NAME", requires = "public_key", help_heading = "Signatures")]
    pub(crate) site: Option<String>,
}

/// How releases are signed.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SigningFlags {
    /// Sign the release with this key, which `cannery keygen` or `minisign` has made.
    #[arg(long, value_name = "FILE", help_heading = "Signatures")]
    pub(crate) secret_key: Option<PathBuf>,

    /// The name of the site in the signature, such as its host. Machines accept releases of one site only.
    #[arg(long, value_name = "NAME", requires = "secret_key", help_heading = "Signatures")]
    pub(crate) site: Option<String>,

    /// A file whose first line is the password of the key. Without it, the password is asked for on the terminal.
    #[arg(long, value_name = "FILE", requires = "secret_key", help_heading = "Signatures")]
    pub(crate) secret_key_password_file: Option<PathBuf>,
}

/// Generates a key for signing releases, in the format of minisign: a file with the secret key, and one beside it that ends in
/// `.pub`.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &["cannery keygen site.key", "cannery keygen --no-password pipeline.key"],
        "Keep the secret key where you publish, and the public key on the machines that receive releases.\n\n\
         Exit codes: 0 done, 1 a password can't be used, 2 wrong usage, 4 cannot write, for example because the file exists.",
    ),
)]
pub struct Keygen {
    /// The file for the secret key. It must not exist.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Generate a key without a password, for pipelines that keep it as a secret.
    #[arg(long, conflicts_with = "password_file")]
    pub no_password: bool,

    /// A file whose first line is the password. Without it, the password is asked for on the terminal.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,

    /// Print the files and the public key as one JSON value.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Signs an archive: writes a statement about it, `ARCHIVE.release`, and its signature, `ARCHIVE.release.minisig`.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &[
            "cannery sign site.cdb --secret-key site.key --site example.com",
            "minisign -Vm site.cdb.release -p site.pub",
            "cannery sign site.cdb --site example.com --unsigned && minisign -Sm site.cdb.release",
        ],
        "`cannery push` sends both files with the archive if they lie beside it.\n\n\
         Exit codes: 0 done, 1 a password can't be used, 2 wrong usage, 3 bad archive or key, 4 cannot write.",
    ),
)]
pub struct Sign {
    /// The archive.
    #[arg(value_name = "ARCHIVE")]
    pub archive: PathBuf,

    /// The key, which `cannery keygen` or `minisign` has made.
    #[arg(long, value_name = "FILE", required_unless_present = "unsigned")]
    pub secret_key: Option<PathBuf>,

    /// The name of the site, such as its host. Machines accept releases of one site only.
    #[arg(long, value_name = "NAME")]
    pub site: String,

    /// The sequence number, which must rise with every release. The default is the serial of the archive.
    #[arg(long, value_name = "N")]
    pub sequence: Option<u64>,

    /// A file whose first line is the password of the key. Without it, the password is asked for on the terminal.
    #[arg(long, value_name = "FILE", requires = "secret_key")]
    pub password_file: Option<PathBuf>,

    /// Write only the statement, to sign it with `minisign`, on a machine that has the key.
    #[arg(long, conflicts_with = "secret_key")]
    pub unsigned: bool,

    /// Print the result as one JSON value.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}
