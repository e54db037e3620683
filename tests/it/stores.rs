//! Stores that answer in unusual ways: without ranges, with redirects, and with tokens that expire.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::harness::{compile, wait_until};
use crate::push::Place;

/// A request to a store of a test.
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Names are in lower case.
    pub(crate) fields: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// Status, fields and content of a response.
pub(crate) type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// Starts a server, one request for each connection, and returns its host and port.
pub(crate) fn serve(handler: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let handler = Arc::new(handler);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handler = Arc::clone(&handler);
            thread::spawn(move || answer(stream, &*handler));
        }
    });
    host
}

fn answer(mut stream: TcpStream, handler: &dyn Fn(&Asked) -> Answer) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut fields = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        fields.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = fields.get("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let is_head = method == "HEAD";
    let (status, fields, content) = handler(&Asked { method, target, fields, body });
    let mut head =
        format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\nConnection: close\r\n", content.len());
    for (name, value) in fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    if !is_head {
        stream.write_all(&content).ok()?;
    }
    Some(())
}

pub(crate) fn empty(status: u16) -> Answer {
    (status, Vec::new(), Vec::new())
}

/// Answers with a part of a content, if the request asks for one.
pub(crate) fn ranged(asked: &Asked, content: &[u8]) -> Answer {
    let range = asked.fields.get("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((first, last)) = range else { return (200, Vec::new(), content.to_vec()) };
    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().expect("the range is closed"));
    let field = format!("bytes {first}-{last}/{}", content.len());
    (206, vec![("Content-Range", field)], content[first..=last].to_vec())
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the hidden names of a node's directory that aren't its state.
fn rubbish(place: &Place) -> Vec<String> {
    let known = [".follow.json", ".follow.lock"];
    let names = place.names("node").into_iter();
    names.filter(|name| name.starts_with('.') && !known.contains(&name.as_str())).collect()
}

fn push(place: &Place, store: &str, number: u32) {
    place.write_site(number);
    place.json(&["push", store, &place.text("public")]);
}

#[test]
fn stores_without_ranges_are_read_and_wrong_ranges_are_refused() {
    let place = Place::new();
    let folder = format!("file://{}", place.text("store"));
    push(&place, &folder, 1);
    let mode = Arc::new(AtomicUsize::new(0));
    let (root, now): (PathBuf, _) = (place.path("store"), Arc::clone(&mode));
    let host = serve(move |asked| {
        let Ok(content) = fs::read(root.join(asked.target.trim_start_matches('/'))) else {
            return empty(404);
        };
        let is_range = asked.fields.contains_key("range");
        match now.load(Ordering::Relaxed) {
            1 if is_range => empty(416),
            2 if is_range => {
                (206, vec![("Content-Range", format!("bytes 999999-1000000/{}", content.len()))], vec![0; 2])
            }
            3 if is_range => (206, Vec::new(), content),
            4 if is_range => (206, vec![("Content-Range", "bytes x-y/z".to_owned())], content),
            5 => (200, Vec::new(), content),
            _ => ranged(asked, &content),
        }
    });
    let (url, node) = (format!("http://{host}/"), place.text("node"));
    let follow =
        || place.run(&["follow", &url, "--into", &node, "--once", "--unsigned", "--sandbox", "require"]);
    let output = follow();
    assert!(output.status.success(), "{}", stderr(&output));

    push(&place, &folder, 2);
    for (number, words) in [(1, "416"), (2, "another range"), (3, "206 without"), (4, "206 without")] {
        mode.store(number, Ordering::Relaxed);
        let output = follow();
        assert!(
            output.status.code() == Some(1) && stderr(&output).contains(words),
            "{number}: {}",
            stderr(&output)
        );
        assert_eq!((place.current("node").as_str(), rubbish(&place)), ("1.cdb", Vec::new()), "{number}");
    }
    // The whole instead of a range is used.
    mode.store(5, Ordering::Relaxed);
    let output = follow();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(place.current("node"), "2.cdb");
}

/// Nothing was lost there: the address is wrong, or a folder isn't mounted.
#[test]
fn message_for_a_store_that_does_not_exist_doubts_its_address() {
    let place = Place::new();
    let host = serve(|_| (404, Vec::new(), b"<Error><Code>NoSuchBucket</Code></Error>".to_vec()));
    let folder = format!("file://{}", place.text("missing"));
    for (store, hint) in [(folder.as_str(), "check its path"), ("s3://missing/site", "check its name")] {
        let mut follow =
            place.command(&["follow", store, "--into", &place.text("node"), "--once", "--unsigned"]);
        follow.args(["--s3-endpoint", &format!("http://{host}")]);
        follow.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
        let output = follow.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{store}");
        assert!(stderr(&output).contains(hint), "{store}: {}", stderr(&output));
    }
}

#[test]
fn token_of_a_store_is_not_sent_to_another_host() {
    let place = Place::new();
    push(&place, &format!("file://{}", place.text("store")), 1);
    let requests = Arc::new(AtomicUsize::new(0));
    let (root, count) = (place.path("store"), Arc::clone(&requests));
    let other = serve(move |asked| {
        assert!(!asked.fields.contains_key("authorization"), "{:?}", asked.fields);
        count.fetch_add(1, Ordering::Relaxed);
        ranged(asked, &fs::read(root.join(asked.target.trim_start_matches('/'))).unwrap())
    });
    let root = place.path("store");
    let host = serve(move |asked| {
        if asked.fields.get("authorization").map(String::as_str) != Some("Bearer secret") {
            return empty(401);
        }
        if asked.target.starts_with("/blobs/") {
            return (302, vec![("Location", format!("http://{other}{}", asked.target))], Vec::new());
        }
        (200, Vec::new(), fs::read(root.join(asked.target.trim_start_matches('/'))).unwrap())
    });
    let (url, node) = (format!("http://{host}/"), place.text("node"));
    let arguments = ["follow", &url, "--into", &node, "--once", "--unsigned"];
    let output = place.run(&arguments);
    assert!(output.status.code() == Some(1) && stderr(&output).contains("401"), "{}", stderr(&output));
    let output = place.command(&arguments).env("CANNERY_STORE_TOKEN", "secret").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(requests.load(Ordering::Relaxed) > 0);
}

/// Contents and tokens of a registry in memory.
#[derive(Default)]
struct Registry {
    blobs: HashMap<String, Vec<u8>>,
    manifests: HashMap<String, Vec<u8>>,
    /// Tokens that were given out, and how often the last one was used.
    tokens: usize,
    uses: usize,
}

/// Requests that a token of the registry is good for.
const USES_MAX: usize = 4;

impl Registry {
    fn answer(&mut self, asked: &Asked, storage: &str) -> Answer {
        let authorization = asked.fields.get("authorization").map(String::as_str);
        let host = &asked.fields["host"];
        if asked.target.starts_with("/token?") {
            assert!(asked.target.contains("service=registry"), "{}", asked.target);
            if authorization != Some("Basic d2ViOnNlY3JldA==") {
                return empty(401);
            }
            self.tokens += 1;
            self.uses = 0;
            return (200, Vec::new(), format!("{{\"token\": \"t{}\"}}", self.tokens).into_bytes());
        }
        if authorization != Some(&*format!("Bearer t{}", self.tokens)) || self.uses == USES_MAX {
            let challenge = format!(
                "Bearer realm=\"http://{host}/token\",service=\"registry\",scope=\"repository:team/site:pull,push\""
            );
            return (401, vec![("WWW-Authenticate", challenge)], Vec::new());
        }
        self.uses += 1;
        let path = asked.target.strip_prefix("/v2/team/site/").unwrap();
        match (asked.method.as_str(), path.split_once('/').unwrap()) {
            ("POST", ("blobs", "uploads/")) => {
                (202, vec![("Location", "/v2/team/site/upload/1?state=x".to_owned())], Vec::new())
            }
            ("PUT", ("upload", query)) => {
                let digest = query.split_once("digest=").unwrap().1.replace("%3A", ":");
                self.blobs.insert(digest, asked.body.clone());
                empty(201)
            }
            ("PUT", ("manifests", name)) => {
                self.manifests.insert(name.to_owned(), asked.body.clone());
                empty(201)
            }
            ("HEAD" | "GET", ("manifests", name)) => match self.manifests.get(name) {
                Some(manifest) => (200, Vec::new(), manifest.clone()),
                None => empty(404),
            },
            ("HEAD", ("blobs", digest)) => empty(if self.blobs.contains_key(digest) { 200 } else { 404 }),
            ("GET", ("blobs", digest)) => {
                (307, vec![("Location", format!("http://{storage}/{digest}"))], Vec::new())
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn registry_with_expiring_tokens_and_another_storage_is_followed() {
    let place = Place::new();
    let registry = Arc::new(Mutex::new(Registry::default()));
    let stored = Arc::clone(&registry);
    let storage = serve(move |asked| {
        // The signature in such an address is all that storage wants; it refuses requests with more.
        assert!(!asked.fields.contains_key("authorization"), "{:?}", asked.fields);
        let content = stored.lock().unwrap().blobs[asked.target.trim_start_matches('/')].clone();
        ranged(asked, &content)
    });
    let shared = Arc::clone(&registry);
    let host = serve(move |asked| shared.lock().unwrap().answer(asked, &storage));
    let store = format!("oci://{host}/team/site");
    let (node, site) = (place.text("node"), place.text("public"));
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("DOCKER_CONFIG", place.path("docker")).env_remove("REGISTRY_AUTH_FILE").output().unwrap()
    };
    let follow = || run(&["follow", &store, "--into", &node, "--once", "--unsigned", "--sandbox", "require"]);
    place.write_site(1);
    let output = run(&["push", &store, &site]);
    assert!(!output.status.success() && stderr(&output).contains("401"), "{}", stderr(&output));

    fs::create_dir(place.path("docker")).unwrap();
    let config = format!("{{\"auths\": {{\"{host}\": {{\"auth\": \"d2ViOnNlY3JldA==\"}}}}}}");
    fs::write(place.path("docker/config.json"), config).unwrap();
    for number in [1, 2] {
        place.write_site(number);
        let output = run(&["push", &store, &site]);
        assert!(output.status.success(), "{}", stderr(&output));
        let output = follow();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!((place.current("node"), rubbish(&place)), (format!("{number}.cdb"), Vec::new()));
    }
    assert!(registry.lock().unwrap().tokens > 4, "tokens have expired");
}

/// A registry without authorization that keeps what it gets, and a log of the requests.
struct PlainRegistry {
    host: String,
    registry: Arc<Mutex<Registry>>,
    /// Methods and targets.
    log: Arc<Mutex<Vec<(String, String)>>>,
}

impl PlainRegistry {
    /// Starts it. `tag` is the name of the field that tells which manifest it is.
    fn start(tag: Option<&'static str>) -> PlainRegistry {
        let (registry, log) = (Arc::new(Mutex::new(Registry::default())), Arc::default());
        let (stored, requests) = (Arc::clone(&registry), Arc::<Mutex<Vec<_>>>::clone(&log));
        let host = serve(move |asked| {
            requests.lock().unwrap().push((asked.method.clone(), asked.target.clone()));
            let mut registry = stored.lock().unwrap();
            let path = asked.target.strip_prefix("/v2/site/").unwrap();
            match (asked.method.as_str(), path.split_once('/').unwrap()) {
                ("POST", ("blobs", "uploads/")) => {
                    (202, vec![("Location", "/v2/site/upload/1".to_owned())], Vec::new())
                }
                ("PUT", ("upload", query)) => {
                    let digest = query.split_once("digest=").unwrap().1.replace("%3A", ":");
                    registry.blobs.insert(digest, asked.body.clone());
                    empty(201)
                }
                ("PUT", ("manifests", name)) => {
                    registry.manifests.insert(name.to_owned(), asked.body.clone());
                    empty(201)
                }
                ("HEAD" | "GET", ("manifests", name)) => match registry.manifests.get(name) {
                    Some(manifest) => {
                        let value = format!("sha256:{}", sha256(manifest));
                        let value = if tag == Some("ETag") { format!("\"{value}\"") } else { value };
                        (200, tag.map(|tag| (tag, value)).into_iter().collect(), manifest.clone())
                    }
                    None => empty(404),
                },
                ("HEAD", ("blobs", digest)) => {
                    empty(if registry.blobs.contains_key(digest) { 200 } else { 404 })
                }
                ("GET", ("blobs", digest)) => match registry.blobs.get(digest) {
                    Some(content) => ranged(asked, content),
                    None => empty(404),
                },
                other => panic!("{other:?}"),
            }
        });
        PlainRegistry { host, registry, log }
    }

    fn store(&self) -> String {
        format!("oci://{}/site", self.host)
    }

    /// Returns the tags of releases.
    fn tags(&self) -> Vec<String> {
        let mut names: Vec<_> = self.registry.lock().unwrap().manifests.keys().cloned().collect();
        names.retain(|name| name.starts_with("release-"));
        names.sort();
        names
    }

    /// Returns the document that a tag leads to.
    fn document(&self, tag: &str) -> Value {
        let registry = self.registry.lock().unwrap();
        let manifest: Value = serde_json::from_slice(&registry.manifests[tag]).unwrap();
        serde_json::from_slice(&registry.blobs[manifest["config"]["digest"].as_str().unwrap()]).unwrap()
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Follows a store until `is_enough`.
fn watch(place: &Place, flags: &[&str], is_enough: impl Fn() -> bool) {
    let node = place.text("node");
    let mut command =
        place.command(&[&["follow"], flags, &["--into", &node, "--unsigned", "--interval", "1"]].concat());
    command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the store was looked at", is_enough);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn looks_at_an_unchanged_registry_are_heads() {
    for tag in ["Docker-Content-Digest", "ETag"] {
        let place = Place::new();
        let registry = PlainRegistry::start(Some(tag));
        push(&place, &registry.store(), 1);
        registry.log.lock().unwrap().clear();
        let looks = || {
            let log = registry.log.lock().unwrap();
            log.iter()
                .filter(|(method, target)| method == "HEAD" && target.ends_with("/manifests/live"))
                .count()
        };
        watch(&place, &[&registry.store()], || looks() >= 4);
        let log = registry.log.lock().unwrap().clone();
        let gets: Vec<_> = log.iter().filter(|(method, _)| method == "GET").collect();
        let manifests = gets.iter().filter(|(_, target)| target.contains("/manifests/")).count();
        assert_eq!(manifests, 1, "{tag}: {log:?}");
        let first = log.iter().rposition(|(method, _)| method == "GET").unwrap();
        assert!(log[first + 1..].iter().all(|(method, _)| method == "HEAD"), "{tag}: {log:?}");
    }
}

#[test]
fn looks_at_an_unchanged_folder_transfer_nothing() {
    for kind in ["web", "s3"] {
        let place = Place::new();
        push(&place, &format!("file://{}", place.text("store")), 1);
        // The versions that were known, and the statuses.
        let log = Arc::new(Mutex::new(Vec::<(Option<String>, u16)>::new()));
        let (root, requests) = (place.path("store"), Arc::clone(&log));
        let host = serve(move |asked| {
            assert_eq!(asked.method, "GET");
            let path = asked.target.split('?').next().unwrap();
            let path = path.trim_start_matches("/bucket").trim_start_matches('/');
            let content = fs::read(root.join(path)).unwrap();
            if path != "live.json" {
                return ranged(asked, &content);
            }
            let etag = format!("\"{}\"", &sha256(&content)[..16]);
            let known = asked.fields.get("if-none-match").cloned();
            let answer = if known.as_ref() == Some(&etag) {
                (304, vec![("ETag", etag)], Vec::new())
            } else {
                (200, vec![("ETag", etag)], content)
            };
            requests.lock().unwrap().push((known, answer.0));
            answer
        });
        let url = format!("http://{host}/");
        let flags = if kind == "web" { vec![&*url] } else { vec!["s3://bucket/", "--s3-endpoint", &url] };
        watch(&place, &flags, || log.lock().unwrap().len() >= 4);
        let log = log.lock().unwrap().clone();
        assert_eq!(log[0], (None, 200), "{kind}");
        assert!(log[1..].iter().all(|(known, status)| known.is_some() && *status == 304), "{kind}: {log:?}");
    }
}

#[test]
fn releases_of_a_registry_have_tags_of_their_own() {
    let place = Place::new();
    let registry = PlainRegistry::start(None);
    let store = registry.store();
    // Two publishers that don't know of each other choose the same serial.
    for number in [1, 2] {
        place.write_site(number);
        compile(&place.path("public"), &place.path("site.cdb"), &["--serial", "7"]);
        place.json(&["push", &store, &place.text("site.cdb")]);
    }
    let tags = registry.tags();
    assert!(tags.len() == 2 && tags.iter().all(|tag| tag.starts_with("release-7-")), "{tags:?}");

    // A staged release has one, too, and nodes find it.
    place.write_site(3);
    place.json(&["push", "--stage-only", &store, &place.text("public")]);
    assert!(registry.tags().iter().any(|tag| tag.starts_with("release-8-")), "{:?}", registry.tags());
    let document = registry.document("live");
    assert_eq!((&document["current"]["serial"], &document["staged"]["serial"]), (&7.into(), &8.into()));
    let node = place.text("node");
    let output = place.run(&["follow", &store, "--into", &node, "--once", "--unsigned"]);
    assert!(output.status.success() && place.path("node/8.cdb").exists(), "{}", stderr(&output));
    assert_eq!(place.current("node"), "7.cdb");

    // Another publisher was faster.
    place.write_site(4);
    let old = registry.registry.lock().unwrap().manifests["live"].clone();
    let mut push = place.command(&["push", &store, &place.text("public"), "--settle-nodes", "2000"]);
    let push = push.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the release is staged", || registry.registry.lock().unwrap().manifests["live"] != old);
    registry.registry.lock().unwrap().manifests.insert("live".to_owned(), old);
    let output = push.wait_with_output().unwrap();
    assert!(
        !output.status.success() && stderr(&output).contains("by another publisher"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn messages_say_whose_fault_a_strange_response_is() {
    let place = Place::new();
    let folder = format!("file://{}", place.text("store"));
    push(&place, &folder, 1);
    let node = place.text("node");
    let follow = |store: &str| {
        let output = place.run(&["follow", store, "--into", &node, "--once", "--unsigned"]);
        assert_eq!(output.status.code(), Some(1), "{store}");
        stderr(&output)
    };
    let (root, mode) = (place.path("store"), Arc::new(AtomicUsize::new(0)));
    let now = Arc::clone(&mode);
    let host = serve(move |asked| {
        let content = fs::read(root.join(asked.target.trim_start_matches('/'))).unwrap();
        let is_range = asked.fields.contains_key("range");
        match now.load(Ordering::Relaxed) {
            0 if is_range => empty(416),
            1 if is_range => {
                (206, vec![("Content-Range", "bytes 999999-1000000/1000001".to_owned())], vec![0; 2])
            }
            2 if is_range => (206, Vec::new(), content),
            3 => (204, Vec::new(), Vec::new()),
            _ => ranged(asked, &content),
        }
    });
    let url = format!("http://{host}/");
    for (number, words) in [
        (0, "has only a part of this file"),
        (1, "turn off what changes its responses to range requests"),
        (2, "turn off what changes its responses to range requests"),
        (3, "check that the address is that of a store"),
    ] {
        mode.store(number, Ordering::Relaxed);
        let text = follow(&url);
        assert!(text.contains(words) && text.contains("at fault") == (number > 0), "{text}");
    }

    // Later versions of the program, or other files.
    let newer = "{\"cannery\": 2, \"releases\": []}";
    fs::write(place.path("store/live.json"), newer).unwrap();
    mode.store(9, Ordering::Relaxed);
    for store in [&folder, &url] {
        let text = follow(store);
        assert!(text.contains("has version 2") && text.contains("update Cannery here"), "{text}");
    }
    fs::write(place.path("store/live.json"), "[]").unwrap();
    assert!(follow(&folder).contains("check the address"));

    let registry = PlainRegistry::start(None);
    push(&place, &registry.store(), 1);
    let config = format!("sha256:{}", sha256(newer.as_bytes()));
    {
        let mut registry = registry.registry.lock().unwrap();
        let mut manifest: Value = serde_json::from_slice(&registry.manifests["live"]).unwrap();
        manifest["config"]["digest"] = config.clone().into();
        manifest["config"]["size"] = newer.len().into();
        registry.manifests.insert("live".to_owned(), manifest.to_string().into_bytes());
        registry.blobs.insert(config, newer.into());
    }
    let text = follow(&registry.store());
    assert!(text.contains("has version 2") && text.contains("update Cannery here"), "{text}");
    assert!(!text.contains("another repository or tag"), "{text}");
}

/// The second of two stores takes files, and doesn't let its list of releases be replaced.
#[test]
fn store_that_fails_to_switch_is_named_and_can_catch_up() {
    let place = Place::new();
    let is_blocked = Arc::new(AtomicBool::new(false));
    let (root, blocked) = (place.path("second"), Arc::clone(&is_blocked));
    fs::create_dir_all(root.join("blobs/sha256")).unwrap();
    let host = serve(move |asked| {
        let path = root.join(asked.target.trim_start_matches('/'));
        match asked.method.as_str() {
            "PUT" if path.ends_with("live.json") && blocked.load(Ordering::Relaxed) => empty(403),
            "PUT" => {
                fs::write(path, &asked.body).unwrap();
                empty(201)
            }
            "DELETE" => empty(204),
            _ => fs::read(path).map_or(empty(404), |content| ranged(asked, &content)),
        }
    });
    let (first, second) = (format!("file://{}", place.text("first")), format!("http://{host}/"));
    let site = place.text("public");
    let currents = || {
        ["first", "second"].map(|store| {
            let bytes = fs::read(place.path(store).join("live.json")).unwrap();
            serde_json::from_slice::<Value>(&bytes).unwrap()["current"]["serial"].as_u64().unwrap()
        })
    };
    for number in [1, 2] {
        place.write_site(number);
        place.json(&["push", &first, &second, &site]);
    }
    assert_eq!(currents(), [2, 2]);

    is_blocked.store(true, Ordering::Relaxed);
    place.write_site(3);
    let output = place.run(&["push", &first, &second, &site]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("{second}: failed: {second}live.json answers 403")), "{text}");
    let summary = format!(
        "1 of 2 targets failed, so the targets named above were left as they were; activated: {first}"
    );
    assert!(text.contains(&summary), "{text}");
    let results = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        results.contains("release 3 is current, instead of release 2") && !results.contains(&second),
        "{results}"
    );
    assert_eq!(currents(), [3, 2]);

    // Staging fails before any store has switched.
    place.write_site(4);
    let output = place.run(&["push", &first, &second, &site, "--settle-nodes", "1"]);
    assert!(stderr(&output).contains("no target was switched to the release"), "{}", stderr(&output));
    assert_eq!(currents(), [3, 2]);
    // One store is enough, if the user says so.
    let json = place.json(&["push", "--quorum", "1", &first, &second, &site]);
    assert!(json["targets"][0]["activated"] == true && json["targets"][1]["error"].is_object(), "{json}");
    assert_eq!(currents(), [4, 2]);

    let rollback = ["rollback", &first, &second];
    let output = place.run(&rollback);
    let text = stderr(&output);
    assert!(
        output.status.code() == Some(1) && text.contains(&format!("{second}: {second}live.json answers 403")),
        "{text}"
    );
    assert_eq!(currents(), [3, 2]);
    is_blocked.store(false, Ordering::Relaxed);
    place.json(&["push", &first, &second, &site]);
    assert_eq!(currents(), [4, 4]);

    for wrong in [vec!["push", "--quorum", "3", &first, &second, &site], vec!["push", &first, &first, &site]]
    {
        assert_eq!(place.run(&wrong).status.code(), Some(2), "{wrong:?}");
    }
    // A store that can't be read at all doesn't hide the other one.
    let status = place.run(&["status", &first, "http://127.0.0.1:1/"]);
    let results = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.status.code() == Some(1) && results.contains("release 4"), "{results}");
}

/// A rule of the store removes what was uploaded, before nodes are told to pull it.
#[test]
fn release_whose_files_were_lost_does_not_become_current() {
    let place = Place::new();
    let root = place.path("web");
    fs::create_dir_all(root.join("blobs/sha256")).unwrap();
    let host = serve(move |asked| {
        let path = root.join(asked.target.trim_start_matches('/'));
        match asked.method.as_str() {
            "PUT" => {
                fs::write(path, &asked.body).unwrap();
                empty(201)
            }
            "DELETE" => empty(204),
            _ => fs::read(path).map_or(empty(404), |content| ranged(asked, &content)),
        }
    });
    let registry = PlainRegistry::start(None);
    // The server may be writing it.
    let of_web =
        || serde_json::from_slice(&fs::read(place.path("web/live.json")).unwrap()).unwrap_or_default();
    let of_registry = || registry.document("live");
    let lose_in_web = |digest: &str| fs::remove_file(place.path("web/blobs/sha256").join(digest)).unwrap();
    let lose_in_registry = |digest: &str| {
        registry.registry.lock().unwrap().blobs.remove(&format!("sha256:{digest}")).unwrap();
    };
    check_loss(&place, &format!("http://{host}/"), &of_web, &lose_in_web);
    check_loss(&place, &registry.store(), &of_registry, &lose_in_registry);
}

/// Publishes into a store that loses a file. `document` returns what the store says about its releases.
fn check_loss(place: &Place, store: &str, document: &dyn Fn() -> Value, lose: &dyn Fn(&str)) {
    push(place, store, 1);
    place.write_site(2);
    let site = place.text("public");
    let mut push = place.command(&["push", store, &site, "--settle-nodes", "2000"]);
    let push = push.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the release is staged", || document()["staged"].is_object());
    let archive = document()["staged"]["archive"]["digest"].as_str().unwrap().to_owned();
    lose(archive.trim_start_matches("sha256:"));
    let output = push.wait_with_output().unwrap();
    let text = stderr(&output);
    assert!(output.status.code() == Some(1) && text.contains("the store has lost sha256:"), "{text}");
    assert!(text.contains("of release 2") && text.contains("push that release again"), "{text}");
    assert_eq!(document()["current"]["serial"], 1, "{store}");

    let pushed = place.json(&["push", store, &site]);
    assert_eq!(pushed["targets"][0]["activated"], true, "{pushed}");
    assert_eq!(document()["current"]["serial"], 2, "{store}");
}
