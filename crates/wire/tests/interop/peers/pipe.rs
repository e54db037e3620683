//! Two queues of bytes in place of a network, and the end of it that a foreign peer holds.
//!
//! Nothing wakes anybody: whoever moves bytes asks the peer again.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes that are under way.
#[derive(Debug)]
pub(crate) struct Queues {
    /// What the foreign peer may read.
    pub(crate) to_them: Vec<u8>,
    /// What it has written.
    pub(crate) from_them: Vec<u8>,
    /// How much of that there is room for.
    pub(crate) room: usize,
    /// Whether nothing comes behind `to_them`.
    pub(crate) is_closed: bool,
    /// Whether the peer writes no more.
    pub(crate) is_shut: bool,
}

/// The foreign peer's end.
#[derive(Debug)]
pub(crate) struct End(Rc<RefCell<Queues>>);

/// An end, and the queues behind it.
pub(crate) fn pipe() -> (End, Rc<RefCell<Queues>>) {
    let queues = Queues {
        to_them: Vec::new(),
        from_them: Vec::new(),
        room: usize::MAX,
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
        if queues.to_them.is_empty() && !queues.is_closed {
            return Poll::Pending;
        }
        let bytes = queues.to_them.len().min(buffer.remaining());
        buffer.put_slice(&queues.to_them[..bytes]);
        queues.to_them.drain(..bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut queues = self.0.borrow_mut();
        let taken = queues.room.saturating_sub(queues.from_them.len()).min(bytes.len());
        if taken == 0 && !bytes.is_empty() {
            return Poll::Pending;
        }
        queues.from_them.extend_from_slice(&bytes[..taken]);
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
