//! How a server starts, with which sites, and how it ends.

use super::*;

#[test]
fn faults_of_the_program_are_errors_at_the_start() {
    let handler = |_: &Request<'_>| "";
    let error = Server::new().route("GET /{a}/x", handler).route("GET /y/{b}", handler).start().unwrap_err();
    assert!(matches!(error, StartError::Route(_)), "{error}");
    assert!(error.to_string().contains("/{a}/x") && error.to_string().contains("/y/{b}"), "{error}");
    assert!(matches!(Server::new().bind("nowhere").start(), Err(StartError::Address { .. })));
    assert!(matches!(Server::new().site_of("a b", "site.cdb").start(), Err(StartError::Host(_))));
    let missing = Server::new().site("/missing.cdb").bind("127.0.0.1:0").start();
    assert!(matches!(missing, Err(StartError::Archive { .. })));
    for result in [Server::new().route("GET /a", handler).start().map(drop), Server::new().run()] {
        assert!(matches!(result, Err(StartError::NoListener)), "{result:?}");
    }
}

#[test]
fn archive_can_be_part_of_the_program() {
    let site = support::site();
    let archive: &'static [u8] = fs::read(&site.archive).unwrap().leak();
    let server = Server::new().embedded_site(archive).bind("127.0.0.1:0").start().unwrap();
    let address = server.local_addresses()[0];
    assert_eq!(over_http1(address, "GET", "/", &[], b"").body, b"<title>Home</title>");
    server.stop_handle().stop();
    server.wait();
}

#[test]
fn archives_of_the_program_have_hosts() {
    let archive = |text: &str| -> &'static [u8] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("index.html"), text).unwrap();
        let archive = folder.path().join("site.cdb");
        cannery_archiver::compile(&cannery_archiver::Options::new(folder.path(), &archive), &()).unwrap();
        fs::read(archive).unwrap().leak()
    };
    let server = Server::new()
        .embedded_site(archive("default"))
        .embedded_site_of("other.example", archive("other"))
        .bind("127.0.0.1:0")
        .start()
        .unwrap();
    let address = server.local_addresses()[0];
    for (host, text) in [("a.example", "default"), ("other.example", "other")] {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert!(exchange(address, head.as_bytes()).ends_with(text), "{host}");
    }
    assert!(matches!(Server::new().embedded_site_of("a b", archive("x")).start(), Err(StartError::Host(_))));
}

#[test]
fn server_without_a_site_has_its_routes_only() {
    let server = Server::new().route("GET /a", |_: &Request<'_>| "a").bind("127.0.0.1:0").start().unwrap();
    let address = server.local_addresses()[0];
    assert_eq!(over_http1(address, "GET", "/a", &[], b"").status, 200);
    assert_eq!(over_http1(address, "GET", "/b", &[], b"").status, 404);
    server.stop_handle().stop();
    server.wait();
}

#[test]
fn dropped_server_stops() {
    let server = Server::new()
        .route("GET /a", |_: &Request<'_>| "a")
        .configure(|settings| settings.admin(AdminPage::new("127.0.0.1:0".parse().unwrap())))
        .bind("127.0.0.1:0")
        .start()
        .unwrap();
    let mut addresses = server.local_addresses();
    let Some(cannery::config::Address::Internet(admin)) = server.addresses().admin else {
        panic!("an address")
    };
    addresses.push(admin);
    assert_eq!(over_http1(addresses[0], "GET", "/a", &[], b"").status, 200);
    drop(server);
    for address in addresses {
        await_condition(|| TcpStream::connect(address).is_err());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn threads_end_with_a_dropped_server() {
    const VARIABLE: &str = "TEST_THREADS";
    if std::env::var_os(VARIABLE).is_none() {
        // This process also has the threads of other tests.
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "startup::threads_end_with_a_dropped_server"]).env(VARIABLE, "1");
        let output = alone.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    // The archiver's threads stay.
    drop(support::site());
    let threads = || fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let mut fixture = Fixture::start_with(|server| {
        let upload = |_: &Request<'_>, _: cannery::ContentReader| "stored";
        with_admin(server).upload_route("PUT /stored", upload)
    });
    // Each starts a thread of another pool.
    for (method, target) in [("GET", "/thread"), ("GET", "/stream"), ("PUT", "/stored")] {
        assert_eq!(request(fixture.at, method, target, &[], b"").status, 200);
    }
    assert!(threads() > before);
    drop(fixture.server.take());
    await_condition(|| threads() == before);
}
