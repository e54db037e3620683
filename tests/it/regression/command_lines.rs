//! Command lines that users type, and the output of `explain` and `inspect`.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::harness::{Server, pages, request_at, run, server_command, write_folder};

/// A directory with a site and its archive.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(files: &[(&'static str, &'static str)]) -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        write_folder(Path::new(&place.path("site")), &pages(files));
        place
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        path.to_str().unwrap().to_owned()
    }

    /// Compiles the folder, with the folder and the archive as positional arguments.
    fn compile(&self) -> String {
        let archive = self.path("site.cdb");
        let output = run("cannery-archiver", &[&self.path("site"), &archive, "--quiet"]);
        assert!(output.status.success(), "{}", output_text(&output));
        archive
    }
}

fn output_text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn prints(program: &str, arguments: &[&str], words: &str) {
    let output = run(program, arguments);
    assert!(
        output.status.success() && output_text(&output).contains(words),
        "{arguments:?}: {}",
        output_text(&output)
    );
}

#[test]
fn folder_and_archive_need_no_flag() {
    let place = Place::new(&[("index.html", "home")]);
    let archive = place.compile();
    let mut command = server_command();
    command.args([archive.as_str(), "--bind", "localhost:0", "--threads", "1"]);
    assert_eq!(Server::run(command).get("/").body, b"home");
}

#[test]
fn every_command_has_help_and_a_manual_page() {
    prints("cannery", &["help"], "Examples:");
    prints("cannery", &["help", "serve"], "cannery serve public");
    for command in
        ["serve", "inspect", "verify", "extract", "explain", "releases", "certificates", "dns", "completions"]
    {
        prints("cannery", &[command, "--help"], "Examples:");
        prints("cannery", &[command, "--man"], &format!("cannery\\-{command}"));
    }
    for program in ["cannery", "cannery-archiver", "cannery-server"] {
        prints(program, &["--help"], "Examples:");
        prints(program, &["--man"], ".SH");
        prints(program, &["--sbom"], "CycloneDX");
        for shell in ["bash", "zsh", "fish"] {
            prints(program, &["--completions", shell], program);
            prints("cannery", &["completions", shell, program], program);
        }
    }
}

#[test]
fn flags_of_kawipiko_are_known() {
    prints("cannery-server", &["--sbom-text"], "rustls ");
    prints("cannery-archiver", &["--sbom-json"], "CycloneDX");
    for program in ["cannery-server", "cannery-archiver"] {
        for flag in ["--sources-md5", "--sources-cpio"] {
            let arguments = ["a", "b", flag];
            let output = run(program, if program == "cannery-server" { &arguments[1..] } else { &arguments });
            assert_eq!(output.status.code(), Some(2));
            assert!(output_text(&output).contains("is not supported"), "{}", output_text(&output));
        }
    }
}

#[test]
fn folder_instead_of_an_archive_has_a_hint() {
    let place = Place::new(&[("index.html", "home")]);
    let folder = place.path("site");
    for (program, arguments) in
        [("cannery-server", vec![folder.as_str()]), ("cannery", vec!["inspect", &folder])]
    {
        let output = run(program, &arguments);
        assert_eq!(output.status.code(), Some(3));
        assert!(
            output_text(&output).contains("is a folder") && output_text(&output).contains("cannery serve"),
            "{}",
            output_text(&output)
        );
    }
}

/// `explain` printed a position in the archive instead of the file and the line.
#[test]
fn explain_names_files_and_lines() {
    let rules = "# rules\n/go /docs/ 302\n\n/old/* /docs/:splat 301\n/app/* /app.html 200\n";
    let place = Place::new(&[
        ("index.html", "home"),
        ("docs/index.html", "docs"),
        ("docs/_redirects", "./x /docs/ 301\n"),
        ("app.html", "app"),
        ("page.html", "page"),
        ("404.html", "nothing"),
        ("deep/_wildcard.html", "deep"),
        ("_hosts/a.example/index.html", "a"),
        ("_redirects", rules),
    ]);

    let archive = place.compile();
    for (url, words) in [
        ("/", "The file `index.html` answers"),
        ("/docs/", "The file `docs/index.html` answers"),
        ("/page", "The file `page.html` answers"),
        ("/page.html", "The file `page.html` has this path."),
        ("/go", "The rule at `_redirects:2`"),
        ("/old/a", "The rule at `_redirects:4`"),
        ("/app/a", "The rule at `_redirects:5`"),
        ("/app/a", "200 with `app.html`"),
        ("/docs/x", "The rule at `docs/_redirects:1`"),
        ("/none", "`404.html`, the page for this status"),
        ("/deep/none", "the fallback page `deep/_wildcard.html`"),
        ("/deep/none", "header rules for this path don't decide how it is cached"),
        ("http://a.example/", "The file `_hosts/a.example/index.html` answers"),
    ] {
        prints("cannery", &["explain", &archive, url], words);
        assert!(!output_text(&run("cannery", &["explain", &archive, url])).contains("at byte"), "{url}");
    }

    prints("cannery", &["explain", &archive, "/", "--debug"], "at byte");
    prints("cannery", &["inspect", &archive, "--list"], "text/html; charset=utf-8");
}

/// The server listened on IPv4 only, but Go programs use this form for both IP versions.
#[test]
fn colon_port_listens_on_both_ip_versions() {
    let has_ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    for processes in [&[][..], &["--processes", "1"]] {
        let mut command = server_command();
        command.args(["--dummy", "--threads", "1", "--bind", ":0"]).args(processes);
        let server = Server::run(command);
        // The printed address can be opened in a browser.
        let port = server.address.strip_prefix("127.0.0.1:").unwrap();
        assert_eq!(server.get("/").status, 200);
        if has_ipv6 {
            assert_eq!(request_at(&format!("[::1]:{port}"), "GET", "/", "").status, 200);
        }
    }
}

/// The host was looked up as it was typed, and `explain` answered from the default site.
#[test]
fn explain_takes_hosts_as_they_are_typed() {
    let place = Place::new(&[
        ("index.html", "default"),
        ("_hosts/xn--mnchen-3ya.de/index.html", "city"),
        ("_hosts/b.example/index.html", "b"),
    ]);
    let archive = place.compile();
    for (url, file) in [
        ("http://m\u{fc}nchen.de/", "_hosts/xn--mnchen-3ya.de/index.html"),
        ("http://M\u{dc}NCHEN.de:8080/", "_hosts/xn--mnchen-3ya.de/index.html"),
        ("http://B.EXAMPLE./", "_hosts/b.example/index.html"),
        ("http://unknown.example/", "index.html"),
    ] {
        prints("cannery", &["explain", &archive, url], &format!("The file `{file}` answers"));
    }
}

/// The warning didn't say how the name is spelled in requests.
#[test]
fn folder_of_an_international_host_is_renamed_in_the_warning() {
    let place = Place::new(&[("index.html", "default"), ("_hosts/m\u{fc}nchen.de/index.html", "city")]);
    let output = run("cannery-archiver", &[&place.path("site"), &place.path("site.cdb")]);
    assert!(output_text(&output).contains("`_hosts/xn--mnchen-3ya.de`"), "{}", output_text(&output));
}

/// Links that a proxy answers made `--check-links --strict` useless.
#[test]
fn link_checker_has_exceptions() {
    let place = Place::new(&[("index.html", "<a href=/api/x>1</a><a href='{{ url }}'>2</a>")]);
    let build = [&place.path("site"), &place.path("site.cdb"), "--check-links", "--strict"];
    assert_eq!(run("cannery-archiver", &build).status.code(), Some(5));
    let output = run("cannery-archiver", &[&build[..], &["--check-links-except", "/api/*"]].concat());
    assert!(output.status.success(), "{}", output_text(&output));
    let output = run("cannery-archiver", &[&build[..], &["--check-links-except", "api"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
}

/// The hint named a flag that looks similar, or nothing.
#[test]
fn words_of_other_servers_have_hints() {
    let place = Place::new(&[("index.html", "home")]);
    let archive = place.compile();
    let (site, other) = (place.path("site"), place.path("other.cdb"));

    std::fs::copy(&archive, &other).unwrap();
    for (program, arguments, words) in [
        ("cannery", vec![&*site], "cannery serve "),
        ("cannery", vec![&*archive], "cannery server "),
        ("cannery", vec!["dev"], "cannery serve DIR"),
        ("cannery", vec!["build"], "cannery archiver DIR FILE"),
        ("cannery", vec!["serve", &archive], "cannery server "),
        ("cannery", vec!["serve", "8080"], "--port 8080"),
        ("cannery", vec!["serve", &site, "8080"], "--port 8080"),
        ("cannery", vec!["serve", &site, "--spa"], "200.html"),
        ("cannery", vec!["serve", &site, "--bind", ":80", "--port", "81"], "leave one of them out"),
        ("cannery-server", vec![&*archive, &*other], "=/"),
        ("cannery-server", vec![&*archive, "8080"], "--port 8080"),
        ("cannery-server", vec![&*site], "cannery-server --folder"),
        ("cannery-server", vec![&*archive, "--ignore", "x"], "cannery-archiver"),
        ("cannery-archiver", vec![&*archive, &*site], "name the folder first"),
        ("cannery-archiver", vec![&*site], "site.cdb"),
    ] {
        let output = run(program, &arguments);
        let printed = output_text(&output);
        assert!(matches!(output.status.code(), Some(2 | 3)), "{arguments:?}: {printed}");
        let is_hint = printed.lines().any(|line| line.starts_with("hint:") && line.contains(words));
        assert!(is_hint && !printed.contains("similar"), "{arguments:?}: {printed}");
    }
}

/// The reason of the system was left out.
#[test]
fn missing_folder_has_the_reason() {
    let output = run("cannery", &["serve", "/nowhere/at/all"]);
    let printed = output_text(&output);
    assert!(printed.contains("/nowhere/at/all: No such file or directory"), "{printed}");
}

/// The program asked for an archive, as if there had never been one.
#[test]
fn executable_without_its_archive_says_so() {
    let place = Place::new(&[("index.html", "home")]);
    let app = place.path("app");
    std::fs::copy(env!("CARGO_BIN_EXE_cannery-server"), &app).unwrap();
    // Another test may have inherited the descriptor of the copy.
    let output = loop {
        match std::process::Command::new(&app).output() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            output => break output.unwrap(),
        }
    };
    let printed = output_text(&output);
    assert!(output.status.code() == Some(2) && printed.contains("`strip`"), "{printed}");
}

/// A sparse file of a few bytes filled the disk.
#[test]
fn sparse_file_is_an_error_of_the_build() {
    let place = Place::new(&[("index.html", "home")]);
    let hole = PathBuf::from(place.path("site/hole.bin"));
    std::fs::File::create(&hole).unwrap().set_len(1 << 42).unwrap();
    if std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&hole).unwrap()) > 0 {
        return;
    }
    let (site, archive) = (place.path("site"), place.path("site.cdb"));
    let output = run("cannery-archiver", &[&site, &archive]);
    let printed = output_text(&output);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(printed.contains("hole.bin: error:") && printed.contains("--allow-sparse"), "{printed}");

    std::fs::File::options().write(true).open(&hole).unwrap().set_len(2 << 20).unwrap();
    let output = run("cannery-archiver", &[&site, &archive]);
    assert!(output.status.success(), "{}", output_text(&output));
}

/// Files of the kernel say that they are empty.
#[test]
#[cfg(target_os = "linux")]
fn links_into_the_kernel_or_above_the_folder_are_left_out() {
    let place = Place::new(&[("index.html", "home")]);
    let (site, archive) = (place.path("site"), place.path("site.cdb"));
    for (name, target) in [("root", "/"), ("up", ".."), ("proc", "/proc"), ("env.txt", "/proc/self/environ")]
    {
        std::os::unix::fs::symlink(target, Path::new(&site).join(name)).unwrap();
    }
    for flags in [&[][..], &["--follow-links"]] {
        let output = run("cannery-archiver", &[&[&*site, &*archive], flags].concat());
        let printed = output_text(&output);
        assert!(output.status.success(), "{printed}");
        for words in ["root: warning:", "up: warning:", "proc: warning:", "env.txt: warning:"] {
            assert!(printed.contains(words), "{words}: {printed}");
        }
        prints("cannery", &["explain", &archive, "/env.txt"], "404");
    }
}

/// Runs a program that should fail with this exit code, and returns what it prints.
#[track_caller]
fn fails(program: &str, arguments: &[&str], exit: i32) -> String {
    let output = run(program, arguments);
    assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {}", output_text(&output));
    output_text(&output)
}

/// The hint recommended to serve the directory as a folder, which would have published its archives.
#[test]
fn release_directory_and_archive_are_told_apart() {
    let place = Place::new(&[("index.html", "home")]);
    let archive = place.compile();
    let directory = place.path("");
    for command in [
        ("cannery-server", vec![directory.as_str()]),
        ("cannery", vec!["verify", &directory]),
        ("cannery", vec!["explain", &directory, "/"]),
    ] {
        let text = fails(command.0, &command.1, 3);
        assert!(text.contains(&format!("`cannery-server --releases {directory}`")), "{text}");
        assert!(!text.contains("--folder"), "{text}");
    }
    for command in [("cannery-server", vec!["--releases", &archive]), ("cannery", vec!["releases", &archive])]
    {
        let text = fails(command.0, &command.1, 3);
        assert!(text.contains("is an archive, not a release directory"), "{text}");
        assert!(text.contains(&format!("`cannery-server {archive}` serves it")), "{text}");
    }
}

#[test]
fn folder_without_start_page_gets_a_hint_that_its_program_takes() {
    let place = Place::new(&[("Index.HTML", "home")]);
    let empty = place.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let text = fails("cannery-server", &["--folder", &empty, "--bind", "127.0.0.1:0"], 3);
    assert!(text.contains("needs a page for `/`") && !text.contains("--allow-empty"), "{text}");
    let text = fails("cannery-archiver", &[&empty, &place.path("x.cdb")], 3);
    assert!(text.contains("--allow-empty"), "{text}");
    let text = fails("cannery-archiver", &[&place.path("site"), &place.path("x.cdb")], 3);
    assert!(text.contains("rename `Index.HTML` to `index.html`"), "{text}");
}

#[test]
fn wrong_command_line_is_json_too() {
    for arguments in [&["site", "x.cdb", "--json", "--bogus"][..], &["--json"]] {
        let output = run("cannery-archiver", arguments);
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["error"]["exit_code"], 2, "{value}");
        assert!(!value["error"]["message"].as_str().unwrap().is_empty(), "{value}");
    }
    let text = fails("cannery-archiver", &[], 2);
    assert!(text.contains("`cannery-archiver DIR FILE`"), "{text}");
    let text = fails("cannery", &["extract", "site.cdb", "--json"], 2);
    assert!(!text.contains("cannery-archiver"), "{text}");
}
