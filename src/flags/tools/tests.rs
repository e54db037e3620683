//! Tests of the flags of `cannery`.

use super::*;

fn command(line: &str) -> Result<Command, Failure> {
    match parse(line.split_whitespace().map(OsString::from))? {
        Invocation::Run(command) => Ok(command),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_other_programs_are_commands() {
    let archiver = command("cannery archiver --sources a --archive b --quiet").unwrap();
    assert!(matches!(archiver, Command::Archiver(_)));
    assert!(matches!(command("cannery server --archive a"), Ok(Command::Server(_))));
}

#[test]
fn explain_takes_method_and_fields() {
    let line = "cannery explain a.cdb /b -H Accept-Encoding:br -H Host:c -X HEAD";
    let Command::Explain(explain) = command(line).unwrap() else { panic!("another command") };
    assert_eq!((explain.url.as_str(), explain.method.as_str()), ("/b", "HEAD"));
    assert_eq!(explain.fields, ["Accept-Encoding:br", "Host:c"]);
}

#[test]
fn a_manual_page_needs_no_arguments() {
    let page = parse(["cannery", "inspect", "--man"].map(OsString::from));
    assert!(matches!(page, Ok(Invocation::ManualPage(name)) if name == "inspect"));
}

#[test]
fn wrong_command_lines_are_refused() {
    for line in [
        "cannery bundle",
        "cannery inspect",
        "cannery inspect a /b --list",
        "cannery inspect a --host b",
        "cannery extract a",
        "cannery explain a",
        "cannery releases",
        "cannery releases a --use",
        "cannery completions tcsh",
    ] {
        assert!(command(line).is_err(), "{line}");
    }
}
