//! Stores of other authors: two registries, and two programs that speak S3. And skopeo, which copies between registries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cannery_store::{Address, Credentials, Lease, Login, Look, StoreSettings, StoredSite};
use serde_json::Value;

use crate::harness::{compile, is_slow, python, request_at, skip_outside, wait_until};
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

/// Starts the registry of go-containerregistry, which keeps everything in memory.
fn start_crane() -> Program {
    Program::start("crane", &go_program("crane"), |address| {
        ["registry", "serve", "--address", address].map(str::to_owned).to_vec()
    })
}

#[test]
fn registry_of_crane_is_followed() {
    if skip_outside() {
        return;
    }
    check_registry(&start_crane(), Place::new());
}

/// Starts the current version of the registry; Debian's is the one before.
fn start_distribution(place: &Place) -> Program {
    Program::start("distribution", &go_program("registry"), |address| {
        let config = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n",
            place.text("registry"),
        );
        fs::write(place.path("registry.yml"), config).unwrap();
        vec!["serve".to_owned(), place.text("registry.yml")]
    })
}

#[test]
fn registry_of_distribution_is_followed() {
    if skip_outside() {
        return;
    }
    let place = Place::new();
    check_registry(&start_distribution(&place), place);
}

/// A mirror near the nodes has the current release, with the same manifest.
#[test]
fn release_that_skopeo_has_copied_is_followed() {
    if skip_outside() {
        return;
    }
    let place = Place::new();
    let (from, to) = (start_crane(), start_distribution(&place));
    let source = format!("{}/team/site:live", from.address);
    let copy = format!("{}/mirror/site:live", to.address);
    let store = Store { place, url: format!("oci://{copy}"), endpoint: None };
    let place = &store.place;
    for number in [1, 2] {
        place.write_site(number);
        place.json(&["push", &format!("oci://{source}"), &place.text("public")]);
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["copy", "--src-tls-verify=false", "--dest-tls-verify=false"]);
        skopeo.args([&source, &copy].map(|name| format!("docker://{name}")));
        let output = skopeo.output().expect("skopeo is missing: `cargo xtask test` installs it");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

        let event = store.follow();
        assert_eq!(event["recipe_is_patch"], number > 1, "{event}");
        assert_eq!(place.current("node"), format!("{number}.cdb"));
        let verify = place.run(&["verify", &place.text("node/current")]);
        assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stderr));
    }
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

/// It compares entity tags, as Amazon's does.
#[test]
fn bucket_of_versitygw_is_followed() {
    if skip_outside() {
        return;
    }
    if !is_slow() {
        println!("skipped: `cargo xtask test --slow` builds versitygw");
        return;
    }
    let place = Place::new();
    fs::create_dir_all(place.path("root/bucket")).unwrap();
    fs::create_dir_all(place.path("metadata")).unwrap();
    let gateway = Program::start("versitygw", &go_program("versitygw"), |address| {
        let (root, metadata) = (place.text("root"), place.text("metadata"));
        let mut arguments = vec!["--port", address, "--access", "someone", "--secret", "something-secret"];
        // Not all file systems have extended attributes.
        arguments.extend(["posix", "--sidecar", &metadata, &root]);
        arguments.into_iter().map(str::to_owned).collect()
    });
    let endpoint = Some(format!("http://{}", gateway.address));
    let store = Store { place, url: "s3://bucket/some/site".to_owned(), endpoint: endpoint.clone() };
    store.check();

    let open = || {
        let credentials = Credentials::Aws {
            key: "someone".to_owned(),
            secret: "something-secret".to_owned(),
            token: None,
            region: "us-east-1".to_owned(),
        };
        let login = Login::new(Lease { credentials, ..Lease::default() }, None);
        let settings = StoreSettings { endpoint: endpoint.clone(), ..StoreSettings::default() };
        let address = Address::parse(&store.url).unwrap().unwrap();
        address.open(&settings, login).unwrap()
    };
    let (mut first, mut second) = (open(), open());
    let Look::New { site, version } = first.look(None).unwrap() else { panic!("there is no release") };
    let older = StoredSite::with_current(Some(&site), site.earlier[0].clone(), 10).0;
    let newest = StoredSite::with_current(Some(&site), site.current.clone(), 1).0;
    assert!(first.point(&older, None).is_err(), "there is a document already");
    first.point(&older, Some(&version)).unwrap();
    let error = second.point(&newest, Some(&version)).unwrap_err();
    assert!(error.message.contains("replaced by another publisher"), "{error}");
}

/// Nodes of the benchmark, the time between two looks of each, and the time of the measurement.
const NODES: u32 = 1000;
const INTERVAL: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(30);

/// Returns the CPU time of a process, which the kernel counts in hundredths of a second.
fn cpu_seconds(id: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    // The second field may contain spaces.
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..=12].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// A benchmark: what a thousand nodes that look every two seconds cost a registry. It asserts only what they ask for.
#[test]
fn thousand_nodes_look_at_a_registry() {
    if skip_outside() {
        return;
    }
    if !is_slow() {
        println!("skipped: `cargo xtask test --slow` measures for a minute");
        return;
    }
    let place = Place::new();
    place.write_site(1);
    for registry in [start_crane(), start_distribution(&place)] {
        let url = format!("oci://{}/team/site:live", registry.address);
        place.json(&["push", &url, &place.text("public")]);
        let (looks, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
        let deadline = Instant::now() + 4 * MEASURED;
        let node = |number: u32| {
            // Real nodes don't start at the same moment either.
            thread::sleep(INTERVAL / NODES * number);
            let address = Address::parse(&url).unwrap().unwrap();
            let mut store =
                address.open(&StoreSettings::default(), Login::new(Lease::default(), None)).unwrap();
            let mut known = None;
            while !is_over.load(Ordering::Relaxed) && Instant::now() < deadline {
                match store.look(known.as_deref()).unwrap() {
                    Look::New { version, .. } => known = Some(version),
                    Look::Same => {}
                    Look::Empty => panic!("there is no release"),
                }
                looks.fetch_add(1, Ordering::Relaxed);
                thread::sleep(INTERVAL);
            }
        };
        let requests = || {
            // One of the registries writes each method into its log.
            let log = registry.errors();
            ["HEAD", "GET", "PUT", "POST"].map(|method| log.matches(&format!(" {method} /v2/")).count())
        };
        thread::scope(|scope| {
            for number in 0..NODES {
                scope.spawn(move || node(number));
            }
            wait_until("all nodes have looked twice", || looks.load(Ordering::Relaxed) >= 2 * NODES);
            let before =
                (Instant::now(), cpu_seconds(registry.id()), looks.load(Ordering::Relaxed), requests());
            thread::sleep(MEASURED);
            let seconds = before.0.elapsed().as_secs_f64();
            let cpu = (cpu_seconds(registry.id()) - before.1) / seconds;
            let rate = f64::from(looks.load(Ordering::Relaxed) - before.2) / seconds;
            let after = requests();
            is_over.store(true, Ordering::Relaxed);
            let asked: [usize; 4] = std::array::from_fn(|index| after[index] - before.3[index]);
            println!(
                "{}: {cpu:.3} CPU-s/s for {rate:.0} looks/s; HEAD, GET, PUT and POST in its log: {asked:?}",
                registry.name
            );
            assert_eq!(asked[1..], [0, 0, 0], "{}", registry.name);
        });
    }
}
