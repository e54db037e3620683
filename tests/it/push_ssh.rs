//! `cannery push` through OpenSSH: its server on the loopback address, with keys of the test's own.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::harness::{Server, free_address, skip_outside, wait_until};
use crate::push::Place;

/// An SSH server, and how to reach it.
struct Sshd {
    child: Child,
    /// The value of `--ssh`.
    ssh: String,
    user: String,
}

impl Sshd {
    /// Starts a server that runs `cannery` for a client, with further lines in its configuration.
    fn start(place: &Place, lines: &str) -> Sshd {
        let sshd = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].map(PathBuf::from);
        let sshd = sshd.into_iter().find(|path| path.is_file());
        let sshd = sshd.expect("sshd is missing: `cargo xtask test` installs it");
        for key in ["host_key", "user_key"] {
            let path = place.text(key);
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &path])
                .output()
                .unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        fs::copy(place.path("user_key.pub"), place.path("authorized_keys")).unwrap();

        let port = free_address().port();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\n{lines}\n",
            place.text("host_key"),
            place.text("authorized_keys"),
        );
        fs::write(place.path("sshd_config"), config).unwrap();
        // As root, the server insists on this directory.
        let _ = fs::create_dir_all("/run/sshd");
        let log = fs::File::create(place.path("sshd.log")).unwrap();
        let mut command = Command::new(sshd);
        command.args(["-D", "-e", "-f"]).arg(place.path("sshd_config")).stdin(Stdio::null()).stderr(log);
        let child = command.spawn().unwrap();
        wait_until("sshd listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());

        let options = [
            format!("-F none -p {port} -i {}", place.text("user_key")),
            "-o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no".to_owned(),
            format!("-o UserKnownHostsFile={} -o LogLevel=ERROR", place.text("known_hosts")),
        ];
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        let user = String::from_utf8(user).unwrap().trim().to_owned();
        Sshd { child, ssh: format!("ssh {}", options.join(" ")), user }
    }

    fn target(&self, directory: &str) -> String {
        format!("{}@127.0.0.1:{directory}", self.user)
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CANNERY: &str = env!("CARGO_BIN_EXE_cannery");

#[test]
fn folder_is_published_through_openssh() {
    if skip_outside() {
        return;
    }
    let place = Place::new();
    let sshd = Sshd::start(&place, "");
    place.write_site(1);
    // The name has all that a shell would change.
    let directory = place.text("it's a $HOME release; dir");
    let (target, site) = (sshd.target(&directory), place.text("public"));
    let connection = ["--ssh", &sshd.ssh, "--receiver", CANNERY];
    let push = || place.json(&[&["push"], connection.as_slice(), &[target.as_str(), site.as_str()]].concat());
    push();
    let server = Server::start(&["--releases", &directory]);
    place.write_site(2);
    let pushed = push();
    assert_eq!(pushed["targets"][0]["before"], "1.cdb");
    let shows = |words: &str| String::from_utf8(server.get("/").body).unwrap().contains(words);
    wait_until("release 2 is served", || shows("release 2"));

    // A new machine, as in a pipeline, has no cache: it fetches the earlier release.
    fs::remove_dir_all(place.path("cache")).unwrap();
    place.write_site(3);
    let pushed = push();
    assert_eq!((&pushed["serial"], &pushed["targets"][0]["bodies"]), (&3.into(), &2.into()));

    let status = place.json(&[&["status"], connection.as_slice(), &[target.as_str()]].concat());
    assert_eq!(status[0]["releases"][0]["name"], "3.cdb");
    let rolled_back =
        place.json(&[&["rollback"], connection.as_slice(), &[target.as_str(), "--to", "1"]].concat());
    assert_eq!(rolled_back[0]["release"], "1.cdb");
    wait_until("release 1 is served", || shows("release 1"));
}

#[test]
fn key_may_be_restricted_to_one_directory() {
    if skip_outside() {
        return;
    }
    let place = Place::new();
    fs::write(place.path("receive"), format!("#!/bin/sh\nexec {CANNERY} receive {}\n", place.text("forced")))
        .unwrap();
    fs::set_permissions(place.path("receive"), fs::Permissions::from_mode(0o755)).unwrap();
    let sshd = Sshd::start(&place, &format!("ForceCommand {}\n", place.text("receive")));
    place.write_site(1);
    let target = sshd.target("/somewhere/else");
    place.json(&["push", "--ssh", &sshd.ssh, &target, &place.text("public")]);
    assert_eq!(place.current("forced"), "1.cdb");
    assert!(!Path::new("/somewhere/else").exists());
}

#[test]
fn missing_program_and_refused_key_are_explained() {
    if skip_outside() {
        return;
    }
    let place = Place::new();
    let sshd = Sshd::start(&place, "");
    place.write_site(1);
    let (target, site) = (sshd.target(&place.text("releases")), place.text("public"));
    let output = place.run(&["push", "--ssh", &sshd.ssh, "--receiver", "/nowhere/cannery", &target, &site]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.contains("install Cannery there"), "{errors}");

    fs::write(place.path("authorized_keys"), "").unwrap();
    let output = place.run(&["push", "--ssh", &sshd.ssh, "--receiver", CANNERY, &target, &site]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("Permission denied") && errors.contains("cannot connect to"), "{errors}");
}
