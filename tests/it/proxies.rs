//! Caching proxies before the server: nginx, nginx with slices, HAProxy and Varnish.
//!
//! Each proxy must deliver the same content as the server, in a coding that the client accepts.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::fixture_site::FixtureSite;
use crate::harness::{decode, skip_outside};
use crate::program::Program;

impl Program {
    /// Sends a request with these fields by curl. Returns the status, the fields in lower case, and the coded content.
    fn fetch(&self, target: &str, fields: &[&str]) -> (u16, Vec<(String, String)>, Vec<u8>) {
        let heads = tempfile::NamedTempFile::new().unwrap();
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-D", heads.path().to_str().unwrap(), &format!("http://{}{target}", self.address)]);
        for field in fields {
            curl.args(["-H", field]);
        }
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

fn write(place: &Path, name: &str, text: &str) -> String {
    let path = place.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Starts nginx with a cache. `location` configures how it sends requests to the server.
fn nginx(site: &FixtureSite, name: &'static str, location: &str) -> Program {
    let place = site.place();
    let origin = &site.server.address;
    Program::start(name, "nginx", |address| {
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
            write(place, &format!("{name}.conf"), &text),
        ]
    })
}

fn haproxy(site: &FixtureSite) -> Program {
    let place = site.place();
    let origin = &site.server.address;
    Program::start("HAProxy", "haproxy", |address| {
        let text = format!(
            "defaults\nmode http\ntimeout connect 10s\ntimeout client 10s\ntimeout server 10s\n\
             cache kept\ntotal-max-size 16\nmax-object-size 4000000\nmax-age 600\nprocess-vary on\n\
             frontend front\nbind {address}\nhttp-request cache-use kept\nhttp-response cache-store kept\n\
             default_backend origin\nbackend origin\nserver one {origin}\n"
        );
        vec!["-db".into(), "-f".into(), write(place, "haproxy.cfg", &text)]
    })
}

/// Starts HAProxy without a cache. `how` are options of its connection to the server, `place` is a directory for its
/// configuration.
pub(crate) fn haproxy_in_front_of(origin: &str, how: &str, place: &Path) -> Program {
    Program::start("HAProxy", "haproxy", |address| {
        let text = format!(
            "defaults\nmode http\ntimeout connect 10s\ntimeout client 10s\ntimeout server 10s\n\
             frontend front\nbind {address}\nunique-id-format %rt\ndefault_backend origin\n\
             backend origin\nserver one {origin} {how}\n"
        );
        vec!["-db".into(), "-f".into(), write(place, "haproxy.cfg", &text)]
    })
}

/// Starts HAProxy without a cache, in front of several servers that it asks in turn.
pub(crate) fn haproxy_in_turn(origins: &[String], place: &Path) -> Program {
    Program::start("HAProxy", "haproxy", |address| {
        let mut text = format!(
            "defaults\nmode http\ntimeout connect 10s\ntimeout client 10s\ntimeout server 10s\n\
             frontend front\nbind {address}\ndefault_backend origins\nbackend origins\nbalance roundrobin\n"
        );
        for origin in origins {
            text.push_str(&format!("server s{} {origin}\n", origin.replace([':', '.'], "-")));
        }
        vec!["-db".into(), "-f".into(), write(place, "haproxy.cfg", &text)]
    })
}

/// Starts Varnish, which caches as responses say, in front of several servers that it asks in turn.
pub(crate) fn varnish_in_turn(origins: &[String], place: &Path) -> Program {
    Program::start("Varnish", "varnishd", |address| {
        let (mut backends, mut members) = (String::new(), String::new());
        for (number, origin) in origins.iter().enumerate() {
            let (host, port) = origin.split_once(':').unwrap();
            backends.push_str(&format!("backend s{number} {{ .host = \"{host}\"; .port = \"{port}\"; }}\n"));
            members.push_str(&format!("origins.add_backend(s{number});\n"));
        }
        let text = format!(
            "vcl 4.1;\nimport directors;\n{backends}\
             sub vcl_init {{\nnew origins = directors.round_robin();\n{members}}}\n\
             sub vcl_recv {{ set req.backend_hint = origins.backend(); }}\n"
        );
        let vcl = write(place, "in-turn.vcl", &text);
        let folder = place.join("in-turn").to_str().unwrap().to_owned();
        ["-F", "-j", "none", "-a", address, "-f", &vcl, "-n", &folder, "-s", "malloc,32m"]
            .map(str::to_owned)
            .to_vec()
    })
}

/// Starts Varnish, which revalidates stale responses. `ttl` is a duration in VCL.
fn varnish(site: &FixtureSite, name: &'static str, ttl: &str) -> Program {
    let place = site.place();
    let origin = &site.server.address;
    let (host, port) = origin.split_once(':').unwrap();
    Program::start("Varnish", "varnishd", |address| {
        let text = format!(
            "vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; }}\n\
             sub vcl_backend_response {{\nset beresp.ttl = {ttl};\nset beresp.grace = 0s;\nset beresp.keep = 1h;\n\
             return (deliver);\n}}\n"
        );
        let vcl = write(place, &format!("{name}.vcl"), &text);
        let folder = place.join(name).to_str().unwrap().to_owned();
        ["-F", "-j", "none", "-a", address, "-f", &vcl, "-n", &folder, "-s", "malloc,32m"]
            .map(str::to_owned)
            .to_vec()
    })
}

/// Requests each target in each coding twice: the first time from the server, then from the cache.
fn assert_same_content(site: &FixtureSite, proxy: &Program) {
    let mut coded = 0;

    for line in fs::read_to_string(&site.list).unwrap().lines() {
        let (target, file) = line.split_once('\t').unwrap();
        let content = fs::read(file).unwrap();
        for _ in 0..2 {
            for accepted in ["gzip", "br", "zstd", "identity"] {
                let (status, fields, body) = proxy.fetch(target, &[&format!("Accept-Encoding: {accepted}")]);
                let context = || format!("{target} in {accepted} through {}: {fields:?}", proxy.name);

                // nginx forwards the response to its first slice, and empty content has no slices.
                if content.is_empty() && status == 416 {
                    assert!(proxy.name == "nginx-slices", "{}", context());
                    continue;
                }

                assert_eq!(status, 200, "{}", context());
                let coding = field(&fields, "content-encoding");
                assert!(coding.is_none_or(|coding| coding == accepted), "{}", context());
                coded += usize::from(coding.is_some());
                assert!(decode(coding, &body) == content, "{}", context());
            }
        }
    }

    // Varnish stores only gzip, and HAProxy sends any stored coding that the client accepts.
    assert!(coded >= 8, "{} sent {coded} coded responses", proxy.name);
}

/// Requests ranges of identity and coded representations, with and without `If-Range`, and with conditions.
fn assert_ranges_and_conditions(site: &FixtureSite, proxy: &Program) {
    for (target, accepted) in [("/noise.bin", "identity"), ("/big.txt", "gzip"), ("/big.txt", "identity")] {
        let accept = format!("Accept-Encoding: {accepted}");

        let whole = site.server.get_with_coding(target, accepted);
        let content = decode(whole.field("Content-Encoding"), &whole.body);
        let length = whole.body.len();
        let tag = whole.field("ETag").unwrap();

        for (first, last) in [(0, 0), (10, 4000), (length / 3, length - 2), (length - 5, length - 1)] {
            for condition in ["X-Nothing: nothing".to_owned(), format!("If-Range: {tag}")] {
                let range = format!("Range: bytes={first}-{last}");
                let (status, fields, body) = proxy.fetch(target, &[&accept, &range, &condition]);
                let context = || {
                    format!("{range} of {target} in {accepted} through {}: {status} {fields:?}", proxy.name)
                };
                // Varnish decodes gzip for clients without it, and weakens the entity tag.
                let is_unchanged = field(&fields, "etag") == Some(tag);
                assert!(is_unchanged || proxy.name == "Varnish", "{}", context());
                let expected = if is_unchanged { &whole.body } else { &content };
                match status {
                    206 => assert!(body == expected[first..=last], "{}", context()),
                    200 => assert!(body == *expected, "{}", context()),
                    other => panic!("{other}: {}", context()),
                }
            }
        }

        let (_, fields, _) = proxy.fetch(target, &[&accept]);
        let condition = format!("If-None-Match: {}", field(&fields, "etag").unwrap());
        let (status, _, body) = proxy.fetch(target, &[&accept, &condition]);
        assert_eq!((status, body.len()), (304, 0), "{target} in {accepted} through {}", proxy.name);
    }
}

fn check(site: &FixtureSite, proxy: &Program) {
    assert_same_content(site, proxy);
    assert_ranges_and_conditions(site, proxy);
}

#[test]
fn nginx_caches_each_coding() {
    if skip_outside() {
        return;
    }
    let site = FixtureSite::serve();
    let proxy = nginx(&site, "nginx", "proxy_cache_revalidate on;");
    check(&site, &proxy);
    let (_, fields, _) = proxy.fetch("/noise.bin", &["Accept-Encoding: identity"]);
    assert_eq!(field(&fields, "x-cache"), Some("HIT"));
}

#[test]
fn nginx_combines_slices() {
    if skip_outside() {
        return;
    }
    let site = FixtureSite::serve();
    let slices = "slice 64k;\nproxy_cache_key $uri$slice_range;\nproxy_set_header Range $slice_range;\n\
                  proxy_cache_valid 200 206 1h;";
    let proxy = nginx(&site, "nginx-slices", slices);
    check(&site, &proxy);
    assert!(site.responses(206) > 20, "nginx requested too few slices");
}

#[test]
fn haproxy_caches_each_coding() {
    if skip_outside() {
        return;
    }
    let site = FixtureSite::serve();
    check(&site, &haproxy(&site));
}

#[test]
fn varnish_caches_and_revalidates() {
    if skip_outside() {
        return;
    }
    let site = FixtureSite::serve();
    check(&site, &varnish(&site, "caching", "1h"));
    assert_eq!(site.responses(304), 0, "Varnish revalidated a fresh response");
    // With this lifetime, each response is stale at the next request.
    assert_same_content(&site, &varnish(&site, "revalidating", "1ms"));
    assert!(site.responses(304) > 20, "only {} revalidations", site.responses(304));
}
