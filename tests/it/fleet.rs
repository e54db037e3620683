//! Several servers with the same site: no page misses a file during releases, and monitors see who is behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Server, is_slow, request_at, signal, skip_outside, wait_until};
use crate::processes::is_alive;
use crate::proxies::{haproxy_in_turn, varnish_in_turn};
use crate::push::{Place, asset_content, asset_path, page};
use crate::random::Random;

/// Three servers with the same site, which look at their directories at different moments.
struct Fleet {
    place: Place,
    targets: [String; 3],
    servers: [Server; 3],
}

impl Fleet {
    /// Starts servers with release 1.
    fn start() -> Fleet {
        let place = Place::new();
        let targets = ["one", "two", "three"].map(|name| place.text(name));
        push(&place, &targets, 1, "0");
        let servers = targets.each_ref().map(|target| {
            thread::sleep(Duration::from_millis(170));
            Server::start(&["--releases", target])
        });
        Fleet { place, targets, servers }
    }

    fn push(&self, number: u32, settle: &str) {
        push(&self.place, &self.targets, number, settle);
    }

    fn rollback(&self) {
        let targets = self.targets.each_ref().map(String::as_str);
        self.place.json(&[&["rollback"], &targets[..]].concat());
    }

    fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.address.clone()).collect()
    }
}

fn push(place: &Place, targets: &[String], number: u32, settle: &str) {
    place.write_site(number);
    let targets: Vec<_> = targets.iter().map(String::as_str).collect();
    place.json(&[&["push", "--settle", settle], &targets[..], &[&place.text("public")]].concat());
}

/// Counts of the responses that visitors of a site have got.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    pages: AtomicU64,
    assets: AtomicU64,
    /// Responses without the page or the asset.
    missing: AtomicU64,
    /// Contents that belong to no release, or to another one.
    mixed: AtomicU64,
    wrong_types: AtomicU64,
    /// The newest release of which a page was seen.
    pub(crate) newest: AtomicU32,
}

impl Visits {
    /// Requests a page, and then its asset, each from one of the addresses. Release `last` is the last one so far.
    fn visit(&self, mut address: impl FnMut() -> String, last: impl Fn() -> u32) {
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        let get = |address: String, path: &str, media_type: &str| {
            let response = request_at(&address, "GET", path, "");
            if response.status != 200 {
                count(&self.missing);
                return None;
            }
            if response.field("Content-Type").is_none_or(|value| !value.starts_with(media_type)) {
                count(&self.wrong_types);
            }
            Some(String::from_utf8(response.body).unwrap())
        };

        let Some(text) = get(address(), "/", "text/html") else { return };
        count(&self.pages);
        let last = last();
        let number = text.split_once("release ").and_then(|(_, rest)| rest.split('<').next()?.parse().ok());
        let Some(number) = number.filter(|number| *number <= last && text == page(*number)) else {
            count(&self.mixed);
            return;
        };
        self.newest.fetch_max(number, Ordering::Relaxed);

        let Some(text) = get(address(), &format!("/{}", asset_path(number)), "text/javascript") else {
            return;
        };
        count(&self.assets);
        if text != asset_content(number) {
            count(&self.mixed);
        }
    }

    pub(crate) fn faults(&self) -> [u64; 3] {
        [&self.missing, &self.mixed, &self.wrong_types].map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// Publishes releases while two visitors of each list of addresses request pages. `publish` gets the number of a release and what
/// was seen so far, and returns `false` after the last release.
pub(crate) fn visit_meanwhile<const LISTS: usize>(
    lists: &[Vec<String>; LISTS],
    publish: impl Fn(u32, &[Visits; LISTS]) -> bool,
) -> [Visits; LISTS] {
    /// Ends the visits, also if a test fails.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let visits = std::array::from_fn(|_| Visits::default());
    let (is_done, last) = (AtomicBool::new(false), AtomicU32::new(1));
    // Visitors leave the processors to the servers, which have a second to notice a release.
    let pause = Duration::from_millis(5);
    thread::scope(|scope| {
        let _end = End(&is_done);
        for (addresses, visits) in lists.iter().zip(&visits) {
            for seed in [1, 2] {
                let (is_done, last) = (&is_done, &last);
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    let mut address = || addresses[random.index(addresses.len())].clone();
                    while !is_done.load(Ordering::Relaxed) {
                        visits.visit(&mut address, || last.load(Ordering::Relaxed));
                        thread::sleep(pause);
                    }
                });
            }
        }
        for number in 2.. {
            last.store(number, Ordering::Relaxed);
            if !publish(number, &visits) {
                break;
            }
        }
    });
    visits
}

/// Without the wait between staging and switching, one server serves a new page while another one doesn't know its script yet.
#[test]
fn no_server_lacks_the_files_of_another_ones_page() {
    let fleet = Fleet::start();
    let (length, rollbacks) =
        if is_slow() { (Duration::from_secs(600), 10) } else { (Duration::from_secs(4), 3) };
    let began = Instant::now();
    let [visits] = visit_meanwhile(&[fleet.addresses()], |number, [visits]| {
        fleet.push(number, "1000");
        wait_until("the release is served", || visits.newest.load(Ordering::Relaxed) == number);
        if number % rollbacks == 0 {
            fleet.rollback();
        }
        let due = Duration::from_secs(3) * (number - 1);
        if is_slow() {
            thread::sleep(due.saturating_sub(began.elapsed()));
        }
        number < 3 || began.elapsed() < length
    });
    println!("{visits:?}");
    assert_eq!(visits.faults(), [0; 3], "{visits:?}");
    assert!(visits.newest.into_inner() >= 3);
}

/// The test above can fail: here, nothing waits.
#[test]
fn servers_lack_files_without_the_wait() {
    let fleet = Fleet::start();
    let [visits] = visit_meanwhile(&[fleet.addresses()], |number, [visits]| {
        fleet.push(number, "0");
        wait_until("the release is served", || visits.newest.load(Ordering::Relaxed) == number);
        let is_enough = if is_slow() { number == 100 } else { visits.faults()[0] > 0 };
        number < 100 && !is_enough
    });
    println!("{visits:?}");
    let [missing, mixed, wrong_types] = visits.faults();
    assert!(missing > 0 && (mixed, wrong_types) == (0, 0), "{visits:?}");
}

/// Proxies that ask the servers in turn: HAProxy, and Varnish, which also stores the assets.
#[test]
fn no_file_is_missing_through_proxies() {
    if skip_outside() {
        return;
    }
    let fleet = Fleet::start();
    let addresses = fleet.addresses();
    let (haproxy, varnish) = (
        haproxy_in_turn(&addresses, &fleet.place.path("")),
        varnish_in_turn(&addresses, &fleet.place.path("")),
    );
    let lists = [&haproxy, &varnish].map(|proxy| vec![proxy.address.clone()]);
    let last = if is_slow() { 100 } else { 3 };
    let visits = visit_meanwhile(&lists, |number, visits| {
        fleet.push(number, "1000");
        let is_seen = |visits: &Visits| visits.newest.load(Ordering::Relaxed) == number;
        wait_until("the release is seen through both", || visits.iter().all(is_seen));
        if number % 10 == 0 {
            fleet.rollback();
        }
        number < last
    });
    println!("HAProxy: {:?}, Varnish: {:?}", visits[0], visits[1]);
    for visits in visits {
        assert_eq!(visits.faults(), [0; 3], "{visits:?}");
    }
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
    let expected = [
        format!("{target} 1.cdb 1 "),
        format!("{store} 1 1 "),
        format!("{target} 2.cdb 2 1.cdb"),
        format!("{store} 2 2 1"),
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
