//! Tests of hints: flags and commands named by a hint must exist where the hint says they do.

use clap::CommandFactory;

use super::*;
use crate::flags::{archiver, server, site, tools};

/// Returns the failure of a command line, as printed.
fn printed(line: &str) -> String {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let result = match line.split_whitespace().next().unwrap() {
        "cannery-server" => server::parse(words, None).map(|_| ()),
        "cannery-archiver" => archiver::parse(words).map(|_| ()),
        _ => tools::parse(words).and_then(|invocation| match invocation {
            tools::Invocation::Run(tools::Command::Server(flags)) => flags.into_invocation(None).map(|_| ()),
            _ => Ok(()),
        }),
    };
    match result.expect_err(line) {
        Failure::Clap(error) => error.to_string(),
        Failure::Message { message, hint, .. } => {
            format!("error: {message}\nhint: {}", hint.unwrap_or_default())
        }
        Failure::Reported(_) | Failure::PipeClosed => panic!("{line}: no message"),
    }
}

fn is_flag_of(scope: Scope, name: &str) -> bool {
    match scope {
        Scope::Serve => has_flag(&site::Serve::command(), name),
        Scope::Server => has_flag(&server::Flags::command(), name),
        Scope::Archiver => has_flag(&archiver::Flags::command(), name),
        Scope::Root | Scope::Other => false,
    }
}

/// Returns the flags in a text that stand in backticks.
fn flags_in(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .flat_map(|code| code.split_whitespace())
        .filter(|word| word.starts_with("--"))
        .map(|word| word.split('=').next().unwrap_or(word))
        .collect()
}

#[test]
fn answers_name_flags_that_exist() {
    for (scope, names, answer) in foreign::all() {
        for quoted in answer.split('`').skip(1).step_by(2) {
            let scope = match quoted.split_whitespace().collect::<Vec<_>>()[..] {
                ["cannery-archiver", ..] | ["cannery", "archiver", ..] => Scope::Archiver,
                ["cannery-server", ..] | ["cannery", "server", ..] => Scope::Server,
                ["cannery", "serve", ..] => Scope::Serve,
                ["cannery", name, ..] => {
                    let command = tools::command();
                    let inner = command.find_subcommand(name);
                    let known = |flag: &&str| {
                        let long = flag.trim_start_matches('-');
                        let flags = inner.unwrap_or(&command).get_arguments();
                        long == "version"
                            || flags.into_iter().any(|argument| argument.get_long() == Some(long))
                    };
                    assert!(inner.is_some() || ["help", "--version", "--man"].contains(&name), "{quoted}");
                    assert!(flags_in(&format!("`{quoted}`")).iter().all(known), "{quoted}");
                    continue;
                }
                _ => scope,
            };

            for flag in flags_in(&format!("`{quoted}`")) {
                let exists = is_flag_of(scope, flag) || flag == "--version";
                assert!(exists, "{names:?}: {} has no {flag}", scope.name());
            }
        }
    }
}

#[test]
fn answered_flags_do_not_exist() {
    for (scope, names, _) in foreign::all().filter(|(scope, ..)| *scope != Scope::Root) {
        for name in names {
            let dashes = if name.len() == 1 { "-" } else { "--" };
            // A flag of one program may be answered in the table for all.
            let exists = is_flag_of(scope, &format!("{dashes}{name}"));
            assert!(
                !exists || foreign::flag(Scope::Serve, name) == foreign::flag(Scope::Server, name),
                "{name}"
            );
        }
    }
}

#[test]
fn words_of_other_servers_are_answered() {
    for (line, words) in [
        ("cannery serve site --spa", "200.html"),
        ("cannery serve site --cors", "_headers"),
        ("cannery serve site --reload", "without a flag"),
        ("cannery serve --dir site", "cannery serve DIR"),
        ("cannery serve site 3000", "cannery serve --port 3000"),
        ("cannery serve site :3000", "--bind :3000"),
        ("cannery -p 3000", "cannery serve -p 3000"),
        ("cannery --port 3000", "cannery serve --port 3000"),
        ("cannery dev", "cannery serve DIR"),
        ("cannery build", "cannery archiver DIR FILE"),
        ("cannery deploy site", "cannery push USER@HOST:DIR FOLDER"),
        ("cannery init", "cannery serve DIR"),
        ("cannery nonsense", "cannery serve DIR"),
        ("cannery 8080", "cannery serve --port 8080"),
        ("cannery-server -c nginx.conf", "no configuration file"),
        ("cannery-server site.cdb --cors", "_headers"),
        ("cannery-server site.cdb --gzip", "cannery-archiver --compress"),
        ("cannery-server a.cdb b.cdb", "cannery-server www.example.com=b.cdb"),
        ("cannery-server a.cdb 8080", "cannery-server --port 8080"),
        ("cannery-server serve a.cdb", "leave it out"),
        ("cannery server a.cdb :80", "cannery-server --bind :80"),
        ("cannery-server", "--folder DIR"),
        ("cannery-archiver site -o site.cdb", "cannery-archiver DIR FILE"),
        ("cannery-archiver / ", "cannery-archiver / site.cdb"),
        ("cannery-archiver a b c", "one folder"),
        ("cannery-archiver build a b", "leave `build` out: `cannery-archiver a b`"),
        ("cannery-archiver help", "cannery-archiver --help"),
        ("cannery-archiver serve", "has no commands"),
        ("cannery-archiver site -", "standard output"),
        ("cannery-archiver site --releases r", "RELEASES/NAME.cdb"),
        ("cannery serve --strict", "a flag of `cannery-archiver`"),
        ("cannery serve --bind-tls :443", "a flag of `cannery-server`"),
        ("cannery-server a.cdb --allow-host a", "a flag of `cannery serve`"),
        ("cannery releases --rollback", "--rollback"),
        ("cannery-server -d public", "--folder DIR"),
        ("cannery serve -b 0.0.0.0", "--host IP"),
        ("cannery import a b", "--output FILE"),
        ("cannery serve -p :3000", "--bind :3000"),
        ("cannery serve -p 80x", "`80x` isn't a number"),
        ("cannery-server a.cdb --limit-memory 48MiB", "`--limit-memory 48`"),
        ("cannery -v", "cannery --version"),
        ("cannery src a.cdb", "cannery archiver src a.cdb"),
        ("cannery src tests", "`cannery serve src` serves"),
    ] {
        let printed = printed(line);
        assert!(printed.contains(words), "{line}: {printed}");
        assert!(!printed.contains("similar") && !printed.contains("as a value"), "{line}: {printed}");
    }
}

/// `--port` led to `--production`, and `build` to `bundle`.
#[test]
fn only_typing_errors_have_suggestions() {
    for (line, suggestion) in [
        ("cannery serve --bnid 80", "--bind"),
        ("cannery serve --no-folow", "--no-follow"),
        ("cannery server --acess-log -", "--access-log"),
        ("cannery-archiver a b --imutable c", "--immutable"),
        ("cannery inspekt a", "inspect"),
        ("cannery srve a", "serve"),
    ] {
        assert!(printed(line).contains(suggestion), "{line}: {}", printed(line));
    }
    for line in ["cannery serve --reports", "cannery-server a --spread", "cannery-archiver a b --sparks"] {
        assert!(!printed(line).contains("similar"), "{line}: {}", printed(line));
    }
    assert!(!printed("cannery serve --foo").contains("--follow-links"));
    assert!(is_typing_error("--extarct", "extract") && is_typing_error("--versoin", "--version"));
    assert!(!is_typing_error("port", "report") && !is_typing_error("build", "bundle"));
}
