//! `cannery certificates` with Pebble as the authority, and `cannery-server` as the server that proves control of names.

mod nodes;
mod orders;
mod pebble;
mod persistent;
mod proxy;
mod renewals;
mod requested;
mod sandboxed;
mod supervised;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cannery_testkit::tls::ClientOptions;
use serde_json::{Value, json};

use crate::authority::Authority;
use crate::harness::{Server, compile, pages, run, skip_outside, wait_until, write_folder};
use crate::transports::connect_tls_with;
use pebble::{Options, Pebble};
use proxy::{Fault, Proxy, problem, response};

/// Advice of an authority to renew at once.
const RENEW_NOW: &str =
    r#"{"suggestedWindow":{"start":"2020-01-01T00:00:00Z","end":"2020-01-02T00:00:00Z"}}"#;

/// A folder, a server that answers challenges, and an authority behind a proxy.
struct World {
    place: tempfile::TempDir,
    folder: PathBuf,
    server: Server,
    /// The address at which the authority finds all names.
    address: String,
    proxy: Proxy,
    pebble: Pebble,
}

impl World {
    fn new() -> World {
        World::behind(|address, _| address.to_owned())
    }

    /// Creates a world with another authority than the usual.
    fn with(options: &Options) -> World {
        World::create(|address, _| address.to_owned(), options)
    }

    /// Creates a world in which names lead to another address, which `front` returns for that of the server and the thumbprint.
    fn behind(front: impl FnOnce(&str, &str) -> String) -> World {
        World::create(front, &Options::default())
    }

    fn create(front: impl FnOnce(&str, &str) -> String, options: &Options) -> World {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("tls");
        let printed = run("cannery", &["certificates", text(&folder), "--thumbprint"]);
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let thumbprint = String::from_utf8(printed.stdout).unwrap();
        let server = serve(place.path(), thumbprint.trim());

        let authority = Authority::new();
        fs::write(place.path().join("roots.pem"), authority.pem()).unwrap();
        let address = front(&server.address, thumbprint.trim());
        let port = address.rsplit(':').next().unwrap();
        let pebble = Pebble::start(place.path(), &authority, port, options);
        let proxy = Proxy::start(&authority, &pebble.address);
        World { place, folder, server, address, proxy, pebble }
    }

    /// Returns the command for these names, with `--json`. Of flags that are given twice, the last one counts.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
        command.arg("certificates").arg(&self.folder).args(["--check-via", &self.address]);
        command.args(arguments).args(["--agree", "--json"]);
        command.args(["--directory-url", &format!("https://{}/dir", self.proxy.address)]);
        command.arg("--directory-roots").arg(self.place.path().join("roots.pem"));
        command
    }

    fn once(&self, arguments: &[&str]) -> Outcome {
        Outcome::new(&self.command(&[arguments, &["--once"]].concat()).output().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn state(&self, stem: &str) -> Value {
        serde_json::from_slice(&fs::read(self.file(&format!("{stem}.state.json"))).unwrap()).unwrap()
    }

    /// Moves the last attempt and the next question to the authority into the past, as if the clock had moved on.
    fn pass_time(&self, stem: &str) {
        let path = self.file(&format!("{stem}.state.json"));
        let Ok(state) = fs::read(&path) else { return };
        let mut state: Value = serde_json::from_slice(&state).unwrap();
        if let Some(attempt) = state["attempt"].as_object_mut() {
            attempt.insert("at".into(), json!(1));
            attempt.insert("next_at".into(), json!(2));
        }
        if let Some(advice) = state["advice"].as_object_mut() {
            advice.insert("asks_again_at".into(), json!(1));
        }
        fs::write(path, state.to_string()).unwrap();
    }
}

/// Starts a server that answers the challenges of an account.
fn serve(place: &Path, thumbprint: &str) -> Server {
    let (source, archive) = (place.join("site"), place.join("site.cdb"));
    write_folder(&source, &pages(&[("index.html", "<title>page</title>")]));
    compile(&source, &archive, &[]);
    Server::start(&["--archive", text(&archive), "--acme-thumbprint", thumbprint])
}

/// Writes a program. A process of its own does so: a program can't be started while any process has it open for writing, and
/// children of other tests inherit our descriptors for a moment.
fn write_program(path: &Path, script: &str) {
    let mut writer = Command::new("sh");
    writer.args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""]).arg(path).arg(script);
    assert!(writer.status().unwrap().success());
}

/// The outcome of a run.
#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    events: Vec<Value>,
    errors: String,
}

impl Outcome {
    fn new(output: &Output) -> Outcome {
        let stdout = String::from_utf8_lossy(&output.stdout);
        Outcome {
            code: output.status.code(),
            events: stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Returns the only event of this name.
    fn event(&self, name: &str) -> &Value {
        let mut found = self.events.iter().filter(|event| event["event"] == name);
        let event = found.next().unwrap_or_else(|| panic!("no event {name}: {self:#?}"));
        assert!(found.next().is_none(), "{self:#?}");
        event
    }

    fn assert_issued(&self) {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self.event("issued");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// Returns the certificate that a server presents for a name.
fn presented(address: &str, name: &str) -> Vec<u8> {
    let tls = connect_tls_with(address, name, ClientOptions::default());
    tls.conn.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn certificate_is_ordered_served_and_renewed() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    let names = ["example.test,www.example.test", "--profile", "shortlived", "--group-read"];
    let first = world.once(&names);
    first.assert_issued();
    assert_eq!(first.event("ordering")["replaces"], false);
    let bundle = world.file("example.test.pem");
    assert_eq!((mode(&bundle), mode(&world.file("account.pem"))), (0o640, 0o600));

    // The server loads the bundle as it is.
    let flags = ["--dummy", "--bind-tls", "127.0.0.1:0", "--tls-bundle", text(&bundle)];
    let server = Server::start(&flags);
    let address = server.read_tls_address();
    let old = presented(&address, "www.example.test");

    // Nothing is due.
    let idle = world.once(&names);
    assert_eq!((idle.code, world.proxy.count("/order-plz")), (Some(0), 1), "{idle:#?}");

    // The authority wants it to be renewed, but the last order is too recent.
    world.proxy.plan(move |path, _| {
        if path.contains("renewalInfo") { response(200, "application/json", RENEW_NOW) } else { Fault::None }
    });
    let path = world.file("example.test.state.json");
    let mut state = world.state("example.test");
    state["advice"] = Value::Null;
    state["attempt"]["next_at"] = json!(state["attempt"]["at"].as_u64().unwrap() + 3600);
    fs::write(&path, state.to_string()).unwrap();
    assert_eq!(world.once(&names).code, Some(0));
    assert_eq!((world.proxy.count("/order-plz"), presented(&address, "example.test") == old), (0, true));

    world.pass_time("example.test");
    let renewed = world.once(&names);
    renewed.assert_issued();
    assert_eq!(renewed.event("ordering")["replaces"], true);
    server.await_line("new certificates are used");
    assert!(presented(&address, "example.test") != old);

    // The state can be read by others.
    let shown = run("cannery", &["certificates", text(&world.folder), "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let certificate = &shown["certificates"][0];
    let days = certificate["seconds_left"].as_i64().unwrap() / 86_400;
    assert!((4..=6).contains(&days), "{shown}");
    assert_eq!((certificate["failures"].as_u64(), certificate["last_error"].is_null()), (Some(0), true));

    // Other names, and then another kind of key, are another certificate.
    world.pass_time("example.test");
    world.once(&["example.test", "--key", "rsa", "--contact", "me@example.test"]).assert_issued();
    server.await_line("new certificates are used");
}

#[test]
fn wildcard_is_proven_by_the_dns_hook() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    let hook = world.place.path().join("hook");
    let script = format!(
        "#!/bin/sh\necho \"$1 $2\" >> {calls}\ncase $1 in set) to=set-txt;; *) to=clear-txt;; esac\n\
         exec curl -sS -f -d \"{{\\\"host\\\":\\\"$2.\\\",\\\"value\\\":\\\"$3\\\"}}\" http://{names}/$to\n",
        calls = world.place.path().join("calls").display(),
        names = world.pebble.names,
    );
    write_program(&hook, &script);

    let outcome = world.once(&["*.example.test,example.test", "--dns-hook", text(&hook)]);
    outcome.assert_issued();
    assert!(world.file("_.example.test.pem").is_file());
    let calls = fs::read_to_string(world.place.path().join("calls")).unwrap();
    let count = |action: &str| {
        calls.lines().filter(|line| *line == format!("{action} _acme-challenge.example.test")).count()
    };
    assert_eq!((count("set"), count("remove")), (2, 2), "{calls}");

    // The authority checks nothing before it can find all records: here, the second one can't be set.
    world.proxy.plan(|_, _| Fault::None);
    let script =
        format!("#!/bin/sh\n[ $1 = remove ] || mkdir {}\n", world.place.path().join("once").display());
    write_program(&hook, &script);
    let outcome = world.once(&["*.two.test,two.test", "--dns-hook", text(&hook)]);
    assert_eq!(outcome.event("failed")["kind"], "hook", "{outcome:#?}");
    assert_eq!((world.proxy.count("/order-plz"), world.proxy.count("/chalZ")), (1, 0));

    // A hook that fails is named, and what it has set is removed.
    write_program(&hook, "#!/bin/sh\n[ $1 = remove ]\n");
    let outcome = world.once(&["*.other.test", "--dns-hook", text(&hook)]);
    let failed = outcome.event("failed");
    assert_eq!((outcome.code, failed["kind"].as_str()), (Some(1), Some("hook")), "{outcome:#?}");
    assert!(failed["message"].as_str().unwrap().contains(text(&hook)), "{failed}");
}

/// Each fault ends in a certificate or in a failure that says whose fault it is. Meanwhile the old certificate stays, and another
/// run doesn't order.
#[test]
fn faults_of_the_authority_are_survived() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    world.once(&["example.test"]).assert_issued();
    let bundle = fs::read(world.file("example.test.pem")).unwrap();
    let names = ["example.test", "--key", "rsa"];

    let at = |start: &'static str, fault: Fault| {
        move |path: &str, _: usize| {
            if path.starts_with(start) { fault.clone() } else { Fault::None }
        }
    };
    let orders = "/order-plz";
    let cases: [(&str, Fault, &str); 12] = [
        (orders, problem(429, "rateLimited", "Retry-After: 7200\r\n"), "refused"),
        (orders, problem(403, "unauthorized", ""), "refused"),
        (orders, problem(400, "badNonce", "Replay-Nonce: bad\r\n"), "refused"),
        (orders, problem(500, "serverInternal", ""), "failing"),
        (orders, response(503, "text/html", "<title>maintenance</title>"), "failing"),
        (orders, response(200, "text/html", "<title>a portal</title>"), "senseless"),
        (orders, Fault::CutAt(300), "unreachable"),
        (orders, Fault::CutAt(0), "unreachable"),
        ("/dir", response(404, "text/plain", "no"), "senseless"),
        ("/my-order", problem(429, "rateLimited", "Retry-After: 18446744073709551615\r\n"), "refused"),
        ("/my-order", Fault::Replace("\"valid\"", "\"value\""), "senseless"),
        ("/certZ", Fault::Replace("BEGIN CERTIFICATE", "BEGIN CERTIFICATO"), "unusable"),
    ];
    for (path, fault, kind) in cases {
        let shown = format!("{fault:?} at {path}");
        // The certificate is removed from the state, so that it is due.
        world.pass_time("example.test");
        fs::remove_file(world.file("example.test.pem")).unwrap();
        world.proxy.plan(at(path, fault));
        let outcome = world.once(&names);
        let failed = outcome.event("failed");
        assert_eq!((outcome.code, failed["kind"].as_str()), (Some(1), Some(kind)), "{shown}: {outcome:#?}");
        assert!(world.proxy.count(orders) <= 3, "{shown}");

        // At once, nothing is sent.
        world.proxy.plan(|_, _| Fault::None);
        let again = world.once(&names);
        assert_eq!((again.code, world.proxy.count(orders)), (Some(1), 0), "{shown}: {again:#?}");
        assert!(again.errors.contains("the next attempt is possible at"), "{again:#?}");
        fs::write(world.file("example.test.pem"), &bundle).unwrap();
    }
    let state = world.state("example.test");
    assert!(state["last_error"]["message"].is_string(), "{state}");

    // The refusal to issue is reported, and not only that there is no certificate in time.
    let busy = ["busy.test"];
    world.proxy.plan(at("/finalize", problem(429, "rateLimited", "Retry-After: 7200\r\n")));
    let began = Instant::now();
    let outcome = world.once(&busy);
    let failed = outcome.event("failed");
    assert!(failed["message"].as_str().unwrap().contains("rateLimited"), "{outcome:#?}");
    assert!(began.elapsed() < Duration::from_secs(60), "it waited in vain");
    let attempt = world.state("busy.test")["attempt"].clone();
    let wait = attempt["next_at"].as_u64().unwrap() - attempt["at"].as_u64().unwrap();
    assert!((7200..7300).contains(&wait), "{attempt}");

    // If the authority is only busy, it's asked again.
    world.pass_time("busy.test");
    world.proxy.plan(|path, earlier| {
        if path.starts_with("/finalize") && earlier == 0 {
            problem(503, "serverInternal", "Retry-After: 6\r\n")
        } else {
            Fault::None
        }
    });
    world.once(&busy).assert_issued();
    assert_eq!(world.proxy.count("/finalize"), 2);

    // A nonce that is refused once is no failure.
    world.pass_time("example.test");
    fs::remove_file(world.file("example.test.pem")).unwrap();
    world.proxy.plan(|path, earlier| {
        let is_order = path.starts_with("/order-plz") || path.starts_with("/finalize");
        if is_order && earlier == 0 { problem(400, "badNonce", "") } else { Fault::None }
    });
    world.once(&names).assert_issued();
}

/// While the authority issues a certificate, a failed poll may say when to ask again.
#[test]
fn retry_after_of_a_failed_poll_is_obeyed() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    let fail_polls = |count: usize, fields: &'static str| {
        let polls = Arc::new(Mutex::new(Vec::new()));
        let (seen, is_finalized) = (Arc::clone(&polls), AtomicBool::new(false));
        world.proxy.plan(move |path, _| {
            if path.starts_with("/finalize") {
                is_finalized.store(true, Ordering::Relaxed);
            }
            let mut polls = polls.lock().unwrap();
            if !path.starts_with("/my-order") || !is_finalized.load(Ordering::Relaxed) {
                return Fault::None;
            }
            polls.push(Instant::now());
            if polls.len() <= count { problem(503, "serverInternal", fields) } else { Fault::None }
        });
        seen
    };
    let polls = fail_polls(1, "Retry-After: 4\r\n");
    world.once(&["example.test"]).assert_issued();
    let times = polls.lock().unwrap();
    assert!(times[1] - times[0] >= Duration::from_secs(4), "{times:?}");

    // It isn't worth waiting for. The next attempt continues the order when it's time.
    fail_polls(usize::MAX, "Retry-After: 7200\r\n");
    let began = Instant::now();
    let outcome = world.once(&["slow.test"]);
    assert_eq!(outcome.event("failed")["kind"], "failing", "{outcome:#?}");
    assert!(began.elapsed() < Duration::from_secs(60), "it waited in vain");
    let attempt = world.state("slow.test")["attempt"].clone();
    let wait = attempt["next_at"].as_u64().unwrap() - attempt["at"].as_u64().unwrap();
    assert!((7200..7300).contains(&wait), "{attempt}");
    world.pass_time("slow.test");
    world.proxy.plan(|_, _| Fault::None);
    world.once(&["slow.test"]).assert_issued();
    assert_eq!(world.proxy.count("/order-plz"), 0);
}

/// A directory in place of a bundle can't be read by any user.
#[test]
fn certificate_with_an_unreadable_bundle_holds_up_no_other() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    fs::create_dir_all(world.file("other.test.pem")).unwrap();
    let outcome = world.once(&["other.test", "example.test"]);
    assert_eq!(
        (outcome.code, outcome.event("failed")["kind"].as_str()),
        (Some(1), Some("folder")),
        "{outcome:#?}"
    );
    assert_eq!(outcome.event("issued")["certificate"], "example.test", "{outcome:#?}");
}

#[test]
fn refusals_and_failed_checks_say_what_to_do() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    let failed = |arguments: &[&str]| {
        let outcome = world.once(arguments);
        let failed = outcome.event("failed").clone();
        // The last message is about this run, not about other certificates of the folder.
        assert!(outcome.errors.contains(failed["message"].as_str().unwrap()), "{outcome:#?}");
        (
            failed["kind"].as_str().unwrap().to_owned(),
            failed["message"].to_string(),
            failed["hint"].to_string(),
        )
    };

    // Without `--agree`. The names differ, so that no attempt has to wait.
    let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
    let directory = format!("https://{}/dir", world.pebble.address);
    command.args([
        "certificates",
        text(&world.folder),
        "terms.test",
        "--once",
        "--json",
        "--directory-url",
        &directory,
    ]);
    // Nothing listens where it would check itself: the terms come first.
    command.args(["--check-via", "127.0.0.1:1"]);
    command.args(["--directory-roots", text(&world.place.path().join("roots.pem"))]);
    let terms = Outcome::new(&command.output().unwrap());
    let terms = terms.event("failed");
    assert_eq!(terms["kind"], "terms");
    assert!(terms["hint"].as_str().unwrap().contains("--agree"), "{terms}");

    // The server knows another thumbprint: nothing is ordered.
    let other = tempfile::tempdir().unwrap();
    let printed = run("cannery", &["certificates", text(other.path()), "--thumbprint"]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    let stranger = serve(other.path(), printed.trim());
    let (kind, message, hint) = failed(&["check.test", "--check-via", &stranger.address]);
    assert_eq!((kind.as_str(), world.proxy.count("/order-plz")), ("check", 0), "{message}");
    assert!(message.contains(printed.trim()) && hint.contains("--acme-thumbprint"), "{message} {hint}");

    // Nothing listens there.
    let (kind, message, _) = failed(&["closed.test", "--check-via", "127.0.0.1:1"]);
    assert!(kind == "check" && message.contains("nothing answers at 127.0.0.1:1"), "{message}");

    // A contact that the authority doesn't like, and a profile that it doesn't have.
    world.proxy.plan(|path, _| {
        if path == "/sign-me-up" {
            problem(400, "invalidContact", "Replay-Nonce: x\r\n")
        } else {
            Fault::None
        }
    });
    let (kind, message, hint) = failed(&["contact.test", "--contact", "me@example.com"]);
    assert!(kind == "refused" && hint.contains("--contact"), "{message} {hint}");
    world.proxy.plan(|_, _| Fault::None);
    let (kind, message, hint) = failed(&["profile.test", "--profile", "nonsense"]);
    assert!(kind == "refused" && hint.contains("--profile"), "{message} {hint}");

    // Without its root certificate, the authority is a stranger.
    let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
    command.args([
        "certificates",
        text(&world.folder),
        "roots.test",
        "--once",
        "--json",
        "--agree",
        "--no-check",
    ]);
    let unknown = Outcome::new(&command.args(["--directory-url", &directory]).output().unwrap());
    let unknown = unknown.event("failed");
    assert_eq!(unknown["kind"], "unreachable");
    assert!(unknown["hint"].as_str().unwrap().contains("--directory-roots"), "{unknown}");
}

/// People get each failure once, whether it is of this run or of an earlier one.
#[test]
fn failure_is_printed_once() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    let once = |arguments: &[&str]| {
        let mut command = world.command(&[arguments, &["--once"]].concat());
        let flags: Vec<_> =
            command.get_args().filter(|flag| *flag != "--json").map(ToOwned::to_owned).collect();
        command = Command::new(env!("CARGO_BIN_EXE_cannery"));
        let output = command.args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let count = |errors: &str, words: &str| {
        assert_eq!(errors.matches(words).count(), 1, "{errors}");
        assert_eq!(errors.matches("hint:").count(), 1, "{errors}");
    };
    // The check of our own server fails, so nothing has to wait.
    count(&once(&["closed.test", "--check-via", "127.0.0.1:1"]), "nothing answers at 127.0.0.1:1");

    // The authority refuses, so the next run only reports.
    world.proxy.plan(|path, _| {
        if path == "/order-plz" { problem(403, "rateLimited", "Replay-Nonce: x\r\n") } else { Fault::None }
    });
    count(&once(&["limited.test"]), "rateLimited");
    let again = once(&["limited.test"]);
    assert!(again.contains("the next attempt is possible at"), "{again}");
    count(&again, "rateLimited");

    // The certificate was removed right after its order.
    world.proxy.plan(|_, _| Fault::None);
    world.once(&["removed.test"]).assert_issued();
    fs::remove_file(world.file("removed.test.pem")).unwrap();
    let again = once(&["removed.test"]);
    assert!(again.contains("the last order was a moment ago, and the next one is possible at"), "{again}");
}

#[test]
fn one_process_issues_per_folder() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    let mut first =
        world.command(&["example.test"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let bundle = world.file("example.test.pem");
    wait_until("the first process has issued", || bundle.is_file());

    let second = world.once(&["other.test"]);
    assert_eq!(second.code, Some(1), "{second:#?}");
    assert!(second.errors.contains(&format!("is in use by process {}", first.id())), "{second:#?}");

    // Readers need no lock.
    let shown = run("cannery", &["certificates", text(&world.folder)]);
    assert!(shown.status.success() && String::from_utf8_lossy(&shown.stdout).contains("example.test.pem"));
    end(&mut first);
    world.once(&["other.test"]).assert_issued();
}

fn end(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Killed after the authority was asked to issue, the process leaves the order to the next one.
#[test]
fn order_of_a_killed_process_is_continued() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    world.proxy.plan(|path, _| if path.starts_with("/certZ") { Fault::CutAt(0) } else { Fault::None });
    let mut child =
        world.command(&["example.test"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the certificate is issued", || world.proxy.count("/certZ") > 0);
    end(&mut child);
    assert_eq!(mode(&world.file(".example.test.order")), 0o600);

    world.pass_time("example.test");
    world.proxy.plan(|_, _| Fault::None);
    world.once(&["example.test"]).assert_issued();
    assert_eq!((world.proxy.count("/order-plz"), world.proxy.count("/finalize")), (0, 0));
    assert_eq!(fs::read(world.file(".example.test.order")).unwrap(), b"");

    // The authority doesn't know the order any more.
    world.pass_time("example.test");
    world.proxy.plan(|path, _| if path.starts_with("/certZ") { Fault::CutAt(0) } else { Fault::None });
    fs::remove_file(world.file("example.test.pem")).unwrap();
    let mut child =
        world.command(&["example.test"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the certificate is issued", || world.proxy.count("/certZ") > 0);
    end(&mut child);
    world.pass_time("example.test");
    let is_first = AtomicBool::new(true);
    world.proxy.plan(move |path, _| {
        if path.starts_with("/my-order") && is_first.swap(false, Ordering::Relaxed) {
            problem(404, "malformed", "Replay-Nonce: x\r\n")
        } else {
            Fault::None
        }
    });
    world.once(&["example.test"]).assert_issued();
    assert_eq!(world.proxy.count("/order-plz"), 1);
}

#[test]
fn folder_that_cannot_be_used_is_named() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    for (arguments, code) in [
        (["certificates", text(&file), "a.test", "--once", "--agree"], 4),
        (["certificates", text(&file), "--thumbprint", "--quiet", "--agree"], 3),
    ] {
        let output = run("cannery", &arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(errors.contains(text(&file)), "{errors}");
    }
    let empty = run("cannery", &["certificates", text(&place.path().join("none"))]);
    assert_eq!(empty.status.code(), Some(3));
}

#[test]
fn dns_records_are_printed() {
    let output = run("cannery", &["dns", "example.com"]);
    assert!(output.status.success());
    let records = String::from_utf8(output.stdout).unwrap();
    assert!(records.contains("example.com. 3600 IN HTTPS 1 . alpn=\"h3,h2\"\n"), "{records}");
    assert!(
        records.lines().all(|line| line.starts_with(';') || line.starts_with("example.com. 3600 IN ")),
        "{records}"
    );
    assert_eq!(run("cannery", &["dns", "192.0.2.1"]).status.code(), Some(2));
}
