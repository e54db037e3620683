//! `cannery-server --certificates`: the server obtains certificates by itself, and serves whatever happens to them.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use serde_json::Value;

use super::pebble::{Options, Pebble};
use super::proxy::{Fault, Proxy, problem};
use super::{mode, presented, serve, text};
use crate::authority::Authority;
use crate::harness::{
    Server, compile, free_address, is_slow, pages, request_at, run, server_command, skip_outside, wait_until,
    write_folder,
};
use crate::random::Random;

/// A machine with a site, and an authority behind a proxy that checks names at the machine's address.
pub(super) struct Machine {
    pub(super) place: tempfile::TempDir,
    /// The address for plain HTTP.
    address: String,
    pub(super) proxy: Proxy,
    _pebble: Pebble,
}

impl Machine {
    pub(super) fn new() -> Machine {
        Machine::with(&Options::default())
    }

    pub(super) fn with(options: &Options) -> Machine {
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("site");
        write_folder(&source, &pages(&[("index.html", "<title>page</title>")]));
        compile(&source, &place.path().join("site.cdb"), &[]);
        let authority = Authority::new();
        fs::write(place.path().join("roots.pem"), authority.pem()).unwrap();

        let address = free_address();
        let pebble = Pebble::start(place.path(), &authority, &address.port().to_string(), options);
        let proxy = Proxy::start(&authority, &pebble.address);
        Machine { place, address: address.to_string(), proxy, _pebble: pebble }
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.place.path().join("state/tls")
    }

    /// Moves the folder away once its process has ended.
    pub(super) fn leave_folder(&self) {
        wait_until("no process issues", || self.issuer().is_none());
        fs::rename(self.folder(), self.place.path().join(format!("left-{}", self.proxy.count("")))).unwrap();
    }

    /// Returns the command for a certificate. Of flags that are given twice, the last one counts.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = server_command();
        command.arg(self.place.path().join("site.cdb")).args(["--threads", "1", "--bind", &self.address]);
        command.args(["--bind-tls", "127.0.0.1:0", "--certificates", "example.test,www.example.test"]);
        command.args([
            "--acme-agree",
            "--acme-contact",
            "me@example.test",
            "--acme-check-via",
            &self.address,
        ]);
        command.args(["--acme-directory-url", &format!("https://{}/dir", self.proxy.address)]);
        command.arg("--acme-directory-roots").arg(self.place.path().join("roots.pem"));
        command.arg("--acme-folder").arg(self.folder()).args(arguments);
        command
    }

    /// Lets the authority wait until the sender is dropped.
    pub(super) fn hold_authority(&self) -> Sender<()> {
        let (release, held) = channel::<()>();
        self.proxy.plan(move |_, _| {
            let _ = held.recv();
            Fault::None
        });
        release
    }

    /// Whether the journal doesn't allow another order yet.
    fn waits(&self) -> bool {
        let state = fs::read(self.folder().join("example.test.state.json")).unwrap_or_default();
        serde_json::from_slice::<Value>(&state).is_ok_and(|state| state["attempt"].is_object())
    }

    /// Returns the process that holds the lock of the folder.
    pub(super) fn issuer(&self) -> Option<u32> {
        let process = fs::read_to_string(self.folder().join("lock")).ok()?.trim().parse().ok()?;
        is_issuer(process).then_some(process)
    }
}

pub(super) fn is_issuer(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/cmdline"))
        .is_ok_and(|line| line.contains("--for-server-issue"))
}

pub(super) fn kill(process: u32) {
    assert!(Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap().success());
}

#[test]
fn one_command_ends_in_a_certificate() {
    if skip_outside() {
        return;
    }
    let machine = Machine::new();
    let release = machine.hold_authority();
    let server = Server::run(machine.command(&[
        "--bind-quic",
        "127.0.0.1:0",
        "--https-redirect",
        "--admin",
        "127.0.0.1:0",
    ]));
    let tls = server.read_tls_address();
    let admin = server.read_admin_address();
    let has_metric = |line: &str| {
        let metrics = String::from_utf8(request_at(&admin, "GET", "/metrics", "").body).unwrap();
        metrics.lines().any(|found| found.starts_with("cannery_certificate") && found.contains(line))
    };

    // From the first moment on, there is a certificate, even if no client trusts it.
    let temporary = presented(&tls, "www.example.test");
    assert_eq!(server.get("/").status, 308);
    // Load balancers still send clients, but monitors notice.
    assert_eq!(server.get("/__/heartbeat").status, 200);
    let red = server.get("/__/heartbeat?certificates");
    let body = String::from_utf8_lossy(&red.body).into_owned();
    assert_eq!(
        (red.status, body.as_str()),
        (503, "example.test: there is no certificate yet, only a temporary one\n")
    );
    assert!(
        has_metric("certificates_healthy 0") && has_metric("expires_seconds{name=\"example.test\",file=\"/")
    );
    drop(release);
    server.await_line("example.test: a new certificate is in");
    server.await_line("new certificates are used");
    let issued = presented(&tls, "www.example.test");
    assert!(issued != temporary);
    wait_until("the state of the renewal is known", || {
        has_metric("certificates_healthy 1") && has_metric("renewal_last_success_timestamp_seconds{")
    });
    assert_eq!(server.get("/__/heartbeat?certificates").body, b"OK\n");
    let folder = machine.folder();
    assert_eq!((mode(&folder), mode(&folder.join("example.test.pem"))), (0o700, 0o600));
    assert_eq!(machine.proxy.count("/order-plz"), 1);
    assert_eq!(server.stop(), Some(0));

    // The next start serves it at once, and orders nothing.
    let server = Server::run(machine.command(&[]));
    let tls = server.read_tls_address();
    assert!(presented(&tls, "example.test") == issued);
    server.await_line("the next renewal is at");
    assert_eq!(machine.proxy.count("/order-plz"), 1);

    // A file that disappears takes nothing from clients.
    fs::rename(folder.join("example.test.pem"), folder.join("away")).unwrap();
    server.await_line("the previous certificates are still used");
    assert!(presented(&tls, "example.test") == issued);
}

/// The process is restarted if it ends, is replaced in a takeover, and ends with the server.
#[test]
fn issuing_process_lives_as_long_as_the_server() {
    if skip_outside() {
        return;
    }
    let machine = Machine::new();
    let mut server = Server::run(machine.command(&["--processes", "2"]));
    let tls = server.read_tls_address();
    server.await_line("example.test: a new certificate is in");
    // Each process loads it.
    server.await_line("new certificates are used");
    server.await_line("new certificates are used");
    let issued = presented(&tls, "example.test");

    let first = machine.issuer().expect("a process holds the lock");
    kill(first);
    let line = server.await_line("is started again");
    assert!(line.contains("signal: 9"), "{line}");
    wait_until("another process holds the lock", || machine.issuer().is_some_and(|next| next != first));
    let second = machine.issuer().unwrap();

    // The new program's process gets the lock once the old program has ended.
    server.signal("USR2");
    wait_until("the successor's process holds the lock", || {
        machine.issuer().is_some_and(|next| next != second)
    });
    assert!(!is_issuer(second));
    assert!(presented(&tls, "example.test") == issued);
    assert_eq!(machine.proxy.count("/order-plz"), 1);
    let third = machine.issuer().unwrap();
    // The supervisor that we have started has been replaced. Its successor is the parent of the third process's parent.
    server.await_end();
    let parent = |process: u32| -> u32 {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let successor = parent(parent(third));
    assert!(Command::new("kill").args(["-TERM", &successor.to_string()]).status().unwrap().success());
    wait_until("the process ends with the server", || !is_issuer(third));
}

/// Whatever is wrong, the site is served, and one message says what to do.
#[test]
fn site_is_served_without_a_certificate() {
    if skip_outside() {
        return;
    }
    let machine = Machine::new();
    let other = tempfile::tempdir().unwrap();
    let thumbprint = run("cannery", &["certificates", text(other.path()), "--thumbprint"]);
    let stranger = serve(other.path(), String::from_utf8(thumbprint.stdout).unwrap().trim());

    let file = machine.place.path().join("site.cdb");
    let in_file = file.join("tls");
    machine.proxy.plan(|path, _| {
        if path == "/sign-me-up" {
            problem(400, "invalidContact", "Replay-Nonce: x\r\n")
        } else {
            Fault::None
        }
    });
    let cases: [(&[&str], &str, &str); 5] = [
        (&["--acme-folder", text(&in_file)], "cannot create", "--acme-folder"),
        (&["--acme-directory-url", "https://127.0.0.1:1/dir"], "cannot be reached", "--acme-directory-roots"),
        (&["--acme-check-via", "127.0.0.1:1"], "nothing answers at 127.0.0.1:1", "--acme-check-via"),
        (&["--acme-check-via", &stranger.address], "does not lead to this server", "check its A and AAAA"),
        (&[], "refuses", "--acme-contact"),
    ];
    for (arguments, message, hint) in cases {
        let server = Server::run(machine.command(arguments));
        let tls = server.read_tls_address();
        if arguments.first() != Some(&"--acme-folder") {
            server.await_line(message);
            let line = server.await_line("hint:");
            assert!(line.contains(hint), "{line}");
        }
        presented(&tls, "example.test");
        assert_eq!(server.get("/").status, 200, "{arguments:?}");
        assert_eq!(server.get("/__/heartbeat?certificates").status, 503, "{arguments:?}");
        assert_eq!(machine.proxy.count("/order-plz"), 0);
        let _ = fs::remove_dir_all(machine.folder());
    }

    // An error from before the start is printed before the addresses.
    let mut command = machine.command(&["--acme-folder", text(&in_file)]);
    command.process_group(0).stderr(fs::File::create(machine.place.path().join("log")).unwrap());
    let mut child = command.spawn().unwrap();
    let log = || fs::read_to_string(machine.place.path().join("log")).unwrap();
    wait_until("the server listens", || log().contains("listening at https://"));
    assert!(log().contains("error: cannot create") && log().contains("--acme-folder"), "{}", log());
    assert_eq!(log().matches("error:").count(), 1, "{}", log());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Another process holds the folder when the server starts, so there is no account yet. Later, the operator removes its key.
#[test]
fn account_may_become_known_later() {
    if skip_outside() {
        return;
    }
    let machine = Machine::new();
    let folder = machine.folder();
    fs::create_dir_all(&folder).unwrap();
    let lock = fs::File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let server = Server::run(machine.command(&["--processes", "2"]));
    let token = || {
        let response = server.get("/.well-known/acme-challenge/token");
        String::from_utf8_lossy(&response.body).into_owned()
    };
    assert!(!token().starts_with("token."));
    lock.unlock().unwrap();
    server.await_line("example.test: a new certificate is in");
    let thumbprint = || fs::read_to_string(folder.join("thumbprint")).unwrap_or_default();
    let first = thumbprint();
    assert_eq!((token(), mode(&folder.join("thumbprint"))), (format!("token.{}", first.trim()), 0o644));

    fs::remove_file(folder.join("account.pem")).unwrap();
    kill(machine.issuer().expect("it runs"));
    wait_until("there is another key", || thumbprint() != first);
    wait_until("the server knows it", || token() == format!("token.{}", thumbprint().trim()));
}

/// Services often have a mask that keeps other users out of all that they create.
#[test]
fn folders_above_can_be_entered_with_any_mask() {
    if skip_outside() {
        return;
    }
    let machine = Machine::new();
    let inner = machine.command(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; exec \"$0\" \"$@\""]).arg(inner.get_program()).args(inner.get_args());
    let _server = Server::run(command);
    let folder = machine.folder();
    wait_until("the folder exists", || folder.is_dir());
    assert_eq!((mode(folder.parent().unwrap()), mode(&folder)), (0o755, 0o700));
}

/// Killed at random moments, the issuing process places one order at most, and the server continues to serve.
#[test]
fn killed_issuer_does_not_order_again() {
    if skip_outside() {
        return;
    }
    let machine = Machine::new();
    let mut random = Random::new(39);
    let rounds = if is_slow() { 25 } else { 2 };
    for round in 0..rounds {
        let _ = fs::remove_dir_all(machine.folder());
        machine.proxy.plan(|_, _| Fault::None);
        let server = Server::run(machine.command(&[]));
        let tls = server.read_tls_address();
        for _ in 0..2 {
            wait_until("a process issues", || machine.issuer().is_some());
            std::thread::sleep(Duration::from_millis(random.below(800)));
            kill(machine.issuer().expect("it runs"));
            server.await_line("is started again");
        }
        wait_until("a process issues", || machine.issuer().is_some());
        presented(&tls, "example.test");
        // A process that was killed before its order has begun leaves it to the next one.
        wait_until("an order was placed", || machine.proxy.count("/order-plz") > 0 || machine.waits());
        assert!(machine.proxy.count("/order-plz") <= 1, "round {round}");
    }
}
