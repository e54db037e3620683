//! The client of the `h2` crate asks us: whatever it does, in whichever pieces bytes travel, it gets what was answered.
//!
//! Three promises: the bytes of each answer, and how many it says that they are; that a request is lost to nobody but whom
//! took it back, or came behind our goodbye; and that neither side finds a fault in the other.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};

use super::choices::Choices;
use super::ours::{CONTENT, Ours};
use super::pipe::{End, Queues, pipe};

/// How long the bodies are that are asked for: around what is copied, what a frame holds, what a window does.
const BODIES: [usize; 12] = [0, 1, 13, 300, 8_192, 8_193, 16_384, 16_385, 65_535, 65_536, 100_000, 200_000];

/// How long contents of requests are: the last two are more than there is room for.
const UPLOADS: [usize; 6] = [0, 1, 1_000, 65_535, 65_536, 100_000];

/// Windows and pieces.
const SIZES: [u32; 10] = [1, 9, 100, 1_000, 16_384, 16_393, 65_535, 100_000, 1_000_000, 0x7fff_ffff];

/// Each operation is a byte, and what it needs behind it.
pub fn client(data: &[u8]) {
    let mut choices = Choices::new(data);
    let mut talk = Talk::begin(&mut choices);
    while let Some(operation) = choices.byte() {
        talk.act(operation, &mut choices);
    }
    talk.finish();
}

/// A client, our end, and the bytes between them.
struct Talk {
    ours: Ours,
    queues: Rc<RefCell<Queues>>,
    /// What we have said and the client cannot read yet.
    under_way: Vec<u8>,
    connection: Connection<End, &'static [u8]>,
    requests: SendRequest<&'static [u8]>,
    pings: PingPong,
    asked: Vec<Asked>,
    is_over: bool,
    /// Whether we have said goodbye.
    goes: bool,
}

/// A request of the client's.
struct Asked {
    stream: u32,
    length: usize,
    is_head: bool,
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    received: usize,
    /// Of what was received, how much the client has not made room for again.
    unreleased: usize,
    upload: Option<SendStream<&'static [u8]>>,
    /// How much content is still to be sent; nothing if that has ended.
    upload_left: Option<usize>,
    has_trailers: bool,
    is_taken_back: bool,
    is_whole: bool,
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl Talk {
    fn begin(choices: &mut Choices<'_>) -> Talk {
        let (end, queues) = pipe();
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            // What the client thinks of small frames is not asked here.
            .data_frame_budget(usize::MAX / 2)
            .initial_window_size(choices.one_of(&SIZES))
            .header_table_size(choices.one_of(&[4_096, 0, 50, 500, 65_536]))
            .max_frame_size(choices.one_of(&[16_384, 100_000]));
        if choices.once_in(2) {
            builder.initial_connection_window_size(choices.one_of(&SIZES).max(65_535));
        }
        let mut handshake = Box::pin(builder.handshake(end));
        let Poll::Ready(hands) = handshake.as_mut().poll(&mut context()) else { panic!("there is room") };
        let (requests, mut connection) = hands.expect("nobody has said anything yet");
        let pings = connection.ping_pong().expect("it is taken once");
        let (ours, under_way, asked) = (Ours::new(), Vec::new(), Vec::new());
        Talk { ours, queues, under_way, connection, requests, pings, asked, is_over: false, goes: false }
    }

    fn act(&mut self, operation: u8, choices: &mut Choices<'_>) {
        self.ours.wait();
        match operation % 20 {
            0..=3 => self.ask(false, choices),
            4 => self.ask(true, choices),
            5 | 6 => self.with_one(choices, |asked, choices| asked.upload(choices.one_of(&SIZES))),
            7 => self.with_one(choices, |asked, _| asked.take_back()),
            8 => self.with_one(choices, |asked, _| asked.forget()),
            9 | 10 => self.with_one(choices, |asked, choices| asked.read(choices.next().into())),
            11 => self.with_one(choices, |asked, choices| asked.release(choices.one_of(&SIZES))),
            // One change has to be acknowledged before the next.
            12 => _ = self.connection.set_initial_window_size(choices.one_of(&SIZES)),
            13 => self.connection.set_target_window_size(choices.one_of(&SIZES)),
            14 => self.ping(),
            15 => self.queues.borrow_mut().room = choices.one_of(&SIZES) as usize,
            16 if choices.once_in(16) => {
                self.goes = true;
                self.ours.go_away();
                self.take_said();
            }
            16 | 17 => self.hear(choices.one_of(&SIZES) as usize),
            18 => self.deliver(choices.one_of(&SIZES) as usize),
            _ => {
                self.ours.fill();
                self.take_said();
            }
        }
        self.poll();
    }

    /// Asks for a body, if the client may ask at present.
    fn ask(&mut self, has_content: bool, choices: &mut Choices<'_>) {
        let (length, kind, told) = (choices.one_of(&BODIES), choices.next(), choices.next());
        if !matches!(self.requests.poll_ready(&mut context()), Poll::Ready(Ok(()))) {
            return;
        }
        let folder = if kind % 4 == 0 { "text/" } else { "" };
        let is_head = kind > 220 && kind % 4 != 0;
        let method = if is_head { Method::HEAD } else { Method::GET };
        let mut request =
            Request::builder().method(method).uri(format!("https://a.example/{folder}{length}"));
        let incremental = if told & 8 == 0 { "" } else { ", i" };
        if told & 16 == 0 {
            request = request.header("priority", format!("u={}{incremental}", told % 8));
        }
        let upload_bytes = has_content.then(|| choices.one_of(&UPLOADS));
        if let Some(bytes) = upload_bytes.filter(|_| told & 32 == 0) {
            request = request.header("content-length", bytes);
        }
        let request = request.body(()).expect("it is a request");
        // Behind a goodbye the client refuses to ask.
        let Ok((response, upload)) = self.requests.send_request(request, !has_content) else { return };
        self.asked.push(Asked {
            stream: response.stream_id().as_u32(),
            length,
            is_head,
            response: Some(response),
            body: None,
            received: 0,
            unreleased: 0,
            upload: Some(upload),
            upload_left: upload_bytes,
            has_trailers: told & 64 != 0,
            is_taken_back: false,
            is_whole: false,
        });
    }

    fn with_one(&mut self, choices: &mut Choices<'_>, act: impl FnOnce(&mut Asked, &mut Choices<'_>)) {
        let place = usize::from(choices.next());
        if !self.asked.is_empty() {
            let count = self.asked.len();
            act(&mut self.asked[place % count], choices);
        }
    }

    fn ping(&mut self) {
        // One is under way at a time.
        let _ = self.pings.send_ping(Ping::opaque());
        assert!(!matches!(self.pings.poll_pong(&mut context()), Poll::Ready(Err(_))) || self.is_over);
    }

    /// Lets the client go on.
    fn poll(&mut self) {
        if self.is_over {
            return;
        }
        if let Poll::Ready(end) = Pin::new(&mut self.connection).poll(&mut context()) {
            self.is_over = true;
            end.expect("neither side finds a fault in the other");
        }
    }

    /// Hands what the client has written to us.
    fn hear(&mut self, bytes: usize) {
        let mut queues = self.queues.borrow_mut();
        let bytes = bytes.min(queues.from_them.len());
        let behind = queues.from_them.split_off(bytes);
        let bytes = std::mem::replace(&mut queues.from_them, behind);
        drop(queues);
        self.ours.receive(&bytes);
        self.take_said();
    }

    fn take_said(&mut self) {
        self.under_way.extend_from_slice(&self.ours.said());
    }

    /// Lets the client read what we have said.
    fn deliver(&mut self, bytes: usize) {
        let bytes = bytes.min(self.under_way.len());
        self.queues.borrow_mut().to_them.extend_from_slice(&self.under_way[..bytes]);
        self.under_way.drain(..bytes);
    }

    /// Lets everything arrive that is under way; tells whether there was anything.
    fn carry(&mut self) -> bool {
        self.ours.wait();
        self.poll();
        let written = self.queues.borrow().from_them.len();
        self.hear(usize::MAX);
        self.ours.fill();
        self.take_said();
        let moved = written + self.under_way.len();
        self.deliver(usize::MAX);
        moved > 0
    }

    /// Lets the client read all that it can, until there is no more.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.poll();
            for asked in &mut self.asked {
                asked.upload(u32::MAX);
                asked.read(usize::MAX);
                asked.release(u32::MAX);
            }
            if !self.carry() && (self.is_over || self.queues.borrow().to_them.is_empty()) {
                return;
            }
        }
        panic!("there is always more to say");
    }

    fn finish(mut self) {
        self.queues.borrow_mut().room = usize::MAX;
        // Who has room for a byte at a time would take long: but for that it must be known that no change is under way.
        self.connection.set_target_window_size(1_000_000);
        while self.connection.set_initial_window_size(1_000_000).is_err() && !self.is_over {
            self.carry();
        }
        self.settle();
        for asked in &self.asked {
            let is_answered = self.ours.answered.contains_key(&asked.stream);
            assert!(is_answered || self.goes || asked.is_taken_back, "{} was not seen", asked.stream);
            assert!(
                asked.is_whole || asked.is_taken_back || !is_answered,
                "{}: {} of {}",
                asked.stream,
                asked.received,
                asked.length
            );
        }
        assert!(self.goes || !self.ours.has_ended(), "we do not end before we have said goodbye");
        assert!(self.ours.has_ended() || !self.goes || self.is_over, "we end when all is answered");
        // The client goes, or sees that we do.
        let Talk { queues, mut connection, mut ours, is_over, requests, asked, .. } = self;
        drop((requests, asked));
        queues.borrow_mut().is_closed = self.goes;
        if !is_over {
            match Pin::new(&mut connection).poll(&mut context()) {
                Poll::Ready(end) => end.expect("neither side finds a fault in the other"),
                Poll::Pending => panic!("who asks no more goes"),
            }
        }
        let last = std::mem::take(&mut queues.borrow_mut().from_them);
        ours.receive(&last);
        assert!(ours.said().is_empty(), "a goodbye needs no answer");
    }
}

impl Asked {
    /// Sends content, as far as there is room for it, and ends it behind the last byte.
    fn upload(&mut self, bytes: u32) {
        let (Some(upload), Some(left)) = (&mut self.upload, &mut self.upload_left) else { return };
        let wanted = (*left).min(bytes as usize);
        upload.reserve_capacity(wanted);
        // Once there is an answer, the rest of the content may be declined (RFC 9113 §8.1).
        let room = match upload.poll_capacity(&mut context()) {
            Poll::Ready(Some(Ok(room))) => room,
            Poll::Ready(Some(Err(_))) | Poll::Ready(None) => upload.capacity(),
            Poll::Pending => 0,
        };
        let bytes = wanted.min(room);
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
    fn take_back(&mut self) {
        if let Some(upload) = &mut self.upload {
            upload.send_reset(Reason::CANCEL);
            self.is_taken_back = true;
        }
    }

    /// Lets everything go that belongs to the request, which resets its stream if there was more to come.
    fn forget(&mut self) {
        self.is_taken_back |= !self.is_whole || self.upload_left.is_some();
        (self.response, self.body, self.upload, self.upload_left) = (None, None, None, None);
    }

    /// Reads the head of the answer, and so many pieces of its body.
    fn read(&mut self, pieces: usize) {
        if let Some(response) = &mut self.response {
            match Pin::new(response).poll(&mut context()) {
                Poll::Pending => return,
                Poll::Ready(Err(error)) => return self.end(&error),
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
                Poll::Ready(Some(Err(error))) => return self.end(&error),
                Poll::Ready(None) => {
                    assert_eq!(self.received, if self.is_head { 0 } else { self.length });
                    self.is_whole = true;
                    return;
                }
            }
        }
    }

    /// There will be no more of the answer.
    fn end(&mut self, error: &h2::Error) {
        let is_refused = error.is_remote() && error.is_go_away() || error.is_io();
        assert!(self.is_taken_back || is_refused, "{}: {error}", self.stream);
        (self.response, self.body) = (None, None);
    }

    /// Makes room again for what was received.
    fn release(&mut self, bytes: u32) {
        let bytes = self.unreleased.min(bytes as usize);
        if let Some(body) = self.body.as_mut().filter(|_| bytes > 0) {
            body.flow_control().release_capacity(bytes).expect("so much was received");
            self.unreleased -= bytes;
        }
    }
}
