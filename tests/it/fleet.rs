//! Several servers with the same site: no page misses a file during releases, and monitors see who is behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Server, request_at, signal, wait_until};
use crate::processes::is_alive;
use crate::push::Place;

/// Three servers look at their directories at different moments. Without the wait between staging and switching, one of them serves a
/// new page while another one doesn't know its script yet.
#[test]
fn no_server_lacks_the_files_of_another_ones_page() {
    let is_slow = std::env::var_os("CANNERY_SLOW").is_some();
    let place = Place::new();
    let targets = ["one", "two", "three"].map(|name| place.text(name));
    let site = place.text("public");
    let push = |number: u32| {
        place.write_site(number);
        let [one, two, three] = &targets;
        place.json(&["push", "--settle", "1500", one, two, three, &site]);
    };
    push(1);
    let servers = targets.each_ref().map(|target| {
        thread::sleep(Duration::from_millis(170));
        Server::start(&["--releases", target])
    });
    let addresses = servers.each_ref().map(|server| server.address.clone());
    let (is_done, seen) = (AtomicBool::new(false), AtomicU32::new(0));
    let visit = |seed: usize| {
        let mut random = seed;
        let mut node = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            addresses[(random >> 33) % 3].as_str()
        };
        while !is_done.load(Ordering::Relaxed) {
            let page = String::from_utf8(request_at(node(), "GET", "/", "").body).unwrap();
            let number = page.split_once("release ").unwrap().1.split('<').next().unwrap().to_owned();
            let asset = request_at(node(), "GET", &format!("/_astro/app.A1b2C3d{number}.js"), "");
            assert_eq!((asset.status, asset.body), (200, format!("run({number})").into_bytes()));
            seen.fetch_max(number.parse().unwrap(), Ordering::Relaxed);
        }
    };
    let end = Instant::now() + Duration::from_secs(600);
    let is_last = |number: u32| if is_slow { Instant::now() >= end || number == 9 } else { number == 4 };
    thread::scope(|scope| {
        let visitors = [1, 2].map(|seed| scope.spawn(move || visit(seed)));
        for number in 2.. {
            push(number);
            if is_last(number) || visitors.iter().any(thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        is_done.store(true, Ordering::Relaxed);
        for visitor in visitors {
            visitor.join().unwrap();
        }
    });
    assert!(seen.load(Ordering::Relaxed) >= 3);
}

#[test]
fn release_is_activated_at_the_chosen_moment() {
    let place = Place::new();
    let (one, two, site) = (place.text("one"), place.text("two"), place.text("public"));
    place.write_site(1);
    place.json(&["push", &one, &two, &site]);
    place.write_site(2);
    let mut push = place.command(&["push", "--activate-at", "+1h", &one, &two, &site]);
    let mut push = push.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("both have the release", || {
        ["one/2.cdb", "two/2.cdb"].iter().all(|name| place.path(name).exists())
    });
    let mut errors = BufReader::new(push.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("switching in") {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "the push waits");
    }
    // SIGINT may be ignored, as in the background of a shell.
    signal(&push, "TERM");
    push.wait().unwrap();
    let mut text = String::new();
    errors.read_to_string(&mut text).unwrap();
    assert!(text.contains("no target was switched"), "{text}");
    assert_eq!([place.current("one"), place.current("two")], ["1.cdb", "1.cdb"]);

    let began = Instant::now();
    let pushed = place.json(&["push", "--activate-at", "+2s", &one, &two, &site]);
    assert!(began.elapsed() >= Duration::from_secs(2));
    assert_eq!(pushed["targets"][1]["activated"], true);
    assert_eq!([place.current("one"), place.current("two")], ["2.cdb", "2.cdb"]);
    for wrong in ["tomorrow", "+", "2001-01-01T00:00:00Z"] {
        let output = place.run(&["push", "--activate-at", wrong, &one, &site]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn monitors_see_that_a_node_is_behind() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    let node = place.text("node");
    let follow = || place.run(&["follow", &store, "--into", &node, "--once", "--unsigned"]).status.success();
    let push = |number: u32| {
        place.write_site(number);
        place.json(&["push", &store, &place.text("public")])
    };
    push(1);
    assert!(follow());
    let server = Server::start(&["--releases", &node, "--admin", "127.0.0.1:0"]);
    let admin = server.read_admin_address();
    let page = |path: &str| String::from_utf8(request_at(&admin, "GET", path, "").body).unwrap();
    let behind = || {
        let metrics = page("/metrics");
        let line = metrics.lines().find(|line| line.starts_with("cannery_release_behind{"));
        line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
    };
    wait_until("the node is up to date", || behind().as_deref() == Some("0"));

    push(2);
    let blobs = place.path("store/blobs");
    fs::rename(&blobs, place.path("away")).unwrap();
    assert!(!follow());
    wait_until("the node is behind", || behind().as_deref() == Some("1"));
    let facts: serde_json::Value = serde_json::from_str(&page("/facts.json")).unwrap();
    let follow_facts = &facts["sites"][0]["follow"];
    assert!(follow_facts["store_serial"] == 2 && follow_facts["behind_seconds"].is_u64(), "{facts}");
    assert!(page("/metrics").contains("cannery_release_behind_seconds{"));
    fs::rename(place.path("away"), &blobs).unwrap();
    assert!(follow());
    wait_until("the node has caught up", || behind().as_deref() == Some("0"));
}

#[test]
fn command_runs_after_a_release_became_current() {
    let place = Place::new();
    let (target, site, log) = (place.text("releases"), place.text("public"), place.path("log"));
    let store = format!("file://{}", place.text("store"));
    let hook = format!(
        "echo \"$CANNERY_TARGET $CANNERY_RELEASE $CANNERY_SERIAL $CANNERY_BEFORE\" >> {}; echo purged",
        log.display()
    );
    let lines =
        || fs::read_to_string(&log).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    for number in [1, 2] {
        place.write_site(number);
        for target in [&target, &store] {
            let output = place.run(&["push", "--on-activate", &hook, target, &site]);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && errors.contains("on-activate: purged"), "{errors}");
        }
    }
    let directory = place.text("store");
    let expected = [
        format!("{target} 1.cdb 1 "),
        format!("{directory} 1 1 "),
        format!("{target} 2.cdb 2 1.cdb"),
        format!("{directory} 2 2 1"),
    ];
    assert_eq!(lines(), expected);
    // Nothing has changed, or is only staged.
    place.json(&["push", "--on-activate", &hook, &target, &site]);
    place.write_site(3);
    place.json(&["push", "--stage-only", "--on-activate", &hook, &target, &site]);
    assert_eq!(lines().len(), 4);

    let pid = place.path("pid");
    let slow = format!("sleep 600 & echo $! > {}; sleep 600", pid.display());
    for (hook, words) in
        [("echo why >&2; exit 7", "exit status: 7"), (slow.as_str(), "longer than 1 seconds")]
    {
        let began = Instant::now();
        let flags = ["--on-activate", hook, "--on-activate-timeout", "1"];
        let output = place.run(&[&["push"], &flags[..], &[&target, &site]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(words) && errors.contains("the release is live"), "{errors}");
        assert!(began.elapsed() < Duration::from_secs(60));
        place.json(&["rollback", &target]);
    }
    let pid = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    wait_until("what the command has started has ended", || !is_alive(pid));
    assert!(place.names("releases").contains(&"3.cdb".to_owned()));
}
