//! Sends open files to another process, over a Unix socket (`SCM_RIGHTS`, `unix(7)`).

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The received descriptor must not be inherited by programs that we start. Other systems do not have such
/// a flag.
#[cfg(target_os = "linux")]
const RECV_FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const RECV_FLAGS: RecvFlags = RecvFlags::empty();

/// Sends a (non-empty) message, optionally with a file.
///
/// # Errors
/// Returns an error if the other process has exited.
pub fn send(socket: &UnixStream, message: &[u8], file: Option<&File>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files: Option<[BorrowedFd<'_>; 1]> = file.map(|file| [file.as_fd()]);
    if let Some(files) = &files {
        ancillary.push(SendAncillaryMessage::ScmRights(files));
    }
    sendmsg(socket, &[IoSlice::new(message)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message of this length along with a file, if one was sent. Returns `None` if the other process
/// has exited.
///
/// # Errors
/// Returns an error if the message cannot be received.
pub fn receive<const BYTES: usize>(socket: &UnixStream) -> io::Result<Option<([u8; BYTES], Option<File>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut message = [0; BYTES];
    let mut target = [IoSliceMut::new(&mut message)];

    let received = loop {
        match recvmsg(socket, &mut target, &mut ancillary, RECV_FLAGS) {
            Err(rustix::io::Errno::INTR) => {}
            // The other process was killed before it had read our last message.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            outcome => break outcome?,
        }
    };
    if received.bytes < BYTES {
        return Ok(None);
    }

    let files = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.flatten().next().map(File::from);
    Ok(Some((message, file)))
}
