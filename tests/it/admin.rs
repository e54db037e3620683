//! The admin listener: metrics, statistics, health, and the admin page.

use std::io::Write;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::authority::Authority;
use crate::harness::{
    QUIC_FLAGS, Server, TLS_FLAGS, compile, pages, request_at, skip_outside, wait_until, write_folder,
};

/// Starts a server with an admin listener. Returns its directory, the server, and the address of the listener.
fn serve() -> (tempfile::TempDir, Server, String) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    std::fs::create_dir(&source).unwrap();
    write_folder(
        &source,
        &pages(&[("index.html", "page"), ("a.txt", "content"), ("_redirects", "/old /a.txt 301\n")]),
    );
    let archive = folder.path().join("site.cdb");
    compile(&source, &archive, &[]);
    let server = Server::start(&["--archive", archive.to_str().unwrap(), "--admin", "127.0.0.1:0"]);
    let admin = server.read_admin_address();
    (folder, server, admin)
}

fn text(admin: &str, target: &str) -> String {
    let response = request_at(admin, "GET", target, "");
    assert_eq!(response.status, 200, "{target}");
    assert_eq!(response.field("Cache-Control"), Some("no-store"));
    String::from_utf8(response.body).unwrap()
}

/// Returns the value of a metric, which is the rest of its line.
fn metric(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{metrics}")).parse().unwrap()
}

#[test]
fn responses_are_counted() {
    let (_folder, server, admin) = serve();
    for target in ["/", "/a.txt", "/a.txt", "/old", "/nothing", "/nothing?x", "/other"] {
        server.get(target);
    }
    server.request("HEAD", "/", "");
    server.request("GET", "/", "If-None-Match: *\r\n");
    server.request("GET", "/a.txt", "Range: bytes=0-1\r\n");
    server.raw(b"GET / HTTP/1.1\r\n\r\n");

    let metrics = text(&admin, "/metrics");
    for (name, expected) in [
        ("cannery_responses_total{status=\"200\"}", 4.0),
        ("cannery_responses_total{status=\"206\"}", 1.0),
        ("cannery_responses_total{status=\"301\"}", 1.0),
        ("cannery_responses_total{status=\"304\"}", 1.0),
        ("cannery_responses_total{status=\"400\"}", 1.0),
        ("cannery_responses_total{status=\"404\"}", 3.0),
        ("cannery_requests_total{method=\"GET\"}", 9.0),
        ("cannery_requests_total{method=\"HEAD\"}", 1.0),
        ("cannery_requests_refused_total{reason=\"host\"}", 1.0),
        ("cannery_connections_accepted_total", 11.0),
        ("cannery_ready", 1.0),
    ] {
        assert_eq!(metric(&metrics, name), expected, "{name}\n{metrics}");
    }

    // The duration is counted after the response is sent, for the last one perhaps a moment later.
    assert!(metric(&metrics, "cannery_request_duration_seconds_count") >= 9.0, "{metrics}");
    let stats: serde_json::Value = serde_json::from_str(&text(&admin, "/stats.json")).unwrap();
    assert_eq!(stats["missing"][0]["path"], "/nothing");
    assert_eq!(stats["missing"][0]["count"], 2);
    assert_eq!(stats["classes"]["4xx"], 4);
}

#[test]
fn metrics_distinguish_how_connections_end() {
    let (_folder, server, admin) = serve();
    let ended = |how: &str| {
        metric(&text(&admin, "/metrics"), &format!("cannery_connections_ended_total{{how=\"{how}\"}}"))
    };
    for _ in 0..5 {
        server.get("/a.txt");
    }
    drop(server.connect());
    wait_until("all connections are closed in order", || ended("in_order") == 6.0);
    let mut stream = server.connect();
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    wait_until("a response arrives", || stream.peek(&mut [0; 1]).is_ok_and(|bytes| bytes == 1));
    // The kernel resets a connection that is closed with unread bytes.
    drop(stream);
    wait_until("one connection is broken", || ended("broken") == 1.0);
    assert_eq!(ended("in_order"), 6.0);
}

#[test]
fn facts_name_the_release() {
    let (folder, _server, admin) = serve();
    let facts: serde_json::Value = serde_json::from_str(&text(&admin, "/facts.json")).unwrap();
    let archive = folder.path().join("site.cdb");
    let inspected = crate::harness::run("cannery", &["inspect", "--json", archive.to_str().unwrap()]);
    let inspected: serde_json::Value = serde_json::from_slice(&inspected.stdout).unwrap();
    assert_eq!(facts["sites"][0]["current"]["digest"], inspected["digest"]);
    assert_eq!(facts["sites"][0]["previous"], serde_json::Value::Null);
    assert_eq!(facts["threads"], 2);
    assert_eq!(facts["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn reloads_are_counted_by_outcome() {
    let (folder, server, admin) = serve();
    let archive = folder.path().join("site.cdb");
    write_folder(&folder.path().join("site"), &pages(&[("b.txt", "more")]));
    compile(&folder.path().join("site"), &archive, &[]);
    server.await_line("serves a new release");
    std::fs::write(folder.path().join("next"), "no archive").unwrap();
    std::fs::rename(folder.path().join("next"), &archive).unwrap();
    server.await_line("still served");
    let metrics = text(&admin, "/metrics");
    assert_eq!(metric(&metrics, "cannery_reloads_total{outcome=\"served\"}"), 1.0);
    assert_eq!(metric(&metrics, "cannery_reloads_total{outcome=\"refused\"}"), 1.0);
    let stats: serde_json::Value = serde_json::from_str(&text(&admin, "/stats.json")).unwrap();
    let current = &stats["sites"][0]["current"];
    let previous = &stats["sites"][0]["previous"];
    assert!(
        current["digest"] != previous["digest"] && previous["paths"].as_u64() < current["paths"].as_u64()
    );
}

#[test]
fn admin_pages_are_on_the_admin_listener_only() {
    let (_folder, server, admin) = serve();
    for target in ["/metrics", "/stats.json", "/ready"] {
        assert_eq!(server.get(target).status, 404, "{target}");
    }
    assert_eq!(request_at(&admin, "GET", "/health", "").body, b"alive\n");
    assert_eq!(request_at(&admin, "GET", "/ready", "").body, b"ready\n");
    assert_eq!(request_at(&admin, "POST", "/metrics", "").status, 405);
    assert_eq!(request_at(&admin, "GET", "/nothing", "").status, 404);
    assert_eq!(request_at(&admin, "GET", "/metrics", "Host: rebound.example.com\r\n").status, 421);
    assert_eq!(request_at(&admin, "GET", "/metrics", "Host: localhost:9\r\n").status, 200);
    assert_eq!(request_at(&admin, "HEAD", "/metrics", "").body, b"");
}

#[test]
fn admin_host_allows_further_names() {
    let flags =
        ["--dummy", "--admin", "127.0.0.1:0", "--admin-host", "cannery", "--admin-host", "*.internal"];
    for processes in [&[][..], &["--processes", "1"]] {
        let server = Server::start(&[&flags, processes].concat());
        let admin = server.read_admin_address();
        let status = |host: &str| request_at(&admin, "GET", "/metrics", &format!("Host: {host}\r\n")).status;
        for host in ["cannery", "CANNERY:9090", "a.internal", "localhost"] {
            assert_eq!(status(host), 200, "{host}");
        }
        for host in ["cannery.example.com", "internal", "example.com"] {
            assert_eq!(status(host), 421, "{host}");
        }
    }
}

#[test]
fn metrics_describe_process_build_and_certificates() {
    let place = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let bundle = place.path().join("bundle.pem");
    authority.certify(&["example.com"]).write_bundle(&bundle);
    let bundle = bundle.to_str().unwrap();
    let flags = ["--dummy", "--bind-tls", "127.0.0.1:0", "--tls-bundle", bundle, "--admin", "127.0.0.1:0"];
    for processes in [&[][..], &["--processes", "2"]] {
        let server = Server::start(&[&flags, processes].concat());
        let admin = server.read_admin_address();
        wait_until("the process is measured", || text(&admin, "/metrics").contains("process_open_fds "));
        let metrics = text(&admin, "/metrics");
        assert!(metrics.contains(concat!("cannery_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"")));
        let since = metric(&metrics, "process_start_time_seconds");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((now - 60.0..=now).contains(&since), "{metrics}");
        assert!(metric(&metrics, "process_resident_memory_bytes") > 1e6, "{metrics}");
        assert!(metric(&metrics, "process_cpu_seconds_total") > 0.0, "{metrics}");
        let open = metric(&metrics, "process_open_fds");
        let max = metric(&metrics, "process_max_fds");
        assert!(open > 10.0 && open < max, "{metrics}");

        let labels = format!("{{name=\"example.com\",file=\"{bundle}\"}}");
        let expires = metric(&metrics, &format!("cannery_certificate_expires_seconds{labels}"));
        assert!((1.0..=400.0 * 86_400.0).contains(&expires), "{metrics}");
        let stats: serde_json::Value = serde_json::from_str(&text(&admin, "/stats.json")).unwrap();
        assert_eq!(stats["certificates"][0]["name"], "example.com");
        assert_eq!(stats["listeners"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn prometheus_client_parses_the_metrics() {
    if skip_outside() {
        return;
    }
    let (_folder, server, admin) = serve();
    server.get("/\"quoted\\path");
    let script = "import sys, urllib.request\n\
        from prometheus_client.parser import text_string_to_metric_families as families\n\
        text = urllib.request.urlopen(sys.argv[1]).read().decode()\n\
        names = {family.name for family in families(text)}\n\
        assert 'cannery_responses' in names and 'cannery_request_duration_seconds' in names, names\n\
        assert {'process_cpu_seconds', 'process_start_time_seconds', 'cannery_build_info'} <= names, names\n\
        print('families', len(names))";
    let python = crate::harness::python();
    let output =
        Command::new(python).args(["-c", script, &format!("http://{admin}/metrics")]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("families "));
}

#[test]
fn admin_page_works_in_a_browser() {
    if skip_outside() {
        return;
    }
    let (_folder, server, admin) = serve();
    for _ in 0..5 {
        server.get("/nothing/here");
    }
    let output = Command::new("node").args(["tests/outside/admin.mjs", &format!("http://{admin}/")]).output();
    let output = output.expect("node: `cargo xtask test` installs what it needs");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("/nothing/here 5") && stdout.contains("serving"), "{stdout}");
}

/// Without anything to reload, no thread looked at the process.
#[test]
fn process_metrics_need_no_archive_or_certificate() {
    let server = Server::start(&["--dummy", "--admin", "127.0.0.1:0"]);
    let admin = server.read_admin_address();
    wait_until("it is looked at", || text(&admin, "/metrics").contains("process_open_fds "));
    let metrics = text(&admin, "/metrics");
    assert!(metric(&metrics, "process_resident_memory_bytes") > 1e6, "{metrics}");
}

/// An alert on `increase()` of a series that appears with the first error never sees that error. Resident memory grows by what
/// clients download, because it counts the mapped archive.
#[test]
fn metrics_exist_before_the_first_response() {
    let (_folder, _server, admin) = serve();
    let metrics = text(&admin, "/metrics");
    for status in [200, 206, 304, 400, 404, 421, 500, 503] {
        assert_eq!(metric(&metrics, &format!("cannery_responses_total{{status=\"{status}\"}}")), 0.0);
    }
    wait_until("the process is measured", || text(&admin, "/metrics").contains("process_open_fds "));
    let metrics = text(&admin, "/metrics");
    let resident = metric(&metrics, "process_resident_memory_bytes");
    if cfg!(target_os = "linux") {
        let anonymous = metric(&metrics, "cannery_memory_anonymous_bytes");
        assert!(0.0 < anonymous && anonymous < resident, "{metrics}");
    }
}

/// HTTP/3 was missing.
#[test]
fn all_listeners_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let local = format!("unix:{}", folder.path().join("socket").display());
    let flags = ["--dummy", "--admin", "127.0.0.1:0", "--bind", &local];
    for processes in [&[][..], &["--processes", "2"]] {
        let server = Server::start(&[&flags, &TLS_FLAGS[..], &QUIC_FLAGS, processes].concat());
        let admin = server.read_admin_address();
        let listed = || {
            let stats: serde_json::Value = serde_json::from_str(&text(&admin, "/stats.json")).unwrap();
            let listeners = stats["listeners"].as_array().unwrap().clone();
            let mut protocols: Vec<_> =
                listeners.iter().map(|one| one["protocol"].as_str().unwrap().to_owned()).collect();
            protocols.sort();
            (protocols, listeners)
        };

        let expected = ["HTTP/3", "http", "http", "https"];
        wait_until("all listeners", || listed().0 == expected);
        let addresses: Vec<_> =
            listed().1.iter().map(|one| one["address"].as_str().unwrap().to_owned()).collect();
        assert!(addresses.contains(&local) && addresses.contains(&server.address), "{addresses:?}");
    }
}

/// The page was reported at the loopback address only, although all machines reached it.
#[test]
#[cfg(not(feature = "portable"))]
fn open_admin_page_is_reported() {
    for (address, is_open) in
        [("0.0.0.0:0", true), ("[::]:0", true), (":0", true), ("127.0.0.1:0", false), ("[::1]:0", false)]
    {
        for processes in [&[][..], &["--processes", "1"]] {
            let server = Server::start(&[&["--dummy", "--admin", address], processes].concat());
            let admin = server.read_admin_address();
            assert_eq!(request_at(&admin, "GET", "/health", "").status, 200, "{address}");
            server.signal("TERM");
            let lines = server.lines();
            let warning = lines.iter().find(|line| line.contains("has no password"));
            assert_eq!(warning.is_some(), is_open, "{address}: {lines:?}");
            assert!(warning.is_none_or(|line| line.contains("warning:")), "{address}: {lines:?}");
        }
    }
}
