//! `--renew`: the operator asks the running process to renew a certificate before it's due.

use std::fs;
use std::process::Stdio;

use super::{World, end, text};
use crate::harness::{run, skip_outside, wait_until};

#[test]
fn running_process_renews_at_request() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    let ask = |name: &str| {
        let output = run("cannery", &["certificates", text(&world.folder), "--renew", name]);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    world.once(&["example.test,www.example.test"]).assert_issued();
    let bundle = || fs::read(world.file("example.test.pem")).unwrap();
    let first = bundle();

    let (code, message) = ask("www.example.test");
    assert!(code == Some(1) && message.contains("first names in this folder: example.test"), "{message}");
    let (code, message) = ask("example.test");
    assert!(code == Some(1) && message.contains("no process renews"), "{message}");
    assert!(message.contains("cannery-server --certificates"), "{message}");
    assert!(!world.file("example.test.renew").exists());

    // The last order was a moment ago, so the process waits.
    world.proxy.plan(|_, _| super::Fault::None);
    let start = || {
        let mut command = world.command(&["example.test,www.example.test"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let is_held = |process: u32| {
        fs::read_to_string(world.file("lock")).is_ok_and(|holder| holder.trim() == process.to_string())
    };
    let mut process = start();
    wait_until("the process holds the lock", || is_held(process.id()));
    let (code, message) = ask("example.test");
    assert!(code == Some(0) && message.contains(&format!("process {}", process.id())), "{message}");
    wait_until("the request is recorded", || world.state("example.test")["is_renewal_requested"] == true);
    assert!(!world.file("example.test.renew").exists());
    assert_eq!((world.proxy.count("/order-plz"), bundle() == first), (0, true));
    end(&mut process);

    // The next process knows of the request, and may order now.
    world.pass_time("example.test");
    let mut process = start();
    wait_until("the certificate is renewed", || bundle() != first);
    wait_until("the request is done", || world.state("example.test")["is_renewal_requested"] == false);
    assert_eq!(world.proxy.count("/order-plz"), 1);
    end(&mut process);

    // A running process notices the request without a restart.
    world.pass_time("example.test");
    let second = bundle();
    let mut process = start();
    wait_until("the process holds the lock", || is_held(process.id()));
    assert_eq!(ask("example.test").0, Some(0));
    wait_until("the certificate is renewed again", || bundle() != second);
    end(&mut process);
}
