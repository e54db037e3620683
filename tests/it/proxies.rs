//! Caching proxies in front of the server: nginx, nginx that fetches in slices, HAProxy and Varnish. Through each of
//! them come the same bytes as from us, for each client in the coding that it reads.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::gallery::Gallery;
use crate::site::{decode, skip_outside};

/// No proxy takes so long to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running proxy.
pub(crate) struct Proxy {
    child: Child,
    pub(crate) address: String,
    name: &'static str,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    /// Starts a program that listens at a free address, which its arguments and files are made with, and waits until
    /// it does.
    fn start(name: &'static str, program: &str, arguments: impl FnOnce(&str) -> Vec<String>) -> Proxy {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut command = Command::new(program);
        command.args(arguments(&address)).stdout(Stdio::null()).stderr(Stdio::null());
        // Programs for administrators are not on everybody's search path.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}: `cargo xtask test` installs it"));
        let mut proxy = Proxy { child, address, name };
        let began = Instant::now();
        while TcpStream::connect(&proxy.address).is_err() {
            assert!(proxy.child.try_wait().unwrap().is_none(), "{name} ended at once");
            assert!(began.elapsed() < PATIENCE, "{name} never listened");
            std::thread::yield_now();
        }
        proxy
    }

    /// What curl receives from the proxy with these fields: status, fields in lower case, bytes as they were coded.
    fn fetch(&self, target: &str, fields: &[&str]) -> (u16, Vec<(String, String)>, Vec<u8>) {
        let heads = tempfile::NamedTempFile::new().unwrap();
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-D", heads.path().to_str().unwrap(), &format!("http://{}{target}", self.address)]);
        fields.iter().for_each(|field| {
            curl.args(["-H", field]);
        });
        let output = curl.output().unwrap();
        assert!(output.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        let heads = fs::read_to_string(heads.path()).unwrap();
        let (status_line, lines) = heads.trim_end().split_once("\r\n").unwrap();
        let fields = lines.lines().filter_map(|line| line.split_once(": "));
        let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        (status_line.split(' ').nth(1).unwrap().parse().unwrap(), fields, output.stdout)
    }
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn written(place: &Path, name: &str, text: &str) -> String {
    let path = place.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// nginx with a cache; `location` says how it fetches.
fn nginx(gallery: &Gallery, name: &'static str, location: &str) -> Proxy {
    let (place, origin) = (gallery.place(), &gallery.server.address);
    Proxy::start(name, "nginx", |address| {
        let folder = place.join(name);
        fs::create_dir(&folder).unwrap();
        let folder = folder.to_str().unwrap();
        let text = format!(
            "daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/errors;\nevents {{ }}\nhttp {{\n\
             access_log off;\nclient_body_temp_path {folder}/client;\nproxy_temp_path {folder}/proxy;\n\
             fastcgi_temp_path {folder}/fastcgi;\nuwsgi_temp_path {folder}/uwsgi;\nscgi_temp_path {folder}/scgi;\n\
             proxy_cache_path {folder}/cache keys_zone=zone:1m;\nproxy_cache zone;\n\
             upstream origin {{ server {origin}; keepalive 4; }}\nserver {{\nlisten {address};\nlocation / {{\n\
             proxy_pass http://origin;\nproxy_http_version 1.1;\nproxy_set_header Connection \"\";\n\
             proxy_set_header Host $host;\nadd_header X-Cache $upstream_cache_status;\n{location}\n}} }} }}\n"
        );
        vec![
            "-e".into(),
            format!("{folder}/errors"),
            "-c".into(),
            written(place, &format!("{name}.conf"), &text),
        ]
    })
}

fn haproxy(gallery: &Gallery) -> Proxy {
    let (place, origin) = (gallery.place(), &gallery.server.address);
    Proxy::start("HAProxy", "haproxy", |address| {
        let text = format!(
            "defaults\nmode http\ntimeout connect 10s\ntimeout client 10s\ntimeout server 10s\n\
             cache kept\ntotal-max-size 16\nmax-object-size 4000000\nmax-age 600\nprocess-vary on\n\
             frontend front\nbind {address}\nhttp-request cache-use kept\nhttp-response cache-store kept\n\
             default_backend origin\nbackend origin\nserver one {origin}\n"
        );
        vec!["-db".into(), "-f".into(), written(place, "haproxy.cfg", &text)]
    })
}

/// HAProxy without a cache; `how` is how it speaks to the server, and `place` a folder for its configuration.
pub(crate) fn haproxy_in_front_of(origin: &str, how: &str, place: &Path) -> Proxy {
    Proxy::start("HAProxy", "haproxy", |address| {
        let text = format!(
            "defaults\nmode http\ntimeout connect 10s\ntimeout client 10s\ntimeout server 10s\n\
             frontend front\nbind {address}\nunique-id-format %rt\ndefault_backend origin\n\
             backend origin\nserver one {origin} {how}\n"
        );
        vec!["-db".into(), "-f".into(), written(place, "haproxy.cfg", &text)]
    })
}

/// Varnish that keeps what it has for revalidation; `ttl` is a time in VCL.
fn varnish(gallery: &Gallery, name: &'static str, ttl: &str) -> Proxy {
    let (place, origin) = (gallery.place(), &gallery.server.address);
    let (host, port) = origin.split_once(':').unwrap();
    Proxy::start("Varnish", "varnishd", |address| {
        let text = format!(
            "vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; }}\n\
             sub vcl_backend_response {{\nset beresp.ttl = {ttl};\nset beresp.grace = 0s;\nset beresp.keep = 1h;\n\
             return (deliver);\n}}\n"
        );
        let vcl = written(place, &format!("{name}.vcl"), &text);
        let folder = place.join(name).to_str().unwrap().to_owned();
        ["-F", "-j", "none", "-a", address, "-f", &vcl, "-n", &folder, "-s", "malloc,32m"]
            .map(str::to_owned)
            .to_vec()
    })
}

/// Each target in each coding, asked for several times: from the origin at first, from the cache then.
fn the_same_bytes_come_through(gallery: &Gallery, proxy: &Proxy) {
    let mut coded = 0;
    for line in fs::read_to_string(&gallery.list).unwrap().lines() {
        let (target, file) = line.split_once('\t').unwrap();
        let content = fs::read(file).unwrap();
        for _ in 0..2 {
            for accepted in ["gzip", "br", "zstd", "identity"] {
                let (status, fields, body) = proxy.fetch(target, &[&format!("Accept-Encoding: {accepted}")]);
                let told = || format!("{target} in {accepted} through {}: {fields:?}", proxy.name);
                // nginx passes on the answer to the slice that it asked for, and of nothing there is no part.
                if content.is_empty() && status == 416 {
                    assert!(proxy.name == "nginx-slices", "{}", told());
                    continue;
                }
                assert_eq!(status, 200, "{}", told());
                let coding = field(&fields, "content-encoding");
                assert!(coding.is_none_or(|coding| coding == accepted), "{}", told());
                coded += usize::from(coding.is_some());
                assert!(decode(coding, &body) == content, "{}", told());
            }
        }
    }
    // Varnish knows gzip alone, and HAProxy answers from any coding that it has and the client reads.
    assert!(coded >= 8, "{} let {coded} coded answers through", proxy.name);
}

/// Parts of plain and of coded representations, with and without `If-Range`, and conditions.
fn parts_and_conditions_come_through(gallery: &Gallery, proxy: &Proxy) {
    for (target, accepted) in [("/noise.bin", "identity"), ("/big.txt", "gzip"), ("/big.txt", "identity")] {
        let accept = format!("Accept-Encoding: {accepted}");
        let whole = gallery.server.get_coded(target, accepted);
        let content = decode(whole.field("Content-Encoding"), &whole.body);
        let length = whole.body.len();
        let tag = whole.field("ETag").unwrap();
        for (first, last) in [(0, 0), (10, 4000), (length / 3, length - 2), (length - 5, length - 1)] {
            for condition in ["X-Nothing: nothing".to_owned(), format!("If-Range: {tag}")] {
                let range = format!("Range: bytes={first}-{last}");
                let (status, fields, body) = proxy.fetch(target, &[&accept, &range, &condition]);
                let told = || {
                    format!("{range} of {target} in {accepted} through {}: {status} {fields:?}", proxy.name)
                };
                // Varnish decodes what it has in gzip for who does not read it, and says so by a weak tag.
                let is_ours = field(&fields, "etag") == Some(tag);
                assert!(is_ours || proxy.name == "Varnish", "{}", told());
                let expected = if is_ours { &whole.body } else { &content };
                match status {
                    206 => assert!(body == expected[first..=last], "{}", told()),
                    200 => assert!(body == *expected, "{}", told()),
                    other => panic!("{other}: {}", told()),
                }
            }
        }
        let (_, fields, _) = proxy.fetch(target, &[&accept]);
        let condition = format!("If-None-Match: {}", field(&fields, "etag").unwrap());
        let (status, _, body) = proxy.fetch(target, &[&accept, &condition]);
        assert_eq!((status, body.len()), (304, 0), "{target} in {accepted} through {}", proxy.name);
    }
}

fn check(gallery: &Gallery, proxy: &Proxy) {
    the_same_bytes_come_through(gallery, proxy);
    parts_and_conditions_come_through(gallery, proxy);
}

#[test]
fn nginx_caches_for_each_client_its_own() {
    if skip_outside() {
        return;
    }
    let gallery = Gallery::open();
    let proxy = nginx(&gallery, "nginx", "proxy_cache_revalidate on;");
    check(&gallery, &proxy);
    let (_, fields, _) = proxy.fetch("/noise.bin", &["Accept-Encoding: identity"]);
    assert_eq!(field(&fields, "x-cache"), Some("HIT"));
}

#[test]
fn nginx_puts_slices_together() {
    if skip_outside() {
        return;
    }
    let gallery = Gallery::open();
    let slices = "slice 64k;\nproxy_cache_key $uri$slice_range;\nproxy_set_header Range $slice_range;\n\
                  proxy_cache_valid 200 206 1h;";
    let proxy = nginx(&gallery, "nginx-slices", slices);
    check(&gallery, &proxy);
    assert!(gallery.answers(206) > 20, "it asked for slices");
}

#[test]
fn haproxy_caches_for_each_client_its_own() {
    if skip_outside() {
        return;
    }
    let gallery = Gallery::open();
    check(&gallery, &haproxy(&gallery));
}

#[test]
fn varnish_caches_and_asks_only_for_what_is_new() {
    if skip_outside() {
        return;
    }
    let gallery = Gallery::open();
    check(&gallery, &varnish(&gallery, "caching", "1h"));
    assert_eq!(gallery.answers(304), 0, "what is fresh is not asked for");
    // What is stale before the next request can be made is asked for with its tag, and not sent again.
    the_same_bytes_come_through(&gallery, &varnish(&gallery, "revalidating", "1ms"));
    assert!(gallery.answers(304) > 20, "only {} answers without bytes", gallery.answers(304));
}
