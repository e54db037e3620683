//! Stores that answer in unusual ways: without ranges, with redirects, and with tokens that expire.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::push::Place;

/// A request to a store of a test.
struct Asked {
    method: String,
    target: String,
    /// Names are in lower case.
    fields: HashMap<String, String>,
    body: Vec<u8>,
}

/// Status, fields and content of a response.
type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// Starts a server, one request for each connection, and returns its host and port.
fn serve(handler: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> String {
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

fn empty(status: u16) -> Answer {
    (status, Vec::new(), Vec::new())
}

/// Answers with a part of a content, if the request asks for one.
fn ranged(asked: &Asked, content: &[u8]) -> Answer {
    let range = asked.fields.get("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((first, last)) = range else { return (200, Vec::new(), content.to_vec()) };
    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().expect("the range is closed"));
    let field = format!("bytes {first}-{last}/{}", content.len());
    (206, vec![("Content-Range", field)], content[first..=last].to_vec())
}

fn stderr(output: &Output) -> String {
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
