//! From an empty machine to a trusted site, by the commands of README.md: `cargo xtask minute`.
//!
//! The machine is a minimal Debian without Cannery. A script in it runs each command as README.md has it, and waits for what README.md
//! promises: the first page, a certificate that a client trusts, and the published site over HTTP/3. The authority is Pebble, which
//! needs two more flags than Let's Encrypt. The test fails if there are more than three commands, if more than one file has to be
//! edited, or if it takes more than 60 seconds.

use std::fs;
use std::path::PathBuf;

use crate::dist;
use crate::error::Error;
use crate::machine::Machine;
use crate::outside;
use crate::project;

/// The section of README.md with the commands.
const SECTION: &str = "## From an empty machine to a trusted site";

/// The line that README.md tells to put into `/etc/default/cannery`.
const SETTING: &str = "CANNERY_CERTIFICATES=";

const COMMANDS_MAX: usize = 3;

/// Runs the test with a package, or with one of the programs in `target/debug`.
pub(crate) fn run(package: Option<PathBuf>) -> Result<(), Error> {
    if !outside::is_root() {
        return Err(Error::Missing {
            what: "the right to start a machine".into(),
            remedy: "run it as root: `sudo -E cargo xtask minute`".into(),
        });
    }
    outside::install_packaging_programs()?;
    outside::install_pebble()?;
    outside::install_quic_go()?;
    let readme = project::root().join("README.md");
    let readme = fs::read_to_string(&readme).map_err(|source| Error::file(readme, source))?;
    let steps = Steps::read(&readme)?;
    let package = match package {
        Some(package) => package,
        None => dist::package_of_tests()?,
    };

    let machine = Machine::create(&project::target().join("minute"))?;
    machine.copy(&package, &steps.package)?;
    machine.write("commands", &steps.commands.join("\n"))?;
    machine.write("setting", &steps.setting)?;
    for program in ["pebble", "pebble-challtestsrv"] {
        machine.copy(&outside::pebble_directory().join(program), program)?;
    }
    machine.copy(&outside::quic_go(), "quic_go")?;
    machine.run(include_str!("minute/machine.sh"))
}

/// The text of README.md that a reader types.
#[derive(Debug, PartialEq, Eq)]
struct Steps {
    commands: Vec<String>,
    /// The line of the only file that is edited.
    setting: String,
    /// The file name of the package.
    package: String,
}

impl Steps {
    /// Finds the lines of code in the section.
    fn read(readme: &str) -> Result<Steps, Error> {
        let wrong =
            |expected: String, got: String| Error::Unexpected { what: "README.md".into(), expected, got };
        let missing = |expected: &str| wrong(expected.into(), "none".into());
        let (_, section) = readme.split_once(SECTION).ok_or_else(|| missing(SECTION))?;
        let section = section.split("\n## ").next().unwrap_or_default();
        let code = section.split("```").skip(1).step_by(2).flat_map(str::lines);
        let lines = code.map(|line| line.split(" #").next().unwrap_or_default().trim());
        let (settings, commands): (Vec<_>, Vec<_>) = lines
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .partition(|line| line.starts_with(SETTING));

        if commands.is_empty() || commands.len() > COMMANDS_MAX {
            return Err(wrong(format!("up to {COMMANDS_MAX} commands in {SECTION}"), commands.join("; ")));
        }
        let [setting] = settings.try_into().map_err(|_| missing("one line of settings"))?;
        let words = commands.iter().flat_map(|command| command.split_whitespace());
        let package = words.filter_map(|word| word.strip_prefix("./")).find(|word| word.ends_with(".deb"));
        let package = package.ok_or_else(|| missing("a command with `./NAME.deb`"))?.to_owned();
        Ok(Steps { commands, setting, package })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(code: &str) -> Result<Steps, Error> {
        Steps::read(&format!(
            "# Name\n\n{SECTION}\n\nText.\n\n```\n{code}\n```\n\n## Next\n\n```\nother\n```\n"
        ))
    }

    #[test]
    fn commands_and_the_setting_are_found() {
        let steps =
            read("apt install ./a.deb   # installs\nCANNERY_CERTIFICATES=\"x\"\n\nsystemctl restart a")
                .unwrap();
        assert_eq!(steps.commands, ["apt install ./a.deb", "systemctl restart a"]);
        assert_eq!((steps.setting.as_str(), steps.package.as_str()), ("CANNERY_CERTIFICATES=\"x\"", "a.deb"));
    }

    #[test]
    fn readme_has_the_commands() {
        let readme = fs::read_to_string(project::root().join("README.md")).unwrap();
        let steps = Steps::read(&readme).unwrap();
        assert!(steps.package.ends_with(".deb"), "{steps:?}");
    }

    #[test]
    fn more_than_three_commands_are_too_many() {
        assert!(read("apt install ./a.deb\nCANNERY_CERTIFICATES=\"x\"\na\nb").is_ok());
        assert!(read("apt install ./a.deb\nCANNERY_CERTIFICATES=\"x\"\na\nb\nc").is_err());
        assert!(read("apt install ./a.deb\na").is_err());
        assert!(Steps::read("# Name\n").is_err());
    }
}
