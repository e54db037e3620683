//! Unit tests of the reference pages.

use super::*;
use std::path::Path;

/// If this variable is set, [`reference_matches_the_flags`] will write the pages instead of comparing them.
const WRITE: &str = "CANNERY_WRITE_REFERENCE";

#[test]
fn reference_matches_the_flags() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference");
    for (name, text) in pages() {
        let path = folder.join(name);
        if std::env::var_os(WRITE).is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == text,
            "docs/reference/{name} does not match the flags: run the test with {WRITE}=1"
        );
    }
}

#[test]
fn every_flag_is_on_its_page() {
    let page = page(flags::server::command());
    for argument in flags::server::command().get_arguments().filter(|argument| is_shown(argument)) {
        let Some(name) = argument.get_long() else { continue };
        assert!(page.contains(&format!("--{name}")), "{name}");
    }
}

#[test]
fn completions_offer_the_flags_of_help_only() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        for command in [flags::server::command(), flags::archiver::command(), flags::tools::command()] {
            let script = completions(shell, &command);
            let offers = |argument: &Arg| {
                let long = argument.get_long().expect("only positional arguments have no name");
                let is_end =
                    |rest: &str| !rest.starts_with(|byte: char| byte.is_alphanumeric() || byte == '-');
                script.split(long).skip(1).any(is_end)
            };
            let flags = command.get_arguments().filter(|argument| argument.get_long().is_some());
            for flag in flags {
                assert_eq!(offers(flag), !flag.is_hide_set(), "{shell} {flag}");
            }
        }
    }
}

#[test]
fn syntax_depends_on_the_kind_of_argument() {
    assert_eq!(syntax(&Arg::new("a").long("all").action(ArgAction::SetTrue)), "--all");
    assert_eq!(syntax(&Arg::new("a").long("out").short('o').value_name("FILE")), "-o, --out FILE");
    let optional = Arg::new("a").long("poll").value_name("MS").num_args(0..=1).require_equals(true);
    assert_eq!(syntax(&optional), "--poll[=MS]");
    assert_eq!(syntax(&Arg::new("a").value_name("DIR").required(true)), "DIR");
    assert_eq!(syntax(&Arg::new("a").value_name("DIR")), "[DIR]");
}
