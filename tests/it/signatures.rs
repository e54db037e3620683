//! Signed releases: `cannery keygen` and `sign`, hosts that accept only signed releases, and Debian's `minisign` on the other side.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::{compile, skip_outside};
use crate::push::Place;

/// Generates a key without a password.
pub(crate) fn keygen(place: &Place, name: &str) {
    let output = place.run(&["keygen", "--no-password", &place.text(&format!("{name}.key"))]);
    assert!(output.status.success(), "{}", stderr(&output));
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Writes release `number` of the site, and compiles it.
fn write_release(place: &Place, number: u32) -> String {
    place.write_site(number);
    let archive = place.text(&format!("{number}.cdb"));
    compile(&place.path("public"), archive.as_ref(), &["--serial", &number.to_string()]);
    archive
}

/// Writes a program that takes the arguments of `ssh`, and runs `cannery receive` with these flags whatever the client asks for, as a
/// `command=` in `authorized_keys` does.
pub(crate) fn forced_receive(place: &Place, flags: &str) -> String {
    let path = place.path("forced");
    let script = format!(
        "#!/bin/sh\nexec {} receive {} {flags}\n",
        env!("CARGO_BIN_EXE_cannery"),
        place.text("releases")
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn minisign_verifies_our_signatures_and_we_verify_its() {
    if skip_outside() {
        return;
    }
    let place = Place::new();
    let archive = write_release(&place, 1);
    let statement = format!("{archive}.release");
    let minisign = |arguments: &[&str]| {
        let output = Command::new("minisign").args(arguments).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output))
    };

    // Our key, our signature.
    keygen(&place, "ours");
    let (key, public) = (place.text("ours.key"), place.text("ours.pub"));
    let signed = place.json(&["sign", &archive, "--secret-key", &key, "--site", "example.com"]);
    assert_eq!((&signed["sequence"], &signed["site"]), (&1.into(), &"example.com".into()));
    let (is_good, text) = minisign(&["-Vm", &statement, "-p", &public]);
    assert!(is_good && text.contains("example.com serial 1 sequence 1"), "{text}");
    let verified = place.json(&["verify", &archive, "--public-key", &public, "--site", "example.com"]);
    assert_eq!(verified["signed"]["sequence"], 1);

    // Our key, its signature.
    let unsigned = place.json(&["sign", &archive, "--unsigned", "--site", "example.com", "--sequence", "7"]);
    assert_eq!(unsigned["signature"], Value::Null);
    assert_eq!(place.run(&["verify", &archive, "--public-key", &public]).status.code(), Some(3));
    let (is_good, text) = minisign(&["-SWm", &statement, "-s", &key]);
    assert!(is_good, "{text}");
    assert_eq!(place.json(&["verify", &archive, "--public-key", &public])["signed"]["sequence"], 7);

    // Its key, its signature; then its key, our signature.
    let (theirs, their_public) = (place.text("theirs.key"), place.text("theirs.pub"));
    let (is_good, text) = minisign(&["-GWf", "-s", &theirs, "-p", &their_public]);
    assert!(is_good, "{text}");
    let (is_good, text) = minisign(&["-SWm", &statement, "-s", &theirs]);
    assert!(is_good, "{text}");
    let line = fs::read_to_string(&their_public).unwrap().lines().nth(1).unwrap().to_owned();
    let verified = place.json(&["verify", &archive, "--public-key", &line]);
    assert_eq!(verified["signed"]["sequence"], 7);
    place.json(&["sign", &archive, "--secret-key", &theirs, "--site", "example.com"]);
    let (is_good, text) = minisign(&["-Vm", &statement, "-p", &their_public]);
    assert!(is_good, "{text}");
}

#[test]
fn key_with_a_password_needs_it() {
    let place = Place::new();
    let archive = write_release(&place, 1);
    fs::write(place.path("password"), "correct horse\nsecond line\n").unwrap();
    let (key, password) = (place.text("site.key"), place.text("password"));
    let generated = place.json(&["keygen", &key, "--password-file", &password]);
    let public = fs::read_to_string(place.path("site.pub")).unwrap();
    assert_eq!(generated["secret_key_file"], key.as_str());
    assert_eq!(generated["public_key_file"], place.text("site.pub"));
    assert_eq!(generated["public_key"], public.lines().nth(1).unwrap());
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);

    let sign = ["sign", &archive, "--secret-key", &key, "--site", "example.com"];
    let output = place.run(&sign);
    assert!(output.status.code() == Some(1) && stderr(&output).contains("terminal"), "{}", stderr(&output));
    fs::write(place.path("wrong"), "battery staple").unwrap();
    let output = place.run(&[&sign[..], &["--password-file", &place.text("wrong")]].concat());
    assert!(output.status.code() == Some(3) && stderr(&output).contains("password"), "{}", stderr(&output));
    place.json(&[&sign[..], &["--password-file", &password]].concat());
    place.json(&["verify", &archive, "--public-key", &place.text("site.pub")]);

    let output = place.run(&["keygen", &key, "--no-password"]);
    assert!(output.status.code() == Some(4) && stderr(&output).contains("exists"), "{}", stderr(&output));
    let output = place.run(&["keygen", &key, "--no-password", "--json"]);
    let failure: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.code() == Some(4) && failure["error"].is_object(), "{failure}");
}

#[test]
fn verify_refuses_what_was_not_signed() {
    let place = Place::new();
    let (first, second) = (write_release(&place, 1), write_release(&place, 2));
    for name in ["site", "other"] {
        keygen(&place, name);
    }
    let sign = ["--secret-key", &place.text("site.key"), "--site", "example.com"];
    place.json(&[&["sign", &first], &sign[..]].concat());
    let refused = |archive: &str, flags: &[&str], message: &str| {
        let output = place.run(&[&["verify", archive], flags].concat());
        assert!(output.status.code() == Some(3) && stderr(&output).contains(message), "{}", stderr(&output));
    };
    refused(&second, &["--public-key", &place.text("site.pub")], "not signed");
    refused(&first, &["--public-key", &place.text("other.pub")], "key that isn't listed");
    refused(&first, &["--public-key", &place.text("site.pub"), "--site", "other.example"], "site");
    refused(&first, &["--public-key", &place.text("site.key")], "public key");

    // A statement about another archive, and one that was changed.
    for suffix in [".release", ".release.minisig"] {
        fs::copy(format!("{first}{suffix}"), format!("{second}{suffix}")).unwrap();
    }
    refused(&second, &["--public-key", &place.text("site.pub")], "another archive");
    let text = fs::read_to_string(format!("{first}.release")).unwrap();
    fs::write(format!("{first}.release"), text.replace("serial: 1", "serial: 2")).unwrap();
    refused(&first, &["--public-key", &place.text("site.pub")], "was changed");
}

#[test]
fn host_with_keys_accepts_only_signed_releases_in_order() {
    let place = Place::new();
    for name in ["site", "other"] {
        keygen(&place, name);
    }
    let ssh = forced_receive(&place, &format!("--public-key {} --site example.com", place.text("site.pub")));
    let (key, other) = (place.text("site.key"), place.text("other.key"));
    let signing = ["--secret-key", &key, "--site", "example.com"];
    let push = |archive: &str, flags: &[&str]| {
        place.run(&[&["push", "--ssh", &ssh, "host:releases", archive], flags].concat())
    };
    let refused = |output: Output, message: &str| {
        assert!(output.status.code() == Some(1) && stderr(&output).contains(message), "{}", stderr(&output));
    };
    let accepted = |output: Output| assert!(output.status.success(), "{}", stderr(&output));

    let (first, second) = (write_release(&place, 1), write_release(&place, 2));
    refused(push(&first, &[]), "isn't signed");
    refused(push(&first, &["--secret-key", &other, "--site", "example.com"]), "key that isn't listed");
    refused(push(&first, &["--secret-key", &key, "--site", "other.example"]), "site");
    assert!(!place.path("releases").exists(), "nothing was transferred");

    // Files beside the archive are sent with it.
    place.json(&[&["sign", &first], &signing[..]].concat());
    accepted(push(&first, &[]));
    accepted(push(&second, &signing));
    assert_eq!(place.current("releases"), "2.cdb");
    refused(push(&first, &[]), "older than what was accepted");
    let rollback =
        |flags: &[&str]| place.run(&[&["rollback", "--ssh", &ssh, "host:releases"], flags].concat());
    refused(rollback(&[]), "isn't signed");
    assert_eq!(place.current("releases"), "2.cdb");

    // A rollback is signed again.
    accepted(rollback(&signing));
    assert_eq!(place.current("releases"), "1.cdb");
    let statement = fs::read_to_string(place.path("releases").join("1.cdb.release")).unwrap();
    assert!(statement.contains("serial: 1\nsequence: 3\n"), "{statement}");
    // Folders are signed with the next sequence; old releases go with their signatures.
    place.write_site(3);
    accepted(push(&place.text("public"), &[&signing[..], &["--keep", "1"]].concat()));
    assert_eq!(
        place.names("releases"),
        [".seen.json", "3.cdb", "3.cdb.release", "3.cdb.release.minisig", "current"]
    );
    assert!(place.json(&["status", "--ssh", &ssh, "host:releases"]).to_string().contains("\"sequence\":4"));

    // Without the record of what was accepted, old releases would be accepted again.
    fs::write(place.path("releases").join(".seen.json"), "{").unwrap();
    refused(push(&second, &signing), "damaged");
    refused(push(&second, &signing), "restore the file from a backup");
}
