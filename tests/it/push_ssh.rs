//! `cannery push` through OpenSSH: its server on the loopback address, with keys of the test's own.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::harness::{Server, free_address, skip_outside, wait_until};
use crate::push::Place;

/// An SSH server, and how to reach it.
struct Sshd {
    child: Child,
    port: u16,
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
            if Path::new(&path).exists() {
                continue;
            }
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
        Sshd { child, port, ssh: format!("ssh {}", options.join(" ")), user }
    }

    /// Writes a configuration of clients, with names for this server and others. Returns the value of `--ssh` that uses it.
    fn configure(place: &Place, hosts: &[(&str, &Sshd, &str)]) -> String {
        let mut text = String::new();
        for (name, sshd, lines) in hosts {
            text.push_str(&format!(
                "Host {name}\nHostName 127.0.0.1\nPort {}\nUser {}\nIdentityFile {}\nIdentitiesOnly yes\nBatchMode yes\n\
                 StrictHostKeyChecking no\nUserKnownHostsFile {}\nLogLevel ERROR\n{lines}\n",
                sshd.port,
                sshd.user,
                place.text("user_key"),
                place.text("known_hosts"),
            ));
        }
        fs::write(place.path("ssh_config"), text).unwrap();
        format!("ssh -F {}", place.text("ssh_config"))
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

#[test]
fn jump_hosts_of_the_users_configuration_are_used() {
    if skip_outside() {
        return;
    }
    let place = Place::new();
    let inner = Sshd::start(&place, "");
    let jump = Sshd::start(&place, "");
    place.write_site(1);
    let ssh = Sshd::configure(&place, &[("jump", &jump, ""), ("inner", &inner, "ProxyJump jump")]);
    let (target, site) = (format!("inner:{}", place.text("releases")), place.text("public"));
    let push =
        |ssh: &str| place.run(&["push", "--ssh", ssh, "--receiver", CANNERY, target.as_str(), site.as_str()]);
    let output = push(&ssh);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(place.current("releases"), "1.cdb");

    // Nothing reaches the inner host without the jump host.
    drop(jump);
    let closed = Sshd::start(&place, "AllowTcpForwarding no");
    let ssh = Sshd::configure(&place, &[("jump", &closed, ""), ("inner", &inner, "ProxyJump jump")]);
    place.write_site(2);
    let output = push(&ssh);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.contains("cannot connect to inner"), "{errors}");
    assert_eq!(place.current("releases"), "1.cdb");
}

/// Passes bytes on, at most this many per second.
fn relay_slowly(mut from: impl Read, mut to: impl Write, bytes_per_second: usize) {
    const TURNS: usize = 20;
    let mut piece = vec![0; bytes_per_second / TURNS];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..count]).is_err() {
            return;
        }
        thread::sleep(Duration::from_millis(1000 / TURNS as u64));
    }
}

#[test]
fn slow_links_only_take_longer() {
    const BYTES_PER_SECOND: usize = 64 << 10;
    if skip_outside() {
        return;
    }
    let place = Place::new();
    let mut sshd = Sshd::start(&place, "");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let fast = std::mem::replace(&mut sshd.port, listener.local_addr().unwrap().port());
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let host = TcpStream::connect((Ipv4Addr::LOCALHOST, fast)).unwrap();
            let (requests, responses) = (client.try_clone().unwrap(), host.try_clone().unwrap());
            thread::spawn(move || relay_slowly(responses, client, BYTES_PER_SECOND));
            thread::spawn(move || relay_slowly(requests, host, BYTES_PER_SECOND));
        }
    });
    let ssh = Sshd::configure(&place, &[("slow", &sshd, "")]);
    place.write_site(1);
    // Cannot be compressed, and takes some seconds.
    fs::write(place.path("public/large.bin"), crate::random::bytes(1, 4 * BYTES_PER_SECOND)).unwrap();
    let target = format!("slow:{}", place.text("releases"));
    let output = place.run(&["push", "--ssh", &ssh, "--receiver", CANNERY, &target, &place.text("public")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(place.current("releases"), "1.cdb");
}
