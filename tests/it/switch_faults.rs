//! Targets that have a release, and then fail to switch to it.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Output;

use crate::push::Place;

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Puts a folder where the link was, which can't be replaced then.
fn block(place: &Place, target: &str) {
    fs::remove_file(place.path(target).join("current")).unwrap();
    fs::create_dir(place.path(target).join("current")).unwrap();
}

fn repair(place: &Place, target: &str, release: &str) {
    fs::remove_dir(place.path(target).join("current")).unwrap();
    symlink(release, place.path(target).join("current")).unwrap();
}

#[test]
fn target_that_fails_to_switch_is_named_and_can_catch_up() {
    let place = Place::new();
    let (one, two, site) = (place.text("one"), place.text("two"), place.text("public"));
    let push = ["push", &one, &two, &site];
    place.write_site(1);
    place.json(&push);
    place.write_site(2);
    block(&place, "two");

    let output = place.run(&push);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("{two}: failed: {two}/current is not a symbolic link")), "{text}");
    assert!(text.contains("rename that file"), "{text}");
    assert!(
        text.contains(&format!(
            "1 of 2 targets failed, so the targets named above were left as they were; activated: {one}"
        )),
        "{text}"
    );
    assert!(text.contains("run the same command again"), "{text}");
    let results = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(results.contains(&format!("{one}  2.cdb is live, instead of 1.cdb")), "{results}");
    assert!(!results.contains(&two), "{results}");
    assert_eq!(place.current("one"), "2.cdb");
    assert!(place.path("two/current").is_dir() && place.path("two/2.cdb").exists());

    // One target is enough, if the user says so.
    let json = place.json(&["push", "--quorum", "1", &one, &two, &site]);
    assert_eq!(
        (&json["targets"][0]["activated"], &json["targets"][1]["activated"]),
        (&true.into(), &false.into())
    );
    assert!(json["targets"][1]["error"].to_string().contains("is not a symbolic link"), "{json}");

    repair(&place, "two", "1.cdb");
    let json = place.json(&push);
    assert_eq!(json["targets"][1]["before"], "1.cdb");
    assert_eq!([place.current("one"), place.current("two")], ["2.cdb", "2.cdb"]);
}

#[test]
fn target_that_fails_to_roll_back_is_named_and_can_catch_up() {
    let place = Place::new();
    let (one, two, site) = (place.text("one"), place.text("two"), place.text("public"));
    for number in [1, 2] {
        place.write_site(number);
        place.json(&["push", &one, &two, &site]);
    }
    block(&place, "two");
    let rollback = ["rollback", &one, &two, "--to", "1"];
    let output = place.run(&rollback);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("{two}: {two}/current is not a symbolic link")), "{text}");
    let results = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(results.contains(&format!("{one}  1.cdb is live, instead of 2.cdb")), "{results}");
    assert_eq!(place.current("one"), "1.cdb");

    let alone = place.run(&["rollback", &two, "--to", "1"]);
    assert_eq!(alone.status.code(), Some(4), "{}", stderr(&alone));

    repair(&place, "two", "2.cdb");
    let json = place.json(&rollback);
    assert_eq!((&json[0]["before"], &json[1]["before"]), (&serde_json::Value::Null, &"2.cdb".into()));
    assert_eq!([place.current("one"), place.current("two")], ["1.cdb", "1.cdb"]);
}
