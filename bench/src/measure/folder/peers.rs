//! Other servers of a folder that is edited, each as its users start it.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::Folder;
use crate::http;
use crate::machine;
use crate::process::Server;
use crate::programs;
use crate::project;
use crate::results::{Sample, Samples};

/// The servers, from `edited.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Servers {
    server: Vec<EditedServer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EditedServer {
    name: String,
    from: Source,
    /// The command with its placeholders.
    command: String,
    #[serde(default)]
    configuration: String,
    reload: Reload,
}

/// The origin of a program, which has the name of its package.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Source {
    Debian(Vec<String>),
    /// A package of npm with its version.
    Npm(String),
}

/// The reason for which a browser loads a page again.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Reload {
    /// A person reloads it.
    Hand,
    /// The server sends a message over a WebSocket.
    Socket,
}

/// Measures all servers.
pub(super) fn run(folder: &Folder, edits: u32, label: &str, samples: &mut Samples) -> Result<()> {
    let servers: Servers = project::parse("edited.toml")?;
    for server in &servers.server {
        samples.record(label, &server.name, server.measure(folder, edits));
    }
    Ok(())
}

impl EditedServer {
    fn measure(&self, folder: &Folder, edits: u32) -> Result<Sample> {
        let server = self.start(folder)?;
        let mut socket = match self.reload {
            Reload::Hand => None,
            Reload::Socket => Some(open_socket(&server)?),
        };
        folder.edit(edits, |target, mark| {
            if let Some(socket) = &mut socket {
                await_message(socket, b"reload")?;
            }
            let request = http::request("1.1", server.address(), target, &[]);
            let began = Instant::now();
            loop {
                let response = http::exchange(server.address(), &request)?;
                if String::from_utf8_lossy(response.content()).contains(mark) {
                    return Ok(());
                }
                ensure!(began.elapsed() < http::TIMEOUT, "a stale page");
            }
        })
    }

    fn start(&self, folder: &Folder) -> Result<Server> {
        let running = project::empty_folder("running/edited")?;
        let address = machine::free_address()?;
        let fill = |text: &str| {
            text.replace("@ROOT@", &folder.root.display().to_string())
                .replace("@FOLDER@", &running.display().to_string())
                .replace("@CONFIGURATION@", &running.join("configuration").display().to_string())
                .replace("@ADDRESS@", &address.to_string())
                .replace("@PORT@", &address.port().to_string())
        };
        fs::write(running.join("configuration"), fill(&self.configuration))?;
        let command = fill(&self.command);
        let mut words = command.split(' ');
        let name = words.next().context("a command has words")?;
        let program = match &self.from {
            Source::Debian(packages) => {
                programs::install_peer(name, packages)?;
                project::find_program(name).context("it was installed")?
            }
            Source::Npm(package) => programs::npm_program(package)?,
        };
        let mut command = Command::new(program);
        // Without it, vite ends with its standard input, which is empty.
        command.args(words).env("CI", "true");
        let all = format!("0-{}", machine::processors() - 1);
        let server = Server::start(&command, &all, address, &running.join("stderr"))?;
        // vite listens for a moment to find out whether the port is free.
        let request = http::request("1.1", address, "/index.html", &[]);
        while http::exchange(address, &request).is_err() {
            ensure!(server.age() < http::TIMEOUT, "it does not respond");
            sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

/// Opens a WebSocket as the script of live-server does, and waits until the server has accepted it (RFC 6455 §4.1).
fn open_socket(server: &Server) -> Result<BufReader<TcpStream>> {
    let headers = [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    ];
    let mut stream = http::connect(server.address())?;
    stream.write_all(&http::request("1.1", server.address(), "/ws", &headers.map(String::from)))?;
    let mut stream = BufReader::new(stream);
    await_message(&mut stream, b"connected")?;
    Ok(stream)
}

/// Reads until a message, which the server sends unmasked in one frame (RFC 6455 §5.1).
fn await_message(stream: &mut impl Read, message: &[u8]) -> Result<()> {
    let mut received = Vec::new();
    let mut byte = [0];
    while !received.ends_with(message) {
        stream.read_exact(&mut byte)?;
        received.extend(byte);
    }
    Ok(())
}
