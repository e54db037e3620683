//! The `h2` crate's client sends requests to us. We split its bytes at random.
//!
//! We check three things. Each response has the right bytes and the right length; no request is lost, unless the client resets it
//! or sends it after our GOAWAY; and neither side reports an error of the other.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use cannery_testkit::Choices;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};

use super::ours::{CONTENT, Ours};
use super::pipe::{End, Queues, pipe};

/// Lengths of requested bodies, near the limit for copies, the length of a frame, and the initial window.
const BODIES: [usize; 12] = [0, 1, 13, 300, 8_192, 8_193, 16_384, 16_385, 65_535, 65_536, 100_000, 200_000];

/// Lengths of the content of requests. The last two exceed the initial window.
const UPLOADS: [usize; 6] = [0, 1, 1_000, 65_535, 65_536, 100_000];

/// Sizes of windows and pieces.
const SIZES: [u32; 10] = [1, 9, 100, 1_000, 16_384, 16_393, 65_535, 100_000, 1_000_000, 0x7fff_ffff];

/// Runs a client. For each operation, there is a byte, and then come its arguments.
pub fn client(data: &[u8]) {
    let mut choices = Choices::new(data);
    let mut talk = Conversation::begin(&mut choices);
    while let Some(operation) = choices.operation() {
        talk.act(operation, &mut choices);
    }
    talk.finish();
}

/// A client, our side, and the bytes in between.
struct Conversation {
    ours: Ours,
    queues: Rc<RefCell<Queues>>,
    /// Bytes that we have written, but that the client cannot read yet.
    in_flight: Vec<u8>,
    connection: Connection<End, &'static [u8]>,
    sender: SendRequest<&'static [u8]>,
    pings: PingPong,
    requests: Vec<ClientRequest>,
    is_over: bool,
    /// Whether we have sent GOAWAY.
    is_going_away: bool,
}

/// One of the client's requests.
struct ClientRequest {
    stream: u32,
    length: usize,
    is_head: bool,
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    received: usize,
    /// Number of bytes that the client has received but not yet acknowledged in its window.
    unreleased: usize,
    upload: Option<SendStream<&'static [u8]>>,
    /// Amount of content that still has to be sent, or `None` after its end.
    upload_left: Option<usize>,
    has_trailers: bool,
    is_reset: bool,
    is_whole: bool,
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl Conversation {
    fn begin(choices: &mut Choices<'_>) -> Conversation {
        let (end, queues) = pipe();
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            // We don't test the client's limit for small frames.
            .data_frame_budget(usize::MAX / 2)
            .initial_window_size(choices.one_of(&SIZES))
            .header_table_size(choices.one_of(&[4_096, 0, 50, 500, 65_536]))
            .max_frame_size(choices.one_of(&[16_384, 100_000]));

        if choices.once_in(2) {
            builder.initial_connection_window_size(choices.one_of(&SIZES).max(65_535));
        }

        let mut handshake = Box::pin(builder.handshake(end));
        let Poll::Ready(hands) = handshake.as_mut().poll(&mut context()) else {
            panic!("the preface fits the queue")
        };
        let (sender, mut connection) = hands.expect("no bytes were received");
        let pings = connection.ping_pong().expect("it is taken once");

        Conversation {
            ours: Ours::new(),
            queues,
            in_flight: Vec::new(),
            connection,
            sender,
            pings,
            requests: Vec::new(),
            is_over: false,
            is_going_away: false,
        }
    }

    fn act(&mut self, operation: u8, choices: &mut Choices<'_>) {
        self.ours.wait();

        match operation % 20 {
            0..=3 => self.request(false, choices),
            4 => self.request(true, choices),
            5 | 6 => self.with_one(choices, |request, choices| request.upload(choices.one_of(&SIZES))),
            7 => self.with_one(choices, |request, _| request.reset()),
            8 => self.with_one(choices, |request, _| request.drop_handles()),
            9 | 10 => self.with_one(choices, |request, choices| request.read(choices.byte().into())),
            11 => self.with_one(choices, |request, choices| request.release(choices.one_of(&SIZES))),
            // A change must be acknowledged before the next one.
            12 => _ = self.connection.set_initial_window_size(choices.one_of(&SIZES)),
            13 => self.connection.set_target_window_size(choices.one_of(&SIZES)),
            14 => self.ping(),
            15 => self.queues.borrow_mut().capacity = choices.one_of(&SIZES) as usize,
            16 if choices.once_in(16) => {
                self.is_going_away = true;
                self.ours.go_away();
                self.take_written();
            }
            16 | 17 => self.receive(choices.one_of(&SIZES) as usize),
            18 => self.deliver(choices.one_of(&SIZES) as usize),
            _ => {
                self.ours.fill();
                self.take_written();
            }
        }

        self.poll();
    }

    /// Sends a request for a body, if the client can do so now.
    fn request(&mut self, has_content: bool, choices: &mut Choices<'_>) {
        let length = choices.one_of(&BODIES);
        let kind = choices.byte();
        let options = choices.byte();
        if !matches!(self.sender.poll_ready(&mut context()), Poll::Ready(Ok(()))) {
            return;
        }

        let folder = if kind.is_multiple_of(4) { "text/" } else { "" };
        let is_head = kind > 220 && !kind.is_multiple_of(4);
        let method = if is_head { Method::HEAD } else { Method::GET };
        let mut request =
            Request::builder().method(method).uri(format!("https://a.example/{folder}{length}"));

        let incremental = if options & 8 == 0 { "" } else { ", i" };
        if options & 16 == 0 {
            request = request.header("priority", format!("u={}{incremental}", options % 8));
        }

        let upload_bytes = has_content.then(|| choices.one_of(&UPLOADS));
        if let Some(bytes) = upload_bytes.filter(|_| options & 32 == 0) {
            request = request.header("content-length", bytes);
        }

        let request = request.body(()).expect("it is a request");
        // After a GOAWAY, the client does not send more requests.
        let Ok((response, upload)) = self.sender.send_request(request, !has_content) else { return };

        self.requests.push(ClientRequest {
            stream: response.stream_id().as_u32(),
            length,
            is_head,
            response: Some(response),
            body: None,
            received: 0,
            unreleased: 0,
            upload: Some(upload),
            upload_left: upload_bytes,
            has_trailers: options & 64 != 0,
            is_reset: false,
            is_whole: false,
        });
    }

    fn with_one(
        &mut self,
        choices: &mut Choices<'_>,
        act: impl FnOnce(&mut ClientRequest, &mut Choices<'_>),
    ) {
        let place = usize::from(choices.byte());
        if !self.requests.is_empty() {
            let count = self.requests.len();
            act(&mut self.requests[place % count], choices);
        }
    }

    fn ping(&mut self) {
        // There is only one ping on its way at a time.
        let _ = self.pings.send_ping(Ping::opaque());
        assert!(!matches!(self.pings.poll_pong(&mut context()), Poll::Ready(Err(_))) || self.is_over);
    }

    /// Runs the client.
    fn poll(&mut self) {
        if self.is_over {
            return;
        }
        if let Poll::Ready(end) = Pin::new(&mut self.connection).poll(&mut context()) {
            self.is_over = true;
            end.expect("neither side reports an error");
        }
    }

    /// Receives bytes from the client.
    fn receive(&mut self, bytes: usize) {
        let mut queues = self.queues.borrow_mut();
        let bytes = bytes.min(queues.from_peer.len());
        let after = queues.from_peer.split_off(bytes);
        let bytes = std::mem::replace(&mut queues.from_peer, after);
        drop(queues);
        self.ours.receive(&bytes);
        self.take_written();
    }

    fn take_written(&mut self) {
        self.in_flight.extend_from_slice(&self.ours.take_written());
    }

    /// Lets the client read bytes from us.
    fn deliver(&mut self, bytes: usize) {
        let bytes = bytes.min(self.in_flight.len());
        self.queues.borrow_mut().to_peer.extend_from_slice(&self.in_flight[..bytes]);
        self.in_flight.drain(..bytes);
    }

    /// Delivers all bytes in both directions. Returns their number.
    fn deliver_all(&mut self) -> usize {
        self.ours.wait();
        self.poll();
        let written = self.queues.borrow().from_peer.len();
        self.receive(usize::MAX);
        self.ours.fill();
        self.take_written();
        let moved = written + self.in_flight.len();
        self.deliver(usize::MAX);
        moved
    }

    /// Completes all requests.
    fn complete(&mut self) {
        for _ in 0..10_000 {
            self.poll();
            for request in &mut self.requests {
                request.upload(u32::MAX);
                request.read(usize::MAX);
                request.release(u32::MAX);
            }
            if self.deliver_all() == 0 && (self.is_over || self.queues.borrow().to_peer.is_empty()) {
                return;
            }
        }
        panic!("the conversation doesn't end");
    }

    fn finish(mut self) {
        self.queues.borrow_mut().capacity = usize::MAX;
        // Make the windows larger, because tiny windows would take too much time. Note that a change must be acknowledged before
        // the next one.
        self.connection.set_target_window_size(1_000_000);
        while self.connection.set_initial_window_size(1_000_000).is_err() && !self.is_over {
            self.deliver_all();
        }

        self.complete();
        for request in &self.requests {
            let is_answered = self.ours.answered.contains_key(&request.stream);
            assert!(is_answered || self.is_going_away || request.is_reset, "{} was lost", request.stream);
            assert!(
                request.is_whole || request.is_reset || !is_answered,
                "{}: {} of {}",
                request.stream,
                request.received,
                request.length
            );
        }

        assert!(self.is_going_away || !self.ours.has_ended(), "the connection ended before GOAWAY");
        assert!(
            self.ours.has_ended() || !self.is_going_away || self.is_over,
            "the connection must end after all responses"
        );

        // The client closes the connection, or receives our GOAWAY.
        let Conversation { queues, mut connection, mut ours, is_over, sender, requests, .. } = self;
        drop((sender, requests));
        queues.borrow_mut().is_closed = self.is_going_away;
        if !is_over {
            match Pin::new(&mut connection).poll(&mut context()) {
                Poll::Ready(end) => end.expect("neither side reports an error"),
                Poll::Pending => panic!("a client without requests closes"),
            }
        }

        let last = std::mem::take(&mut queues.borrow_mut().from_peer);
        ours.receive(&last);
        assert!(ours.take_written().is_empty(), "GOAWAY needs no response");
    }
}

impl ClientRequest {
    /// Sends content, as far as the windows allow. After the last byte, ends it.
    fn upload(&mut self, bytes: u32) {
        let (Some(upload), Some(left)) = (&mut self.upload, &mut self.upload_left) else { return };
        let wanted = (*left).min(bytes as usize);
        upload.reserve_capacity(wanted);
        // RFC 9113 §8.1: after the response, the server may reject the remaining content.
        let capacity = match upload.poll_capacity(&mut context()) {
            Poll::Ready(Some(Ok(capacity))) => capacity,
            Poll::Ready(Some(Err(_))) | Poll::Ready(None) => upload.capacity(),
            Poll::Pending => 0,
        };

        let bytes = wanted.min(capacity);
        let ends = bytes == *left;
        if bytes == 0 && !ends {
            return;
        }

        let sent = upload.send_data(&CONTENT[..bytes], ends && !self.has_trailers);
        if sent.is_ok() && ends && self.has_trailers {
            let name = HeaderName::from_static("x-end");
            let trailers = HeaderMap::from_iter([(name, HeaderValue::from_static("1"))]);
            _ = upload.send_trailers(trailers);
        }

        *left -= bytes;
        if ends || sent.is_err() {
            self.upload_left = None;
        }
    }

    /// Resets the stream.
    fn reset(&mut self) {
        if let Some(upload) = &mut self.upload {
            upload.send_reset(Reason::CANCEL);
            self.is_reset = true;
        }
    }

    /// Drops everything that belongs to a request. When it is incomplete, this resets the stream.
    fn drop_handles(&mut self) {
        self.is_reset |= !self.is_whole || self.upload_left.is_some();
        self.response = None;
        self.body = None;
        self.upload = None;
        self.upload_left = None;
    }

    /// Reads a response's head, and up to `pieces` pieces of its body.
    fn read(&mut self, pieces: usize) {
        if let Some(response) = &mut self.response {
            match Pin::new(response).poll(&mut context()) {
                Poll::Pending => return,
                Poll::Ready(Err(error)) => return self.fail(&error),
                Poll::Ready(Ok(response)) => {
                    assert_eq!(response.status(), 200);
                    let length = response.headers()["content-length"].to_str().expect("digits");
                    assert_eq!(length, self.length.to_string());
                    self.body = Some(response.into_body());
                    self.response = None;
                }
            }
        }

        for _ in 0..pieces {
            let Some(body) = &mut self.body else { return };
            match body.poll_data(&mut context()) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(piece))) => {
                    assert!(piece[..] == CONTENT[self.received..][..piece.len()], "at {}", self.received);
                    self.received += piece.len();
                    self.unreleased += piece.len();
                }
                Poll::Ready(Some(Err(error))) => return self.fail(&error),
                Poll::Ready(None) => {
                    assert_eq!(self.received, if self.is_head { 0 } else { self.length });
                    self.is_whole = true;
                    return;
                }
            }
        }
    }

    /// Ends a response early. There must be a good reason.
    fn fail(&mut self, error: &h2::Error) {
        let is_refused = error.is_remote() && error.is_go_away() || error.is_io();
        assert!(self.is_reset || is_refused, "{}: {error}", self.stream);
        self.response = None;
        self.body = None;
    }

    /// Acknowledges received bytes in the window.
    fn release(&mut self, bytes: u32) {
        let bytes = self.unreleased.min(bytes as usize);
        if let Some(body) = self.body.as_mut().filter(|_| bytes > 0) {
            body.flow_control().release_capacity(bytes).expect("at most the received bytes");
            self.unreleased -= bytes;
        }
    }
}
