//! The programs that people use: curl, wget, Chromium.

use std::path::Path;
use std::process::Command;

use crate::site::{Server, compile, skip_outside};

fn served(folder: &str) -> Option<(tempfile::TempDir, Server)> {
    if skip_outside() {
        return None;
    }
    assert!(Path::new(folder).is_dir(), "{folder} is not there: `cargo xtask test` installs it");
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("site.cdb");
    compile(Path::new(folder), &archive, &["--compress", "identity,gzip", "--compress-level", "6"]);
    let server = Server::start(&["--archive", archive.to_str().unwrap()]);
    Some((place, server))
}

fn documentation() -> String {
    std::env::var("CANNERY_PYTHON_DOCS").unwrap_or_else(|_| "/usr/share/doc/python3.11/html".into())
}

fn output(program: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}: `cargo xtask test` installs it"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn curl_reads_in_each_way_it_knows() {
    let Some((_place, server)) = served("examples/site") else { return };
    let url = format!("http://{}/", server.address);
    let page = std::fs::read("examples/site/index.html").unwrap();
    for flags in [[].as_slice(), &["--compressed"], &["--http1.0"], &["--http1.1"], &["--path-as-is"]] {
        let mut arguments = vec!["-sS", "--fail", &url];
        arguments.extend(flags);
        assert!(output("curl", &arguments) == page, "{flags:?}");
    }
    let statuses =
        ["-sS", "-o", "/dev/null", "-w", "%{http_code}", &format!("{url}nothing")].map(str::to_owned);
    assert_eq!(output("curl", &statuses.each_ref().map(String::as_str)), b"404");
}

#[test]
fn wget_mirrors_the_example_site_without_a_broken_link() {
    let Some((place, server)) = served("examples/site") else { return };
    let url = format!("http://{}/", server.address);
    output("wget", &["-q", "-r", "-l", "5", "-p", "-P", place.path().to_str().unwrap(), &url]);
}

#[test]
fn chromium_loads_pages_without_one_failed_request() {
    let Some((_place, server)) = served(&documentation()) else { return };
    let Some((_other_place, example)) = served("examples/site") else { return };
    let url = |server: &Server, path: &str| format!("http://{}{path}", server.address);
    let pages = [
        url(&server, "/"),
        url(&server, "/library/os.html"),
        url(&server, "/library/asyncio"),
        url(&server, "/tutorial"),
        url(&example, "/"),
        url(&example, "/guide/rules"),
    ];
    let mut arguments = vec!["tests/outside/browse.mjs"];
    arguments.extend(pages.iter().map(String::as_str));
    let said = String::from_utf8(output("node", &arguments)).unwrap();
    assert_eq!(said.lines().filter(|line| line.starts_with("loaded ")).count(), pages.len(), "{said}");
}
