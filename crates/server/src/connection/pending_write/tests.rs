//! Unit tests of pending writes.

use cannery_eventloop::Received;

use super::super::transport::Transport;
use super::*;
use crate::config::{self, Config};
use crate::context::Buffers;

/// A socket after a reset by its peer.
struct Broken;

impl Socket for Broken {
    fn receive(&self, _: &mut [u8]) -> io::Result<Received> {
        Err(io::ErrorKind::ConnectionReset.into())
    }

    fn send(&self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn send_vectored(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn shutdown_write(&self) -> io::Result<()> {
        Ok(())
    }

    fn unacknowledged_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn reset_on_close(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn failed_send_leaves_no_output_for_others() {
    let config = Config::plain(config::Content::dummy(b""));
    let content = Arc::new(Content::open(&config, None).unwrap().0);
    let mut output = Output::new();
    output.put(b"for one client only");
    let mut transport = Transport::new(Broken);
    let mut buffers = Buffers::new();
    let writer = &mut transport.writer(&mut buffers);
    let outcome = send_output(writer, &mut output, &content, Instant::now(), &mut 1000);
    assert!(outcome.is_err());
    assert!(output.is_empty());
}
