//! Passwords: nginx and Caddy in front of the server, with the page's configurations.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::block;
use crate::harness::{Server, compile, pages, skip_outside, write_folder};
use crate::program::Program;

const PAGE: &str = "docs/passwords.md";

/// The server of a site with an internal part, and the program that answers `/api/`.
struct Origins {
    folder: tempfile::TempDir,
    site: Server,
    api: Server,
}

impl Origins {
    fn start() -> Origins {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("site");
        let files = [("index.html", "home"), ("internal.html", "inside"), ("internal/index.html", "inside")];
        write_folder(&source, &pages(&files));
        let headers = block(PAGE, "Cache-Control: private, no-cache\n");
        write_folder(&source, &[(b"_headers", headers.as_bytes())]);
        let archive = folder.path().join("site.cdb");
        compile(&source, &archive, &["--strict"]);
        // The page's command, with the paths and the address of this test.
        let command = replace(&block(PAGE, "--bind 127.0.0.1:8080"), "\\\n", "");
        let command = replace(&command, "/srv/site.cdb", archive.to_str().unwrap());
        let command = replace(&command, "/var/log/cannery", folder.path().to_str().unwrap());
        let command = replace(&command, "--bind 127.0.0.1:8080", "");
        let (program, flags) = command.split_once(' ').unwrap();
        assert_eq!(program, "cannery-server");
        let site = Server::start(&flags.split_whitespace().collect::<Vec<_>>());
        Origins { folder, site, api: Server::start(&["--dummy"]) }
    }

    fn place(&self) -> &Path {
        self.folder.path()
    }

    fn path(&self, name: &str) -> String {
        self.place().join(name).to_str().unwrap().to_owned()
    }
}

/// Replaces words of a configuration that are there exactly once, or at least.
fn replace(text: &str, words: &str, others: &str) -> String {
    assert!(text.contains(words), "no {words:?} in {text}");
    text.replace(words, others)
}

/// Requests a target through a proxy, as it is written, with this password if it isn't empty. Returns the status and the content.
fn fetch(origin: &str, target: &str, password: &str) -> (String, String) {
    let mut curl = Command::new("curl");
    curl.args(["-sSk", "--path-as-is", "-w", "\n%{http_code}", &format!("{origin}{target}")]);
    if !password.is_empty() {
        curl.args(["-u", &format!("alice:{password}")]);
    }
    let output = curl.output().unwrap();
    assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

fn status(origin: &str, target: &str, password: &str) -> String {
    fetch(origin, target, password).0
}

/// Starts nginx with the page's file, whose `location /` may be replaced.
fn nginx(origins: &Origins, change: impl FnOnce(String) -> String) -> Program {
    let certificate = origins.path("cert.pem");
    let key = origins.path("key.pem");
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    openssl.args(["-subj", "/CN=example.com", "-keyout", &key, "-out", &certificate]);
    assert!(openssl.stderr(Stdio::null()).status().unwrap().success());

    // The page's command asks for the password twice.
    let made = block(PAGE, "openssl passwd").replace("passwd -6", "passwd -6 right");
    let passwords = origins.path("passwords");
    let made = replace(&made, "/etc/nginx/passwords", &passwords);
    assert!(Command::new("sh").args(["-ec", &made]).status().unwrap().success());

    let mut text = change(block(PAGE, "limit_req_zone"));
    text = replace(&text, "server 127.0.0.1:8080;", &format!("server {};", origins.site.address));
    text = replace(&text, "http://127.0.0.1:3000", &format!("http://{}", origins.api.address));
    text = replace(&text, "/etc/nginx/passwords", &passwords);
    text = replace(&text, "/etc/nginx/tls/cert.pem", &certificate);
    text = replace(&text, "/etc/nginx/tls/key.pem", &key);
    Program::start("nginx", "nginx", |address| {
        let text = replace(&text, "listen 443 ssl;", &format!("listen {address} ssl;"));
        let folder = origins.place().display();
        let text = format!(
            "daemon off;\nmaster_process off;\npid {folder}/pid;\nevents {{ }}\nhttp {{\naccess_log off;\n\
             client_body_temp_path {folder}/client;\nproxy_temp_path {folder}/proxy;\n\
             fastcgi_temp_path {folder}/fastcgi;\nuwsgi_temp_path {folder}/uwsgi;\nscgi_temp_path {folder}/scgi;\n\
             {text}\n}}\n"
        );
        fs::write(origins.path("nginx.conf"), text).unwrap();
        ["-e", &origins.path("errors"), "-c", &origins.path("nginx.conf")].map(str::to_owned).to_vec()
    })
}

#[test]
fn nginx_asks_for_a_password() {
    if skip_outside() {
        return;
    }
    let origins = Origins::start();
    let proxy = nginx(&origins, |text| text);
    let origin = format!("https://{}", proxy.address);
    for (target, password, expected) in
        [("/", "", "401"), ("/", "wrong", "401"), ("/", "right", "200"), ("/missing", "right", "404")]
    {
        assert_eq!(status(&origin, target, password), expected, "{target} with {password:?}");
    }
    assert_eq!(fetch(&origin, "/", "right").1, "home");
    assert_eq!(fetch(&origin, "/api/x", "").1, "hello world!\n");
}

#[test]
fn nginx_protects_a_part() {
    if skip_outside() {
        return;
    }
    let origins = Origins::start();
    let proxy = nginx(&origins, |text| {
        let (before, rest) = text.split_once("    location / {").unwrap();
        let (_, after) = rest.split_once("    }\n").unwrap();
        format!("{before}{}{after}", block(PAGE, "location ^~ /internal"))
    });

    let origin = format!("https://{}", proxy.address);
    assert_eq!(fetch(&origin, "/", "").1, "home");
    for target in [
        "/internal",
        "/internal/",
        "/internal.html",
        "/%69nternal/",
        "//internal/",
        "/x/../internal/",
        "/./internal/index.html",
    ] {
        assert_eq!(status(&origin, target, ""), "401", "{target}");
        assert_ne!(status(&origin, target, "right"), "401", "{target}");
    }

    assert_eq!(fetch(&origin, "/internal/", "right").1, "inside");
    // No shared cache may store it.
    assert_eq!(origins.site.get("/internal/").field("Cache-Control"), Some("private, no-cache"));
}

#[test]
fn caddy_asks_for_a_password() {
    if skip_outside() {
        return;
    }
    let origins = Origins::start();
    let mut caddy = Command::new("caddy");
    let hash = caddy.args(["hash-password", "--plaintext", "right"]).output().unwrap();
    assert!(hash.status.success(), "{}", String::from_utf8_lossy(&hash.stderr));

    let mut text = block(PAGE, "reverse_proxy");
    text = replace(&text, "HASH", String::from_utf8(hash.stdout).unwrap().trim());
    text = replace(&text, "127.0.0.1:8080", &origins.site.address);
    text = replace(&text, "127.0.0.1:3000", &origins.api.address);
    let version = Command::new("caddy").arg("version").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    if (0..8).any(|minor| version.trim_start_matches('v').starts_with(&format!("2.{minor}."))) {
        text = replace(&text, "basic_auth", "basicauth");
    }

    let proxy = Program::start("Caddy", "env", |address| {
        let text = replace(&text, "example.com {", &format!("http://{address} {{"));
        let path = origins.path("Caddyfile");
        fs::write(&path, format!("{{\nadmin off\n}}\n{text}")).unwrap();
        let home = origins.place().display();
        let command = format!(
            "HOME={home} XDG_CONFIG_HOME={home} XDG_DATA_HOME={home} caddy run --adapter caddyfile --config"
        );
        command.split(' ').map(str::to_owned).chain([path]).collect()
    });

    let origin = format!("http://{}", proxy.address);
    for (target, password, expected) in [("/", "", "401"), ("/", "wrong", "401"), ("/", "right", "200")] {
        assert_eq!(status(&origin, target, password), expected, "{target} with {password:?}");
    }
    assert_eq!(fetch(&origin, "/api/x", "").1, "hello world!\n");
}
