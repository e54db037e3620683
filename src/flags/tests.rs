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
