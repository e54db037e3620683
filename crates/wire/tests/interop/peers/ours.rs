//! Our side: a connection with a small server. Bytes go in, and bytes come out.
//!
//! For `/N`, the response is the first `N` bytes of [`CONTENT`] as a range of an archive, and for `/text/N`, the same bytes as
//! text. All other paths get a 404.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use cannery_archive::Extent;
use cannery_site::{Answer, Body, Fields, Reason};
use cannery_wire::h2::{Connection, Step, StreamId};
use cannery_wire::{ArchiveRef, HeadStore, Multiplexed, Output, OwnHead, Response, ServerFields};

use super::end::{End, take_bytes};

/// Content whose first bytes make up each body. Any four bytes of it tell their position.
pub(crate) static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    (0..50_000_u32).flat_map(|number| number.wrapping_mul(0x9e37_79b1).to_be_bytes()).collect()
});

/// Our side of a connection.
pub(crate) struct Ours {
    connection: Connection,
    store: HeadStore,
    output: Output,
    fields: ServerFields,
    /// Input that the connection has not read yet.
    held: Vec<u8>,
    /// For each stream, the response's status.
    pub(crate) answered: BTreeMap<u32, u16>,
    /// Output that has not been taken yet.
    written: Vec<u8>,
    seconds: u64,
}

impl Ours {
    /// Creates a connection that has already written its settings.
    pub(crate) fn new() -> Ours {
        let mut ours = Ours {
            connection: Connection::new(),
            store: HeadStore::new(),
            output: Output::new(),
            fields: ServerFields::new(&[("X-Frame-Options", "deny")], 0),
            held: Vec::new(),
            answered: BTreeMap::new(),
            written: Vec::new(),
            seconds: 1_700_000_000,
        };
        ours.connection.begin(&mut ours.output);
        ours.take_output();
        ours
    }

    /// Advances the clock by a second.
    pub(crate) fn wait(&mut self) {
        self.seconds += 1;
        self.store.set_now(self.seconds);
    }

    /// Receives bytes and answers all requests.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        End::receive(self, bytes);
        self.take_output();
    }

    /// Writes bodies once, as far as there is room in the output and the windows.
    pub(crate) fn fill(&mut self) {
        self.connection.fill(&mut self.output);
        self.take_output();
    }

    /// Writes all bodies, as far as the windows allow.
    pub(crate) fn fill_all(&mut self) {
        loop {
            let before = self.written.len();
            self.fill();
            if self.written.len() == before {
                return;
            }
        }
    }

    /// Starts a graceful shutdown.
    pub(crate) fn go_away(&mut self) {
        self.connection.go_away(&mut self.output);
        self.take_output();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.connection.has_ended()
    }

    /// Returns all bytes written since the last call.
    pub(crate) fn take_written(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.written)
    }

    fn answer(&mut self, stream: StreamId) {
        let Ours { connection, store, fields, output, .. } = self;
        let head = store.head();
        let target = str::from_utf8(head.request.target).unwrap_or_default();

        let length = |text: &str| text.parse::<usize>().ok().filter(|length| *length <= CONTENT.len());
        let text = target.strip_prefix("/text/").and_then(length);
        let found = target.strip_prefix('/').and_then(length);
        let is_head = head.method_name == b"HEAD";
        let archive = ArchiveRef { number: 3, bytes: &CONTENT, identity: 1 };
        let mut answer = Answer::built_in(404, Reason::NotFound);

        if let Some(length) = text {
            let text_length = length.to_string();
            let fields = [(":status", b"200".as_slice()), ("content-length", text_length.as_bytes())];
            connection.respond_with_head(stream, &OwnHead::new(&fields), &CONTENT[..length], output);
            answer.status = 200;
        } else {
            if let Some(length) = found {
                answer = Answer::built_in(200, Reason::NotFound);
                answer.fields = Fields::BuiltIn { page: None, complete_length: None };
                answer.body = Body::Archive(Extent { position: 0, length: length as u64 });
                answer.content_length = Some(length as u64);
            }
            let answer = if is_head { answer.without_body() } else { answer };
            connection.respond(stream, &Response { answer: &answer, archive, fields }, output);
        }

        self.answered.insert(stream.number(), answer.status);
    }

    fn take_output(&mut self) {
        let written = take_bytes(&mut self.output, &CONTENT);
        self.written.extend(written);
    }
}

impl End for Ours {
    fn held(&mut self) -> &mut Vec<u8> {
        &mut self.held
    }

    fn read(&mut self, rest: &[u8]) -> (usize, Step) {
        self.connection.next_request(rest, &mut self.store, &mut self.output)
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Request(stream) => self.answer(stream),
            Step::Refused(stream, refusal) => {
                let status = refusal.status();
                let Ours { connection, store, fields, output, .. } = self;
                let mut answer = Answer::built_in(status, Reason::BadRequest);
                if store.head().method_name == b"HEAD" {
                    answer = answer.without_body();
                }
                let response = Response { answer: &answer, archive: ArchiveRef::NONE, fields };
                connection.respond(stream, &response, output);
                self.answered.insert(stream.number(), status);
            }
            Step::Received(..) => unreachable!("no content is received"),
            Step::Full => self.take_output(),
            Step::More | Step::End => {}
        }
    }
}
