//! Files that come with the programs: manual pages, completions, units, and the first page.

use std::fs;
use std::process::Command;

use cannery_image::{Tree, gzip};

use crate::dist::programs::{NAMES, Programs};
use crate::dist::{Release, create, read, write_file};
use crate::error::Error;
use crate::project;

/// Where a kind of package has the completions of a shell, and how their names begin and end.
pub(super) struct Completions {
    shell: &'static str,
    directory: &'static str,
    prefix: &'static str,
    suffix: &'static str,
}

const BASH: Completions =
    Completions { shell: "bash", directory: "bash-completion/completions", prefix: "", suffix: "" };
const FISH: Completions =
    Completions { shell: "fish", directory: "fish/vendor_completions.d", prefix: "", suffix: ".fish" };

/// Directories of Debian, whose zsh has one for packages.
pub(super) const FOR_DEBIAN: [Completions; 3] =
    [BASH, Completions { shell: "zsh", directory: "zsh/vendor-completions", prefix: "_", suffix: "" }, FISH];

/// Directories of other systems.
pub(super) const FOR_OTHERS: [Completions; 3] =
    [BASH, Completions { shell: "zsh", directory: "zsh/site-functions", prefix: "_", suffix: "" }, FISH];

const FILE_MODE: u32 = 0o644;

/// Adds manual pages and completions below a directory such as `usr/share`.
pub(super) fn add_manual(
    tree: &mut Tree<'_>,
    share: &str,
    completions: &[Completions],
    host: &Programs,
) -> Result<(), Error> {
    for name in NAMES {
        let page = host.output(name, &["--man"])?;
        tree.add_bytes(format!("{share}/man/man1/{name}.1.gz"), FILE_MODE, gzip(&page));
        for Completions { shell, directory, prefix, suffix } in completions {
            let script = host.output(name, &["--completions", shell])?;
            tree.add_bytes(format!("{share}/{directory}/{prefix}{name}{suffix}"), FILE_MODE, script);
        }
    }
    for name in commands(host)? {
        let page = host.output("cannery", &[&name, "--man"])?;
        tree.add_bytes(format!("{share}/man/man1/cannery-{name}.1.gz"), FILE_MODE, gzip(&page));
    }
    Ok(())
}

/// Returns the commands of `cannery`, except for the other two programs, from its help.
fn commands(host: &Programs) -> Result<Vec<String>, Error> {
    let help = host.output("cannery", &["--help"])?;
    let help = String::from_utf8_lossy(&help).into_owned();
    let lines = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    // A description may continue on the next line, further to the right.
    let names =
        lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    let names: Vec<_> =
        names.filter(|name| !["archiver", "server", "help"].contains(name)).map(str::to_owned).collect();
    if names.is_empty() {
        return Err(Error::Unexpected {
            what: "cannery --help".into(),
            expected: "a list of commands".into(),
            got: help,
        });
    }
    Ok(names)
}

/// Adds units, the user, settings and the first page, with the paths of a package.
pub(super) fn add_service(tree: &mut Tree<'_>, release: &Release, host: &Programs) -> Result<(), Error> {
    for unit in ["cannery.service", "cannery.socket", "cannery-tls.socket", "cannery-certificates.service"] {
        let text = text_of(&format!("contrib/systemd/{unit}"))?.replace("/usr/local/bin/", "/usr/bin/");
        tree.add_bytes(format!("usr/lib/systemd/system/{unit}"), 0o644, text);
    }
    for (from, to) in [
        ("contrib/sysusers.d/cannery.conf", "usr/lib/sysusers.d/cannery.conf"),
        ("contrib/packages/cannery.default", "etc/default/cannery"),
        ("contrib/packages/cannery.logrotate", "etc/logrotate.d/cannery"),
    ] {
        tree.add_bytes(to, 0o644, text_of(from)?);
    }

    let archive = release.work("first-page.cdb");
    let mut archiver = Command::new(host.program("cannery-archiver"));
    archiver
        .arg(project::root().join("contrib/packages/first-page"))
        .arg(&archive)
        .args(["--strict", "--quiet"]);
    project::run(&mut archiver)?;
    tree.add_bytes("usr/share/cannery/first-page.cdb", 0o644, read(&archive)?);
    Ok(())
}

/// Returns the text of a file of the project.
pub(super) fn text_of(path: &str) -> Result<String, Error> {
    let path = project::root().join(path);
    fs::read_to_string(&path).map_err(|source| Error::file(path, source))
}

/// Writes the files of a tree below a directory, for tools that don't read archives.
pub(super) fn unpack(tree: &Tree<'_>, release: &Release, name: &str) -> Result<(), Error> {
    let tar = tree.to_tar(release.time).map_err(|source| Error::file(name, source))?;
    let archive = release.work(&format!("{name}.tar"));
    write_file(&archive, &tar)?;
    let directory = release.work(name);
    create(&directory)?;
    project::run(
        Command::new("tar").arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(directory),
    )
}
