//! Messages of commands say whose fault something is, where, and what to do next.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::harness::{Server, compile, run};
use crate::push::Place;
use crate::signatures::keygen;
use crate::store_credentials;
use crate::stores::{empty, serve, stderr};

/// Checks that a command failed, and that its message has all of these words.
#[track_caller]
fn explained(output: &Output, words: &[&str]) {
    let text = stderr(output);
    assert!(!output.status.success(), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in {text}");
    }
}

/// Runs a command that would wait forever if it opened a FIFO.
fn run_briefly(arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["30", env!("CARGO_BIN_EXE_cannery")]).args(arguments);
    command.stdin(Stdio::null()).output().unwrap()
}

fn fifo(place: &Place, name: &str) -> String {
    let path = place.text(name);
    assert!(run_program("mkfifo", &[&path]).status.success());
    path
}

fn run_program(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

#[test]
fn wrong_scheme_of_a_store_is_explained() {
    let place = Place::new();
    place.write_site(1);
    let push = |store: &str| place.run(&["push", store, &place.text("public")]);
    let server = Server::start(&["--dummy", "--bind-tls", "127.0.0.1:0", "--tls-self-ecdsa"]);
    let output = push(&format!("https://{}/", server.address));
    explained(&output, &["sends something other than TLS", "name the port on which"]);

    // The alert of a server that has got plain text.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let tls = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"\x15\x03\x03\x00\x02\x02\x46");
        }
    });
    explained(&push(&format!("http://{tls}/")), &["sends something other than HTTP", "write `https://`"]);

    let go = serve(|_| (400, Vec::new(), b"Client sent an HTTP request to an HTTPS server.\n".to_vec()));
    explained(&push(&format!("http://{go}/")), &["400", "this port is for TLS"]);
    explained(&push(&format!("http://{}/", server.read_tls_address())), &["https://"]);
}

#[test]
fn unreadable_configuration_of_docker_is_named_if_credentials_are_needed() {
    let place = Place::new();
    place.write_site(1);
    let host = serve(|_| (401, vec![("WWW-Authenticate", "Basic realm=\"r\"".to_owned())], Vec::new()));
    // Also root can't read it.
    fs::create_dir_all(place.path("docker/config.json")).unwrap();
    let variables = [("DOCKER_CONFIG", place.text("docker"))];
    let push = |store: &str| {
        store_credentials::command(&place, &["push", store, &place.text("public")], &variables)
            .output()
            .unwrap()
    };
    let config = place.text("docker/config.json");
    explained(&push(&format!("oci://{host}/site")), &["demands credentials", &config, "REGISTRY_AUTH_FILE"]);

    fs::remove_dir(&config).unwrap();
    fifo(&place, "docker/config.json");
    explained(&push(&format!("oci://{host}/site")), &[&config, "isn't a regular file"]);
    fs::remove_file(&config).unwrap();
    fs::write(&config, "{\n\"auths\": secret").unwrap();
    let output = push(&format!("oci://{host}/site"));
    explained(&output, &[&config, "line 2", "docker login"]);
    assert!(!stderr(&output).contains("secret"));

    // Without a demand, it doesn't matter.
    fs::remove_file(&config).unwrap();
    fs::create_dir(&config).unwrap();
    let open = serve(|_| empty(500));
    let text = stderr(&push(&format!("oci://{open}/site")));
    assert!(text.contains("answers 500") && !text.contains("config.json"), "{text}");
}

#[test]
fn endpoints_of_aws_are_those_of_its_tools() {
    let place = Place::new();
    place.write_site(1);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let host = serve(move |asked| {
        seen.lock().unwrap().push(format!("{} {}", asked.method, asked.target));
        empty(500)
    });
    let url = format!("http://{host}");
    let push = |variables: &[(&str, &str)]| {
        let mut all = vec![("AWS_ACCESS_KEY_ID", "a".to_owned()), ("AWS_SECRET_ACCESS_KEY", "b".to_owned())];
        all.extend(variables.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let arguments = ["push", "s3://bucket/site", &place.text("public")];
        let output = store_credentials::command(&place, &arguments, &all).output().unwrap();
        assert!(!output.status.success());
        std::mem::take(&mut *asked.lock().unwrap()).join(", ") + &stderr(&output)
    };
    for variables in [
        &[("AWS_ENDPOINT_URL_S3", &*url), ("AWS_ENDPOINT_URL", "http://127.0.0.1:1")][..],
        &[("AWS_ENDPOINT_URL", &*url)],
    ] {
        let text = push(variables);
        assert!(text.starts_with("GET /bucket/site/live.json?"), "{text}");
    }
    // A proxy sees which host is asked.
    for (region, expected) in [
        ("cn-north-1", "CONNECT bucket.s3.cn-north-1.amazonaws.com.cn:443"),
        ("eu-central-1", "CONNECT bucket.s3.eu-central-1.amazonaws.com:443"),
    ] {
        let ignored = ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
        let text =
            push(&[("HTTPS_PROXY", &url), ("AWS_REGION", region), ("AWS_ENDPOINT_URL_S3", &url), ignored]);
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn unusable_folder_for_certificates_has_a_remedy() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    let obtain =
        |folder: &str| run("cannery", &["certificates", folder, "www.example.com", "--agree", "--once"]);
    for folder in [place.text("file"), place.text("file/folder")] {
        explained(
            &obtain(&folder),
            &[&format!("cannot create {folder}"), &format!("{} is a file: name another", place.text("file"))],
        );
    }
    explained(
        &obtain("/proc/none"),
        &["cannot create /proc/none", "name a folder that this user may create"],
    );
    // The file that says who holds the folder.
    fs::create_dir_all(place.path("tls/lock")).unwrap();
    explained(&obtain(&place.text("tls")), &["cannot write", "name a folder that this user may write to"]);
}

#[test]
fn unusable_ticket_seed_has_a_remedy() {
    let place = Place::new();
    let seed = place.text("seed");
    let start = || {
        run(
            "cannery-server",
            &[
                "--dummy",
                "--bind",
                "127.0.0.1:0",
                "--bind-tls",
                "127.0.0.1:0",
                "--tls-self-ecdsa",
                "--tls-ticket-seed",
                &seed,
            ],
        )
    };
    let remedy = "openssl rand -out FILE 64";
    explained(&start(), &[&seed, "--tls-ticket-seed", "No such file", remedy]);
    fs::write(&seed, "short").unwrap();
    fs::set_permissions(&seed, fs::Permissions::from_mode(0o600)).unwrap();
    explained(&start(), &[&seed, "5 bytes", "32 or more", remedy]);
    fs::remove_file(&seed).unwrap();
    fifo(&place, "seed");
    explained(&start(), &[&seed, "isn't a regular file", remedy]);
}

#[test]
fn other_file_instead_of_an_archive_is_recognized() {
    let place = Place::new();
    let file = place.text("file");
    for (content, kind, hint) in [
        (&b"\n<!DOCTYPE html><title>Not found</title>"[..], "an HTML page", "download it again"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "compressed with gzip", "unpack it"),
        (b"PK\x03\x04\x14\0", "a ZIP archive", "unpack it"),
        (b"untrusted comment: minisign public key 1\nRW", "a key or signature", "name the archive"),
        ("caf\u{e9}".as_bytes(), "a text file", "cannery-archiver DIR FILE"),
        (b"", "empty", "build it again"),
    ] {
        // Long enough for a header, too.
        for length in [content.len(), 4096] {
            let mut content = content.to_vec();
            if !content.is_empty() {
                content.resize(length.max(content.len()), b' ');
            }
            fs::write(&file, content).unwrap();
            let output = run("cannery", &["verify", &file]);
            assert_eq!(output.status.code(), Some(3));
            explained(&output, &[&file, "isn't an archive of Cannery", kind, hint]);
        }
    }
    fs::write(&file, vec![0xfe; 4096]).unwrap();
    explained(&run("cannery", &["verify", &file]), &["its first record", "cannery-archiver DIR FILE"]);
}

#[test]
fn rollback_of_the_first_release_says_what_to_do() {
    let place = Place::new();
    keygen(&place, "site");
    let key = place.text("site.key");
    let (directory, store) = (place.text("releases"), format!("file://{}", place.text("store")));
    place.write_site(1);
    for target in [&directory, &store] {
        for signing in [&[][..], &["--secret-key", &key, "--site", "example.com"]] {
            place.json(&[&["push", target, &place.text("public"), "--keep", "1"], signing].concat());
            let output = place.run(&[&["rollback", target], signing].concat());
            explained(&output, &["comes before", "hint:", "cannery push"]);
        }
    }
    fs::create_dir(place.path("empty")).unwrap();
    explained(&place.run(&["rollback", &place.text("empty")]), &["no release is current yet", "--to NAME"]);
}

/// Writes a program in place of `ssh`, which sends these bytes.
fn answering(place: &Place, name: &str, bytes: &[u8]) -> String {
    fs::write(place.path("answer"), bytes).unwrap();
    place.fake_ssh(name, &format!("cat {}; cat > /dev/null; exit 0", place.text("answer")))
}

#[test]
fn versions_of_both_sides_are_named_if_they_differ() {
    let place = Place::new();
    let status = |bytes: &[u8]| {
        let ssh = answering(&place, "ssh", bytes);
        place.run(&["status", "--ssh", &ssh, "web@host.example:/srv/site"])
    };
    let hello = br#"{"cannery": "9.8.7", "protocol": 12, "protocol_oldest": 11}"#;
    let frame = [b"C", &u32::try_from(hello.len()).unwrap().to_le_bytes()[..], hello].concat();
    let own = run("cannery", &["--version"]);
    let own = String::from_utf8(own.stdout).unwrap();
    let own = own.split_whitespace().nth(1).unwrap();
    let output = status(&frame);
    explained(
        &output,
        &[
            "Cannery 9.8.7 on the other side",
            "version 11 to 12",
            &format!("Cannery {own} here"),
            "install the same version",
        ],
    );
    assert!(!stderr(&output).contains(".bashrc"));

    // A later version may greet differently.
    for greeting in [&b"C\x02\0\0\0{}"[..], b"\xc7\x01\0\0\0{}"] {
        let output = status(greeting);
        explained(&output, &[&format!("this is Cannery {own}"), "install the same version"]);
        assert!(!stderr(&output).contains(".bashrc"), "{}", stderr(&output));
    }
    explained(&status(b"Welcome to Debian\n"), &["`Welco", ".bashrc"]);
}

/// A client that leaves has told its user why.
#[test]
fn receiver_is_silent_after_its_client_has_left() {
    let place = Place::new();
    let mut receiver = place.command(&["receive", &place.text("releases")]);
    let receiver = receiver.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut receiver = receiver.spawn().unwrap();
    drop(receiver.stdout.take());
    let hello = br#"{"cannery": "9.8.7", "protocol": 12, "protocol_oldest": 11}"#;
    let frame = [b"C", &u32::try_from(hello.len()).unwrap().to_le_bytes()[..], hello].concat();
    receiver.stdin.take().unwrap().write_all(&frame).unwrap();
    let output = receiver.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn fifos_in_place_of_files_are_refused() {
    let place = Place::new();
    keygen(&place, "site");
    place.write_site(1);
    compile(&place.path("public"), &place.path("site.cdb"), &[]);
    let (fifo, archive, key) = (fifo(&place, "fifo"), place.text("site.cdb"), place.text("site.key"));
    let (site, store, image) =
        (place.text("public"), format!("file://{}", place.text("store")), place.text("image"));
    for arguments in [
        &["image", &archive, "--output", &image, "--server", &fifo][..],
        &["verify", &fifo],
        &["verify", &archive, "--public-key", &fifo],
        &["sign", &archive, "--site", "example.com", "--secret-key", &fifo],
        &["sign", &archive, "--site", "example.com", "--secret-key", "/dev/zero"],
        &["push", &store, &site, "--site", "example.com", "--secret-key", &fifo],
        &["push", &store, &site, "--store-roots", &fifo],
        &["push", &store, &fifo],
        &["push", &place.text("sites"), &site, "--preview", "a.example", "--password-file", &fifo],
        &["bundle", &archive, "--output", &image, "--server", &fifo],
        &["import", &fifo, &image],
    ] {
        let output = run_briefly(arguments);
        let code = output.status.code();
        assert!(matches!(code, Some(1..=4)), "{arguments:?}: {code:?} {}", stderr(&output));
    }

    // The pipe of a shell is good.
    let mut sign = Command::new(env!("CARGO_BIN_EXE_cannery"));
    sign.args(["sign", &archive, "--site", "example.com", "--secret-key", "/dev/fd/0"]);
    let mut sign = sign.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    sign.stdin.take().unwrap().write_all(&fs::read(&key).unwrap()).unwrap();
    assert!(sign.wait().unwrap().success());
}

#[test]
fn commands_with_events_print_their_failure_as_json() {
    let place = Place::new();
    let (missing, into) = (place.text("missing"), place.text("node"));
    for (arguments, code) in [
        (&["serve", &missing, "--json"][..], 3),
        (&["follow", &format!("file://{missing}"), "--into", &into, "--json", "--unsigned", "--once"], 1),
        (&["follow", "nowhere", "--into", &into, "--json", "--unsigned"], 2),
    ] {
        let output = place.run(arguments);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!((output.status.code(), &last["error"]["exit_code"]), (Some(code), &code.into()), "{text}");
        assert!(stderr(&output).contains(last["error"]["message"].as_str().unwrap()));
    }
}

fn states_of(listed: &Value) -> Vec<String> {
    let releases = listed["releases"].as_array().unwrap().iter();
    releases.map(|release| release["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn status_tells_staged_releases_from_those_that_were_rolled_back() {
    let place = Place::new();
    let (directory, store) = (place.text("releases"), format!("file://{}", place.text("store")));
    let site = place.text("public");
    for target in [&directory, &store] {
        let states = || {
            let status = place.json(&["status", target]);
            states_of(&status[0])
        };
        let text = || String::from_utf8(place.run(&["status", target]).stdout).unwrap();
        for number in [1, 2] {
            place.write_site(number);
            place.json(&["push", target, &site]);
        }
        assert_eq!(states(), ["current", "earlier"]);
        place.json(&["rollback", target]);
        assert_eq!(states(), ["rolled_back", "current"]);
        assert!(text().contains("rolled back"), "{}", text());
        place.write_site(3);
        place.json(&["push", "--stage-only", target, &site]);
        assert_eq!(states(), ["staged", "rolled_back", "current"]);
        assert!(text().contains("staged") && !text().contains("not current"), "{}", text());
        place.json(&["push", target, &site]);
        assert_eq!(states()[0], "current");
    }

    let listed = place.json(&["releases", &directory]);
    assert_eq!(listed["releases"][1]["state"], "earlier");
    assert!(!place.names("releases").contains(&".rolled-back.json".to_owned()));
    // It is served again, and then an earlier release while a later one is staged.
    place.json(&["releases", &directory, "--use", "2"]);
    assert_eq!(place.json(&["releases", &directory])["releases"][0]["state"], "rolled_back");
    place.write_site(4);
    place.json(&["push", "--stage-only", &directory, &site]);
    place.json(&["rollback", &directory]);
    assert_eq!(
        states_of(&place.json(&["releases", &directory])),
        ["staged", "rolled_back", "rolled_back", "current"]
    );
    // A rollback over two releases.
    place.json(&["push", &directory, &site]);
    place.json(&["rollback", &directory, "--to", "2"]);
    assert_eq!(
        states_of(&place.json(&["releases", &directory])),
        ["rolled_back", "rolled_back", "current", "earlier"]
    );
}
