//! The commands: exit codes, one error line, atomic publishing, deterministic output.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::harness::{Server, compile, files_below, pages, run, skip_outside, write_folder};
use crate::random::letters;

/// Creates a directory with a source folder. Returns it, the path of the folder, and the path for an archive.
fn workspace() -> (tempfile::TempDir, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("site");
    let files = [
        ("index.html", "<title>home</title>"),
        ("_redirects", "/old /new 301\n/old2/* /:splat\n"),
        ("_headers", "/*\n  X-A: b\n"),
        ("_404.html", "missing"),
        ("_hosts/example.com/a.txt", "of the host"),
        (".canneryignore", "*.bak\n"),
        ("x.bak", "left out"),
    ];
    write_folder(&folder, &pages(&files));
    write_folder(&folder, &[(b"big.txt", "a line of text that repeats\n".repeat(3000).as_bytes())]);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let archive = text(&directory.path().join("site.cdb"));
    (directory, text(&folder), archive)
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal ended it")
}

/// Panics unless a command failed with this exit code and printed one error line that contains `words`.
fn assert_fails(output: &Output, expected: i32, words: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(output), expected, "{stderr}");
    let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error")).collect();
    assert!(errors.len() == 1 && stderr.contains(words), "`{words}` is not in {stderr}");
    assert!(!stderr.contains("panicked") && !stderr.contains("Error {"), "{stderr}");
}

#[test]
fn each_kind_of_error_has_its_exit_code() {
    let (directory, folder, archive) = workspace();
    assert_fails(
        &run("cannery-archiver", &["--sources", &folder, "--archive", &archive, "--wrong"]),
        2,
        "--wrong",
    );
    assert_fails(
        &run("cannery-archiver", &["--sources", "/nowhere/at/all", "--archive", &archive]),
        3,
        "/nowhere/at/all",
    );
    assert_fails(
        &run("cannery-archiver", &["--sources", &folder, "--archive", "/nowhere/at/all.cdb"]),
        4,
        "/nowhere/at",
    );
    assert_fails(&run("cannery-server", &["--archive", "/nowhere/at/all.cdb"]), 3, "/nowhere/at/all.cdb");

    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };

    compile(Path::new(&folder), Path::new(&archive), &[]);
    let sound = fs::read(&archive).unwrap();
    let mut newer = sound.clone();
    newer[2063 + 4] = 99;
    let mut flipped = sound.clone();
    *flipped.last_mut().unwrap() ^= 1;

    for (name, bytes, words) in [
        ("empty", b"".as_slice(), "archive"),
        ("random", &[7; 5000], "archive"),
        ("cut", &sound[..sound.len() - 1], "cut"),
        ("newer", &newer, "version 99"),
    ] {
        let path = file(name, bytes);
        for (program, arguments) in [
            ("cannery-server", ["--archive", &path]),
            ("cannery", ["verify", &path]),
            ("cannery", ["inspect", &path]),
        ] {
            assert_fails(&run(program, &arguments), 3, words);
        }
    }

    assert_fails(&run("cannery", &["verify", &file("flipped", &flipped)]), 3, "digest");
}

#[test]
fn strict_publishes_nothing_after_a_warning() {
    let (_directory, folder, archive) = workspace();
    fs::write(Path::new(&folder).join("_redirects"), "/index.html /elsewhere 301\n").unwrap();
    assert_fails(
        &run("cannery-archiver", &["--sources", &folder, "--archive", &archive, "--strict"]),
        5,
        "_redirects:1",
    );
    assert!(!Path::new(&archive).exists());
}

#[test]
fn archives_are_deterministic() {
    let (directory, folder, archive) = workspace();
    compile(Path::new(&folder), Path::new(&archive), &["--threads", "1"]);
    let copy = directory.path().join("copy");
    let mut files = files_below(Path::new(&folder));
    files.reverse();
    for (name, path) in files {
        write_folder(&copy, &[(&name, &fs::read(path).unwrap())]);
    }
    let other = directory.path().join("other.cdb");
    compile(&copy, &other, &["--threads", "3"]);
    assert!(fs::read(archive).unwrap() == fs::read(other).unwrap(), "the archives differ");
}

#[test]
fn extract_restores_the_source_folder() {
    for flags in
        [[].as_slice(), &["--compress", "brotli"], &["--compress", "zopfli,zstd", "--format", "cdb64"]]
    {
        let (directory, folder, archive) = workspace();
        compile(Path::new(&folder), Path::new(&archive), flags);
        let extracted = directory.path().join("extracted");
        let output = run("cannery", &["extract", &archive, extracted.to_str().unwrap()]);
        assert_eq!(code(&output), 0, "{}", String::from_utf8_lossy(&output.stderr));
        let contents = |folder: &Path| -> Vec<_> {
            let files = files_below(folder).into_iter().filter(|(name, _)| name != b"x.bak");
            files.map(|(name, path)| (name, fs::read(path).unwrap())).collect()
        };
        assert!(contents(&extracted) == contents(Path::new(&folder)), "{flags:?}: the folders differ");
    }
}

#[test]
fn inspect_verify_and_explain_read_an_archive() {
    let (_directory, folder, archive) = workspace();
    let report = compile(Path::new(&folder), Path::new(&archive), &["--json"]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["format"], "cdb");

    let stdout = |arguments: &[&str]| {
        let output = run("cannery", arguments);
        assert_eq!(code(&output), 0, "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };

    assert!(stdout(&["verify", &archive]).contains(report["digest"].as_str().unwrap()));
    assert!(stdout(&["inspect", &archive]).contains("cdb"));
    assert!(stdout(&["inspect", &archive, "/big.txt"]).contains("br"));

    let explained = stdout(&["explain", &archive, "/big.txt", "-H", "Accept-Encoding: br"]);
    assert!(
        explained.contains("HTTP/1.1 200 OK") && explained.contains("Content-Encoding: br"),
        "{explained}"
    );
    assert!(!explained.contains("HTTP/3"), "{explained}");
    let explained = stdout(&["explain", &archive, "https://localhost/big.txt"]);
    assert!(explained.contains("200 OK") && explained.contains("HTTP/3"), "{explained}");
    let explained = stdout(&["explain", &archive, "/old2/x?y"]);
    assert!(explained.contains("Location: /x?y"), "{explained}");

    for program in ["cannery", "cannery-archiver", "cannery-server"] {
        let page = run(program, &["--man"]);
        assert!(code(&page) == 0 && page.stdout.starts_with(b".ie"), "{program} --man");
    }
}

#[test]
fn address_of_a_running_server_is_refused() {
    let (_directory, folder, archive) = workspace();
    compile(Path::new(&folder), Path::new(&archive), &[]);
    let server = Server::start_on_all_transports(&["--archive", &archive]);
    let second = run("cannery-server", &["--archive", &archive, "--bind", &server.address]);
    assert_fails(&second, 1, "another program listens there");
    let _idle = server.connect();
    assert_eq!(server.get("/").status, 200);
    assert_eq!(server.stop(), Some(0));
}

/// Starts a build that takes long enough to be killed.
fn start_long_build(folder: &str, archive: &str) -> std::process::Child {
    fs::write(Path::new(folder).join("long.txt"), letters(8_000_000)).unwrap();
    Command::new(env!("CARGO_BIN_EXE_cannery-archiver"))
        .args(["--sources", folder, "--archive", archive, "--compress", "brotli"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn killed_build_keeps_the_old_archive() {
    let (directory, folder, archive) = workspace();
    compile(Path::new(&folder), Path::new(&archive), &[]);
    let before = fs::read(&archive).unwrap();

    let mut build = start_long_build(&folder, &archive);
    // The temporary file shows that the build has started.
    while !fs::read_dir(directory.path())
        .unwrap()
        .any(|entry| entry.unwrap().file_name().to_str().unwrap().ends_with(".tmp"))
    {
        assert!(build.try_wait().unwrap().is_none(), "it exited before it was killed");
        std::thread::yield_now();
    }

    build.kill().unwrap();
    build.wait().unwrap();
    assert!(fs::read(&archive).unwrap() == before, "the old archive has changed");

    // The next build removes the temporary file of the killed one.
    fs::remove_file(Path::new(&folder).join("long.txt")).unwrap();
    compile(Path::new(&folder), Path::new(&archive), &[]);
    let names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn full_disk_keeps_the_old_archive() {
    let (directory, folder, archive) = workspace();
    compile(Path::new(&folder), Path::new(&archive), &[]);
    let before = fs::read(&archive).unwrap();
    // A limit on the size of files fails at the same system call as a full disk, and needs no privileges.
    let limited =
        format!("trap '' XFSZ; ulimit -f 16; exec '{}' \"$@\"", env!("CARGO_BIN_EXE_cannery-archiver"));
    let arguments = ["--sources", &folder, "--archive", &archive, "--compress", "identity"];
    let output = Command::new("sh").args(["-c", &limited, "sh"]).args(arguments).output().unwrap();
    assert_fails(&output, 4, "site.cdb");
    assert!(fs::read(&archive).unwrap() == before, "the old archive has changed");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "a temporary file is left");
}

#[test]
fn tinycdb_reads_archives() {
    if skip_outside() {
        return;
    }
    let (_directory, folder, archive) = workspace();
    compile(Path::new(&folder), Path::new(&archive), &[]);
    let output = Command::new("cdb")
        .args(["-q", &archive, "manifest"])
        .output()
        .expect("`cargo xtask test` installs tinycdb");
    let manifest: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(manifest["schema"], 4);
    let output = Command::new("cdb").args(["-s", &archive]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Standard output was empty, although it promises a JSON value. A build that failed printed facts about an archive that it
/// hadn't written.
#[test]
fn failures_are_json_too() {
    let (directory, folder, archive) = workspace();
    let missing = directory.path().join("missing");
    let missing = missing.to_str().unwrap();
    let unwritable = format!("{missing}/site.cdb");
    fs::write(Path::new(&folder).join("_redirects"), "/a /b\n/a /c\n").unwrap();

    let runs: [(&str, &[&str], i32); 9] = [
        ("cannery-archiver", &[missing, &archive, "--json"], 3),
        ("cannery-archiver", &[&folder, &unwritable, "--json"], 4),
        ("cannery-archiver", &[&folder, &archive, "--json", "--strict"], 5),
        ("cannery-archiver", &[&folder, &archive, "--json", "--previous", &unwritable], 3),
        ("cannery", &["inspect", missing, "--json"], 3),
        ("cannery", &["verify", missing, "--json"], 3),
        ("cannery", &["explain", missing, "/", "--json"], 3),
        ("cannery", &["import", missing, "--output", &archive, "--json"], 3),
        ("cannery", &["releases", missing, "--json"], 3),
    ];
    for (program, arguments, expected) in runs {
        let output = run(program, arguments);
        assert_eq!(code(&output), expected, "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let error = &value["error"];
        assert_eq!(error["exit_code"], expected, "{arguments:?}");
        let message = error["message"].as_str().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains(message), "{arguments:?}: {message}");
        assert!(value.get("digest").is_none(), "{arguments:?}: {value}");
        assert_eq!(value.get("diagnostics").is_some(), expected == 5, "{arguments:?}: {value}");
    }
}

#[test]
fn large_bodies_are_aligned_and_padding_is_reported() {
    let (_directory, folder, archive) = workspace();
    let output = run("cannery-archiver", &["--sources", &folder, "--archive", &archive, "--debug"]);
    let summary = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(summary.contains("  padding "), "{summary}");
    let inspect = |arguments: &[&str]| -> serde_json::Value {
        let output = run("cannery", &[&["inspect", "--json", &archive], arguments].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let page = inspect(&["/big.txt"]);
    let identity = page["representations"].as_array().unwrap().iter().find(|one| one["coding"] == "identity");
    assert_eq!(identity.unwrap()["position"].as_u64().unwrap() % 4096, 0, "{page}");
    let padding = inspect(&[])["padding_bytes"].as_u64().unwrap();
    assert!((1..5000).contains(&padding), "{padding} bytes of padding");
    assert_eq!(code(&run("cannery", &["verify", &archive])), 0);
}
