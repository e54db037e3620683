//! A network that consists of two queues. One of its ends is for a peer from the `h2` crate.
//!
//! There are no wake-ups. Instead, the code that moves bytes also polls the peer again.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes on their way.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Bytes the peer can read.
    pub(crate) to_peer: Vec<u8>,
    /// Bytes that the peer has written.
    pub(crate) from_peer: Vec<u8>,
    /// Capacity of `from_peer`, in bytes.
    pub(crate) capacity: usize,
    /// Whether the stream ends after `to_peer`.
    pub(crate) is_closed: bool,
    /// Whether the peer has shut down its side.
    pub(crate) is_shut: bool,
}

/// The peer's end.
#[derive(Debug)]
pub(crate) struct End(Rc<RefCell<Queues>>);

/// Creates an end along with its queues.
pub(crate) fn pipe() -> (End, Rc<RefCell<Queues>>) {
    let queues = Queues {
        to_peer: Vec::new(),
        from_peer: Vec::new(),
        capacity: usize::MAX,
        is_closed: false,
        is_shut: false,
    };
    let queues = Rc::new(RefCell::new(queues));
    (End(Rc::clone(&queues)), queues)
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut queues = self.0.borrow_mut();
        if queues.to_peer.is_empty() && !queues.is_closed {
            return Poll::Pending;
        }
        let bytes = queues.to_peer.len().min(buffer.remaining());
        buffer.put_slice(&queues.to_peer[..bytes]);
        queues.to_peer.drain(..bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut queues = self.0.borrow_mut();
        let taken = queues.capacity.saturating_sub(queues.from_peer.len()).min(bytes.len());
        if taken == 0 && !bytes.is_empty() {
            return Poll::Pending;
        }
        queues.from_peer.extend_from_slice(&bytes[..taken]);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().is_shut = true;
        Poll::Ready(Ok(()))
    }
}
