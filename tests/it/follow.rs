//! `cannery follow`, and `cannery push` into stores: a folder, a web server with it, and an OCI registry.

use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Server, is_root, is_slow, request_at, run, skip_outside, wait_until};
use crate::processes::is_alive;
use crate::push::Place;
use crate::registry::{RIGHT_PASSWORD, Registry, write_docker_config};
use crate::served_folder::children;
use crate::signatures::keygen;

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Pushes release `number` of the site into a store.
fn push(place: &Place, store: &str, number: u32, flags: &[&str]) -> Value {
    place.write_site(number);
    place.json(&[&["push", store, &place.text("public")], flags].concat())
}

/// Follows once. The sandbox must be there.
fn follow(place: &Place, store: &str, node: &str, flags: &[&str]) -> Output {
    let into = place.text(node);
    place.run(
        &[&["follow", store, "--into", &into, "--once", "--json", "--sandbox", "require"], flags].concat(),
    )
}

/// Follows once, which must succeed, and returns the event about the new release.
fn followed(place: &Place, store: &str, node: &str, flags: &[&str]) -> Value {
    let output = follow(place, store, node, flags);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.into_iter().find(|event| event["event"] == "activated").unwrap_or(Value::Null)
}

fn refused(output: &Output, message: &str) {
    let code = output.status.code();
    assert!(code == Some(1) && stderr(output).contains(message), "{code:?} {}", stderr(output));
}

/// Returns the names in a node's directory that aren't of finished releases.
fn rubbish(place: &Place, node: &str) -> Vec<String> {
    let known = [".follow.json", ".follow.lock", ".rolled-back.json", ".seen.json", "current"];
    let is_release =
        |name: &str| [".cdb", ".cdb.release", ".cdb.release.minisig"].iter().any(|end| name.ends_with(end));
    place
        .names(node)
        .into_iter()
        .filter(|name| !known.contains(&name.as_str()) && !is_release(name))
        .collect()
}

fn state(place: &Place, node: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(node).join(".follow.json")).unwrap()).unwrap()
}

#[test]
fn folder_is_followed_with_the_missing_contents_only() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    let first = push(&place, &store, 1, &[]);
    assert_eq!((&first["serial"], &first["targets"][0]["activated"]), (&1.into(), &true.into()));
    let event = followed(&place, &store, "node", &["--unsigned"]);
    assert_eq!((&event["release"], &event["ranges"]), (&"1.cdb".into(), &1.into()));
    assert_eq!(followed(&place, &store, "node", &["--unsigned"]), Value::Null, "nothing is new");

    push(&place, &store, 2, &[]);
    let event = followed(&place, &store, "node", &["--unsigned"]);
    assert_eq!((&event["release"], &event["before"]), (&"2.cdb".into(), &"1.cdb".into()));
    assert_eq!(event["recipe_is_patch"], true);
    let bytes = event["recipe_bytes"].as_u64().unwrap() + event["range_bytes"].as_u64().unwrap();
    assert!(bytes < event["archive_bytes"].as_u64().unwrap() / 10, "{event}");
    let current = place.path("node").join("current");
    assert!(run("cannery", &["verify", current.to_str().unwrap()]).status.success());

    // A node without any release gets the newest one.
    followed(&place, &store, "other", &["--unsigned"]);
    assert_eq!(place.current("other"), "2.cdb");

    let rolled_back = place.json(&["rollback", &store]);
    assert_eq!((&rolled_back[0]["serial"], &rolled_back[0]["before"]), (&1.into(), &2.into()));
    let event = followed(&place, &store, "node", &["--unsigned"]);
    assert_eq!((&event["range_bytes"], place.current("node").as_str()), (&0.into(), "1.cdb"));
    let status = place.json(&["status", &store]);
    assert_eq!(
        (&status[0]["releases"][0]["serial"], &status[0]["releases"][1]["current"]),
        (&2.into(), &true.into())
    );
    assert_eq!(
        (&state(&place, "node")["serial"], &state(&place, "node")["behind_since"]),
        (&1.into(), &Value::Null)
    );

    // The next release follows the newest one, and old ones are removed on both sides.
    assert_eq!(push(&place, &store, 3, &["--keep", "1"])["serial"], 3);
    followed(&place, &store, "node", &["--unsigned", "--keep", "1"]);
    assert_eq!(place.names("node"), [".follow.json", ".follow.lock", "3.cdb", "current"]);
    let blobs = fs::read_dir(place.path("store/blobs/sha256")).unwrap().count();
    assert!(blobs <= 4, "{blobs} blobs of one release");
}

#[test]
fn signed_releases_are_demanded_in_order() {
    let place = Place::new();
    keygen(&place, "site");
    keygen(&place, "other");
    let store = format!("file://{}", place.text("store"));
    let key = place.text("site.key");
    let signing = ["--secret-key", &key, "--site", "example.com"];
    let public = place.text("site.pub");
    let trust = ["--public-key", &public, "--site", "example.com"];

    let output = follow(&place, &store, "node", &[]);
    assert!(
        output.status.code() == Some(2) && stderr(&output).contains("--public-key"),
        "{}",
        stderr(&output)
    );
    push(&place, &store, 1, &[]);
    refused(&follow(&place, &store, "node", &trust), "isn't signed");
    push(&place, &store, 2, &signing);
    followed(&place, &store, "node", &trust);
    assert_eq!(place.current("node"), "2.cdb");
    let old = fs::read(place.path("store/live.json")).unwrap();

    push(&place, &store, 3, &signing);
    followed(&place, &store, "node", &trust);
    let good = fs::read(place.path("store/live.json")).unwrap();
    // The store was broken into: it names an older release, whose signature is right.
    fs::write(place.path("store/live.json"), &old).unwrap();
    refused(&follow(&place, &store, "node", &trust), "older than what was accepted");
    assert_eq!((place.current("node").as_str(), &state(&place, "node")["refused"]), ("3.cdb", &true.into()));
    // It swaps the statement, or names another archive.
    let swapped = String::from_utf8(good.clone()).unwrap().replacen("serial: 3", "serial: 4", 1);
    fs::write(place.path("store/live.json"), swapped).unwrap();
    refused(&follow(&place, &store, "node", &trust), "was changed");
    let mut document: Value = serde_json::from_slice(&good).unwrap();
    document["current"]["digest"] = document["earlier"][0]["digest"].clone();
    fs::write(place.path("store/live.json"), document.to_string()).unwrap();
    refused(&follow(&place, &store, "node", &trust), "about another release");
    fs::write(place.path("store/live.json"), "{").unwrap();
    refused(&follow(&place, &store, "node", &trust), "malformed");
    fs::write(place.path("store/live.json"), &good).unwrap();
    followed(&place, &store, "node", &trust);

    let other = place.text("other.pub");
    refused(&follow(&place, &store, "another", &["--public-key", &other]), "key that isn't listed");
    refused(
        &follow(&place, &store, "another", &["--public-key", &public, "--site", "b"]),
        "belongs to the site",
    );

    // A rollback needs the key, and is accepted then.
    let output = place.run(&["rollback", &store]);
    assert!(!output.status.success() && stderr(&output).contains("--secret-key"), "{}", stderr(&output));
    place.json(&[&["rollback", &store], &signing[..]].concat());
    followed(&place, &store, "node", &trust);
    assert_eq!((place.current("node").as_str(), rubbish(&place, "node").len()), ("2.cdb", 0));
}

/// The publisher's signature makes nodes accept a release, so a store must not be able to choose what is signed.
#[test]
fn publishers_sign_nothing_that_a_broken_store_claims() {
    let place = Place::new();
    keygen(&place, "site");
    keygen(&place, "other");
    let store = format!("file://{}", place.text("store"));
    let key = place.text("site.key");
    let other = place.text("other.key");
    let signing = ["--secret-key", &key, "--site", "example.com"];
    push(&place, &store, 1, &signing);
    push(&place, &store, 2, &signing);
    let path = place.path("store/live.json");
    let good = fs::read(&path).unwrap();
    let change = |edit: &dyn Fn(&mut String)| {
        let mut document: Value = serde_json::from_slice(&good).unwrap();
        let text = &mut document["earlier"][0]["signed"]["statement"];
        let mut changed = text.as_str().unwrap().to_owned();
        edit(&mut changed);
        *text = changed.into();
        fs::write(&path, document.to_string()).unwrap();
    };

    // Another statement about the earlier release.
    change(&|text| *text = text.replace("sequence: 1", "sequence: 7"));
    refused(&place.run(&[&["rollback", &store], &signing[..]].concat()), "never signed with this key");
    // A sequence after which there is none.
    change(&|text| *text = text.replace("sequence: 1", "sequence: 18446744073709551615"));
    place.write_site(3);
    let site = place.text("public");
    refused(&place.run(&[&["push", &store, &site], &signing[..]].concat()), "this key has signed none above");

    // A release with the signature of another key isn't built upon: its files would be signed along with ours.
    fs::write(&path, &good).unwrap();
    let built_upon = |node: &str| {
        followed(&place, &store, node, &["--unsigned"]);
        let archive = fs::read(place.path(node).join("current")).unwrap();
        archive.windows(6).any(|bytes| bytes == b"run(2)")
    };
    push(&place, &store, 3, &["--secret-key", &other, "--site", "example.com"]);
    assert!(!built_upon("with another key"));
    fs::write(&path, &good).unwrap();
    push(&place, &store, 3, &signing);
    assert!(built_upon("with the same key"));
}

#[test]
fn broken_stores_change_nothing_and_leave_nothing() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    refused(&follow(&place, &store, "node", &["--unsigned"]), "store");
    push(&place, &store, 1, &[]);
    followed(&place, &store, "node", &["--unsigned"]);
    push(&place, &store, 2, &[]);
    let document: Value = serde_json::from_slice(&fs::read(place.path("store/live.json")).unwrap()).unwrap();
    let path_of = |name: &str| {
        let digest = document["current"][name]["digest"].as_str().unwrap();
        place.path("store/blobs/sha256").join(digest.strip_prefix("sha256:").unwrap())
    };
    for name in ["archive", "recipe"] {
        let path = path_of(name);
        let good = fs::read(&path).unwrap();
        let mut wrong = good.clone();
        wrong.iter_mut().for_each(|byte| *byte ^= 0x55);
        // A node without a base needs all of the recipe and of the archive.
        for (what, content) in
            [("wrong bytes", wrong), ("cut", good[..good.len() / 2].to_vec()), ("empty", Vec::new())]
        {
            fs::write(&path, content).unwrap();
            let output = follow(&place, &store, "fresh", &["--unsigned"]);
            assert_eq!(output.status.code(), Some(1), "{name}, {what}");
            assert!(
                stderr(&output).contains("no release of this store is here yet")
                    || stderr(&output).contains("error:"),
                "{name}, {what}"
            );
            assert_eq!(rubbish(&place, "fresh"), Vec::<String>::new(), "{name}, {what}");
            assert!(!place.path("fresh").join("2.cdb").exists());
        }
        fs::remove_file(&path).unwrap();
        refused(&follow(&place, &store, "fresh", &["--unsigned"]), "No such file");
        fs::write(&path, good).unwrap();
    }
    assert!(state(&place, "fresh")["failures_total"].as_u64() >= Some(8), "{}", state(&place, "fresh"));
    assert_eq!(place.current("node"), "1.cdb");
    followed(&place, &store, "fresh", &["--unsigned"]);
    assert_eq!(state(&place, "fresh")["error"], Value::Null);
}

#[test]
fn two_followers_of_a_directory_are_refused() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    push(&place, &store, 1, &[]);
    let mut first = spawn(&place, &store, &["--unsigned", "--interval", "1"]);
    wait_until("the release is there", || place.path("node").join("current").exists());
    refused(&follow(&place, &store, "node", &["--unsigned"]), "another process follows");

    // It takes up new releases by itself.
    push(&place, &store, 2, &[]);
    wait_until("the second release is current", || place.current("node") == "2.cdb");
    first.kill().unwrap();
    first.wait().unwrap();
    followed(&place, &store, "node", &["--unsigned"]);
}

#[test]
fn followers_run_a_command_after_each_switch() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    let log = place.path("log");
    let variables = "$CANNERY_TARGET $CANNERY_RELEASE $CANNERY_SERIAL $CANNERY_BEFORE";
    let hook = format!("echo \"{variables}\" >> {}; echo purged", log.display());
    let flags = ["--unsigned", "--on-activate", &hook];
    for number in [1, 2] {
        push(&place, &store, number, &[]);
        let output = follow(&place, &store, "node", &flags);
        assert!(output.status.success() && stderr(&output).contains("on-activate: purged"), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let event: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!((&event["event"], &event["serial"]), (&"on_activate".into(), &number.into()));
        assert_eq!((&event["release"], &event["error"]), (&format!("{number}.cdb").into(), &Value::Null));
    }
    // Nothing has changed.
    followed(&place, &store, "node", &flags);
    let node = place.text("node");
    let expected = format!("{node} 1.cdb 1 \n{node} 2.cdb 2 1.cdb\n");
    assert_eq!(fs::read_to_string(&log).unwrap(), expected);

    push(&place, &store, 3, &[]);
    let output = follow(&place, &store, "node", &["--unsigned", "--on-activate", "echo why >&2; exit 7"]);
    assert!(stderr(&output).contains("on-activate: why"), "{output:?}");
    refused(&output, "exit status: 7");
    let state = state(&place, "node");
    assert_eq!((place.current("node").as_str(), &state["serial"]), ("3.cdb", &3.into()));
    assert_eq!((&state["error"], &state["failures_total"]), (&Value::Null, &0.into()), "the look succeeded");
    assert_eq!(state["on_activate_failures_total"], 1);
    assert!(state["on_activate_error"].as_str().unwrap().contains("exit status: 7"), "{state}");
}

#[test]
fn failed_command_is_counted_and_following_goes_on() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    let pids = place.path("pids");
    let hook = format!("sleep 600 & echo $! >> {}; wait", pids.display());
    push(&place, &store, 1, &[]);
    followed(&place, &store, "node", &["--unsigned"]);
    let server = Server::start(&["--releases", &place.text("node"), "--admin", "127.0.0.1:0"]);
    let admin = server.read_admin_address();

    let flags = ["--unsigned", "--interval", "1", "--on-activate", &hook, "--on-activate-timeout", "1"];
    let mut follower = spawn(&place, &store, &flags);
    for number in [2, 3] {
        push(&place, &store, number, &[]);
        wait_until("the release is current", || place.current("node") == format!("{number}.cdb"));
        let failures = || state(&place, "node")["on_activate_failures_total"].as_u64();
        wait_until("its command has failed", || failures() == Some(u64::from(number) - 1));
        let error = state(&place, "node")["on_activate_error"].to_string();
        assert!(error.contains("longer than 1 seconds"), "{error}");
    }
    let metrics = || String::from_utf8(request_at(&admin, "GET", "/metrics", "").body).unwrap();
    let line = "cannery_release_on_activate_failures_total{host=\"\"} 2\n";
    wait_until("the server counts the failures", || metrics().contains(line));

    // The whole process group has ended.
    let pids = fs::read_to_string(&pids).unwrap();
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines().map(|pid| pid.parse().unwrap()) {
        wait_until("the command has ended", || !is_alive(pid));
    }
    follower.kill().unwrap();
    follower.wait().unwrap();
}

fn spawn(place: &Place, store: &str, flags: &[&str]) -> Child {
    let into = place.text("node");
    let mut command =
        place.command(&[&["follow", store, "--into", &into, "--sandbox", "require"], flags].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Returns a command that runs another one as the first process of a namespace.
fn contained(inner: &Command) -> Command {
    let mut container = Command::new("unshare");
    container.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    container.arg(inner.get_program()).args(inner.get_args());
    container.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    container.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    container
}

/// Ends the first process of a namespace.
fn terminate_first(container: Child) {
    let container = RefCell::new(container);
    let first = || children(container.borrow().id()).first().map(u32::to_string);
    let handles_sigterm = |process: String| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << 14 != 0)
    };
    wait_until("it handles the signal", || first().is_some_and(handles_sigterm));
    let first = first().unwrap();
    assert!(Command::new("kill").args(["-TERM", &first]).status().unwrap().success());
    wait_until("the container ends", || container.borrow_mut().try_wait().unwrap().is_some());
    // As shells have it: 128, and the number of the signal.
    assert_eq!(container.into_inner().wait().unwrap().code(), Some(143));
}

#[test]
fn first_process_of_a_container_ends_on_sigterm() {
    if !is_root() {
        println!("skipped: only root can create a namespace of processes");
        return;
    }
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    push(&place, &store, 1, &[]);
    let node = place.text("node");
    let follower =
        contained(&place.command(&["follow", &store, "--into", &node, "--unsigned"])).spawn().unwrap();
    wait_until("the release is current", || place.path("node/current").exists());
    terminate_first(follower);

    // It waits for requests.
    let mut receiver = contained(&place.command(&["receive", &node]));
    terminate_first(receiver.stdin(Stdio::piped()).spawn().unwrap());
}

#[test]
fn processes_that_a_command_leaves_behind_are_collected() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    push(&place, &store, 1, &[]);
    let node = place.text("node");
    // The second one leaves the process group, and keeps the pipes open.
    let hook = format!("sleep 0.1 & setsid sleep 60 & touch {}", place.text("done"));
    let inner = place.command(&["follow", &store, "--into", &node, "--unsigned", "--on-activate", &hook]);
    // A container usually has no other process that would collect them.
    let mut command = if is_root() { contained(&inner) } else { inner };
    let mut outer = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    wait_until("the command has run", || place.path("done").exists());

    let follower = if is_root() { children(outer.id())[0] } else { outer.id() };
    let hook_process = children(follower)[0];
    let commands = || -> Vec<_> {
        let line = |pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        children(hook_process).into_iter().map(line).collect()
    };
    wait_until("one process is left", || commands() == ["sleep\x0060\0"]);
    assert_eq!(children(follower).len(), 1);
    wait_until("nothing waits for the pipes", || threads(hook_process) == 1);
    let left = children(hook_process)[0].to_string();
    assert!(Command::new("kill").arg(left).status().unwrap().success());
    wait_until("it is collected at once", || children(hook_process).is_empty());
    outer.kill().unwrap();
    outer.wait().unwrap();
}

fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

#[test]
fn killed_followers_leave_a_release_and_nothing_else() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    push(&place, &store, 1, &[]);
    followed(&place, &store, "node", &["--unsigned"]);
    let rounds = if is_slow() { 50 } else { 5 };
    for number in 2..2 + rounds {
        push(&place, &store, number, &[]);
        let mut follower = spawn(&place, &store, &["--unsigned"]);
        thread::sleep(Duration::from_millis(9 * (u64::from(number) * 7 % 13)));
        follower.kill().unwrap();
        follower.wait().unwrap();
        let current = place.path("node").join("current");
        let verified = run("cannery", &["verify", current.to_str().unwrap()]);
        assert!(verified.status.success(), "release {number}: {}", stderr(&verified));
    }
    followed(&place, &store, "node", &["--unsigned"]);
    assert_eq!(place.current("node"), format!("{}.cdb", 1 + rounds));
    assert_eq!(rubbish(&place, "node"), Vec::<String>::new());
}

/// Relays connections to a server, and cuts each response after some bytes.
struct Cutter {
    address: String,
    bytes: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl Cutter {
    fn start(server: String) -> Cutter {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (bytes, connections) = (Arc::new(AtomicUsize::new(usize::MAX)), Arc::new(AtomicUsize::new(0)));
        let (limit, count) = (Arc::clone(&bytes), Arc::clone(&connections));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                let (server, limit) = (server.clone(), limit.load(Ordering::Relaxed));
                thread::spawn(move || relay(client, &server, limit));
            }
        });
        Cutter { address, bytes, connections }
    }
}

fn relay(mut client: TcpStream, server: &str, limit: usize) {
    let Ok(mut upstream) = TcpStream::connect(server) else { return };
    let (mut requests, mut sink) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
    thread::spawn(move || std::io::copy(&mut requests, &mut sink));
    let mut rest = limit;
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = upstream.read(&mut buffer) {
        let part = count.min(rest);
        if client.write_all(&buffer[..part]).is_err() || part < count {
            break;
        }
        rest -= part;
    }
    let _ = client.shutdown(std::net::Shutdown::Both);
    let _ = upstream.shutdown(std::net::Shutdown::Both);
}

#[test]
fn web_server_with_the_folder_is_followed_through_cut_connections() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    push(&place, &store, 1, &[]);
    fs::write(place.path("store/index.html"), "a store").unwrap();
    let server = Server::start(&["--folder", &place.text("store")]);
    let cutter = Cutter::start(server.address.clone());
    let url = format!("http://{}/", cutter.address);
    followed(&place, &url, "node", &["--unsigned"]);

    push(&place, &store, 2, &[]);
    let live = || String::from_utf8(server.get("/live.json").body).unwrap().contains("\"serial\": 2");
    wait_until("the server has the second release", live);
    // Each connection ends after so many bytes of responses. The old release is current until one attempt gets through.
    for bytes in [0, 1, 15, 100, 400, 700, 1500, 3000] {
        cutter.bytes.store(bytes, Ordering::Relaxed);
        let output = follow(&place, &url, "node", &["--unsigned"]);
        let current = place.current("node");
        assert!(output.status.success() == (current == "2.cdb"), "{bytes} bytes: {}", stderr(&output));
        assert_eq!(rubbish(&place, "node"), Vec::<String>::new());
        if current == "2.cdb" {
            break;
        }
    }
    cutter.bytes.store(usize::MAX, Ordering::Relaxed);
    followed(&place, &url, "node", &["--unsigned"]);
    assert_eq!(place.current("node"), "2.cdb");

    // A look at an unchanged store is one short request.
    let before = cutter.connections.load(Ordering::Relaxed);
    let mut follower = spawn(&place, &url, &["--unsigned", "--interval", "1"]);
    wait_until("the store was looked at", || cutter.connections.load(Ordering::Relaxed) > before);
    follower.kill().unwrap();
    follower.wait().unwrap();

    // Without a network, the node keeps what it has.
    server.stop();
    refused(&follow(&place, &url, "node", &["--unsigned"]), &url);
    assert_eq!((place.current("node").as_str(), &state(&place, "node")["serial"]), ("2.cdb", &2.into()));
    let output = follow(&place, "http://store.example/", "node", &["--unsigned"]);
    assert!(
        output.status.code() == Some(2) && stderr(&output).contains("without TLS"),
        "{}",
        stderr(&output)
    );
}

fn with_docker_config(place: &Place, arguments: &[&str]) -> Output {
    let mut command = place.command(arguments);
    command.env("DOCKER_CONFIG", place.path("docker")).env_remove("REGISTRY_AUTH_FILE").output().unwrap()
}

#[test]
fn oci_registry_is_followed() {
    if skip_outside() {
        return;
    }
    let place = Place::new();
    keygen(&place, "site");
    let registry = Registry::start(&place.path(""), None);
    let store = format!("oci://{}/team/site", registry.host);
    let (key, public, site, into) =
        (place.text("site.key"), place.text("site.pub"), place.text("public"), place.text("node"));
    let push = |number: u32| {
        place.write_site(number);
        with_docker_config(
            &place,
            &["push", &store, &site, "--secret-key", &key, "--site", "example.com", "--json"],
        )
    };
    let follow = || {
        with_docker_config(
            &place,
            &[
                "follow",
                &store,
                "--into",
                &into,
                "--once",
                "--json",
                "--sandbox",
                "require",
                "--public-key",
                &public,
            ],
        )
    };

    // Without credentials, or with wrong ones, the message says so.
    refused(&push(1), "401");
    write_docker_config(&place.path("docker"), &registry.host, "d2ViOndyb25n");
    refused(&push(1), "401");
    write_docker_config(&place.path("docker"), &registry.host, RIGHT_PASSWORD);
    let pushed = push(1);
    assert!(pushed.status.success(), "{}", stderr(&pushed));
    let first = follow();
    assert!(first.status.success(), "{}", stderr(&first));
    assert_eq!(place.current("node"), "1.cdb");

    assert!(push(2).status.success());
    let second = follow();
    assert!(second.status.success(), "{}", stderr(&second));
    let event: Value =
        serde_json::from_slice(second.stdout.split(|byte| *byte == b'\n').nth(1).unwrap()).unwrap();
    let bytes = event["recipe_bytes"].as_u64().unwrap() + event["range_bytes"].as_u64().unwrap();
    assert!(
        bytes < event["archive_bytes"].as_u64().unwrap() / 10 && event["recipe_is_patch"] == true,
        "{event}"
    );

    // The registry is killed: the node keeps what it has, and goes on once it is back.
    let port = registry.port();
    assert!(push(3).status.success());
    drop(registry);
    refused(&follow(), "Connection refused");
    assert_eq!(place.current("node"), "2.cdb");
    let registry = Registry::start(&place.path(""), Some(port));
    assert!(follow().status.success());
    assert_eq!((place.current("node").as_str(), rubbish(&place, "node").len()), ("3.cdb", 0));

    let rollback = ["rollback", &store, "--to", "1", "--secret-key", &key, "--json"];
    let output = with_docker_config(&place, &rollback);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(follow().status.success());
    assert_eq!(place.current("node"), "1.cdb");

    // A repository with something else isn't taken for a release.
    assert!(Path::new(&place.text("registry")).exists() && registry.port() == port);
    let empty = format!("oci://{}/team/other", registry.host);
    refused(
        &with_docker_config(&place, &["follow", &empty, "--into", &into, "--once", "--unsigned"]),
        "has no release yet",
    );
}

/// The process was ended between the switch and the command.
#[test]
fn command_runs_once_after_a_crash() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    let log = place.path("log");
    let hook = format!("echo $CANNERY_RELEASE >> {}", log.display());
    push(&place, &store, 1, &[]);
    followed(&place, &store, "node", &["--unsigned"]);
    let node = place.text("node");
    let crash = |release: &str| {
        let mut state = state(&place, "node");
        state["pending"] =
            serde_json::json!({ "target": node, "release": release, "serial": 1, "before": null });
        fs::write(place.path("node/.follow.json"), state.to_string()).unwrap();
    };
    let flags = ["--unsigned", "--on-activate", &hook];
    // Before the switch.
    crash("2.cdb");
    followed(&place, &store, "node", &flags);
    assert!(!log.exists());
    // After it.
    crash("1.cdb");
    for _ in 0..2 {
        followed(&place, &store, "node", &flags);
        assert_eq!(fs::read_to_string(&log).unwrap(), "1.cdb\n");
    }
}

#[test]
fn follower_exits_if_it_can_run_no_command() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    let log = place.path("log");
    let hook = format!("echo $CANNERY_RELEASE >> {}", log.display());
    push(&place, &store, 1, &[]);
    let flags = ["--unsigned", "--interval", "1", "--quiet", "--on-activate", &hook];
    let mut follower = spawn(&place, &store, &flags);
    wait_until("the command has run", || log.exists());

    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", follower.id())).unwrap();
    let child = children.trim();
    assert!(child.parse::<u32>().is_ok(), "{children}");
    assert!(Command::new("kill").args(["-9", child]).status().unwrap().success());
    push(&place, &store, 2, &[]);
    assert_eq!(follower.wait().unwrap().code(), Some(1));
    let state = state(&place, "node");
    assert!(state["on_activate_error"].as_str().unwrap().contains("has ended"), "{state}");
    // The next process makes up for it.
    followed(&place, &store, "node", &["--unsigned", "--on-activate", &hook]);
    assert_eq!(fs::read_to_string(&log).unwrap(), "1.cdb\n2.cdb\n");
}

#[test]
fn release_that_nodes_will_refuse_is_noted() {
    let place = Place::new();
    keygen(&place, "site");
    let secret = place.text("site.key");
    for target in [format!("file://{}", place.text("store")), place.text("releases")] {
        let pushed = |number, signing: &[&str]| {
            let json = push(&place, &target, number, signing);
            json["targets"][0]["warning"].as_str().unwrap_or_default().to_owned()
        };
        assert_eq!(pushed(1, &["--secret-key", &secret, "--site", "a"]), "");
        let other_site = pushed(2, &["--secret-key", &secret, "--site", "b"]);
        assert!(other_site.contains("signed for the site a, but the new one for b"), "{other_site}");
        assert_eq!(pushed(3, &["--secret-key", &secret, "--site", "b"]), "");
        let unsigned = pushed(4, &[]);
        assert!(unsigned.contains("the live release is signed"), "{unsigned}");
    }
}

/// Someone has forgotten the key, and nothing has changed: nodes must not refuse the release that they serve.
#[test]
fn release_pushed_again_without_its_key_stays_signed() {
    let place = Place::new();
    keygen(&place, "site");
    let store = format!("file://{}", place.text("store"));
    let (secret, public) = (place.text("site.key"), place.text("site.pub"));
    let signing = ["--secret-key", &secret, "--site", "a", "--settle-nodes", "0"];
    let trust = ["--public-key", &public, "--site", "a"];
    let unsigned = |flags: &[&str]| {
        let pushed = push(&place, &store, 1, &[&["--settle-nodes", "0"], flags].concat());
        assert_eq!(pushed["targets"][0]["warning"], Value::Null, "{pushed}");
    };

    push(&place, &store, 1, &signing);
    unsigned(&[]);
    followed(&place, &store, "node", &trust);
    unsigned(&["--stage-only"]);
    followed(&place, &store, "other", &trust);
    let text = place.run(&["push", &store, &place.text("public"), "--settle-nodes", "0"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("release 1 was current already; nothing has changed"), "{text}");

    // Once an earlier release is current again, its statement is the newer one.
    push(&place, &store, 2, &signing);
    place.json(&["rollback", &store, "--secret-key", &secret, "--settle-nodes", "0"]);
    followed(&place, &store, "node", &trust);
    let older = push(&place, &store, 2, &["--settle-nodes", "0"]);
    let warning = older["targets"][0]["warning"].as_str().unwrap_or_default();
    assert!(warning.contains("has a newer signature"), "{older}");
    refused(&follow(&place, &store, "node", &trust), "older than what was accepted");
    push(&place, &store, 2, &signing);
    followed(&place, &store, "node", &trust);
    assert_eq!(place.current("node"), "2.cdb");
}

#[test]
fn archive_with_the_signature_of_another_one_is_not_pushed() {
    let place = Place::new();
    keygen(&place, "site");
    let archives = ["1.cdb", "2.cdb"].map(|name| place.text(name));
    for (number, archive) in (1..).zip(&archives) {
        place.write_site(number);
        assert!(run("cannery-archiver", &[&place.text("public"), archive]).status.success());
    }
    let sign = ["sign", &archives[0], "--secret-key", &place.text("site.key"), "--site", "a"];
    assert!(place.run(&sign).status.success());
    for end in [".release", ".release.minisig"] {
        fs::copy(format!("{}{end}", archives[0]), format!("{}{end}", archives[1])).unwrap();
    }

    for target in [format!("file://{}", place.text("store")), place.text("releases")] {
        let output = place.run(&["push", &target, &archives[1]]);
        assert!(
            output.status.code() == Some(3) && stderr(&output).contains("about another archive"),
            "{output:?}"
        );
        assert!(place.run(&["push", &target, &archives[0]]).status.success());
    }
}

#[test]
fn failures_of_stores_are_in_the_only_json_value() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    let missing = format!("file://{}", place.text("missing"));
    push(&place, &store, 1, &[]);
    let commands: [&[&str]; 4] = [
        &["rollback", &store, "--to", "77"],
        &["status", &missing],
        &["rollback", &store, &missing],
        &["status", &store, &missing],
    ];
    for command in commands {
        let output = place.run(&[command, &["--json"]].concat());
        assert!(!output.status.success(), "{command:?}");
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        let targets = value.as_array().unwrap();
        assert!(targets.iter().any(|target| target["error"]["message"].is_string()), "{value}");
    }

    // Nothing was transferred, so there is only the failure.
    let file = place.text("file");
    fs::write(&file, "").unwrap();
    let output = place.run(&["push", &place.text("releases"), &file, &place.text("public"), "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = value["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(&format!("failed: {file}: ")), "{value}");
}

#[test]
fn failed_looks_are_counted_and_explained() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    push(&place, &store, 1, &[]);
    followed(&place, &store, "node", &["--unsigned"]);
    let server = Server::start(&["--releases", &place.text("node"), "--admin", "127.0.0.1:0"]);
    let admin = server.read_admin_address();
    let page = |path: &str| String::from_utf8(request_at(&admin, "GET", path, "").body).unwrap();
    let facts = || {
        let facts: Value = serde_json::from_str(&page("/facts.json")).unwrap();
        facts["sites"][0]["follow"].clone()
    };
    wait_until("the state is known", || facts()["failures"] == 0);
    assert_eq!((&facts()["error"], &facts()["failing_seconds"]), (&Value::Null, &Value::Null));

    push(&place, &store, 2, &[]);
    fs::rename(place.path("store/blobs"), place.path("away")).unwrap();
    assert!(!follow(&place, &store, "node", &["--unsigned"]).status.success());
    let line = "cannery_release_follow_failures_total{host=\"\"} 1\n";
    wait_until("the failure is counted", || page("/metrics").contains(line));
    let shown = facts();
    assert!(shown["error"].as_str().unwrap().contains("No such file"), "{shown}");
    assert!(shown["failing_seconds"].is_u64() && shown["failures"] == 1, "{shown}");

    // The line for people says what is served and what isn't. It is printed once for each error.
    fs::remove_file(place.path("node/.follow.json")).unwrap();
    let into = place.text("node");
    let arguments = ["follow", &store, "--into", &into, "--unsigned", "--interval", "1", "--quiet"];
    let mut follower =
        place.command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it has failed", || {
        fs::read(place.path("node/.follow.json")).is_ok() && state(&place, "node")["failures_total"] == 1
    });
    follower.kill().unwrap();
    let text = stderr(&follower.wait_with_output().unwrap());
    assert!(text.contains("and the store has named release 2 since 20"), "{text}");
    assert!(text.contains("looks fail since 20") && text.contains(" UTC"), "{text}");
    // No store has told the follower that it is current.
    assert!(text.contains("release 1 is still served"), "{text}");
}
