//! Orders that differ from the usual ones: external accounts, IP addresses, RSA keys, and what an authority may refuse.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use cannery_testkit::tls::ClientOptions;
use rustls::SignatureScheme;
use serde_json::{Value, json};

use super::pebble::Options;
use super::proxy::{Fault, Proxy, problem};
use super::supervised::Machine;
use super::{Outcome, World, presented, text, write_program};
use crate::harness::{Server, request_at, run, skip_outside, wait_until};
use crate::transports::connect_tls_with;

/// Where Pebble says that its terms are.
const TERMS: &str = "data:text/plain,Do%20what%20thou%20wilt";

const EXTERNAL_ACCOUNT: (&str, &str) =
    ("kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W");

/// Object identifiers in DER: the keys of elliptic curves, those of RSA, and the subject alternative name.
const EC_PUBLIC_KEY: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01";
const RSA_ENCRYPTION: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const ALTERNATIVE_NAME: &[u8] = b"\x06\x03\x55\x1d\x11";

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Returns kind, message and hint of the only failure.
fn failed(outcome: &Outcome) -> [String; 3] {
    let failed = outcome.event("failed");
    ["kind", "message", "hint"].map(|field| failed[field].as_str().unwrap_or_default().to_owned())
}

/// Starts a server that serves these bundles.
fn serve_bundles(bundles: &[&str]) -> (Server, String) {
    let mut flags = vec!["--dummy", "--bind-tls", "127.0.0.1:0"];
    bundles.iter().for_each(|bundle| flags.extend(["--tls-bundle", *bundle]));
    let server = Server::start(&flags);
    let address = server.read_tls_address();
    (server, address)
}

#[test]
fn external_account_is_bound() {
    if skip_outside() {
        return;
    }
    let world = World::with(&Options { external_account: Some(EXTERNAL_ACCOUNT), ..Options::default() });
    let (id, key) = EXTERNAL_ACCOUNT;
    let file = |name: &str, content: &str| {
        let path = world.place.path().join(name);
        std::fs::write(&path, content).unwrap();
        text(&path).to_owned()
    };
    let right = file("right", &format!("{key}\n"));
    let wrong = file("wrong", &key.replace('z', "A"));
    let damaged = file("damaged", "not base64url!");

    let [kind, message, hint] = failed(&world.once(&["none.test"]));
    assert!(kind == "refused" && message.contains("externalAccountRequired"), "{message}");
    assert!(hint.contains("`--eab-id`") && hint.contains("`--eab-key`"), "{hint}");
    for (names, id, key) in [("wrong.test", id, &wrong), ("unknown.test", "-other", &right)] {
        let [kind, message, hint] = failed(&world.once(&[names, "--eab-id", id, "--eab-key", key]));
        assert!(kind == "external_account" && message.contains(&format!("`{id}`")), "{kind}: {message}");
        assert!(hint.contains("`--eab-id`") && hint.contains("`--eab-key`"), "{hint}");
    }
    for (path, words) in [(damaged.as_str(), "base64url"), ("/no/such/key", "No such file")] {
        let outcome = world.once(&["damaged.test", "--eab-id", id, "--eab-key", path]);
        assert_eq!(outcome.code, Some(3), "{outcome:#?}");
        assert!(outcome.errors.contains(path) && outcome.errors.contains(words), "{outcome:#?}");
        assert!(!outcome.errors.contains("not base64url!"), "{outcome:#?}");
    }
    assert_eq!(world.proxy.count("/order-plz"), 0);

    world.once(&["right.test", "--eab-id", id, "--eab-key", &right]).assert_issued();
    // The account exists now.
    world.once(&["later.test"]).assert_issued();
}

#[test]
fn server_binds_its_external_account() {
    if skip_outside() {
        return;
    }
    let machine = Machine::with(&Options { external_account: Some(EXTERNAL_ACCOUNT), ..Options::default() });
    let (id, key) = EXTERNAL_ACCOUNT;
    let path = machine.place.path().join("key");
    std::fs::write(&path, key.replace('z', "A")).unwrap();
    let flags = ["--acme-eab-id", id, "--acme-eab-key", text(&path)];

    for (flags, words) in
        [(&[][..], "externalAccountRequired"), (&flags[..], "refuses the external account `kid-1`")]
    {
        let server = Server::run(machine.command(flags));
        server.await_line(words);
        let hint = server.await_line("hint:");
        assert!(hint.contains("`--acme-eab-id`") && hint.contains("`--acme-eab-key`"), "{hint}");
        assert_eq!(server.stop(), Some(0));
        // Another folder has no failure that the next process has to wait for.
        machine.leave_folder();
    }

    // Without the key, the site is served at once. The server doesn't wait for a process that can't begin.
    let server = Server::run(machine.command(&["--acme-eab-id", id, "--acme-eab-key", "/no/such/key"]));
    let line = server.await_line_since_start("the key of the external account in /no/such/key");
    assert!(line.contains("No such file"), "{line}");
    assert_eq!(server.get("/").status, 200);
    assert_eq!(server.stop(), Some(0));

    std::fs::write(&path, key).unwrap();
    let server = Server::run(machine.command(&flags));
    server.await_line("example.test: a new certificate is in");
}

#[test]
fn address_gets_a_certificate() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    world.once(&["example.test"]).assert_issued();
    let outcome = world.once(&["127.0.0.1", "--profile", "shortlived"]);
    outcome.assert_issued();
    let days = (outcome.event("issued")["not_after"].as_u64().unwrap() - now()) / 86_400;
    assert!((4..=6).contains(&days), "{outcome:#?}");

    // Clients that connect to an address send no name, and get the certificate for it, although it's the second one.
    let bundles = ["example.test.pem", "127.0.0.1.pem"].map(|name| world.file(name));
    let (_server, address) = serve_bundles(&[text(&bundles[0]), text(&bundles[1])]);
    let certificate = presented(&address, "127.0.0.1");
    let position = certificate.windows(5).position(|window| window == ALTERNATIVE_NAME).unwrap();
    // It may be critical, as there is no subject. The only name is the address (RFC 5280 §4.2.1.6).
    let names = &certificate[position + 5..][..16];
    assert!(contains(names, b"\x04\x08\x30\x06\x87\x04\x7f\x00\x00\x01"), "{names:x?}");
    assert!(presented(&address, "example.test") != certificate);
    world.pebble.verify(&address, "127.0.0.1").unwrap();
    world.pebble.verify(&address, "example.test").unwrap();
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn key_is_of_the_kind_that_was_ordered() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    let bundle = world.file("example.test.pem");
    for (flags, is_rsa) in [(&[][..], false), (&["--key", "rsa"][..], true), (&["--key", "ecdsa"][..], false)]
    {
        world.once(&[&["example.test"][..], flags].concat()).assert_issued();
        let (_server, address) = serve_bundles(&[text(&bundle)]);
        let certificate = presented(&address, "example.test");
        let kinds = (contains(&certificate, EC_PUBLIC_KEY), contains(&certificate, RSA_ENCRYPTION));
        assert_eq!(kinds, (!is_rsa, is_rsa), "{flags:?}");
        // The modulus of an RSA key with 2,048 bits is an INTEGER of 257 bytes.
        assert_eq!(contains(&certificate, b"\x02\x82\x01\x01\x00"), is_rsa, "{flags:?}");

        // The server has the key, too: it can only sign in this way.
        let scheme =
            if is_rsa { SignatureScheme::RSA_PSS_SHA256 } else { SignatureScheme::ECDSA_NISTP256_SHA256 };
        let options = ClientOptions::default().tls13().schemes(&[scheme]);
        connect_tls_with(&address, "example.test", options);

        // Another kind takes effect once the bundle was renamed.
        world.pass_time("example.test");
        std::fs::rename(&bundle, world.file("old")).unwrap();
    }
}

/// Accepts connections at an address and gives this response to all requests. It ends with the process.
fn answer(address: &str, response: &'static str) {
    let listener = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(response.as_bytes());
        }
    });
}

/// The authority checks what we haven't checked before, or couldn't.
#[test]
fn failed_validation_names_the_host_and_the_remedy() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    let port = world.address.rsplit(':').next().unwrap();
    answer(&format!("127.0.0.2:{port}"), "HTTP/1.0 404 Not Found\r\nServer: other\r\n\r\n");
    answer(&format!("127.0.0.3:{port}"), "HTTP/1.0 200 OK\r\n\r\nwelcome");
    for (host, address) in [
        ("missing.test", "127.0.0.2"),
        ("stranger.test", "127.0.0.3"),
        ("closed.test", "127.0.0.4"),
        ("second.test", "127.0.0.4"),
    ] {
        let content = json!({ "host": format!("{host}."), "addresses": [address] });
        world.pebble.instruct_names("add-a", &content);
    }
    let hook = world.place.path().join("hook");
    write_program(&hook, "#!/bin/sh\n");

    let own = |arguments: &[&str]| {
        // `--check-via` would be refused together with `--no-check`.
        let command = world.command(&[arguments, &["--once"]].concat());
        let mut flags: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        if arguments.contains(&"--no-check") {
            let position = flags.iter().position(|flag| flag == "--check-via").unwrap();
            flags.drain(position..position + 2);
        }
        let mut command = Command::new(command.get_program());
        Outcome::new(&command.args(flags).output().unwrap())
    };
    let records = "check its A and AAAA records";
    let cases: [(&[&str], &str, &str, &str); 6] = [
        (&["closed.test", "--no-check"], "closed.test: ", "(connection)", "port 80"),
        (&["missing.test", "--no-check"], "missing.test: ", "(unauthorized)", records),
        (&["stranger.test", "--no-check"], "stranger.test: ", "(unauthorized)", records),
        // Our own check asks another address than the authority.
        (&["good.test,second.test"], "second.test: ", "(connection)", "port 80"),
        (
            &["hook.test", "--dns-hook", text(&hook)],
            "hook.test: ",
            "(unauthorized)",
            "let the hook add the record",
        ),
        (
            &["*.wild.test", "--dns-hook", text(&hook)],
            "wild.test: ",
            "(unauthorized)",
            "let the hook add the record",
        ),
    ];
    for (arguments, name, problem, remedy) in cases {
        let outcome = own(arguments);
        let [kind, message, hint] = failed(&outcome);
        assert_eq!((outcome.code, kind.as_str()), (Some(1), "refused"), "{outcome:#?}");
        assert!(message.contains(name) && message.contains(problem), "{message}");
        assert!(hint.contains(remedy), "{hint}");
        assert!(outcome.errors.contains(&message) && outcome.errors.contains(remedy), "{outcome:#?}");
    }

    // The failed check counts, so the next run has to wait.
    world.proxy.plan(|_, _| Fault::None);
    assert_eq!((own(&["closed.test", "--no-check"]).code, world.proxy.count("/order-plz")), (Some(1), 0));
}

/// Plans for requests that are signed, which need nonces.
fn plan_signed(proxy: &Proxy, plan: impl Fn(&str, usize) -> Fault + Send + 'static) {
    proxy.plan(move |path, earlier| {
        let is_signed = !path.starts_with("/dir") && !path.contains("nonce") && !path.contains("renewalInfo");
        if is_signed { plan(path, earlier) } else { Fault::None }
    });
}

#[test]
fn refused_nonces_are_replaced() {
    if skip_outside() {
        return;
    }
    // With or without another nonce in the response.
    for fields in ["Replay-Nonce: stale\r\n", ""] {
        let world = World::new();
        // Only once, at each request: a stale nonce is refused by the authority itself.
        plan_signed(
            &world.proxy,
            move |_, earlier| {
                if earlier == 0 { problem(400, "badNonce", fields) } else { Fault::None }
            },
        );
        world.once(&["example.test"]).assert_issued();
        assert!(world.proxy.count("/sign-me-up") >= 2 && world.proxy.count("/finalize") >= 2);
    }
}

#[test]
fn registration_is_given_up_if_all_nonces_are_refused() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    world.proxy.plan(|path, _| {
        if path == "/sign-me-up" { problem(400, "badNonce", "Replay-Nonce: x\r\n") } else { Fault::None }
    });
    let [kind, message, _] = failed(&world.once(&["example.test"]));
    assert!(kind == "senseless" && message.contains("nonces"), "{message}");
    assert_eq!((world.proxy.count("/sign-me-up"), world.proxy.count("/order-plz")), (4, 0));

    world.pass_time("example.test");
    world.proxy.plan(|_, _| Fault::None);
    world.once(&["example.test"]).assert_issued();
}

/// Pebble refuses nonces by chance. An order that gets too many refusals fails, and a later one succeeds.
#[test]
fn authority_that_refuses_many_nonces_issues_in_the_end() {
    if skip_outside() {
        return;
    }
    let world = World::with(&Options { refused_nonces: 30, ..Options::default() });
    for _ in 0..12 {
        let outcome = world.once(&["example.test"]);
        if outcome.code == Some(0) {
            return outcome.assert_issued();
        }
        let [kind, message, _] = failed(&outcome);
        assert!(kind == "senseless" || message.contains("badNonce"), "{outcome:#?}");
        world.pass_time("example.test");
    }
    panic!("12 orders in a row failed");
}

/// Runs the process with a limit of six seconds for what the authority does. Checking a name takes one or two.
fn once_in_a_hurry(world: &World, names: &str) -> Outcome {
    let mut command = world.command(&[names, "--once"]);
    Outcome::new(&command.env("CANNERY_ORDER_TIMEOUT_S", "6").output().unwrap())
}

/// Replaces a text in responses whose path begins with one of these.
fn replacing(
    paths: &'static [&str],
    old: &'static str,
    new: &'static str,
) -> impl Fn(&str, usize) -> Fault + Send {
    move |path, _| {
        if paths.iter().any(|start| path.starts_with(start)) { Fault::Replace(old, new) } else { Fault::None }
    }
}

#[test]
fn order_that_becomes_invalid_says_why() {
    if skip_outside() {
        return;
    }
    // RFC 8555 §7.1.3 doesn't require a reason.
    const INVALID: &str = "\"status\": \"invalid\"";
    const WITH_REASON: &str = "\"status\": \"invalid\", \"error\": { \"type\": \"urn:ietf:params:acme:error:caa\", \
        \"detail\": \"another authority\", \"status\": 403 }";
    let world = World::new();
    for (names, old, new, kind, words, remedy) in [
        (
            "issuing.test",
            "\"status\": \"valid\"",
            WITH_REASON,
            "refused",
            "another authority (caa)",
            "CAA record",
        ),
        ("unclear.test", "\"status\": \"valid\"", INVALID, "senseless", "invalid without a reason", ""),
        (
            "checking.test",
            "\"status\": \"ready\"",
            WITH_REASON,
            "refused",
            "another authority (caa)",
            "CAA record",
        ),
    ] {
        world.proxy.plan(replacing(&["/my-order", "/finalize"], old, new));
        let outcome = once_in_a_hurry(&world, names);
        let [found, message, hint] = failed(&outcome);
        assert_eq!((outcome.code, found.as_str()), (Some(1), kind), "{outcome:#?}");
        assert!(message.contains(words) && hint.contains(remedy), "{message} {hint}");

        // Such an order isn't continued.
        world.proxy.plan(|_, _| Fault::None);
        world.pass_time(names);
        world.once(&[names]).assert_issued();
        assert_eq!(world.proxy.count("/order-plz"), 1, "{names}");
    }
}

#[test]
fn order_that_never_ends_is_continued_later() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    world.proxy.plan(replacing(&["/my-order"], "\"status\": \"valid\"", "\"status\": \"processing\""));
    let [kind, message, _] = failed(&once_in_a_hurry(&world, "example.test"));
    assert_eq!(kind, "timeout");
    assert!(message.contains("has not finished issuing the certificate within 6 s"), "{message}");
    assert!(!world.file("example.test.pem").exists());

    world.pass_time("example.test");
    world.proxy.plan(|_, _| Fault::None);
    world.once(&["example.test"]).assert_issued();
    assert_eq!((world.proxy.count("/order-plz"), world.proxy.count("/finalize")), (0, 0));

    // Before the names are checked, there is nothing to continue.
    world.proxy.plan(replacing(&["/my-order"], "\"status\": \"ready\"", "\"status\": \"pending\""));
    let [kind, message, _] = failed(&once_in_a_hurry(&world, "slow.test"));
    assert_eq!(kind, "timeout");
    assert!(message.contains("has not finished checking the names within 6 s"), "{message}");
    assert_eq!(world.proxy.count("/finalize"), 0);

    world.pass_time("slow.test");
    world.proxy.plan(|_, _| Fault::None);
    world.once(&["slow.test"]).assert_issued();
    assert_eq!(world.proxy.count("/order-plz"), 1);
}

#[test]
fn authorization_must_be_pending_or_valid() {
    // Challenges in it have a status of their own.
    const PENDING: &str = "{\n   \"status\": \"pending\"";
    if skip_outside() {
        return;
    }
    let world = World::new();
    for (names, status, word) in [
        ("invalid.test", "{\n   \"status\": \"invalid\"", "Invalid"),
        ("deactivated.test", "{\n   \"status\": \"deactivated\"", "Deactivated"),
        ("expired.test", "{\n   \"status\": \"expired\"", "Expired"),
        ("revoked.test", "{\n   \"status\": \"revoked\"", "Revoked"),
    ] {
        world.proxy.plan(replacing(&["/authZ"], PENDING, status));
        let outcome = world.once(&[names]);
        let [kind, message, _] = failed(&outcome);
        assert!(kind == "senseless" && message.contains(word), "{outcome:#?}");
        // The authority is asked to check nothing.
        assert_eq!((world.proxy.count("/chalZ"), world.proxy.count("/finalize")), (0, 0), "{names}");
    }

    // No challenge is needed for a name that was checked lately.
    world.proxy.plan(replacing(&["/authZ"], PENDING, "{\n   \"status\": \"valid\""));
    let [kind, message, _] = failed(&once_in_a_hurry(&world, "unchecked.test"));
    assert!(kind == "timeout" && message.contains("checking the names"), "{message}");
    assert_eq!(world.proxy.count("/chalZ"), 0);
}

/// Both programs say where the terms are, and by which flag to agree.
#[test]
fn terms_are_named_before_anything_is_ordered() {
    for (arguments, terms) in [
        (&["--certificates", "example.com"][..], "https://letsencrypt.org/repository/"),
        (
            &["--certificates", "example.com", "--acme-directory-url", "https://ca.example/dir"][..],
            "https://ca.example/dir, under `termsOfService`",
        ),
    ] {
        let output =
            run("cannery-server", &[&["--dummy", "--bind-tls", "127.0.0.1:0"][..], arguments].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains("terms of service") && errors.contains(terms), "{errors}");
        assert!(errors.contains("add `--acme-agree`"), "{errors}");
    }
    if skip_outside() {
        return;
    }

    let world = World::new();
    let command = world.command(&["example.test", "--once"]);
    let flags = command.get_args().filter(|flag| *flag != "--agree");
    let outcome = Outcome::new(&Command::new(command.get_program()).args(flags).output().unwrap());
    let [kind, message, hint] = failed(&outcome);
    assert!(kind == "terms" && message.contains(TERMS) && hint.contains("add `--agree`"), "{outcome:#?}");
    assert!(outcome.errors.contains(TERMS), "{outcome:#?}");
    assert_eq!((world.proxy.count("/sign-me-up"), world.proxy.count("/order-plz")), (0, 0));
}

/// Operators see failures in the metrics and on the admin page.
#[test]
fn failed_renewal_is_observed() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    world.once(&["example.test"]).assert_issued();
    let bundle = world.file("example.test.pem");
    let site = world.place.path().join("site.cdb");
    let server = Server::start(&[
        "--archive",
        text(&site),
        "--bind-tls",
        "127.0.0.1:0",
        "--tls-bundle",
        text(&bundle),
        "--admin",
        "127.0.0.1:0",
    ]);
    let admin = server.read_admin_address();
    let get = |path: &str| String::from_utf8(request_at(&admin, "GET", path, "").body).unwrap();
    let labels = format!("{{name=\"example.test\",file=\"{}\"}}", bundle.display());
    let metric = |name: &str| {
        let start = format!("cannery_certificate_renewal_{name}{labels} ");
        let metrics = get("/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
        line.map(|value| value.parse::<u64>().unwrap())
    };
    let renewal = || {
        let stats: Value = serde_json::from_str(&get("/stats.json")).unwrap();
        stats["certificates"][0]["renewal"].clone()
    };
    let is_now = |seconds: u64| (now() - 60..=now()).contains(&seconds);
    assert_eq!((metric("failing"), metric("last_error_timestamp_seconds")), (Some(0), None));
    assert!(metric("last_success_timestamp_seconds").is_some_and(is_now) && renewal()["error"].is_null());

    // The certificate stays, and the next order is refused.
    world.pass_time("example.test");
    world.proxy.plan(
        |path, _| {
            if path == "/order-plz" { problem(429, "rateLimited", "") } else { Fault::None }
        },
    );
    let names = "example.test,www.example.test";
    assert_eq!(world.once(&[names]).code, Some(1));
    wait_until("the failure is known", || metric("failing") == Some(1));
    assert!(metric("last_error_timestamp_seconds").is_some_and(is_now));
    let error = renewal()["error"].clone();
    assert!(
        error["kind"] == "refused" && error["message"].as_str().unwrap().contains("rateLimited"),
        "{error}"
    );
    server.get("/missing");
    let page = Command::new("node").args(["tests/outside/admin.mjs", &format!("http://{admin}/")]).output();
    let page = page.expect("node: `cargo xtask test` installs what it needs");
    let shown = String::from_utf8_lossy(&page.stdout);
    assert!(page.status.success(), "{shown}{}", String::from_utf8_lossy(&page.stderr));
    let row =
        shown.lines().find(|line| line.starts_with("example.test ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(row.contains(text(&bundle)) && row.contains("rateLimited"), "{row}");

    world.pass_time("example.test");
    world.proxy.plan(|_, _| Fault::None);
    world.once(&[names]).assert_issued();
    wait_until("the success is known", || metric("failing") == Some(0));
    assert_eq!((metric("last_error_timestamp_seconds"), renewal()["error"].is_null()), (None, true));
}
