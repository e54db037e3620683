//! Programs of a newer Debian that speak HTTP/3: servers, and h2load, which Debian builds without it.
//!
//! They are in a folder of their own and use the libraries there, so the system remains as it is.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::programs;
use crate::project::{self, find_program};

/// The first suite of Debian with an nginx and libraries that speak HTTP/3.
const SUITE: &str = "forky";

const MIRROR: &str = "http://deb.debian.org/debian";

/// The servers, and what h2load needs.
const PACKAGES: &str = "nginx-light,haproxy,caddy,g++,make,pkgconf,libngtcp2-dev,libngtcp2-crypto-ossl-dev,\
    libnghttp3-dev,libssl-dev,libev-dev,libc-ares-dev,zlib1g-dev";

/// Builds h2load from the source package, inside the folder.
const BUILD_H2LOAD: &str = "
    set -e
    apt-get --option Acquire::Check-Valid-Until=false update
    mkdir /src
    cd /src
    apt-get source --tar-only nghttp2
    tar --extract --strip-components=1 --file nghttp2_*.orig.tar.*
    ./configure --enable-app --enable-http3 --disable-shared
    make -C lib -j2
    make -C third-party -j2
    make -C src -j2 h2load";

/// The path of h2load in the folder.
pub(crate) const H2LOAD: &str = "src/src/h2load";

/// Returns a command that starts a program of the folder, by its path there.
///
/// # Errors
///
/// Fails if the folder can't be created.
pub(crate) fn command(program: &str) -> Result<Command> {
    let folder = folder()?;
    let mut command = Command::new(folder.join("lib64/ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(folder.join("usr/lib/x86_64-linux-gnu")).arg(folder.join(program));
    Ok(command)
}

/// Creates the folder if necessary, and looks for a program in it.
pub(crate) fn install(program: &str) -> Result<()> {
    ensure!(folder()?.join(program).is_file(), "it is not in its package");
    Ok(())
}

/// Returns the folder, after creating it once, which takes some minutes.
fn folder() -> Result<PathBuf> {
    project::filled_once(&format!("debian-{SUITE}"), |folder| {
        println!("creating {}", folder.display());
        if find_program("mmdebstrap").is_none() {
            programs::install(&["mmdebstrap"])?;
        }
        let log = folder.with_extension("log");
        // The second program replaces the log of the first.
        let run = |command: &mut Command| {
            let file = fs::File::create(&log)?;
            let command =
                command.env("DEBIAN_FRONTEND", "noninteractive").stdout(file.try_clone()?).stderr(file);
            project::run(command).with_context(|| log.display().to_string())
        };
        let mut packages = Command::new("mmdebstrap");
        // A mirror may be some days late.
        packages.args([
            "--aptopt=Acquire::Check-Valid-Until \"false\"",
            "--variant=apt",
            "--include",
            PACKAGES,
        ]);
        packages.arg(SUITE).arg(folder);
        packages.args(["deb", "deb-src"].map(|kind| format!("{kind} {MIRROR} {SUITE} main")));
        run(&mut packages)?;

        let mut build = Command::new("chroot");
        run(build.arg(folder).args(["sh", "-c", BUILD_H2LOAD]))?;
        ensure!(folder.join(H2LOAD).is_file(), "{} has the reason", log.display());
        Ok(())
    })
}
