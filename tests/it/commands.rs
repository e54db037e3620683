//! The commands: exit codes, one clear line, nothing lost, the same bytes again.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::site::{Server, compile, files_below, pages, run, skip_outside, write_folder};

/// A place with a folder `site` in it, and the path of an archive that is not there yet.
fn place() -> (tempfile::TempDir, String, String) {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("site");
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
    let archive = text(&place.path().join("site.cdb"));
    (place, text(&folder), archive)
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it ended by itself")
}

/// That a command failed with this code, and said why in one line of error.
fn fails(output: &Output, expected: i32, words: &str) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(output), expected, "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error")).collect();
    assert!(errors.len() == 1 && said.contains(words), "`{words}` is not in {said}");
    assert!(!said.contains("panicked") && !said.contains("Error {"), "{said}");
}

#[test]
fn mistakes_have_their_exit_codes() {
    let (place, folder, archive) = place();
    fails(&run("cannery-archiver", &["--sources", &folder, "--archive", &archive, "--wrong"]), 2, "--wrong");
    fails(
        &run("cannery-archiver", &["--sources", "/nowhere/at/all", "--archive", &archive]),
        3,
        "/nowhere/at/all",
    );
    fails(
        &run("cannery-archiver", &["--sources", &folder, "--archive", "/nowhere/at/all.cdb"]),
        4,
        "/nowhere/at",
    );
    fails(&run("cannery-server", &["--archive", "/nowhere/at/all.cdb"]), 3, "/nowhere/at/all.cdb");
    let file = |name: &str, bytes: &[u8]| {
        let path = place.path().join(name);
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
            fails(&run(program, &arguments), 3, words);
        }
    }
    fails(&run("cannery", &["verify", &file("flipped", &flipped)]), 3, "digest");
}

#[test]
fn strict_publishes_nothing_when_there_are_warnings() {
    let (_place, folder, archive) = place();
    fs::write(Path::new(&folder).join("_redirects"), "/index.html /elsewhere 301\n").unwrap();
    fails(
        &run("cannery-archiver", &["--sources", &folder, "--archive", &archive, "--strict"]),
        5,
        "_redirects:1",
    );
    assert!(!Path::new(&archive).exists());
}

#[test]
fn the_same_folder_gives_the_same_bytes() {
    let (place, folder, archive) = place();
    compile(Path::new(&folder), Path::new(&archive), &["--threads", "1"]);
    let copy = place.path().join("copy");
    let mut files = files_below(Path::new(&folder));
    files.reverse();
    for (name, path) in files {
        write_folder(&copy, &[(&name, &fs::read(path).unwrap())]);
    }
    let other = place.path().join("other.cdb");
    compile(&copy, &other, &["--threads", "3"]);
    assert!(fs::read(archive).unwrap() == fs::read(other).unwrap(), "the archives differ");
}

#[test]
fn extract_gives_the_folder_back() {
    for flags in
        [[].as_slice(), &["--compress", "brotli"], &["--compress", "zopfli,zstd", "--format", "cdb64"]]
    {
        let (place, folder, archive) = place();
        compile(Path::new(&folder), Path::new(&archive), flags);
        let back = place.path().join("back");
        let output = run("cannery", &["extract", &archive, back.to_str().unwrap()]);
        assert_eq!(code(&output), 0, "{}", String::from_utf8_lossy(&output.stderr));
        let contents = |folder: &Path| -> Vec<_> {
            let files = files_below(folder).into_iter().filter(|(name, _)| name != b"x.bak");
            files.map(|(name, path)| (name, fs::read(path).unwrap())).collect()
        };
        assert!(contents(&back) == contents(Path::new(&folder)), "{flags:?}: the folders differ");
    }
}

#[test]
fn the_commands_look_into_an_archive() {
    let (_place, folder, archive) = place();
    let report = compile(Path::new(&folder), Path::new(&archive), &["--json"]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["format"], "cdb");
    let said = |arguments: &[&str]| {
        let output = run("cannery", arguments);
        assert_eq!(code(&output), 0, "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(said(&["verify", &archive]).contains(report["digest"].as_str().unwrap()));
    assert!(said(&["inspect", &archive]).contains("cdb"));
    assert!(said(&["inspect", &archive, "/big.txt"]).contains("br"));
    let explained = said(&["explain", &archive, "/big.txt", "-H", "Accept-Encoding: br"]);
    assert!(
        explained.contains("HTTP/1.1 200 OK") && explained.contains("Content-Encoding: br"),
        "{explained}"
    );
    let explained = said(&["explain", &archive, "/old2/x?y"]);
    assert!(explained.contains("Location: /x?y"), "{explained}");
    for program in ["cannery", "cannery-archiver", "cannery-server"] {
        let page = run(program, &["--man"]);
        assert!(code(&page) == 0 && page.stdout.starts_with(b".ie"), "{program} --man");
    }
}

#[test]
fn a_server_stops_in_good_order_and_keeps_its_address_to_itself() {
    let (_place, folder, archive) = place();
    compile(Path::new(&folder), Path::new(&archive), &[]);
    let server = Server::start_everywhere(&["--archive", &archive]);
    let second = run("cannery-server", &["--archive", &archive, "--bind", &server.address]);
    fails(&second, 1, "--bind");
    let _idle = server.connect();
    assert_eq!(server.get("/").status, 200);
    assert_eq!(server.stop(), Some(0));
}

/// A build that is too long to end before it is killed.
fn begin_long_build(folder: &str, archive: &str) -> std::process::Child {
    let mut seed = 1u64;
    let text: Vec<u8> = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'a' + (seed >> 60) as u8
    })
    .take(8_000_000)
    .collect();
    fs::write(Path::new(folder).join("long.txt"), text).unwrap();
    Command::new(env!("CARGO_BIN_EXE_cannery-archiver"))
        .args(["--sources", folder, "--archive", archive, "--compress", "brotli"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_build_leaves_the_old_archive() {
    let (place, folder, archive) = place();
    compile(Path::new(&folder), Path::new(&archive), &[]);
    let before = fs::read(&archive).unwrap();
    let mut build = begin_long_build(&folder, &archive);
    // The temporary file is its word that it has begun.
    while !fs::read_dir(place.path())
        .unwrap()
        .any(|entry| entry.unwrap().file_name().to_str().unwrap().ends_with(".tmp"))
    {
        assert!(build.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::yield_now();
    }
    build.kill().unwrap();
    build.wait().unwrap();
    assert!(fs::read(&archive).unwrap() == before, "the old archive has changed");
    // The next build sweeps up what the dead one left.
    fs::remove_file(Path::new(&folder).join("long.txt")).unwrap();
    compile(Path::new(&folder), Path::new(&archive), &[]);
    let names: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_full_disk_leaves_the_old_archive() {
    let (place, folder, archive) = place();
    compile(Path::new(&folder), Path::new(&archive), &[]);
    let before = fs::read(&archive).unwrap();
    // A limit on the size of files fails in the same place as a full disk does, and needs no root.
    let limited =
        format!("trap '' XFSZ; ulimit -f 16; exec '{}' \"$@\"", env!("CARGO_BIN_EXE_cannery-archiver"));
    let arguments = ["--sources", &folder, "--archive", &archive, "--compress", "identity"];
    let output = Command::new("sh").args(["-c", &limited, "sh"]).args(arguments).output().unwrap();
    fails(&output, 4, "site.cdb");
    assert!(fs::read(&archive).unwrap() == before, "the old archive has changed");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "something was left behind");
}

#[test]
fn tinycdb_reads_what_the_archiver_wrote() {
    if skip_outside() {
        return;
    }
    let (_place, folder, archive) = place();
    compile(Path::new(&folder), Path::new(&archive), &[]);
    let output = Command::new("cdb")
        .args(["-q", &archive, "manifest"])
        .output()
        .expect("`cargo xtask test` installs tinycdb");
    let manifest: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(manifest["schema"], 3);
    let output = Command::new("cdb").args(["-s", &archive]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_large_body_begins_with_a_page_and_what_that_took_is_told() {
    let (_place, folder, archive) = place();
    let told = run("cannery-archiver", &["--sources", &folder, "--archive", &archive, "--debug"]);
    let summary = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(summary.contains("  padding "), "{summary}");
    let inspected = |arguments: &[&str]| -> serde_json::Value {
        let output = run("cannery", &[&["inspect", "--json", &archive], arguments].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let page = inspected(&["/big.txt"]);
    let identity = page["representations"].as_array().unwrap().iter().find(|one| one["coding"] == "identity");
    assert_eq!(identity.unwrap()["position"].as_u64().unwrap() % 4096, 0, "{page}");
    let padding = inspected(&[])["padding_bytes"].as_u64().unwrap();
    assert!((1..5000).contains(&padding), "{padding} bytes of padding");
    assert_eq!(code(&run("cannery", &["verify", &archive])), 0);
}
