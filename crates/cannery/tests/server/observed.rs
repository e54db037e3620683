//! Routes in logs and metrics.

use super::*;
use cannery::config::{AccessLog, LogFormat, LogTarget};

/// How long the slow handler takes at least.
const SLEEP: Duration = Duration::from_millis(300);

fn with_slow_route(server: Server) -> Server {
    // This is the work of the handler. No condition is awaited.
    let sleep = || {
        thread::sleep(SLEEP);
        "slept"
    };
    server
        .blocking_route("GET /sleep/{name}", move |_: &Request<'_>| sleep())
        .route("GET /sleep-on-worker", move |_: &Request<'_>| sleep())
        .upload_route("PUT /sleep-with-upload", move |_, mut content| {
            std::io::copy(&mut content, &mut std::io::sink())?;
            Ok::<_, HandlerError>(sleep())
        })
}

#[test]
fn logs_name_the_route_and_include_its_time() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let target = LogTarget::File(log.path().to_owned());
    let mut fixture = Fixture::start_with(|server| {
        let access_log = AccessLog::new(target, LogFormat::Json);
        with_slow_route(server).configure(|settings| settings.access_log(access_log))
    });
    assert_eq!(get(fixture.at, "/sleep/a").0, 200);
    assert_eq!(get(fixture.at, "/sleep-on-worker").0, 200);
    assert_eq!(request(fixture.at, "PUT", "/sleep-with-upload", &[], b"content").status, 200);
    assert_eq!(get(fixture.at, "/hello/you").0, 200);
    assert_eq!(get(fixture.at, "/").0, 200);
    // The log is complete once the server has stopped.
    let server = fixture.server.take().unwrap();
    server.stop_handle().stop();
    server.wait();

    let text = fs::read_to_string(log.path()).unwrap();
    let lines = |target: &str| -> Vec<serde_json::Value> {
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.filter(|line| line["target"] == target).collect()
    };
    for (target, route) in
        [("/sleep/a", Some("GET /sleep/{name}")), ("/hello/you", Some("GET /hello/{name}")), ("/", None)]
    {
        let lines = lines(target);
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines.iter().all(|line| line["route"].as_str() == route), "{text}");
    }
    for target in ["/sleep/a", "/sleep-on-worker", "/sleep-with-upload"] {
        let durations: Vec<_> = lines(target).iter().map(|line| line["duration"].as_f64().unwrap()).collect();
        assert!(
            durations.len() == 3 && durations.iter().all(|duration| *duration >= SLEEP.as_secs_f64()),
            "{text}"
        );
    }
}

fn admin_address(fixture: &Fixture) -> SocketAddr {
    match fixture.server.as_ref().unwrap().addresses().admin {
        Some(cannery::config::Address::Internet(admin)) => admin,
        _ => panic!("an address"),
    }
}

#[test]
fn admin_page_shows_routes_in_a_browser() {
    if std::env::var_os("CANNERY_OUTSIDE").is_some_and(|value| value == "skip") {
        println!("skipped: CANNERY_OUTSIDE=skip");
        return;
    }
    let fixture = Fixture::start_with(|server| with_slow_route(with_admin(server)));
    assert_eq!(get(fixture.at, "/sleep/a").0, 200);
    assert_eq!(get(fixture.at, "/fail").0, 500);
    assert_eq!(get(fixture.at, "/nothing/here").0, 404);
    await_metric(&fixture, "cannery_route_responses_total{route=\"GET /fail\",status=\"5xx\"}", 3);

    let mut node = std::process::Command::new("node");
    node.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).arg("tests/outside/admin.mjs");
    let output = node.arg(format!("http://{}/", admin_address(&fixture))).output();
    let output = output.expect("node: `cargo xtask test` installs what it needs");
    let rows = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{rows}{}", String::from_utf8_lossy(&output.stderr));
    for row in ["GET /sleep/{name} 3 0 0 0 3", "GET /fail 0 0 0 3 "] {
        assert!(rows.lines().any(|line| line.starts_with(row)), "{row}: {rows}");
    }
}

#[test]
fn metrics_count_routes_and_include_their_time() {
    let fixture = Fixture::start_with(|server| with_slow_route(with_admin(server)));
    assert_eq!(get(fixture.at, "/sleep/a").0, 200);
    assert_eq!(get(fixture.at, "/fail").0, 500);
    await_metric(&fixture, "cannery_request_duration_seconds_count", 6);
    await_metric(&fixture, "cannery_route_responses_total{route=\"GET /sleep/{name}\",status=\"2xx\"}", 3);
    await_metric(&fixture, "cannery_route_responses_total{route=\"GET /fail\",status=\"5xx\"}", 3);

    let admin = admin_address(&fixture);
    let ask = |target: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        exchange(admin, head.as_bytes())
    };
    // Labels are patterns, so clients can't add any.
    assert_eq!(get(fixture.at, "/no-such-route-7319").0, 404);
    let metrics = ask("/metrics");
    assert!(!metrics.contains("7319") && !metrics.contains("/sleep/a"), "{metrics}");
    let stats = ask("/stats.json");
    let stats: serde_json::Value = serde_json::from_str(stats.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(stats["routes"]["GET /fail"]["classes"], serde_json::json!([0, 0, 0, 3]), "2xx to 5xx");
    let mean = |pattern: &str| stats["routes"][pattern]["mean_seconds"].as_f64().unwrap();
    assert!(mean("GET /sleep/{name}") >= SLEEP.as_secs_f64() && mean("GET /fail") > 0.0, "{stats}");
    let value = |name: &str| {
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name}: {metrics}")).parse::<f64>().unwrap()
    };
    let slept = 3.0 * SLEEP.as_secs_f64();
    assert!(value("cannery_request_duration_seconds_sum") >= slept);
    assert!(value("cannery_route_duration_seconds_sum{route=\"GET /sleep/{name}\"}") >= slept);
    assert!(value("cannery_route_duration_seconds_count{route=\"GET /fail\"}") == 3.0);
}
