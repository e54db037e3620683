//! `cannery push --preview`: previews under hosts of their own, served by `cannery-server --sites`.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::harness::{Server, request_at, wait_until};
use crate::push::Place;

const HOST: &str = "pr-42.preview.example";
const RIGHT: &str = "Authorization: Basic bWU6d2ludGVyIGlzIGNvbWluZw==\r\n";

/// Pushes the site as a preview into the directory `sites`, with further flags.
fn push(place: &Place, target: &str, flags: &[&str]) -> Value {
    let preview = ["push", "--preview", "PR-42", "--preview-domain", "preview.example"];
    place.json(&[&preview[..], flags, &[target, &place.text("public")]].concat())
}

fn failure(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn await_page(server: &Server, target: &str, lines: &str, status: u16, text: &str) {
    let lines = format!("Host: {HOST}\r\n{lines}");
    wait_until(&format!("{target} becomes {status} {text}"), || {
        let response = request_at(&server.address, "GET", target, &lines);
        response.status == status && String::from_utf8_lossy(&response.body).contains(text)
    });
}

/// Creates a place with an empty directory of sites. Returns its path as well.
fn place() -> (Place, String) {
    let place = Place::new();
    fs::create_dir(place.path("sites")).unwrap();
    let sites = place.text("sites");
    (place, sites)
}

#[test]
fn preview_is_served_replaced_and_removed() {
    let (place, sites) = place();
    let server = Server::start(&["--sites", &sites]);
    place.write_site(1);
    let pushed = push(&place, &sites, &[]);
    assert_eq!(pushed["url"], format!("https://{HOST}/"));
    await_page(&server, "/", "", 200, "release 1");
    let response = server.request_host(HOST, "GET", "/", "");
    assert_eq!(response.field("X-Robots-Tag"), Some("noindex"));

    // Open pages still get their script.
    place.write_site(2);
    push(&place, &sites, &["--stage-only"]);
    await_page(&server, "/_astro/app.A1b2C3d2.js", "", 200, "run(2)");
    await_page(&server, "/", "", 200, "release 1");
    push(&place, &sites, &[]);
    await_page(&server, "/", "", 200, "release 2");
    await_page(&server, "/_astro/app.A1b2C3d1.js", "", 200, "run(1)");

    let remove = ["push", "--preview", HOST, "--remove", sites.as_str()];
    assert_eq!(place.json(&remove)["targets"][0]["removed"], true);
    await_page(&server, "/", "", 421, "");
    assert_eq!(place.names("sites"), [""; 0]);
    assert_eq!(place.json(&remove)["targets"][0]["removed"], false);
}

#[test]
fn password_is_there_before_the_first_page_and_stays() {
    let (place, sites) = place();
    let server = Server::start(&["--sites", &sites]);
    fs::write(place.path("password"), "winter is coming\n").unwrap();
    place.write_site(1);
    let password = ["--password-file", &place.text("password"), "--password-plain", "--expire", "1d"];
    push(&place, &sites, &password);
    // Never without it.
    wait_until("the preview is served", || {
        let status = request_at(&server.address, "GET", "/", &format!("Host: {HOST}\r\n")).status;
        assert!([401, 421].contains(&status), "{status}");
        status == 401
    });
    await_page(&server, "/", RIGHT, 200, "release 1");

    place.write_site(2);
    push(&place, &sites, &[]);
    await_page(&server, "/", RIGHT, 200, "release 2");
    await_page(&server, "/", "", 401, "");
    let settings = fs::read_to_string(place.path("sites").join(HOST).join("preview.json")).unwrap();
    assert!(settings.contains("expires") && !settings.contains("winter"), "{settings}");
}

#[test]
fn other_sites_are_left_alone_and_ended_previews_removed() {
    let (place, sites) = place();
    place.write_site(1);
    place.json(&["push", &place.text("sites/www.example"), &place.text("public")]);
    let names = place.names("sites/www.example");
    let push_as = |host: &str, flags: &[&str]| {
        let site = place.text("public");
        place.run(&[&["push", "--preview", host], flags, &[sites.as_str(), &site]].concat())
    };
    let refused = failure(&push_as("www.example", &[]));
    assert!(refused.contains("is a site of its own, not a preview"), "{refused}");
    let refused = failure(&place.run(&["push", "--preview", "www.example", "--remove", &sites]));
    assert!(refused.contains("is a site of its own"), "{refused}");
    let refused = failure(&push_as("../www.example", &[]));
    assert!(refused.contains("is not the name of a host"), "{refused}");
    assert_eq!(place.names("sites/www.example"), names);

    assert!(push_as("old.example", &["--expire", "1d"]).status.success());
    let settings = place.path("sites/old.example/preview.json");
    fs::write(settings, r#"{"expires": 1}"#).unwrap();
    assert!(push_as("new.example", &[]).status.success());
    assert_eq!(place.names("sites"), ["new.example", "www.example"]);
}

#[test]
fn preview_is_not_published_into_a_site() {
    let place = Place::new();
    place.write_site(1);
    let releases = place.text("releases");
    assert!(place.run(&["push", &releases, &place.text("public")]).status.success());
    for site in [releases, place.text("public")] {
        let output = place.run(&["push", &site, &place.text("public"), "--preview", "a.example.com"]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && message.contains("is a site of its own"), "{message}");
        assert!(!Path::new(&site).join("a.example.com").exists());
    }
}

/// Between staging and switching, other pushes must not remove it.
#[test]
fn ended_preview_with_a_staged_release_stays_for_a_day() {
    let (place, sites) = place();
    let push_as = |host: &str, flags: &[&str]| {
        let site = place.text("public");
        place.json(&[&["push", "--preview", host], flags, &[sites.as_str(), &site]].concat())
    };
    place.write_site(1);
    push_as("old.example", &["--expire", "1d"]);
    let end = || fs::write(place.path("sites/old.example/preview.json"), r#"{"expires": 1}"#).unwrap();
    let is_kept = || {
        push_as("new.example", &[]);
        place.names("sites").contains(&"old.example".to_owned())
    };

    // The release was staged before the end.
    place.write_site(2);
    push_as("old.example", &["--stage-only"]);
    end();
    assert!(is_kept());
    // The switch has renewed the preview, until its next end.
    push_as("old.example", &["--expire", "1d"]);
    assert!(is_kept());
    assert_eq!(place.current("sites/old.example"), "2.cdb");

    // The host has the release already, so nothing is transferred.
    end();
    push_as("old.example", &["--stage-only"]);
    assert!(is_kept());
    let staged = fs::File::options().append(true).open(place.path("sites/old.example/.staged")).unwrap();
    staged.set_modified(SystemTime::now() - Duration::from_secs(25 * 3600)).unwrap();
    assert!(!is_kept(), "the push has failed, because it never switched");
}

#[test]
fn preview_ends_at_its_second() {
    let (place, sites) = place();
    place.write_site(1);
    push(&place, &sites, &[]);
    let settings = place.path("sites").join(HOST).join("preview.json");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let server = Server::start(&["--sites", &sites]);
    let lines = format!("Host: {HOST}\r\n");
    wait_until("the preview is open", || request_at(&server.address, "GET", "/", &lines).status == 200);
    let end = Duration::from_secs(now().as_secs() + 3);
    fs::write(settings, format!("{{\"expires\": {}}}", end.as_secs())).unwrap();
    // The server's clock may be a few milliseconds late.
    let late = Duration::from_millis(20);
    let mut served = 0;
    loop {
        let began = now();
        let status = request_at(&server.address, "GET", "/", &lines).status;
        if now() < end {
            assert_eq!(status, 200);
            served += 1;
        } else if began >= end + late {
            assert_eq!(status, 421);
            break;
        }
    }
    assert!(served > 0);
    // The site is closed by the next check, and stays so.
    thread::sleep(Duration::from_secs(1));
    assert_eq!(request_at(&server.address, "GET", "/", &lines).status, 421);
}

#[test]
fn previews_are_pushed_through_ssh() {
    let (place, sites) = place();
    let ssh = place.fake_ssh("ssh", "");
    place.write_site(1);
    let target = format!("web@example.com:{sites}");
    push(&place, &target, &["--ssh", &ssh]);
    assert_eq!(place.current(&format!("sites/{HOST}")), "1.cdb");

    // Another preview shares nearly all contents.
    let other = ["push", "--preview", "pr-43.example", "--ssh", &ssh, &target, &place.text("public")];
    assert_eq!(place.json(&other)["targets"][0]["body_bytes"], 0);

    // A version that would ignore the password.
    let hello = r#"{"cannery":"0.0.9","protocol":1,"protocol_oldest":1}"#;
    let old = place.fake_ssh(
        "old",
        &format!("printf 'C\\{:03o}\\0\\0\\0%s' '{hello}'; exec cat >/dev/null", hello.len()),
    );
    let refused =
        failure(&place.run(&["push", "--preview", HOST, "--ssh", &old, &target, &place.text("public")]));
    assert!(
        refused.contains("Cannery 0.0.9 at web@example.com") && refused.contains("has no previews"),
        "{refused}"
    );
}

#[test]
fn mistakes_have_hints() {
    let (place, sites) = place();
    place.write_site(1);
    let site = place.text("public");
    for (arguments, words) in [
        (&["push", "--preview", "pr-42", &sites, &site][..], "--preview-domain"),
        (&["push", "--preview", "a.example", "oci://registry.example/site", &site], "cannery-server --sites"),
        (&["push", &sites], "cannery push TARGET... SITE"),
        (&["push", "--expire", "7d", &sites, &site], "--preview"),
        (&["push", "--preview", "a.example", "--expire", "7w", &sites, &site], "30d"),
        (
            &["push", "--preview", "a.example", "--password-file", "/nonexistent", &sites, &site],
            "/nonexistent",
        ),
    ] {
        let printed = failure(&place.run(arguments));
        assert!(printed.contains(words), "{arguments:?}: {printed}");
    }
    assert_eq!(place.names("sites"), [""; 0]);
}

/// The operator names the domain of previews in the command of a key.
#[test]
fn key_for_previews_publishes_below_its_domain_only() {
    let (place, sites) = place();
    // Stands for a forced command: what the client asks for is ignored.
    let forced = format!("exec cannery receive {sites} --preview-domain preview.example");
    let ssh = place.fake_ssh("ssh", &forced);
    place.write_site(1);
    let site = place.text("public");
    let push =
        |arguments: &[&str]| place.run(&[&["push", "--ssh", &ssh], arguments, &["a:/srv", &site]].concat());
    assert!(push(&["--preview", HOST]).status.success());
    for (arguments, words) in [
        (&["--preview", "www.example"][..], "is not below the domain of previews, preview.example"),
        (&["--preview", "preview.example"], "is not below the domain of previews"),
        (&[], "is only for previews"),
    ] {
        let refused = failure(&push(arguments));
        assert!(refused.contains(words), "{refused}");
    }

    let forced = format!("exec cannery receive {sites}");
    let ssh = place.fake_ssh("other", &forced);
    let refused = failure(&place.run(&["push", "--ssh", &ssh, "--preview", "www.example", "a:/srv", &site]));
    assert!(
        refused.contains("no previews are published in") && refused.contains("--preview-domain"),
        "{refused}"
    );
    assert_eq!(place.names("sites"), [HOST]);
}
