//! The sandbox of `cannery receive`.

use std::fs;
use std::process::Stdio;

use crate::harness::wait_until;
use crate::push::Place;

/// Writes a program that takes the arguments of `ssh`, and runs this command of a restricted key.
fn ssh(place: &Place, name: &str, command: &str) -> String {
    place.fake_ssh(name, &format!("last='cannery receive --sandbox require {command}'"))
}

#[test]
fn sandbox_is_entered_before_the_client_is_read() {
    let place = Place::new();
    fs::create_dir(place.path("releases")).unwrap();
    for (policy, seccomp) in [("require", "2"), ("off", "0")] {
        let arguments = ["receive", "--sandbox", policy, &place.text("releases")];
        let mut command = place.command(&arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut receive = command.spawn().unwrap();
        let status = || {
            let status = fs::read_to_string(format!("/proc/{}/status", receive.id())).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
            (line.unwrap().trim().to_owned(), fs::read_to_string(format!("/proc/{}/wchan", receive.id())))
        };
        wait_until("it has entered its sandbox", || status().0 == seccomp);
        drop(receive.stdin.take());
        assert!(receive.wait().unwrap().success());
    }
}

#[test]
fn releases_are_received_and_commands_run_under_the_sandbox() {
    let place = Place::new();
    let (directory, site, log) = (place.text("releases"), place.text("public"), place.text("log"));
    let hook = format!("echo $CANNERY_RELEASE >> {log}; echo purged");
    let ssh = ssh(&place, "ssh", &format!("\"--on-activate={hook}\" -- {directory}").replace('$', "\\$"));
    let target = "web@host:releases";
    for number in [1, 2] {
        place.write_site(number);
        let output = place.run(&["push", "--ssh", &ssh, target, &site]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.contains("on-activate: purged"), "{errors}");
    }
    let rolled_back = place.json(&["rollback", "--ssh", &ssh, target]);
    assert_eq!((&rolled_back[0]["release"], place.current("releases").as_str()), (&"1.cdb".into(), "1.cdb"));
    assert_eq!(fs::read_to_string(&log).unwrap(), "1.cdb\n2.cdb\n1.cdb\n");
    let status = place.json(&["status", "--ssh", &ssh, target]);
    assert_eq!(status[0]["releases"][0]["name"], "2.cdb");

    // Old releases are removed, and a failure of the command is noted.
    let failing = place.fake_ssh(
        "failing",
        &format!("last='cannery receive --sandbox require \"--on-activate=exit 7\" -- {directory}'"),
    );
    place.write_site(3);
    let output = place.run(&["push", "--ssh", &failing, "--keep", "1", target, &site]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.contains("exit status: 7"), "{errors}");
    assert_eq!(place.names("releases"), ["3.cdb", "current"]);
}

#[test]
fn previews_are_received_under_the_sandbox() {
    let place = Place::new();
    fs::create_dir(place.path("sites")).unwrap();
    let domain = "preview.example";
    let ssh = ssh(&place, "ssh", &format!("--preview-domain {domain} -- {}", place.text("sites")));
    let (target, site) = ("web@host:sites", place.text("public"));
    place.write_site(1);
    let preview = ["push", "--ssh", &ssh, "--preview", "pr-42", "--preview-domain", domain];
    place.json(&[&preview[..], &["--expire", "30d", target, &site]].concat());
    assert_eq!(place.current("sites/pr-42.preview.example"), "1.cdb");
    let removed = place.run(&[&preview[..], &["--remove", target]].concat());
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    assert_eq!(place.names("sites"), Vec::<String>::new());
}
