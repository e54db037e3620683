//! Continuous deployment: the page's script, with `ssh` and `scp` that stay on this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use super::{block, blocks};
use crate::harness::{Server, wait_until, write_folder};

const PAGE: &str = "docs/continuous-deployment.md";

/// The server's name in the page.
const HOST: &str = "deploy@example.com";

/// `ssh HOST COMMAND…`: the remote shell gets all words as one text.
const SSH: &str = "#!/bin/sh\n[ \"$1\" = deploy@example.com ] && shift && exec sh -c \"$*\"\n";

/// `scp FROM TO`, of which one may be `HOST:PATH`.
const SCP: &str = "#!/bin/sh\nexec cp \"${1#deploy@example.com:}\" \"${2#deploy@example.com:}\"\n";

/// Runs a shell in the folder of the sources, with the programs and the stand-ins on its path.
fn shell(place: &Path, arguments: &[&str]) -> Output {
    let programs = Path::new(env!("CARGO_BIN_EXE_cannery")).parent().unwrap();
    let path = format!("{}:{}:/usr/bin:/bin", place.join("bin").display(), programs.display());
    Command::new("sh").args(arguments).current_dir(place.join("work")).env("PATH", path).output().unwrap()
}

fn assert_success(output: &Output) {
    let printed = [&output.stdout[..], &output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&printed));
}

/// Prepares a machine with an empty release directory. Returns its directory, with the page's script in `work/`.
fn prepare() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    for name in ["bin", "work", "releases"] {
        fs::create_dir(place.join(name)).unwrap();
    }
    for (name, script) in [("ssh", SSH), ("scp", SCP)] {
        let path = place.join("bin").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = block(PAGE, "#!/bin/sh").replace("/srv/cannery", place.join("releases").to_str().unwrap());
    fs::write(place.join("work/deploy.sh"), script).unwrap();
    folder
}

fn write_site(place: &Path, page: &str) {
    let site = place.join("work/dist");
    if site.is_dir() {
        fs::remove_dir_all(&site).unwrap();
    }
    // Each release has a script of its own name, as Vite makes it.
    let script = format!("assets/index-{page}.js");
    let text = format!("<script src=/{script}></script>");
    write_folder(&site, &[(b"index.html", text.as_bytes()), (script.as_bytes(), page.as_bytes())]);
}

#[test]
fn script_deploys_and_rolls_back() {
    let folder = prepare();
    let place = folder.path();
    let releases = place.join("releases");
    write_site(place, "B5kt5A8z");
    assert_success(&shell(place, &["deploy.sh", "dist", "1", HOST]));
    let server = Server::start(&["--releases", releases.to_str().unwrap()]);
    let serves = |name: &str| String::from_utf8(server.get("/").body).unwrap().contains(name);
    assert!(serves("B5kt5A8z"));

    write_site(place, "D6WeUmqv");
    assert_success(&shell(place, &["deploy.sh", "dist", "2", HOST]));
    wait_until("the second release", || serves("D6WeUmqv"));
    assert_eq!(server.get("/assets/index-B5kt5A8z.js").status, 200, "the open page's script");

    // A broken link fails the job, and nothing was copied.
    fs::write(place.join("work/dist/about.html"), "<a href=/nowhere>").unwrap();
    assert!(!shell(place, &["deploy.sh", "dist", "3", HOST]).status.success());
    assert!(!releases.join("3.cdb").exists() && !releases.join("3.cdb.new").exists());
    assert!(serves("D6WeUmqv"));

    let back = blocks(PAGE).into_iter().find(|text| text.starts_with("ssh deploy")).unwrap();
    assert_success(&shell(place, &["-ec", &back.replace("/srv/cannery", releases.to_str().unwrap())]));
    wait_until("the first release", || serves("B5kt5A8z"));
}

#[test]
fn old_releases_are_removed_except_the_current_one() {
    let folder = prepare();
    let place = folder.path();
    let releases = place.join("releases");
    for number in 10..25 {
        let path = releases.join(format!("{number}.cdb"));
        fs::write(&path, "archive").unwrap();
        let time = format!("2030-01-{number}");
        assert!(Command::new("touch").args(["-d", &time]).arg(&path).status().unwrap().success());
    }
    std::os::unix::fs::symlink("11.cdb", releases.join("current")).unwrap();

    let clean = format!("server={HOST} releases={}\n{}", releases.display(), block(PAGE, "tail -n"));
    assert_success(&shell(place, &["-ec", &clean]));
    let mut left: Vec<_> = fs::read_dir(&releases)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();

    left.sort();
    let expected = (15..25).map(|number| format!("{number}.cdb"));
    let expected: Vec<_> =
        ["11.cdb".to_owned()].into_iter().chain(expected).chain(["current".to_owned()]).collect();
    assert_eq!(left, expected);
}
