//! Machines whose clocks are wrong by an hour: releases keep their order, and nothing is refused, removed or hurried by a date.

use std::fs::{self, File};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::harness::skip_outside;
use crate::push::Place;
use crate::signatures::{forced_receive, keygen};

const HOUR: Duration = Duration::from_secs(3600);

/// Pairs of clocks, of which the first one is that of the publisher.
const CLOCKS: [[&str; 2]; 2] = [["+1h", "-1h"], ["-1h", "+1h"]];

/// Runs a command with a wrong clock. Files have the right times, as on the disk of another machine.
fn run_at(clock: &str, command: &Command) -> Output {
    let mut wrong = Command::new("faketime");
    wrong.args(["-f", clock]).arg(command.get_program()).args(command.get_args());
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    wrong.envs(variables).env("NO_FAKE_STAT", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    wrong.output().expect("faketime is missing: `cargo xtask test` installs it")
}

fn json_at(clock: &str, place: &Place, arguments: &[&str]) -> Value {
    let output = run_at(clock, &place.command(&[arguments, &["--json"]].concat()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?} at {clock}: {errors}");
    // `follow` prints an event per line.
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(&text).or_else(|_| serde_json::from_str(line)).unwrap()
}

fn serials(status: &Value) -> Vec<u64> {
    let releases = status[0]["releases"].as_array().unwrap();
    releases.iter().map(|release| release["serial"].as_u64().unwrap()).collect()
}

fn publish_through_a_store([publisher, node]: [&str; 2]) {
    let place = Place::new();
    keygen(&place, "site");
    let (key, public) = (place.text("site.key"), place.text("site.pub"));
    let (store, into) = (format!("file://{}", place.text("store")), place.text("node"));
    let follow = |clock: &str| {
        let follow = ["follow", &store, "--into", &into, "--once", "--sandbox", "require", "--keep", "2"];
        json_at(clock, &place, &[&follow[..], &["--public-key", &public]].concat());
    };
    // By its date, the second release is the oldest or the newest one.
    for (number, clock) in [(1, publisher), (2, node), (3, publisher)] {
        place.write_site(number);
        let push = ["push", &store, &place.text("public"), "--secret-key", &key, "--site", "example.com"];
        assert_eq!(json_at(clock, &place, &push)["serial"], number);
        follow(node);
        assert_eq!(place.current("node"), format!("{number}.cdb"));
    }
    let archives: Vec<_> = place.names("node").into_iter().filter(|name| name.ends_with(".cdb")).collect();
    assert_eq!(archives, ["2.cdb", "3.cdb"]);
    assert_eq!(serials(&json_at(node, &place, &["status", &store])), [3, 2, 1]);

    json_at(node, &place, &["rollback", &store, "--secret-key", &key]);
    follow(publisher);
    assert_eq!(place.current("node"), "2.cdb");
}

#[test]
fn nodes_follow_in_order_with_wrong_clocks() {
    if skip_outside() {
        return;
    }
    CLOCKS.into_iter().for_each(publish_through_a_store);
}

fn publish_to_a_host([publisher, host]: [&str; 2]) {
    let place = Place::new();
    keygen(&place, "site");
    let (key, public) = (place.text("site.key"), place.text("site.pub"));
    let receive = forced_receive(&place, &format!("--public-key {public}"));
    let (ssh, target) = (format!("faketime -f {host} {receive}"), "host:releases");
    for (number, clock) in [(1, publisher), (2, host), (3, publisher)] {
        place.write_site(number);
        let push = ["push", "--ssh", &ssh, "--keep", "2", target, &place.text("public")];
        let signing = ["--secret-key", &key, "--site", "example.com"];
        assert_eq!(json_at(clock, &place, &[&push[..], &signing].concat())["serial"], number);
        assert_eq!(place.current("releases"), format!("{number}.cdb"));
    }
    assert_eq!(serials(&json_at(publisher, &place, &["status", "--ssh", &ssh, target])), [3, 2]);
    json_at(host, &place, &["rollback", "--ssh", &ssh, target, "--secret-key", &key]);
    assert_eq!(place.current("releases"), "2.cdb");
}

#[test]
fn hosts_receive_in_order_with_wrong_clocks() {
    if skip_outside() {
        return;
    }
    CLOCKS.into_iter().for_each(publish_to_a_host);
}

/// A new release isn't taken for an old one, which other processes have noticed long ago.
#[test]
fn switch_settles_with_a_wrong_clock() {
    if skip_outside() {
        return;
    }
    let settles = |clock: &str| {
        let place = Place::new();
        let (store, node) = (format!("file://{}", place.text("store")), place.text("node"));
        let follow = ["follow", &store, "--into", &node, "--once", "--unsigned", "--settle", "8000"];
        for number in [1, 2] {
            place.write_site(number);
            place.json(&["push", &store, &place.text("public")]);
            let event = json_at(clock, &place, &follow);
            // Nothing waits for the first release.
            assert_eq!(event["seconds"].as_f64().unwrap() > 7.9, number == 2, "{clock}: {event}");
        }
        place.write_site(3);
        place.json(&["push", "--stage-only", &node, &place.text("public")]);
        let began = Instant::now();
        json_at(clock, &place, &["releases", &node, "--use", "3.cdb"]);
        assert!(began.elapsed() > Duration::from_millis(400), "{clock}: {:?}", began.elapsed());
    };
    thread::scope(|scope| {
        for clock in ["+1h", "-1h"] {
            scope.spawn(move || settles(clock));
        }
    });
}

#[test]
fn wrong_clock_removes_no_file_of_a_living_process() {
    if skip_outside() {
        return;
    }
    let (own, nobody) = (std::process::id(), u32::MAX);
    for clock in ["+1h", "-1h"] {
        let place = Place::new();
        let (store, node) = (format!("file://{}", place.text("store")), place.text("node"));
        let release = |number| {
            place.write_site(number);
            json_at(clock, &place, &["push", &store, &place.text("public")]);
            json_at(clock, &place, &["follow", &store, "--into", &node, "--once", "--unsigned"]);
        };
        release(1);
        let name = |folder: &str, owner: u32, rest: &str| match folder {
            "node" => place.path(&format!("node/.tmp-{owner}-{rest}")),
            _ => place.path(&format!("{folder}/.{owner}-{rest}.tmp")),
        };
        let folders = ["node", "store", "store/blobs/sha256"];
        for folder in folders {
            for (owner, rest) in [(own, "new"), (own, "old"), (nobody, "new")] {
                let file = File::create(name(folder, owner, rest)).unwrap();
                if rest == "old" {
                    // The process ID was used again.
                    file.set_modified(SystemTime::now() - HOUR - Duration::from_secs(60)).unwrap();
                }
            }
        }
        let incoming = File::create(place.path("node/.incoming-1.part")).unwrap();
        incoming.lock().unwrap();

        release(2);
        for folder in folders {
            let left = [(own, "new"), (own, "old"), (nobody, "new")]
                .map(|(owner, rest)| name(folder, owner, rest).exists());
            assert_eq!(left, [true, false, false], "{folder} at {clock}");
        }
        assert!(place.path("node/.incoming-1.part").exists(), "{clock}");
        assert_eq!(
            fs::read_dir(place.path("store")).unwrap().count(),
            4,
            "a document, blobs, a lock and a file"
        );
    }
}
