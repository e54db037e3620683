//! `cannery image`: a container image of the server and a site, read with tar and by its digests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::harness::{compile, run, skip_outside, write_folder};
use crate::registry::{RIGHT_PASSWORD, Registry, write_docker_config};

/// A folder with an archive `site.cdb`, and programs that look like statically linked servers.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let bench = Bench { folder: tempfile::tempdir().unwrap() };
        let source = tempfile::tempdir().unwrap();
        write_folder(source.path(), &[(b"index.html", b"<title>canned</title>")]);
        compile(source.path(), &bench.path("site.cdb"), &[]);
        fs::write(bench.path("amd64"), program(62)).unwrap();
        fs::write(bench.path("arm64"), program(183)).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `cannery image` in the folder.
    fn image(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
        command.current_dir(self.folder.path()).args(["image"]).args(line.split_whitespace());
        command.env("DOCKER_CONFIG", self.path("docker")).env_remove("REGISTRY_AUTH_FILE");
        command.env_remove("SOURCE_DATE_EPOCH").output().unwrap()
    }

    /// Writes an image, and returns the value that the command prints.
    fn write(&self, line: &str) -> Value {
        let output = self.image(&format!("{line} --json"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn fails(&self, line: &str, code: i32, words: &str) {
        let output = self.image(line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
        assert!(stderr.contains(words), "`{words}` is not in {stderr}");
    }
}

/// Returns the header of a statically linked program for a processor, by its number in `elf(5)`.
fn program(machine: u8) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header[16] = 2;
    header[18] = machine;
    header
}

/// Returns the path of a blob, after a check of its digest.
fn blob(image: &Path, descriptor: &Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let path = image.join("blobs/sha256").join(digest);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, descriptor["size"]);
    let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, digest);
    path
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Returns the manifest of an image for one processor, and its configuration.
fn manifest(image: &Path) -> (Value, Value) {
    let manifest = json(&blob(image, &json(&image.join("index.json"))["manifests"][0]));
    let configuration = json(&blob(image, &manifest["config"]));
    (manifest, configuration)
}

#[test]
fn layers_have_the_server_and_the_archive() {
    let bench = Bench::new();
    let written = bench.write("site.cdb -o image --server amd64");
    assert_eq!(written["architectures"], serde_json::json!(["amd64"]));
    let (manifest, configuration) = manifest(&bench.path("image"));

    let root = bench.path("root");
    fs::create_dir(&root).unwrap();
    for layer in manifest["layers"].as_array().unwrap() {
        let mut tar = Command::new("tar");
        tar.arg("--extract")
            .arg("--file")
            .arg(blob(&bench.path("image"), layer))
            .arg("--directory")
            .arg(&root);
        // The type says how the layer is compressed; tar doesn't need to know.
        assert!(tar.args(["--auto-compress", "--no-same-owner"]).status().unwrap().success());
    }
    assert_eq!(fs::read(root.join("usr/local/bin/cannery-server")).unwrap(), program(62));
    assert_eq!(fs::read(root.join("srv/site.cdb")).unwrap(), fs::read(bench.path("site.cdb")).unwrap());

    let settings = &configuration["config"];
    assert_eq!(settings["User"], "65532:65532");
    let command = serde_json::json!(["/usr/local/bin/cannery-server", "/srv/site.cdb"]);
    assert_eq!(settings["Entrypoint"], command);
    assert_eq!(configuration["os"], "linux");
}

#[test]
fn another_site_changes_one_layer() {
    let bench = Bench::new();
    let next = tempfile::tempdir().unwrap();
    write_folder(next.path(), &[(b"index.html", b"<title>next</title>")]);
    compile(next.path(), &bench.path("next.cdb"), &[]);

    bench.write("site.cdb -o first --server amd64");
    bench.write("next.cdb -o second --server amd64");
    let (first, second) = (manifest(&bench.path("first")).0, manifest(&bench.path("second")).0);
    assert_eq!(first["layers"][0], second["layers"][0], "the server");
    assert_ne!(first["layers"][1], second["layers"][1], "the site");
}

#[test]
fn same_inputs_have_the_same_digest() {
    let bench = Bench::new();
    let first = bench.write("site.cdb -o first --server amd64 --server arm64");
    assert_eq!(first["architectures"], serde_json::json!(["amd64", "arm64"]));
    assert_eq!(first["digest"], bench.write("site.cdb -o second --server amd64 --server arm64")["digest"]);
    assert_eq!(first["digest"], bench.write("site.cdb -o first --server amd64 --server arm64")["digest"]);
}

#[test]
fn date_of_creation_comes_from_the_environment() {
    let bench = Bench::new();
    let archive = bench.path("site.cdb");
    let with_date = |date: &str, output: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
        command.env("SOURCE_DATE_EPOCH", date).arg("image").arg(&archive);
        command.arg("--output").arg(bench.path(output)).arg("--server").arg(bench.path("amd64"));
        command.output().unwrap()
    };
    assert!(with_date("784111777", "image").status.success());
    assert_eq!(manifest(&bench.path("image")).1["created"], "1994-11-06T08:49:37Z");
    assert_eq!(with_date("yesterday", "other").status.code(), Some(2));
    bench.write("site.cdb -o undated --server amd64");
    assert_eq!(manifest(&bench.path("undated")).1["created"], Value::Null);
}

#[test]
fn server_that_would_not_start_is_refused() {
    let bench = Bench::new();
    let dynamic = env!("CARGO_BIN_EXE_cannery-server");
    bench.fails(&format!("site.cdb -o image --server {dynamic}"), 3, "needs shared libraries");
    fs::write(bench.path("script"), "#!/bin/sh\n").unwrap();
    bench.fails("site.cdb -o image --server script", 3, "not a program for Linux");
    bench.fails("site.cdb -o image --server missing", 3, "cannot read the server");
    bench.fails("site.cdb -o image --server amd64 --server amd64", 2, "another `--server` for amd64");
    assert!(!bench.path("image").exists());
}

#[test]
fn damaged_archive_is_refused() {
    let bench = Bench::new();
    let mut bytes = fs::read(bench.path("site.cdb")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(bench.path("damaged.cdb"), bytes).unwrap();
    bench.fails("damaged.cdb -o image --server amd64", 3, "damaged.cdb");
    assert!(!bench.path("image").exists());
}

#[test]
fn folder_with_other_files_is_left_alone() {
    let bench = Bench::new();
    write_folder(&bench.path("letters"), &[(b"a", b"dear")]);
    bench.fails("site.cdb -o letters --server amd64", 4, "name another folder");
    bench.write("site.cdb -o image --tag 41 --server amd64");
    bench.fails("site.cdb -o image --tag 42 --server amd64", 4, "image `41`");
    bench.fails("site.cdb -o image --tag a/b --server amd64", 2, "not a tag");
}

#[test]
fn executable_with_an_archive_lends_its_archive() {
    let bench = Bench::new();
    let (app, archive) = (bench.path("app"), bench.path("site.cdb"));
    let bundle = run("cannery", &["bundle", archive.to_str().unwrap(), "-o", app.to_str().unwrap()]);
    assert!(bundle.status.success());
    let from_archive = bench.write("site.cdb -o first --server amd64");
    assert_eq!(bench.write("app -o second --server amd64")["digest"], from_archive["digest"]);
}

#[test]
fn image_is_pushed_to_a_registry() {
    if skip_outside() {
        return;
    }
    let bench = Bench::new();
    let registry = Registry::start(&bench.path(""), None);
    let name = format!("oci://{}/team/site", registry.host);
    bench.fails(&format!("site.cdb -o {name}:41 --server amd64"), 1, "check the credentials");
    write_docker_config(&bench.path("docker"), &registry.host, RIGHT_PASSWORD);

    // The same image as in a folder. Its layers are sent once.
    let servers = "--server amd64 --server arm64";
    let stored = bench.write(&format!("site.cdb -o image {servers}"));
    let pushed = bench.write(&format!("site.cdb -o {name}:41 {servers}"));
    assert_eq!(pushed["digest"], stored["digest"]);
    assert!(pushed["transferred"].as_u64().unwrap() > 0);
    let again = bench.write(&format!("site.cdb -o {name} --tag 42 {servers}"));
    assert_eq!((&again["digest"], &again["transferred"]), (&stored["digest"], &Value::from(0)));

    // Another program reads it.
    for tag in ["41", "42"] {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail", "--user", "web:secret", "--head", "--header"]);
        curl.arg("Accept: application/vnd.oci.image.index.v1+json");
        let output =
            curl.arg(format!("http://{}/v2/team/site/manifests/{tag}", registry.host)).output().unwrap();
        let head = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(head.contains(stored["digest"].as_str().unwrap()), "{head}");
    }
    // A single image isn't in an index.
    let single = bench.write(&format!("site.cdb -o {name}:single --server amd64"));
    assert_eq!(single["digest"], bench.write("site.cdb -o single --server amd64")["digest"]);
}

#[test]
fn address_of_a_registry_is_checked_first() {
    let bench = Bench::new();
    bench.fails(
        "site.cdb -o oci://registry.example/site:41 --tag 42 --server amd64",
        2,
        "leave one of them out",
    );
    bench.fails("site.cdb -o oci://registry.example --server amd64", 2, "not a store");
    bench.fails("site.cdb -o docker://registry.example/site --server amd64", 2, "oci://REGISTRY/NAME:TAG");
    bench.fails("site.cdb -o image --registry-roots roots.pem --server amd64", 2, "no effect on a folder");
}
