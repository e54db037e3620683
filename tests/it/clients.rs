//! HTTP/1.1 clients: curl, wget, the clients of Python, Node and Go, and Chromium.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::fixture_site::FixtureSite;
use crate::harness::{Server, compile, files_below, python, skip_outside};

fn serve(folder: &str) -> Option<(tempfile::TempDir, Server)> {
    if skip_outside() {
        return None;
    }
    assert!(Path::new(folder).is_dir(), "{folder} is missing: `cargo xtask test` installs it");
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
fn curl_loads_a_page_with_each_option() {
    let Some((_place, server)) = serve("examples/site") else { return };
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

/// Returns the output of a program as text.
fn stdout(program: &str, arguments: &[&str]) -> String {
    String::from_utf8(output(program, arguments)).unwrap()
}

#[test]
fn curl_loads_each_kind_over_one_connection() {
    if skip_outside() {
        return;
    }
    let site = FixtureSite::serve();
    for flags in [["--http1.1", "--compressed"], ["--http1.1", "--no-compressed"]] {
        let mut arguments =
            vec!["-sS".to_owned(), "--fail".to_owned(), "-w".to_owned(), "%{num_connects}\n".into()];
        arguments.extend(flags.map(str::to_owned));

        let lines = fs::read_to_string(&site.list).unwrap();
        for (number, line) in lines.lines().enumerate() {
            let (target, _) = line.split_once('\t').unwrap();
            let to = site.place().join(number.to_string());
            arguments.extend([site.url(target), "-o".to_owned(), to.to_str().unwrap().to_owned()]);
        }

        let connects = stdout("curl", &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(connects.lines().filter(|line| *line == "1").count(), 1, "{flags:?}: {connects}");

        for (number, line) in lines.lines().enumerate() {
            let (target, file) = line.split_once('\t').unwrap();
            let content = fs::read(site.place().join(number.to_string())).unwrap();
            assert!(content == fs::read(file).unwrap(), "{target} with {flags:?}");
        }
    }
}

#[test]
fn curl_sends_ranges_and_conditions() {
    if skip_outside() {
        return;
    }
    let site = FixtureSite::serve();
    let content = fs::read(site.folder.join("noise.bin")).unwrap();
    let url = site.url("/noise.bin");
    let part = |range: &str| output("curl", &["-sS", "--fail", "-r", range, &url]);
    assert!(part("0-9") == content[..10] && part("-7") == content[content.len() - 7..]);
    assert!(part("699000-") == content[699_000..]);
    let parts = part("0-9,100-199");
    let contains = |bytes: &[u8]| parts.windows(bytes.len()).any(|window| window == bytes);
    assert!(contains(&content[..10]) && contains(&content[100..200]));

    let status = |flags: &[&str]| {
        stdout("curl", &[&["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url], flags].concat())
    };
    // Last-Modified of all files is 14 November 2023.
    assert_eq!(status(&["-z", "Wed, 15 Nov 2023 00:00:00 GMT"]), "304");
    assert_eq!(status(&["-z", "Mon, 13 Nov 2023 00:00:00 GMT"]), "200");
    assert_eq!(status(&["-z", "-Mon, 13 Nov 2023 00:00:00 GMT"]), "412");
    let tag = site.place().join("tag");
    let tag = tag.to_str().unwrap();
    assert_eq!(status(&["--etag-save", tag]), "200");
    assert_eq!(status(&["--etag-compare", tag]), "304");
    assert_eq!(status(&["-I"]), "200");
    assert_eq!(status(&["-X", "DELETE"]), "405");
    assert_eq!(status(&["--http1.0", "-r", "5-6"]), "206");
    let moved =
        ["-sS", "-L", "-w", "%{num_redirects} %{http_code}", &site.url("/moved?x")].map(str::to_owned);
    assert_eq!(stdout("curl", &moved.each_ref().map(String::as_str)), "small\n1 200");
    // Request content that the server ignores keeps the connection open.
    let content = "x".repeat(50_000);
    let posted = stdout(
        "curl",
        &[
            "-sS",
            "-X",
            "GET",
            "-d",
            &content,
            &site.url("/small.txt"),
            &site.url("/small.txt"),
            "-w",
            "%{num_connects}",
        ],
    );
    assert_eq!(posted, "small\n1small\n0");
}

#[test]
fn wget_mirrors_the_example_site() {
    let Some((place, server)) = serve("examples/site") else { return };
    let url = format!("http://{}/", server.address);
    let mirror = place.path().join("mirror");
    output("wget", &["-q", "-r", "-l", "5", "-p", "-nH", "-P", mirror.to_str().unwrap(), &url]);
    let index = fs::read(mirror.join("index.html")).unwrap();
    assert!(index == fs::read("examples/site/index.html").unwrap());
    let mut equal = 0;
    for (name, path) in files_below(&mirror) {
        let name = Path::new("examples/site").join(String::from_utf8(name).unwrap());
        // Links to pages have no suffix.
        let source = if name.is_file() { name } else { name.with_extension("html") };
        assert!(fs::read(path).unwrap() == fs::read(&source).unwrap(), "{} differs", source.display());
        equal += 1;
    }
    assert!(equal >= 7, "only {equal} files");
}

#[test]
fn wget_resumes_downloads() {
    if skip_outside() {
        return;
    }
    let site = FixtureSite::serve();
    for name in ["noise.bin", "big.txt"] {
        let content = fs::read(site.folder.join(name)).unwrap();
        let to = site.place().join(name);
        fs::write(&to, &content[..content.len() / 3]).unwrap();
        let url = site.url(&format!("/{name}"));
        output("wget", &["-q", "-c", "-O", to.to_str().unwrap(), &url]);
        assert!(fs::read(&to).unwrap() == content, "{name}");
        // A request for the rest of a complete file.
        output("wget", &["-q", "-c", "-O", to.to_str().unwrap(), &url]);
        assert!(fs::read(&to).unwrap() == content, "{name}");
    }
}

/// Runs a program that must load and compare every target this number of times over few connections.
fn assert_loaded(site: &FixtureSite, program: &str, arguments: &[&str], times: usize, connections: usize) {
    let before = site.connections();
    let list = site.list.to_str().unwrap();
    let stdout = stdout(program, &[arguments, &[&site.server.address, list]].concat());
    let compared: usize = stdout.trim().strip_prefix("compared ").unwrap().parse().unwrap();
    assert!(compared >= site.targets * times, "{program} made only {compared} comparisons");
    let used = site.connections() - before - 1;
    assert!(used <= connections, "{program} {arguments:?} took {used} connections");
}

#[test]
fn python_clients_load_each_kind() {
    if skip_outside() {
        return;
    }
    let site = FixtureSite::serve();
    let python = python();
    for (client, times) in [("http.client", 2), ("httpx", 4), ("aiohttp", 4)] {
        assert_loaded(&site, python.to_str().unwrap(), &["tests/outside/load.py", client], times, 1);
    }
}

#[test]
fn node_loads_each_kind_over_two_connections() {
    if skip_outside() {
        return;
    }
    // One connection of fetch, one of the agent.
    assert_loaded(&FixtureSite::serve(), "node", &["tests/outside/load.mjs"], 7, 2);
}

#[test]
fn go_loads_each_kind_over_one_connection() {
    if skip_outside() {
        return;
    }
    let site = FixtureSite::serve();
    let program = site.place().join("load");
    let program = program.to_str().unwrap();
    output("go", &["build", "-o", program, "tests/outside/load.go"]);
    assert_loaded(&site, program, &[], 2, 1);
}

#[test]
fn chromium_loads_pages_without_failures() {
    let Some((_place, server)) = serve(&documentation()) else { return };
    let Some((_other_place, example)) = serve("examples/site") else { return };
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
    let stdout = String::from_utf8(output("node", &arguments)).unwrap();
    assert_eq!(stdout.lines().filter(|line| line.starts_with("loaded ")).count(), pages.len(), "{stdout}");
}
