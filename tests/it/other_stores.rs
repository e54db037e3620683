//! Stores of other authors: two registries, and moto, which plays S3.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::harness::{compile, python, request_at, skip_outside};
use crate::program::Program;
use crate::push::Place;

/// Returns the path of a program that was built from Go.
fn go_program(name: &str) -> String {
    let folder = std::env::var_os("CANNERY_STORES").map_or_else(|| "target/outside/go".into(), PathBuf::from);
    // Absolute, because a path without a slash would be searched for.
    let path = fs::canonicalize(folder.join(name));
    path.unwrap_or_else(|_| panic!("`cargo xtask test` installs {name}")).to_str().unwrap().to_owned()
}

/// A store, and how commands reach it.
struct Store {
    place: Place,
    url: String,
    /// The address of S3-compatible storage.
    endpoint: Option<String>,
}

impl Store {
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.place.command(arguments);
        if let Some(endpoint) = &self.endpoint {
            command.args(["--s3-endpoint", endpoint]);
        }
        command.env("AWS_ACCESS_KEY_ID", "someone").env("AWS_SECRET_ACCESS_KEY", "something-secret");
        command.env("DOCKER_CONFIG", self.place.path("docker")).env_remove("REGISTRY_AUTH_FILE");
        command.output().unwrap()
    }

    /// Runs a command that must succeed, and returns the JSON values that it prints.
    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let values = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
        values.collect::<Result<_, _>>().unwrap()
    }

    /// Follows once, and returns the event about the new release.
    fn follow(&self) -> Value {
        let into = self.place.text("node");
        let follow = ["follow", &self.url, "--into", &into, "--once", "--unsigned", "--sandbox", "require"];
        let event = self.json(&follow).into_iter().find(|event| event["event"] == "activated");
        event.unwrap_or_default()
    }

    /// Publishes two releases and rolls back, with a node that follows.
    fn check(&self) {
        let place = &self.place;
        let archives = ["1.cdb", "2.cdb"].map(|name| place.path("built").join(name));
        fs::create_dir(place.path("built")).unwrap();
        for (number, archive) in (1..).zip(&archives) {
            place.write_site(number);
            compile(&place.path("public"), archive, &["--previous", &place.text("built")]);
        }
        let assert_current = |number: u32, archive: &Path| {
            assert_eq!(place.current("node"), format!("{number}.cdb"));
            let current = fs::read(place.path("node/current")).unwrap();
            assert!(current == fs::read(archive).unwrap(), "release {number} has other bytes on the node");
        };
        let [first, second] = &archives;
        let push = |archive: &Path| self.json(&["push", &self.url, archive.to_str().unwrap()]);

        push(first);
        let event = self.follow();
        let whole = fs::metadata(first).unwrap().len();
        // A node without a release gets all bodies, but not the index.
        assert!(event["range_bytes"].as_u64().unwrap() <= whole, "{event}");
        assert_current(1, first);

        push(second);
        let event = self.follow();
        println!("{}: {event}", self.url);
        // A page and a script are new.
        let bytes = event["range_bytes"].as_u64().unwrap();
        assert!((1..2000).contains(&bytes) && event["recipe_is_patch"] == true, "{event}");
        assert!(event["recipe_bytes"].as_u64().unwrap() < 2000, "{event}");
        assert_current(2, second);
        let releases = || {
            let status = self.json(&["status", &self.url]).remove(0)[0]["releases"].clone();
            let releases = status.as_array().unwrap().clone();
            releases
                .into_iter()
                .map(|release| (release["serial"].clone(), release["current"].clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(releases(), [(2.into(), true.into()), (1.into(), false.into())]);

        self.json(&["rollback", &self.url]);
        let event = self.follow();
        assert_eq!((&event["range_bytes"], &event["recipe_bytes"]), (&0.into(), &0.into()));
        assert_current(1, first);
        assert_eq!(releases(), [(2.into(), false.into()), (1.into(), true.into())]);
        assert_eq!(self.follow(), Value::Null, "nothing is new");

        // The store has all files of the newest release, so nothing is uploaded again.
        let pushed = push(second).remove(0);
        assert_eq!(pushed["targets"][0]["uploaded_bytes"], 0, "{pushed}");
        self.follow();
        assert_current(2, second);
    }
}

fn check_registry(program: &Program, place: Place) {
    let url = format!("oci://{}/team/site:live", program.address);
    Store { place, url, endpoint: None }.check();
}

fn check_bucket(program: &Program, place: Place) {
    let endpoint = Some(format!("http://{}", program.address));
    Store { place, url: "s3://bucket/some/site".to_owned(), endpoint }.check();
}

/// The registry of go-containerregistry, which keeps everything in memory.
#[test]
fn registry_of_crane_is_followed() {
    if skip_outside() {
        return;
    }
    let registry = Program::start("crane", &go_program("crane"), |address| {
        ["registry", "serve", "--address", address].map(str::to_owned).to_vec()
    });
    check_registry(&registry, Place::new());
}

/// The current version of the registry; Debian's is the one before.
#[test]
fn registry_of_distribution_is_followed() {
    if skip_outside() {
        return;
    }
    let place = Place::new();
    let registry = Program::start("distribution", &go_program("registry"), |address| {
        let config = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n",
            place.text("registry"),
        );
        fs::write(place.path("registry.yml"), config).unwrap();
        vec!["serve".to_owned(), place.text("registry.yml")]
    });
    check_registry(&registry, place);
}

#[test]
fn bucket_of_moto_is_followed() {
    if skip_outside() {
        return;
    }
    let program = python();
    let moto = Program::start("moto", program.to_str().unwrap(), |address| {
        let (host, port) = address.split_once(':').unwrap();
        ["-m", "moto.server", "-H", host, "-p", port].map(str::to_owned).to_vec()
    });
    let created = request_at(&moto.address, "PUT", "/bucket", "Content-Length: 0\r\n");
    assert_eq!(created.status, 200);
    check_bucket(&moto, Place::new());
}
