//! `--dns-persist`: a DNS record that the operator sets once proves control of a name and its wildcard.

use std::path::Path;

use super::{World, text};
use crate::harness::{run, skip_outside};

/// Runs `cannery dns` for the account in a folder.
fn print_records(world: &World, names: &str, folder: &Path) -> (Option<i32>, String) {
    let directory = format!("https://{}/dir", world.proxy.address);
    let output = run(
        "cannery",
        &[
            "dns",
            names,
            "--account",
            text(folder),
            "--directory-url",
            &directory,
            "--authority",
            "pebble.letsencrypt.org",
        ],
    );
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn persistent_record_proves_control() {
    if skip_outside() {
        return;
    }
    let world = World::new();
    let names = "*.example.test,example.test";
    let (code, message) = print_records(&world, names, &world.folder);
    assert!(code == Some(1) && message.contains("has no account at https://127.0.0.1:"), "{message}");

    // No record can be there yet, so the authority isn't asked. Nothing listens where the server would be checked.
    let arguments = [names, "--dns-persist", "--check-via", "127.0.0.1:1"];
    let outcome = world.once(&arguments);
    let failed = outcome.event("failed");
    assert_eq!((outcome.code, failed["kind"].as_str()), (Some(1), Some("new_account")), "{outcome:#?}");
    assert_eq!((world.proxy.count("/sign-me-up"), world.proxy.count("/order-plz")), (1, 0));
    let hint = failed["hint"].as_str().unwrap();
    let record = &hint[hint.find("_validation-persist").unwrap()..];
    assert!(record.starts_with("_validation-persist.example.test. 3600 IN TXT \""), "{record}");
    assert!(record.ends_with("; policy=wildcard\""), "{record}");
    let (code, printed) = print_records(&world, names, &world.folder);
    assert!(code == Some(0) && printed.lines().any(|line| line == record), "{printed}");

    let value = record.split('"').nth(1).unwrap();
    let host = "_validation-persist.example.test.";
    for (value, detail) in [
        (None, "No TXT records found"),
        (Some(value.replace("; policy=wildcard", "")), "policy mismatch"),
        (Some(value.replace("accounturi=", "accounturi=x")), "accounturi mismatch"),
        (Some(format!("{value};")), "trailing semicolon"),
    ] {
        world.pebble.clear_txt(host);
        if let Some(value) = value {
            world.pebble.set_txt(host, &value);
        }
        world.pass_time("_.example.test");
        let outcome = world.once(&arguments);
        let failed = outcome.event("failed");
        assert_eq!((outcome.code, failed["kind"].as_str()), (Some(1), Some("refused")), "{outcome:#?}");
        assert!(failed["message"].as_str().unwrap().contains(detail), "{failed}");
        assert!(failed["hint"].as_str().unwrap().ends_with(record), "{failed}");
    }

    world.pebble.clear_txt(host);
    world.pebble.set_txt(host, value);
    world.pass_time("_.example.test");
    world.once(&arguments).assert_issued();

    // A host needs no policy, and the record stays for the next order.
    let (_, printed) = print_records(&world, "www.test", &world.folder);
    let record = printed.lines().last().unwrap();
    assert!(!record.contains("policy"), "{record}");
    world.pebble.set_txt("_validation-persist.www.test.", record.split('"').nth(1).unwrap());
    world.once(&["www.test", "--dns-persist", "--check-via", "127.0.0.1:1"]).assert_issued();
}
