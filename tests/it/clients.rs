//! The programs that people use: curl, wget, Python's, Node's and Go's clients, Chromium.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::gallery::Gallery;
use crate::site::{Server, compile, files_below, python, skip_outside};

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
    let page = fs::read("examples/site/index.html").unwrap();
    for flags in [[].as_slice(), &["--compressed"], &["--http1.0"], &["--http1.1"], &["--path-as-is"]] {
        let mut arguments = vec!["-sS", "--fail", &url];
        arguments.extend(flags);
        assert!(output("curl", &arguments) == page, "{flags:?}");
    }
    let statuses =
        ["-sS", "-o", "/dev/null", "-w", "%{http_code}", &format!("{url}nothing")].map(str::to_owned);
    assert_eq!(output("curl", &statuses.each_ref().map(String::as_str)), b"404");
}

/// The program's output as text.
fn said(program: &str, arguments: &[&str]) -> String {
    String::from_utf8(output(program, arguments)).unwrap()
}

#[test]
fn curl_loads_all_kinds_on_one_connection() {
    if skip_outside() {
        return;
    }
    let gallery = Gallery::open();
    for flags in [["--http1.1", "--compressed"], ["--http1.1", "--no-compressed"]] {
        let mut arguments =
            vec!["-sS".to_owned(), "--fail".to_owned(), "-w".to_owned(), "%{num_connects}\n".into()];
        arguments.extend(flags.map(str::to_owned));
        let lines = fs::read_to_string(&gallery.list).unwrap();
        for (number, line) in lines.lines().enumerate() {
            let (target, _) = line.split_once('\t').unwrap();
            let to = gallery.place().join(number.to_string());
            arguments.extend([gallery.url(target), "-o".to_owned(), to.to_str().unwrap().to_owned()]);
        }
        let connects = said("curl", &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(connects.lines().filter(|line| *line == "1").count(), 1, "{flags:?}: {connects}");
        for (number, line) in lines.lines().enumerate() {
            let (target, file) = line.split_once('\t').unwrap();
            let got = fs::read(gallery.place().join(number.to_string())).unwrap();
            assert!(got == fs::read(file).unwrap(), "{target} with {flags:?}");
        }
    }
}

#[test]
fn curl_asks_for_parts_and_only_for_what_is_new() {
    if skip_outside() {
        return;
    }
    let gallery = Gallery::open();
    let content = fs::read(gallery.folder.join("noise.bin")).unwrap();
    let url = gallery.url("/noise.bin");
    let part = |range: &str| output("curl", &["-sS", "--fail", "-r", range, &url]);
    assert!(part("0-9") == content[..10] && part("-7") == content[content.len() - 7..]);
    assert!(part("699000-") == content[699_000..]);
    let parts = part("0-9,100-199");
    let holds = |bytes: &[u8]| parts.windows(bytes.len()).any(|window| window == bytes);
    assert!(holds(&content[..10]) && holds(&content[100..200]));

    let status = |flags: &[&str]| {
        said("curl", &[&["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url], flags].concat())
    };
    // The files say that they were last modified on 14 November 2023.
    assert_eq!(status(&["-z", "Wed, 15 Nov 2023 00:00:00 GMT"]), "304");
    assert_eq!(status(&["-z", "Mon, 13 Nov 2023 00:00:00 GMT"]), "200");
    assert_eq!(status(&["-z", "-Mon, 13 Nov 2023 00:00:00 GMT"]), "412");
    let tag = gallery.place().join("tag");
    let tag = tag.to_str().unwrap();
    assert_eq!(status(&["--etag-save", tag]), "200");
    assert_eq!(status(&["--etag-compare", tag]), "304");
    assert_eq!(status(&["-I"]), "200");
    assert_eq!(status(&["-X", "DELETE"]), "405");
    assert_eq!(status(&["--http1.0", "-r", "5-6"]), "206");
    let moved =
        ["-sS", "-L", "-w", "%{num_redirects} %{http_code}", &gallery.url("/moved?x")].map(str::to_owned);
    assert_eq!(said("curl", &moved.each_ref().map(String::as_str)), "small\n1 200");
    // A content that nobody asked for keeps the connection as it is.
    let content = "x".repeat(50_000);
    let posted = said(
        "curl",
        &[
            "-sS",
            "-X",
            "GET",
            "-d",
            &content,
            &gallery.url("/small.txt"),
            &gallery.url("/small.txt"),
            "-w",
            "%{num_connects}",
        ],
    );
    assert_eq!(posted, "small\n1small\n0");
}

#[test]
fn wget_mirrors_the_example_site_without_a_broken_link() {
    let Some((place, server)) = served("examples/site") else { return };
    let url = format!("http://{}/", server.address);
    let mirror = place.path().join("mirror");
    output("wget", &["-q", "-r", "-l", "5", "-p", "-nH", "-P", mirror.to_str().unwrap(), &url]);
    let index = fs::read(mirror.join("index.html")).unwrap();
    assert!(index == fs::read("examples/site/index.html").unwrap());
    let mut same = 0;
    for (name, path) in files_below(&mirror) {
        let name = Path::new("examples/site").join(String::from_utf8(name).unwrap());
        // Pages are linked by their names without suffix.
        let source = if name.is_file() { name } else { name.with_extension("html") };
        assert!(fs::read(path).unwrap() == fs::read(&source).unwrap(), "{} differs", source.display());
        same += 1;
    }
    assert!(same >= 7, "only {same} files");
}

#[test]
fn wget_goes_on_where_it_was_cut_off() {
    if skip_outside() {
        return;
    }
    let gallery = Gallery::open();
    for name in ["noise.bin", "big.txt"] {
        let content = fs::read(gallery.folder.join(name)).unwrap();
        let to = gallery.place().join(name);
        fs::write(&to, &content[..content.len() / 3]).unwrap();
        let url = gallery.url(&format!("/{name}"));
        output("wget", &["-q", "-c", "-O", to.to_str().unwrap(), &url]);
        assert!(fs::read(&to).unwrap() == content, "{name}");
        // What is whole already is asked for once more, and nothing of it is left to send.
        output("wget", &["-q", "-c", "-O", to.to_str().unwrap(), &url]);
        assert!(fs::read(&to).unwrap() == content, "{name}");
    }
}

/// Runs a program that loads the gallery, which compares as often as is expected of it on few connections.
fn loads(gallery: &Gallery, program: &str, arguments: &[&str], times: usize, connections: usize) {
    let before = gallery.connections();
    let list = gallery.list.to_str().unwrap();
    let said = said(program, &[arguments, &[&gallery.server.address, list]].concat());
    let compared: usize = said.trim().strip_prefix("compared ").unwrap().parse().unwrap();
    assert!(compared >= gallery.targets * times, "{program} compared {compared} times only");
    let used = gallery.connections() - before - 1;
    assert!(used <= connections, "{program} {arguments:?} took {used} connections");
}

#[test]
fn pythons_clients_load_all_kinds_on_one_connection() {
    if skip_outside() {
        return;
    }
    let gallery = Gallery::open();
    let python = python();
    for (client, times) in [("http.client", 2), ("httpx", 4), ("aiohttp", 4)] {
        loads(&gallery, python.to_str().unwrap(), &["tests/outside/load.py", client], times, 1);
    }
}

#[test]
fn node_loads_all_kinds_on_two_connections() {
    if skip_outside() {
        return;
    }
    // One is that of fetch, the other that of the agent.
    loads(&Gallery::open(), "node", &["tests/outside/load.mjs"], 7, 2);
}

#[test]
fn go_loads_all_kinds_on_one_connection() {
    if skip_outside() {
        return;
    }
    let gallery = Gallery::open();
    let program = gallery.place().join("load");
    let program = program.to_str().unwrap();
    output("go", &["build", "-o", program, "tests/outside/load.go"]);
    loads(&gallery, program, &[], 2, 1);
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
