//! The time that clients have for the content of a request.

use super::*;

/// Time limit for requests in the upload tests.
const REQUEST_TIME: Duration = Duration::from_secs(3);

/// Total number of steps in which we send uploads. Together, these take longer than [`REQUEST_TIME`], but
/// each upload only needs four of them.
const STEPS: usize = 30;

/// The rate of uploads. No condition is awaited.
const STEP: Duration = Duration::from_millis(150);

/// A quarter of an upload.
const PART: [u8; 1000] = [b'x'; 1000];

fn start_with_short_requests() -> Fixture {
    Fixture::start_with(|server| {
        server.configure(|settings| settings.timeouts(|timeouts| timeouts.head = REQUEST_TIME))
    })
}

/// A connection that has several uploads at a time.
trait Uploads: Sized {
    fn connect(at: Addresses) -> Self;
    /// Starts an upload and returns its number.
    fn begin(&mut self) -> u64;
    fn send(&mut self, upload: u64, is_last: bool);
    fn pause(&mut self);
    /// Reads the responses and returns how long each body is.
    fn finish(&mut self, uploads: &[u64]) -> Vec<usize>;
    /// Waits until the server ends the connection.
    fn await_end(self);
}

impl Uploads for http2::Client<TcpStream> {
    fn connect(at: Addresses) -> Self {
        http2::Client::new(TcpStream::connect(at.plain).unwrap())
    }

    fn begin(&mut self) -> u64 {
        self.begin_request(&pseudo("POST", "/slow/echo", &[])).unwrap().into()
    }

    fn send(&mut self, upload: u64, is_last: bool) {
        self.send_frame(DATA, if is_last { END_STREAM } else { 0 }, upload.try_into().unwrap(), &PART);
    }

    fn pause(&mut self) {
        thread::sleep(STEP);
    }

    fn finish(&mut self, uploads: &[u64]) -> Vec<usize> {
        let uploads: Vec<u32> = uploads.iter().map(|upload| (*upload).try_into().unwrap()).collect();
        let responses = self.receive_all(&uploads, "POST").unwrap();
        responses.into_iter().map(|response| response.body.len()).collect()
    }

    fn await_end(mut self) {
        while self.receive_frame().unwrap().kind != http2::GOAWAY {}
    }
}

impl Uploads for http3::Client {
    fn connect(at: Addresses) -> Self {
        http3::Client::connect(at.quic).unwrap()
    }

    fn begin(&mut self) -> u64 {
        let mut fields = pseudo("POST", "/slow/echo", &[]);
        fields[1].1 = "https";
        self.begin_request(&fields).index()
    }

    fn send(&mut self, upload: u64, is_last: bool) {
        let stream = stream_of_client(upload);
        http3::Client::send(self, stream, &http3::frame(http3::DATA, &PART));
        if is_last {
            http3::Client::finish(self, stream);
        }
    }

    fn pause(&mut self) {
        let end = Instant::now() + STEP;
        self.acknowledge_while(|| Instant::now() < end).unwrap();
    }

    fn finish(&mut self, uploads: &[u64]) -> Vec<usize> {
        let receive = |upload: &u64| self.receive(stream_of_client(*upload), "POST").unwrap().body.len();
        uploads.iter().map(receive).collect()
    }

    fn await_end(mut self) {
        let _ = self.await_close_or_reset();
    }
}

fn stream_of_client(number: u64) -> http3::StreamId {
    http3::StreamId::new(http3::Side::Client, http3::Dir::Bi, number)
}

/// Some uploads are incomplete at any time, but none for long.
fn check_overlapping_uploads<C: Uploads>(at: Addresses) {
    let mut client = C::connect(at);
    let mut open: VecDeque<(u64, usize)> = VecDeque::new();
    for _ in 0..STEPS {
        open.push_back((client.begin(), 0));
        for (upload, parts) in &mut open {
            *parts += 1;
            client.send(*upload, *parts == 4);
        }
        if let Some((upload, _)) = open.pop_front_if(|(_, parts)| *parts == 4) {
            assert_eq!(client.finish(&[upload]), [4 * PART.len()]);
        }
        client.pause();
    }
}

/// One of the uploads never ends.
///
/// After the others have been answered, only its connection should be closed.
fn check_stalled_upload<C: Uploads>(at: Addresses) {
    let mut client = C::connect(at);
    let stalled = client.begin();
    client.send(stalled, false);
    let others = [client.begin(), client.begin()];
    for upload in others {
        client.send(upload, false);
        client.send(upload, true);
    }
    assert_eq!(client.finish(&others), [2 * PART.len(); 2]);
    client.await_end();
}

/// Sends pipelined uploads. A step may contain the border between two.
fn check_pipelined_uploads(address: SocketAddr) {
    const UPLOADS: usize = 8;
    let upload =
        [b"POST /slow/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n".as_slice(), &PART].concat();
    let all = upload.repeat(UPLOADS);
    let mut client = http1::Client::new(TcpStream::connect(address).unwrap());
    for part in all.chunks(all.len() / STEPS) {
        client.send(part).unwrap();
        thread::sleep(STEP);
    }
    for _ in 0..UPLOADS {
        let response = client.receive("POST").unwrap();
        assert_eq!((response.status, response.body.len()), (200, PART.len()));
    }
}

fn check_stalled_pipelined_upload(address: SocketAddr) {
    let upload = b"POST /slow/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    let received = exchange(address, &[upload.as_slice(), &upload[..upload.len() - 1]].concat());
    assert_eq!(received.matches("HTTP/1.1 200 ").count(), 1, "{received}");
}

/// The timeout applies to each upload separately: an upload must not end because many others
/// overlap or because another one stalls.
#[test]
fn uploads_are_late_by_their_own_age() {
    let fixture = start_with_short_requests();
    let at = fixture.at;
    thread::scope(|scope| {
        scope.spawn(|| check_pipelined_uploads(at.plain));
        scope.spawn(|| check_stalled_pipelined_upload(at.plain));
        scope.spawn(|| check_overlapping_uploads::<http2::Client<TcpStream>>(at));
        scope.spawn(|| check_stalled_upload::<http2::Client<TcpStream>>(at));
        scope.spawn(|| check_overlapping_uploads::<http3::Client>(at));
        scope.spawn(|| check_stalled_upload::<http3::Client>(at));
    });
}
