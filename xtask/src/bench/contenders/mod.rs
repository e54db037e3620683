//! Who is measured side by side: the floor, our engine alone, our server, and the servers that people would pick
//! instead. Each is started for itself, in a folder of its own, on a port that was free a moment before.

mod ours;
mod peers;

use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::Running;
use super::site::Site;
use super::wire::Wire;
use super::{commands, machine};
use crate::error::Error;
use crate::{outside, project};

pub(crate) use peers::{APACHE, CADDY, H2O, LIGHTTPD, NGINX, Peer};

/// One of those who are measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Contender {
    /// `bench/floor.c`, which sends the very bytes that our server sends.
    Floor,
    /// `cannery-server --dummy`.
    Dummy,
    /// `cannery-server` with an archive.
    Cannery,
    /// The same over io_uring.
    Ring,
    /// The same with `--defer-accept`.
    Deferred,
    /// A server of somebody else.
    Peer(&'static Peer),
}

/// What a server does about content codings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codings {
    /// Nothing: contents are sent as they are.
    Identity,
    /// It compresses for every request. Our server never does: it has compressed before.
    Compressing,
    /// It takes what was compressed before, from siblings of the files.
    Precompressed,
}

/// How a server is to be started.
pub(crate) struct Order<'a> {
    pub(crate) site: &'a Site,
    pub(crate) codings: Codings,
    pub(crate) threads: usize,
    /// How many connections there will be.
    pub(crate) connections: u32,
    /// Whether answers are so large that it pays to send them from the file.
    pub(crate) has_large_answers: bool,
    pub(crate) wire: Wire,
    /// What our server is told beyond archive, address and threads.
    pub(crate) flags: &'a [&'a str],
    /// The answers that the floor gives, as `bench/floor.c` reads them.
    pub(crate) answers: &'a Path,
}

impl Contender {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Contender::Floor => "floor",
            Contender::Dummy => "dummy",
            Contender::Cannery => "cannery",
            Contender::Ring => "cannery-ring",
            Contender::Deferred => "cannery-deferred",
            Contender::Peer(peer) => peer.name,
        }
    }

    /// Whether what it sends depends on the site.
    pub(crate) fn serves_the_site(&self) -> bool {
        !matches!(self, Contender::Floor | Contender::Dummy)
    }

    /// Whether it can hold so many connections on this machine, and serve so many files.
    pub(crate) fn bears(&self, connections: u32, files: usize) -> Result<bool, Error> {
        match self {
            Contender::Peer(peer) => Ok(peer.connections_max()? >= u64::from(connections)
                && peer.files_max()?.is_none_or(|most| most >= files as u64)),
            _ => Ok(true),
        }
    }

    /// Its program and release, for the record.
    pub(crate) fn version(&self) -> Result<String, Error> {
        Ok(match self {
            Contender::Floor => machine::version("gcc", "--version"),
            Contender::Peer(peer) => peer.version(),
            Contender::Dummy | Contender::Cannery | Contender::Ring | Contender::Deferred => {
                machine::version(&commands::path("cannery-server")?.display().to_string(), "--version")
            }
        })
    }

    /// Starts it on some processors. It ends with the value.
    pub(crate) fn start(
        &self,
        order: &Order<'_>,
        address: SocketAddrV4,
        processors: &str,
    ) -> Result<Running, Error> {
        let folder = fresh_folder(self.name())?;
        let mut command = self.command(order, address, &folder)?;
        Running::start_quietly(&mut command, processors, address, &folder.join("stderr"))
    }

    fn command(&self, order: &Order<'_>, address: SocketAddrV4, folder: &Path) -> Result<Command, Error> {
        match self {
            Contender::Floor => ours::floor(order, address),
            Contender::Dummy => ours::dummy(order, address),
            Contender::Cannery => ours::cannery(order, address),
            Contender::Ring => ours::ring(order, address),
            Contender::Deferred => ours::deferred(order, address),
            Contender::Peer(peer) => peer.command(order, address, folder),
        }
    }
}

/// Those of some contenders that are there or can be installed, and the names of those that cannot.
pub(crate) fn present(wanted: &[Contender]) -> (Vec<Contender>, Vec<&'static str>) {
    let is_there = |contender: &&Contender| match contender {
        Contender::Peer(peer) => outside::install_peer(peer.program, peer.packages),
        Contender::Ring => fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
            .is_ok_and(|disabled| disabled.trim() == "0"),
        _ => true,
    };
    let present: Vec<_> = wanted.iter().filter(is_there).copied().collect();
    let named = |name: &str| present.iter().any(|contender| contender.name() == name);
    let missing = wanted.iter().map(Contender::name).filter(|name| !named(name)).collect();
    (present, missing)
}

/// An empty folder for a server's own files: its configuration, its process number, what it complains of.
fn fresh_folder(name: &str) -> Result<PathBuf, Error> {
    let folder = project::outside().join("running").join(name);
    let failed = |source| Error::file(&folder, source);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed)?;
    }
    fs::create_dir_all(&folder).map_err(failed)?;
    folder.canonicalize().map_err(failed)
}
