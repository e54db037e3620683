//! Releases that are staged in a store before they are current, and several publishers or stores at a time.

use std::fs;
use std::process::{Child, Output, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fleet::visit_meanwhile;
use crate::harness::{Server, compile, wait_until};
use crate::push::Place;
use crate::signatures::keygen;

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn document(place: &Place, store: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(store).join("live.json")).unwrap()).unwrap()
}

fn state(place: &Place, node: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(node).join(".follow.json")).unwrap()).unwrap()
}

/// Follows once, and returns the events.
fn follow(place: &Place, store: &str, node: &str, flags: &[&str]) -> (Output, Vec<Value>) {
    let into = place.text(node);
    let output = place.run(
        &[&["follow", store, "--into", &into, "--once", "--json", "--sandbox", "require"], flags].concat(),
    );
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let events = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    (output, events.collect())
}

/// A process that follows a store until it is dropped.
struct Follower(Child);

impl Follower {
    fn start(place: &Place, store: &str, node: &str) -> Follower {
        let into = place.text(node);
        let arguments =
            ["follow", store, "--into", &into, "--unsigned", "--interval", "1", "--settle", "1500"];
        let mut command = place.command(&arguments);
        Follower(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The nodes look at the store at different moments. Without staging, one of them serves a new page while another one doesn't
/// have its script.
#[test]
fn no_node_lacks_the_files_of_another_ones_page() {
    let place = Place::new();
    let (store, site) = (format!("file://{}", place.text("store")), place.text("public"));
    let push = |number: u32| {
        place.write_site(number);
        place.json(&["push", &store, &site, "--settle-nodes", "5000"])
    };
    let began = Instant::now();
    push(1);
    assert!(began.elapsed() < Duration::from_secs(5), "nothing to wait for before the first release");
    let nodes = ["one", "two", "three"];
    let _followers = nodes.map(|node| {
        thread::sleep(Duration::from_millis(370));
        Follower::start(&place, &store, node)
    });
    let servers = nodes.map(|node| {
        wait_until("the node has a release", || place.path(node).join("current").exists());
        Server::start(&["--releases", &place.text(node)])
    });
    let addresses = servers.iter().map(|server| server.address.clone()).collect();
    let [visits] = visit_meanwhile(&[addresses], |number, [visits]| {
        push(number);
        let is_current = |node: &str| place.current(node) == format!("{number}.cdb");
        wait_until("all nodes have switched", || nodes.iter().all(|node| is_current(node)));
        wait_until("the release is seen", || visits.newest.load(Ordering::Relaxed) == number);
        number < 3
    });
    assert_eq!(visits.faults(), [0; 3], "{visits:?}");
}

#[test]
fn staged_release_is_pulled_and_not_seen_as_current() {
    let place = Place::new();
    keygen(&place, "site");
    let (store, site) = (format!("file://{}", place.text("store")), place.text("public"));
    let (key, public) = (place.text("site.key"), place.text("site.pub"));
    let signing = ["--secret-key", &key, "--site", "example.com"];
    let push = |number: u32, flags: &[&str]| {
        place.write_site(number);
        place.json(&[&["push", &store, &site], &signing[..], flags].concat())
    };
    let follow = || follow(&place, &store, "node", &["--public-key", &public]);
    let seen = || fs::read_to_string(place.path("node/.seen.json")).unwrap();

    // A store without a release has nothing to stage beside.
    place.write_site(1);
    let first = place.json(&["push", "--stage-only", &format!("file://{}", place.text("empty")), &site]);
    assert_eq!(first["targets"][0]["staged"], false);
    assert!(!place.path("empty/live.json").exists());
    push(1, &[]);
    assert!(follow().0.status.success());
    let server = Server::start(&["--releases", &place.text("node")]);
    let before = seen();

    let staged = push(2, &["--stage-only"]);
    let target = &staged["targets"][0];
    assert_eq!(
        (&target["staged"], &target["activated"], &target["before"]),
        (&true.into(), &false.into(), &1.into())
    );
    let (output, events) = follow();
    assert!(output.status.success(), "{}", stderr(&output));
    let event = events.iter().find(|event| event["event"] == "staged").unwrap();
    assert_eq!((&event["release"], &event["recipe_is_patch"]), (&"2.cdb".into(), &true.into()));
    assert_eq!((place.current("node").as_str(), seen()), ("1.cdb", before));
    let state = state(&place, "node");
    assert_eq!(
        (&state["serial"], &state["staged_serial"], &state["behind_since"]),
        (&1.into(), &2.into(), &Value::Null)
    );
    let asset = || server.get("/_astro/app.A1b2C3d2.js").status;
    wait_until("the asset of the staged release is served", || asset() == 200);
    assert!(String::from_utf8(server.get("/").body).unwrap().contains("release 1"));
    let status = place.json(&["status", &store]);
    let listed = &status[0]["releases"][0];
    assert_eq!(
        (&listed["serial"], &listed["staged"], &listed["current"]),
        (&2.into(), &true.into(), &false.into())
    );
    // Looking again pulls nothing.
    assert!(follow().1.iter().all(|event| event["event"] == "started"));

    let activated = push(2, &[]);
    assert_eq!(activated["targets"][0]["uploaded_bytes"], 0, "it was there");
    assert_eq!(document(&place, "store")["staged"], Value::Null);
    let (output, events) = follow();
    assert!(output.status.success(), "{}", stderr(&output));
    let event = events.iter().find(|event| event["event"] == "activated").unwrap();
    assert_eq!((&event["before"], &event["range_bytes"]), (&"1.cdb".into(), &0.into()));
    assert!(seen().contains("\"sequence\":3"), "{}", seen());

    // Another release instead of a staged one: its files leave the store.
    push(3, &["--stage-only"]);
    push(4, &["--keep", "1"]);
    let blobs = fs::read_dir(place.path("store/blobs/sha256")).unwrap().count();
    let patches = document(&place, "store")["current"]["patches"].as_array().unwrap().len();
    assert_eq!(blobs, 2 + patches, "only those of the current release");
}

#[test]
fn staged_release_must_be_acceptable() {
    let place = Place::new();
    keygen(&place, "site");
    let (store, site) = (format!("file://{}", place.text("store")), place.text("public"));
    let (key, public) = (place.text("site.key"), place.text("site.pub"));
    let push = |number: u32, flags: &[&str]| {
        place.write_site(number);
        place.json(&[&["push", &store, &site], flags].concat())
    };
    let signing = ["--secret-key", &key, "--site", "example.com"];
    let follow = |node: &str| follow(&place, &store, node, &["--public-key", &public]).0;
    for number in [1, 2] {
        push(number, &signing);
        assert!(follow("node").status.success());
    }
    let refused = |node: &str, words: &str| {
        let output = follow(node);
        // The current release is served, so this is only an event.
        let events = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && events.contains(words), "{events}{}", stderr(&output));
        assert_eq!((place.current(node).as_str(), place.path(node).join("3.cdb").exists()), ("2.cdb", false));
    };
    push(3, &["--stage-only"]);
    refused("node", "the staged release 3 can't be pulled: only signed releases are accepted here");
    // A new node gets the current release all the same.
    refused("new", "the staged release 3 can't be pulled");
    assert_eq!(state(&place, "node")["refused"], true);

    // The store was broken into: it stages an old release, or one with another signature.
    let mut changed = document(&place, "store");
    let old = changed["earlier"][0].clone();
    changed["staged"] = old;
    fs::write(place.path("store/live.json"), changed.to_string()).unwrap();
    refused("node", "older than what was accepted");
    changed["staged"]["signed"] = changed["current"]["signed"].clone();
    fs::write(place.path("store/live.json"), changed.to_string()).unwrap();
    refused("node", "about another release");

    // Files that are lost are asked for again at the next look.
    push(3, &[&["--stage-only"], &signing[..]].concat());
    let blobs = place.path("store/blobs");
    fs::rename(&blobs, place.path("away")).unwrap();
    refused("node", "the staged release 3 can't be pulled");
    fs::rename(place.path("away"), &blobs).unwrap();
    assert!(follow("node").status.success());
    assert!(place.path("node/3.cdb").exists());
}

/// Whichever of two publishers comes second is told so, and nothing of the first one is lost.
#[test]
fn two_publishers_at_once_lose_nothing() {
    let place = Place::new();
    let other = Place::new();
    let store = format!("file://{}", place.text("store"));
    let mut refusals = 0;
    for round in 0..40_u32 {
        place.write_site(100 + round);
        other.write_site(200 + round);
        let pushes = [&place, &other].map(|place| {
            let mut command =
                place.command(&["push", &store, &place.text("public"), "--keep", "2", "--json"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        let outputs = pushes.map(|push| push.wait_with_output().unwrap());
        let document = document(&place, "store");
        let named = |digest: &Value| {
            let earlier = document["earlier"].as_array().unwrap();
            std::iter::once(&document["current"]).chain(earlier).any(|release| release["digest"] == *digest)
        };
        assert!(outputs.iter().any(|output| output.status.success()));
        for output in &outputs {
            if output.status.success() {
                let pushed: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert!(named(&pushed["digest"]), "round {round}: {pushed} isn't in {document}");
            } else {
                let text = stderr(output);
                assert!(
                    text.contains("by another publisher") && text.contains("run the same command again"),
                    "{text}"
                );
                refusals += 1;
            }
        }
        for release in std::iter::once(&document["current"]).chain(document["earlier"].as_array().unwrap()) {
            for part in ["archive", "recipe"] {
                let digest = release[part]["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
                assert!(
                    place.path("store/blobs/sha256").join(digest).exists(),
                    "round {round}: {part} is lost"
                );
            }
        }
        if round >= 5 && refusals > 0 {
            break;
        }
    }
    assert!(refusals > 0, "no round was a race");
}

/// The release was staged, and another publisher was faster.
#[test]
fn publisher_notices_another_one_while_nodes_settle() {
    let place = Place::new();
    let (store, site) = (format!("file://{}", place.text("store")), place.text("public"));
    place.write_site(1);
    place.json(&["push", &store, &site]);
    place.write_site(2);
    let mut push = place.command(&["push", &store, &site, "--settle-nodes", "3000"]);
    let push = push.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the release is staged", || document(&place, "store")["staged"]["serial"] == 2);
    compile(&place.path("public"), &place.path("3.cdb"), &["--serial", "3"]);
    place.json(&["push", &store, &place.text("3.cdb")]);
    let output = push.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("staged in 1 store"), "{}", stderr(&output));
    assert!(stderr(&output).contains("replaced by another publisher meanwhile"), "{}", stderr(&output));
    assert_eq!(document(&place, "store")["current"]["serial"], 3);
}

#[test]
fn rollback_in_a_store_can_wait_for_nodes() {
    let place = Place::new();
    let (store, site) = (format!("file://{}", place.text("store")), place.text("public"));
    for number in [1, 2] {
        place.write_site(number);
        place.json(&["push", &store, &site]);
    }
    let mut rollback = place.command(&["rollback", &store, "--settle-nodes", "2000"]);
    let mut rollback = rollback.stdout(Stdio::null()).spawn().unwrap();
    wait_until("the release is staged", || document(&place, "store")["staged"]["serial"] == 1);
    assert_eq!(document(&place, "store")["current"]["serial"], 2);
    assert!(rollback.wait().unwrap().success());
    let document = document(&place, "store");
    assert_eq!((&document["current"]["serial"], &document["staged"]), (&1.into(), &Value::Null));
    assert_eq!(document["earlier"][0]["serial"], 2);
}
