//! Faults of targets and stores: what `cannery push` and `cannery follow` say about them, and that they publish anyway.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::{compile, run, wait_until, write_folder};
use crate::push::Place;

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Changes a byte in the middle of a file, which is one of the largest body of an archive.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn is_intact(path: &Path) -> bool {
    run("cannery", &["verify", path.to_str().unwrap()]).status.success()
}

/// A place with two releases, of which the newest is damaged.
fn damaged_place() -> Place {
    let place = Place::new();
    for number in [1, 2] {
        place.write_site(number);
        place.json(&["push", &place.text("releases"), &place.text("public")]);
    }
    damage(&place.path("releases/2.cdb"));
    place.write_site(3);
    place
}

/// Pushes into the release directory, which must succeed, and returns what was printed about it.
fn pushed(place: &Place, site: &str) -> String {
    let output = place.run(&["push", &place.text("releases"), &place.text(site)]);
    assert!(output.status.success(), "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn damaged_newest_release_is_named_and_an_older_one_is_built_upon() {
    let place = damaged_place();
    fs::remove_dir_all(place.path("cache")).unwrap();
    let text = pushed(&place, "public");
    let releases = place.text("releases");
    assert!(text.contains(&format!("{releases}: note: 2.cdb is damaged")), "{text}");
    assert_eq!(place.current("releases"), "3.cdb");
    assert!(is_intact(&place.path("releases/3.cdb")));
    let old = place.run(&["inspect", &place.text("releases/3.cdb"), "/_astro/app.A1b2C3d1.js"]);
    assert!(old.status.success(), "files of the release before it are carried");

    // All of them are damaged, or aren't archives any more.
    for name in ["1.cdb", "3.cdb"] {
        damage(&place.path("releases").join(name));
    }
    fs::write(place.path("releases/2.cdb"), "nothing").unwrap();
    fs::remove_dir_all(place.path("cache")).unwrap();
    place.write_site(4);
    let text = pushed(&place, "public");
    assert!(["1.cdb", "2.cdb", "3.cdb"].iter().all(|name| text.contains(name)), "{text}");
    assert!(text.contains("no intact release"), "{text}");
    assert!(is_intact(&place.path("releases/current")));
}

#[test]
fn contents_of_a_damaged_release_are_sent_again() {
    let place = damaged_place();
    let text = pushed(&place, "public");
    assert!(text.contains("2.cdb is damaged, so its contents were transferred again"), "{text}");
    assert!(is_intact(&place.path("releases/3.cdb")));

    // The same archive again replaces the damaged file.
    damage(&place.path("releases/3.cdb"));
    let text = pushed(&place, "public");
    assert!(text.contains("3.cdb is damaged"), "{text}");
    assert_eq!(place.current("releases"), "3.cdb");
    assert!(is_intact(&place.path("releases/3.cdb")));
}

#[test]
fn damaged_release_of_a_node_is_pulled_again() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    let node = place.text("node");
    let follow = || place.run(&["follow", &store, "--into", &node, "--once", "--unsigned"]);
    let push = |number: u32| {
        place.write_site(number);
        place.json(&["push", &store, &place.text("public")]);
    };
    push(1);
    assert!(follow().status.success());
    damage(&place.path("node/1.cdb"));
    push(2);
    let output = follow();
    assert!(output.status.success() && stderr(&output).contains("1.cdb is damaged"), "{}", stderr(&output));
    assert!(is_intact(&place.path("node/2.cdb")));
    // The release to go back to is there, but damaged.
    place.json(&["rollback", &store]);
    assert!(follow().status.success());
    assert_eq!(place.current("node"), "1.cdb");
    assert!(is_intact(&place.path("node/1.cdb")));
}

#[test]
fn damaged_blob_of_a_store_is_uploaded_again() {
    let place = Place::new();
    place.write_site(1);
    let store = format!("file://{}", place.text("store"));
    let push = || place.json(&["push", &store, &place.text("public")]);
    push();
    assert_eq!(push()["targets"][0]["uploaded_bytes"], 0, "nothing has changed");
    let blobs = || fs::read_dir(place.path("store/blobs/sha256")).unwrap().map(|entry| entry.unwrap().path());
    for blob in blobs() {
        let good = fs::read(&blob).unwrap();
        for wrong in [good.iter().map(|byte| byte ^ 1).collect(), good[..good.len() - 1].to_vec()] {
            fs::write(&blob, wrong).unwrap();
            assert_eq!(push()["targets"][0]["uploaded_bytes"], good.len());
            assert!(fs::read(&blob).unwrap() == good);
        }
    }

    // Without a cache, the release can't be built upon, and the next one is complete anyway.
    for blob in blobs() {
        damage(&blob);
    }
    fs::remove_dir_all(place.path("cache")).unwrap();
    let output = place.run(&["push", &store, &place.text("public")]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("release 1 is damaged there"), "{}", stderr(&output));
    let node = place.text("node");
    assert!(place.run(&["follow", &store, "--into", &node, "--once", "--unsigned"]).status.success());
}

#[test]
fn failed_target_is_named_once() {
    let place = Place::new();
    place.write_site(1);
    let (good, bad, site) = (place.text("good"), place.text("missing/parent"), place.text("public"));
    for quorum in ["1", "2"] {
        let output = place.run(&["push", "--quorum", quorum, &good, &bad, &site]);
        assert_eq!(output.status.success(), quorum == "1");
        assert_eq!(stderr(&output).matches("failed:").count(), 1, "{}", stderr(&output));
    }
}

#[test]
fn server_without_a_release_suggests_a_push() {
    let place = Place::new();
    fs::create_dir(place.path("empty")).unwrap();
    for directory in ["empty", "missing"] {
        let directory = place.text(directory);
        let output = run("cannery-server", &["--releases", &directory, "--bind", "127.0.0.1:0"]);
        let errors = stderr(&output);
        assert!(errors.contains(&format!("cannery push {directory} SITE")), "{errors}");
        assert!(!errors.contains("cannery-archiver"), "{errors}");
    }
}

#[test]
fn credentials_are_not_sent_without_tls() {
    let place = Place::new();
    place.write_site(1);
    let (into, site) = (place.text("node"), place.text("public"));
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        let aws = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
        let output = command.env("CANNERY_STORE_TOKEN", "secret").envs(aws).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        stderr(&output)
    };
    // Names below `.invalid` have no address, so a request that is permitted fails, too.
    let web = "http://store.invalid/";
    let s3 = ["--s3-endpoint", "http://store.invalid:9000"];
    for arguments in [
        vec!["follow", web, "--into", &into, "--once", "--public-key", KEY],
        vec!["push", web, &site],
        vec!["status", web],
        vec!["rollback", web],
        [&["push", "s3://bucket/site", &site][..], &s3].concat(),
        [&["status", "s3://bucket/site"][..], &s3].concat(),
    ] {
        let refused = run(&arguments);
        assert!(refused.contains("has no TLS") && refused.contains("--store-plain-http"), "{refused}");
        assert!(!refused.contains("secret"), "{refused}");
        let permitted = run(&[&arguments[..], &["--store-plain-http"]].concat());
        assert!(!permitted.contains("has no TLS"), "{permitted}");
    }
}

/// A public key of no one.
const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

#[test]
fn roots_without_a_certificate_are_refused() {
    let place = Place::new();
    let roots = place.text("roots.pem");
    fs::write(&roots, "-----BEGIN PRIVATE KEY-----\n").unwrap();
    let output = place.run(&["status", "oci://localhost:1/site", "--store-roots", &roots]);
    let errors = stderr(&output);
    assert!(output.status.code() == Some(1) && errors.contains("no certificate in PEM"), "{errors}");
}

#[test]
fn rubbish_of_killed_pushes_is_removed_by_the_next_push() {
    let place = Place::new();
    place.write_site(1);
    let store = format!("file://{}", place.text("store"));
    let (releases, site) = (place.text("releases"), place.text("public"));
    place.json(&["push", &releases, &site]);
    place.json(&["push", &store, &site]);
    // No process has the first ID; this process has the second one.
    let (gone, alive) = (u32::MAX, std::process::id());
    let files = |owner: u32| {
        [
            format!("releases/.tmp-{owner}-1.cdb.release"),
            format!("store/.{owner}-live.json.tmp"),
            format!("store/blobs/sha256/.{owner}-abc.tmp"),
        ]
    };
    for file in files(gone).iter().chain(&files(alive)) {
        fs::write(place.path(file), "rubbish").unwrap();
    }
    fs::write(place.path("store/.notes.tmp"), "of the user").unwrap();
    // Nothing has changed, so nothing is transferred.
    place.json(&["push", &releases, &site]);
    place.json(&["push", &store, &site]);
    assert!(files(gone).iter().all(|file| !place.path(file).exists()));
    assert!(files(alive).iter().all(|file| place.path(file).exists()), "their owner may still write");
    assert!(place.path("store/.notes.tmp").exists());
}

#[test]
fn explain_and_inspect_have_the_same_host_flag() {
    let place = Place::new();
    write_folder(
        &place.path("public"),
        &[(b"index.html", b"default"), (b"_hosts/docs.example.com/index.html", b"docs of the host")],
    );
    compile(&place.path("public"), &place.path("site.cdb"), &[]);
    let archive = place.text("site.cdb");
    let explain = |arguments: &[&str]| {
        let value: Value = place.json(&[&["explain", &archive], arguments].concat());
        value.to_string()
    };
    let with_header = explain(&["/", "-H", "Host: docs.example.com"]);
    assert_eq!(explain(&["/", "--host", "docs.example.com"]), with_header);
    assert_eq!(explain(&["/", "--host", "DOCS.example.com"]), with_header);
    assert_ne!(explain(&["/"]), with_header);
    assert!(place.run(&["inspect", &archive, "/", "--host", "docs.example.com"]).status.success());
    for wrong in [&["--host", "a b"][..], &["--host", "a", "-H", "Host: b"]] {
        let output = place.run(&[&["explain", &archive, "/"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}

/// A limit on the length of files stands for a full disk, which not every machine of a test can make.
#[test]
fn full_disk_of_a_node_or_host_changes_nothing() {
    let place = Place::new();
    let store = format!("file://{}", place.text("store"));
    let (node, site, releases) = (place.text("node"), place.text("public"), place.text("releases"));
    let limited = |arguments: &[&str]| {
        let script = "trap '' XFSZ; ulimit -f 64; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_cannery")]).args(arguments);
        command.env("XDG_CACHE_HOME", place.path("cache")).output().unwrap()
    };
    let follow = ["follow", &store, "--into", &node, "--once", "--unsigned"];
    place.write_site(1);
    place.json(&["push", &store, &site]);
    place.json(&["push", &releases, &site]);
    assert!(place.run(&follow).status.success());
    place.write_site(2);
    place.json(&["push", &store, &site]);
    compile(&place.path("public"), &place.path("2.cdb"), &["--serial", "2"]);

    let output = limited(&follow);
    assert!(output.status.code() == Some(4) && stderr(&output).contains("make room"), "{}", stderr(&output));
    let output = limited(&["push", &releases, &place.text("2.cdb")]);
    assert!(
        output.status.code() == Some(4) && stderr(&output).contains("cannot write the release"),
        "{}",
        stderr(&output)
    );
    let output = limited(&["push", &format!("file://{}", place.text("empty")), &place.text("2.cdb")]);
    assert!(
        output.status.code() == Some(4) && stderr(&output).contains("cannot write"),
        "{}",
        stderr(&output)
    );
    for directory in ["node", "releases"] {
        assert_eq!(place.current(directory), "1.cdb");
        let names = place.names(directory);
        assert!(!names.iter().any(|name| name.contains("incoming") || name.starts_with(".tmp")), "{names:?}");
    }
    assert!(place.run(&follow).status.success());
    assert_eq!(place.current("node"), "2.cdb");
}

/// A direction of a connection that ends after some bytes.
#[derive(Debug, Clone, Copy)]
enum Cut {
    FromHost(usize),
    ToHost(usize),
}

impl Cut {
    /// Returns the commands of a program that stands for `ssh`. The last argument is the command on the host.
    fn script(self) -> String {
        match self {
            // The host still waits for requests, so a pipeline would not end. `head` would collect what it passes on.
            Cut::FromHost(bytes) => {
                format!("eval \"$last\" | {{ dd bs=1 count={bytes} 2> /dev/null; kill $$; }}\nexit 255")
            }
            Cut::ToHost(bytes) => {
                format!("dd bs=1 count={bytes} 2> /dev/null | eval \"$last\"\nexit 255")
            }
        }
    }
}

#[test]
fn connections_cut_in_either_direction_change_nothing_and_leave_nothing() {
    let place = Place::new();
    place.write_site(1);
    place.json(&["push", &place.text("first"), &place.text("public")]);
    place.write_site(2);
    let (requests, responses) = (place.path("requests"), place.path("responses"));
    let taps = format!("tee {} | eval \"$last\" | tee {}\nexit", requests.display(), responses.display());
    let tapped = place.fake_ssh("tapped", &taps);
    let copy = |directory: &str| {
        let copied = Command::new("cp").args(["-a", &place.text("first"), &place.text(directory)]).status();
        assert!(copied.unwrap().success());
        format!("host:{}", place.text(directory))
    };
    place.json(&["push", "--ssh", &tapped, &copy("whole"), &place.text("public")]);

    let cuts = |stream: &Path| {
        let bytes = usize::try_from(fs::metadata(stream).unwrap().len()).unwrap();
        assert!(bytes > 100, "{bytes}");
        let inside = (1..8).map(move |part| bytes * part / 8);
        // The recipe has the date and is compressed, so the next stream may be some bytes shorter.
        [0, 1, 5].into_iter().chain(inside).chain([bytes - 8])
    };
    let cuts = cuts(&responses).map(Cut::FromHost).chain(cuts(&requests).map(Cut::ToHost));
    for (index, cut) in cuts.enumerate() {
        let directory = format!("releases{index}");
        let (target, site) = (copy(&directory), place.text("public"));
        let before = place.names(&directory);
        let ssh = place.fake_ssh(&format!("ssh{index}"), &cut.script());
        let output = place.run(&["push", "--ssh", &ssh, &target, &site]);
        let errors = stderr(&output);
        let at = format!("{cut:?}: {errors}");
        assert!(output.status.code() == Some(1) && errors.contains("error: "), "{at}");

        // The host has either nothing of the release or all of it, and may have switched if only its last words are missing.
        let rubbish = || place.names(&directory).into_iter().find(|name| name.starts_with('.'));
        wait_until(&format!("the host has cleaned up, {at}"), || rubbish().is_none());
        if place.names(&directory) != before {
            assert!(is_intact(&place.path(&directory).join("2.cdb")), "{at}");
        }
        let current = place.path(&directory).join("current");
        assert!(is_intact(&current), "{at}");
        let again = place.run(&["push", &place.text(&directory), &site]);
        assert!(again.status.success(), "{at}, then {}", stderr(&again));
        assert_eq!(place.current(&directory), "2.cdb", "{at}");
        assert_eq!(rubbish(), None, "{at}");
    }
}
