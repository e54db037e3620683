//! Records the responses that the floor sends: those of Cannery, or of another server, a moment before.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::sync::Arc;

use anyhow::{Result, ensure};
use cannery_testkit::http2::{Client, END_STREAM, frame};
use cannery_testkit::tls::{self, ClientOptions};

use super::Comparison;
use crate::http::{self, Connection};
use crate::scenario::{Load, Step, Wire};
use crate::servers;

/// The number of different responses of the floor, at most: enough to exceed all processor caches.
const RESPONSES_MAX: usize = 50_000;

/// Attempts at two equal responses over HTTP/2, between which the date may change.
const ATTEMPTS: usize = 3;

impl Comparison<'_> {
    /// Records the responses that the floor sends. Returns their mean size in bytes.
    pub(super) fn record_floor_responses(&self) -> Result<u64> {
        let scenario = self.context.scenario;
        let spec = self.context.servers.get(&scenario.floor_sends)?;
        // Over HTTP/1, the floor itself seals what servers send without TLS.
        let wire = if scenario.wire == Wire::H2 { Wire::H2 } else { Wire::Clear };
        let step = Step { wire: Some(wire), ..Step::default() };
        let server = spec.start(&self.launch(&step), "0")?;
        let (headers, _) = self.check(&spec, &server, wire)?;

        let mut recording = Recording::create()?;
        if wire == Wire::H2 {
            let target = &self.context.site().targets[0];
            frames(server.address(), target, &headers)?
                .iter()
                .try_for_each(|frames| recording.add(frames))?;
        } else {
            self.record_http1(server.address(), headers, &mut recording)?;
        }
        recording.finish()
    }

    fn record_http1(
        &self,
        address: SocketAddrV4,
        mut headers: Vec<String>,
        recording: &mut Recording,
    ) -> Result<()> {
        let (version, pipeline, keep_alive) = match self.context.scenario.load {
            Load::Ab { keep_alive } => ("1.0", 1, keep_alive),
            Load::Wrk { pipeline, .. } => ("1.1", pipeline, true),
            _ => ("1.1", 1, true),
        };
        if version == "1.0" && keep_alive {
            headers.push("Connection: Keep-Alive".into());
        }

        let targets = &self.context.site().targets;
        let mut connection = Connection::open(address)?;
        for target in targets.iter().step_by(targets.len().div_ceil(RESPONSES_MAX)) {
            connection.send(&http::request(version, address, target, &headers))?;
            recording.add(&connection.receive()?.bytes.repeat(pipeline))?;
            if !keep_alive {
                connection = Connection::open(address)?;
            }
        }
        Ok(())
    }
}

/// The file with the responses.
struct Recording {
    file: BufWriter<File>,
    count: u64,
    bytes: u64,
}

impl Recording {
    fn create() -> Result<Recording> {
        let file = BufWriter::new(File::create(servers::floor_responses()?)?);
        Ok(Recording { file, count: 0, bytes: 0 })
    }

    fn add(&mut self, response: &[u8]) -> Result<()> {
        let length = response.len() as u64;
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(response)?;
        self.count += 1;
        self.bytes += length;
        Ok(())
    }

    /// Returns the mean size of the responses.
    fn finish(mut self) -> Result<u64> {
        self.file.flush()?;
        ensure!(self.count > 0, "the site has no targets");
        Ok(self.bytes / self.count)
    }
}

/// Returns the frames of a connection's first response, which fills the header table, and those of each later one.
fn frames(address: SocketAddrV4, target: &str, headers: &[String]) -> Result<[Vec<u8>; 2]> {
    let tls = Arc::new(ClientOptions::default().tls13().protocols(&["h2"]).build());
    let authority = address.to_string();
    let mut fields =
        vec![(":method", "GET"), (":scheme", "https"), (":authority", &authority), (":path", target)];
    fields.extend(headers.iter().filter_map(|header| header.split_once(": ")));

    for _ in 0..ATTEMPTS {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(http::TIMEOUT))?;
        let mut client = Client::new(tls::connect(stream, "localhost", Arc::clone(&tls))?);
        let mut response = || -> Result<Vec<u8>> {
            let stream = client.send_request(&fields)?;
            let mut frames = Vec::new();
            loop {
                let received = client.receive_frame()?;
                if received.stream != stream {
                    continue;
                }
                // The floor sets the number of the stream.
                frames.extend(frame(received.kind, received.flags, 0, &received.payload));
                if received.has(END_STREAM) {
                    return Ok(frames);
                }
            }
        };
        let (first, second, third) = (response()?, response()?, response()?);
        if second == third {
            return Ok([first, second]);
        }
    }
    anyhow::bail!("no two responses on a connection are equal")
}
