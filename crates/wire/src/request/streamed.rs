//! Request content that is passed on while it arrives.

use crate::limits::CONTENT_BLOCK_BYTES;

/// Content of several requests, each of which has a stream.
#[derive(Debug)]
pub(crate) struct StreamedContents<S>(Vec<(S, StreamedContent)>);

/// Content that has arrived and was not taken yet.
#[derive(Debug)]
pub(crate) struct StreamedContent {
    bytes: Vec<u8>,
    /// Number of bytes so far, including those that were taken.
    received: u64,
    bytes_max: u64,
    arrival: Arrival,
}

/// Whether more content arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It may.
    Open,
    /// All of it has arrived.
    Complete,
    /// It is longer than its handler accepts.
    TooLong,
    /// The request was cancelled.
    Cancelled,
}

impl<S: Copy + PartialEq> StreamedContents<S> {
    pub(crate) fn add(&mut self, stream: S, bytes_max: u64) -> &mut StreamedContent {
        let content = StreamedContent { bytes: Vec::new(), received: 0, bytes_max, arrival: Arrival::Open };
        self.0.push((stream, content));
        let last = self.0.len() - 1;
        &mut self.0[last].1
    }

    #[inline]
    pub(crate) fn find(&mut self, stream: S) -> Option<&mut StreamedContent> {
        self.0.iter_mut().find(|(streamed, _)| *streamed == stream).map(|(_, content)| content)
    }

    /// Moves content of a stream to `bytes`. `is_open` means that the stream can still receive content.
    pub(crate) fn take(&mut self, stream: S, is_open: bool, bytes: &mut Vec<u8>) -> Arrival {
        let Some(content) = self.find(stream) else { return Arrival::Cancelled };
        if bytes.is_empty() {
            std::mem::swap(bytes, &mut content.bytes);
        } else {
            bytes.append(&mut content.bytes);
        }
        match content.arrival {
            Arrival::Open if is_open => Arrival::Open,
            Arrival::Open => {
                self.remove(stream);
                Arrival::Cancelled
            }
            ended => {
                self.remove(stream);
                ended
            }
        }
    }

    pub(crate) fn remove(&mut self, stream: S) {
        self.0.retain(|(streamed, _)| *streamed != stream);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    pub(crate) fn memory(&self) -> usize {
        let bytes: usize = self.0.iter().map(|(_, content)| content.bytes.capacity()).sum();
        self.0.capacity() * size_of::<(S, StreamedContent)>() + bytes
    }
}

impl<S> Default for StreamedContents<S> {
    fn default() -> Self {
        StreamedContents(Vec::new())
    }
}

impl StreamedContent {
    /// Adds content. Returns `true` if it completes a block, after which the client gets more time.
    pub(crate) fn receive(&mut self, content: &[u8]) -> bool {
        let block = CONTENT_BLOCK_BYTES as u64;
        let before = self.received;
        self.received += content.len() as u64;
        if self.received > self.bytes_max {
            self.arrival = Arrival::TooLong;
        }
        if self.arrival != Arrival::Open {
            return false;
        }
        self.bytes.extend_from_slice(content);
        self.received / block > before / block
    }

    /// Completes the content.
    pub(crate) fn end(&mut self) {
        if self.arrival == Arrival::Open {
            self.arrival = Arrival::Complete;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_taken_until_it_ends() {
        let mut contents = StreamedContents::default();
        contents.add(1, 10);
        contents.add(3, 10);
        let mut bytes = b"before ".to_vec();
        contents.find(1).unwrap().receive(b"one");
        assert_eq!(contents.take(1, true, &mut bytes), Arrival::Open);
        assert_eq!(bytes, b"before one");

        let content = contents.find(1).unwrap();
        content.receive(b"two");
        content.end();
        bytes.clear();
        assert_eq!(contents.take(1, false, &mut bytes), Arrival::Complete, "although its stream has ended");
        assert_eq!(bytes, b"two");
        assert_eq!(contents.take(1, true, &mut bytes), Arrival::Cancelled, "it is gone");
        assert_eq!(contents.take(3, false, &mut bytes), Arrival::Cancelled);
        assert!(contents.find(3).is_none() && contents.memory() == 0);
    }

    #[test]
    fn content_beyond_its_limit_is_discarded() {
        let mut contents = StreamedContents::default();
        let content = contents.add(1, 5);
        content.receive(b"abc");
        content.receive(b"def");
        content.receive(b"ghi");
        content.end();
        let mut bytes = Vec::new();
        assert_eq!(contents.take(1, true, &mut bytes), Arrival::TooLong);
        assert_eq!(bytes, b"abc");
    }

    #[test]
    fn each_block_gives_the_client_more_time() {
        let mut contents = StreamedContents::default();
        let content = contents.add(1, u64::MAX);
        assert!(!content.receive(&[0; CONTENT_BLOCK_BYTES - 1]));
        assert!(content.receive(&[0; 1]) && !content.receive(&[0; 1]));
        assert!(content.receive(&[0; 3 * CONTENT_BLOCK_BYTES]));
    }
}
