//! The example of a whole service, `notes`: as a bundle, and used by pages of other origins in Chromium.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Server, compile, pages, run, serve, skip_outside, wait_until, write_folder};

/// Returns the program, if the environment names the folder with the library's examples.
fn example() -> Option<PathBuf> {
    let folder = std::env::var_os("CANNERY_TEST_FRAMEWORKS").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: CANNERY_TEST_FRAMEWORKS doesn't name the folder with the examples of the library");
    }
    Some(folder?.join("notes"))
}

/// A folder for the program and its data.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    /// Compiles the archive of a site with this front page.
    fn archive(&self, name: &str, page: &str) -> String {
        let source = tempfile::tempdir().unwrap();
        write_folder(source.path(), &[(b"index.html", page.as_bytes())]);
        let archive = self.0.path().join(name);
        compile(source.path(), &archive, &["--compress", "identity"]);
        archive.to_str().unwrap().to_owned()
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Server {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.0.path());
        Server::run(command)
    }
}

#[test]
fn bundle_serves_its_site_beside_the_routes() {
    let Some(example) = example() else { return };
    let place = Place::new();
    let app = place.0.path().join("app");
    let app = app.to_str().unwrap();
    let site = place.archive("site.cdb", "first");
    let output = run("cannery", &["bundle", &site, "-o", app, "--server", example.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let server = place.run(app, &["127.0.0.1:0"]);
    assert_eq!(server.get("/").body, b"first");
    assert_eq!(server.get("/api/notes").body, b"[]");
    let next = place.archive("next.cdb", "second");
    assert!(run("cannery", &["bundle", "--replace", &next, app]).status.success());
    wait_until("the new site is served", || server.get("/").body == b"second");
}

#[test]
fn chromium_lets_only_pages_of_the_allowed_origin_use_the_service() {
    let Some(example) = example() else { return };
    if skip_outside() {
        return;
    }
    let place = Place::new();
    let site = place.archive("site.cdb", "notes");
    let page = [("index.html", "<!doctype html><title>page</title><link rel=icon href=data:,>")];
    let [allowed, other] = [(), ()].map(|()| serve(&pages(&page), &[]));
    let url = |server: &Server| format!("http://{}", server.address);
    let origin = url(&allowed);
    let service = place.run(example.to_str().unwrap(), &["127.0.0.1:0", &origin, &site]);

    let api = format!("{}/api", url(&service));
    let mut node = Command::new("node");
    let output = node.args(["tests/outside/cors.mjs", &origin, &url(&other), &api]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let results: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [by_allowed, by_other] = results.try_into().expect("a line for each page");

    let status = |name: &str| by_allowed[name][0].as_u64();
    assert_eq!(by_allowed["list"], json!([200, null, "[]"]));
    assert_eq!(by_allowed["log in"], json!([204, null, ""]));
    assert_eq!(by_allowed["add"], json!([201, "/api/notes/0", ""]));
    assert_eq!(by_allowed["note"], r#"{"author":"Ada","text":"from a page"}"#);
    // Pages can read errors, whether they come from handlers or not.
    let errors = ["stranger", "invalid", "missing"].map(status);
    assert_eq!(errors, [401, 422, 404].map(Some), "{by_allowed}");
    // The preflight doesn't allow these.
    assert_eq!([&by_allowed["method"], &by_allowed["header"]], ["refused"; 2]);

    for (name, result) in by_other.as_object().unwrap() {
        assert_eq!(result, "refused", "{name}");
    }
    let notes: Value = serde_json::from_slice(&service.get("/api/notes").body).unwrap();
    assert_eq!(notes.as_array().unwrap().len(), 1, "the other page has added nothing");
}
