//! Tests of the flags of every program.

use super::*;

#[test]
fn every_help_text_has_an_example() {
    for command in commands() {
        let name = command.get_name().to_owned();
        for_each_command(&command, &mut |command| {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.starts_with("Examples:\n  "), "{name} {}", command.get_name());
        });
    }
}

#[test]
fn clap_finds_no_contradiction_in_any_command() {
    for command in commands() {
        command.debug_assert();
    }
}

#[test]
fn every_help_text_is_a_sentence() {
    let check = |text: &str, name: &str| {
        assert!(text.ends_with('.') && !text.ends_with(".."), "{name}: {text:?}");
        assert!(text.starts_with(|first: char| !first.is_lowercase()), "{name}: {text:?}");
    };
    for command in commands() {
        for_each_command(&command, &mut |command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            check(&about, command.get_name());
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                check(&help, argument.get_id().as_str());
            }
        });
    }
}

/// Flags in messages about a folder that one program alone prints, because they are about its own command line.
const OWN_FLAGS: [(&str, &str); 9] = [
    ("--cache-control", "cannery-archiver"),
    ("--media-type", "cannery-archiver"),
    ("--serial", "cannery-archiver"),
    ("--strict", "cannery-archiver"),
    ("--previous", "cannery-archiver"),
    ("--compress", "cannery-archiver"),
    ("--https-redirect", "cannery-server"),
    ("--no-live-reload", "serve"),
    ("--allow-empty", "cannery-archiver"),
];

/// `cannery serve` recommended `--ignore`, which it didn't have.
#[test]
fn messages_name_flags_of_every_program_that_prints_them() {
    let programs = [archiver::command(), server::command(), site_command()];
    let has = |program: &Command, flag: &str| {
        program.get_arguments().any(|argument| argument.get_long() == flag.strip_prefix("--"))
    };

    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/archiver/src");
    let mut pending = vec![root];
    let mut found = 0;
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in code.map(|line| line.split(" // ").next().unwrap_or_default()) {
                for text in line.split('`').filter(|text| text.starts_with("--")) {
                    let is_name = |letter: char| letter == '-' || letter.is_ascii_lowercase();
                    let flag = &text[..text.find(|letter| !is_name(letter)).unwrap_or(text.len())];
                    let own = OWN_FLAGS.iter().find(|(name, _)| *name == flag).map(|(_, program)| *program);
                    let mut expected =
                        programs.iter().filter(|program| own.is_none_or(|own| program.get_name() == own));
                    assert!(expected.all(|program| has(program, flag)), "{}: {flag}", path.display());
                    found += 1;
                }
            }
        }
    }

    assert!(found > 5, "the messages are somewhere else");
}

fn site_command() -> Command {
    tools::command().find_subcommand("serve").unwrap().clone()
}

#[test]
fn short_help_fits_on_a_screen() {
    for program in ["cannery-server", "cannery-archiver", "cannery serve"] {
        let line =
            |flag: &str| program.split(' ').map(str::to_owned).chain([flag.to_owned()]).map(OsString::from);
        let help = |flag: &str| {
            let parsed = match program {
                "cannery-server" => server::parse(line(flag), None).map(|_| ()),
                "cannery-archiver" => archiver::parse(line(flag)).map(|_| ()),
                _ => tools::parse(line(flag)).map(|_| ()),
            };
            let Err(Failure::Clap(error)) = parsed else { panic!("{program}: no help") };
            error.to_string()
        };
        let (short, long) = (help("-h"), help("--help"));
        assert!(short.lines().count() < 70, "{program}: {} lines", short.lines().count());
        assert!(short.contains("--help") && long.lines().count() > 2 * short.lines().count(), "{program}");
    }
    let server = server::command().render_long_help().to_string();
    assert!(server.find("--bind ").unwrap() < server.find("--dummy").unwrap());
}

#[test]
fn an_unknown_flag_is_refused_with_usage() {
    let words = ["cannery-server", "--archive", "a", "--bind-nowhere", "127.0.0.1:443"].map(OsString::from);
    let Err(Failure::Clap(error)) = parse(server::command(), words) else {
        panic!("an unknown flag was accepted");
    };
    assert_eq!(error.kind(), ErrorKind::UnknownArgument);
    assert_eq!(error.exit_code(), 2);
}

fn commands() -> Vec<Command> {
    vec![archiver::command(), server::command(), tools::command()]
}

fn for_each_command(command: &Command, check: &mut dyn FnMut(&Command)) {
    check(command);
    for inner in command.get_subcommands() {
        for_each_command(inner, check);
    }
}
