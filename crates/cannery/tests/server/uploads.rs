//! Handlers that read the content of requests while it arrives.

use super::*;
use std::io::ErrorKind;
use std::sync::atomic::AtomicU64;

use cannery::{ContentReader, Multipart};

/// Length of an upload in bytes, far more than all windows and buffers. The long variant would not fit into the memory that the
/// test allows.
fn upload_bytes() -> u64 {
    if is_slow() { 1 << 30 } else { 20 << 20 }
}

fn is_slow() -> bool {
    std::env::var_os("CANNERY_SLOW").is_some()
}

/// Content is sent in parts of this many bytes.
const PART_BYTES: usize = 16 * 1024;

/// The most content that a server keeps for a handler that does not read, in bytes. Over TCP, kernels keep some megabytes more.
const KEPT_BYTES_MAX: u64 = 256 * 1024;
const KEPT_BYTES_MAX_TCP: u64 = 16 << 20;

/// Returns a part of the content, by its number.
fn part(number: u64) -> Vec<u8> {
    let start = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..PART_BYTES as u64)
        .map(|index| (start.rotate_left(7) ^ index.wrapping_mul(start | 1)).to_le_bytes()[3])
        .collect()
}

/// A digest (FNV-1a on words) that doesn't depend on how the bytes are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Digest(u64);

impl Digest {
    const NEW: Digest = Digest(0xcbf2_9ce4_8422_2325);

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Bytes that a handler has read, and the error at their end.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    bytes: u64,
    error: Option<ErrorKind>,
}

/// Reads all content.
fn read(content: &mut ContentReader) -> (Report, Digest, Result<(), std::io::Error>) {
    let mut digest = Digest::NEW;
    let mut bytes = 0;
    let mut buffer = [0; 8000];
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return (Report { bytes, error: None }, digest, Ok(())),
            Ok(count) => {
                digest.add(&buffer[..count]);
                bytes += count as u64;
            }
            Err(error) => return (Report { bytes, error: Some(error.kind()) }, digest, Err(error)),
        }
    }
}

/// A server with a route for each way to treat an upload.
struct Uploads {
    fixture: Fixture,
    /// Content that handlers have read.
    reports: Mutex<Receiver<Report>>,
    /// Lets a handler of `/late` continue.
    proceed: Sender<()>,
    /// How many handlers have begun to read everything.
    begun: Arc<AtomicUsize>,
}

impl Uploads {
    fn start() -> Uploads {
        Uploads::start_with(|server| server)
    }

    fn start_with(change: impl FnOnce(Server) -> Server) -> Uploads {
        let (report, reports) = channel();
        let (proceed, proceeds) = channel::<()>();
        let (report, proceeds) = (Mutex::new(report), Mutex::new(proceeds));
        let begun = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&begun);
        let report = Arc::new(move |content: &mut ContentReader| {
            counter.fetch_add(1, Ordering::SeqCst);
            let (read, digest, result) = read(content);
            let text = format!("{} {}", read.bytes, digest.0);
            // The test may not be interested.
            let _ = report.lock().unwrap().send(read);
            result.map(|()| text)
        });
        let [digest, late] = [Arc::clone(&report), report];
        let fixture = Fixture::start_with(|server| {
            let server = server.group("/uploads", |group| {
                group
                    .content_bytes_max(upload_bytes())
                    .upload_route("PUT /digest", move |_, mut content| digest(&mut content))
                    .upload_route("PUT /late", move |_, mut content| {
                        let _ = proceeds.lock().unwrap().recv();
                        late(&mut content)
                    })
                    .upload_route("PUT /start", |_, mut content| {
                        let mut start = [0; 4];
                        content.read_exact(&mut start)?;
                        Ok::<_, HandlerError>(start.to_vec())
                    })
                    .upload_route("PUT /refuse", |_, _| Err::<(), _>(HandlerError::new(403, "No.")))
                    .upload_route("PUT /panic", |_, mut content| -> Response {
                        let _ = content.read(&mut [0; 1]);
                        panic!("this handler panics in a test")
                    })
                    .upload_route("PUT /echo", |_, mut content| {
                        Response::stream("text/plain", move |body| {
                            std::io::copy(&mut content, body)?;
                            Ok(())
                        })
                    })
            });
            change(server)
        });
        Uploads { fixture, reports: Mutex::new(reports), proceed, begun }
    }

    fn at(&self) -> Addresses {
        self.fixture.at
    }

    fn report(&self) -> Report {
        self.reports
            .lock()
            .unwrap()
            .recv_timeout(Duration::from_secs(60))
            .expect("the handler reads to an end")
    }
}

/// An upload over one of the HTTP versions.
trait Upload: Sized {
    /// Connects and sends the head of a request.
    fn begin(at: Addresses, target: &str, lines: Lines<'_>) -> Self;
    /// Sends a part as soon as the server takes it. Returns `false` if the server doesn't want more.
    fn send(&mut self, part: &[u8]) -> bool;
    /// Ends the content.
    fn end(&mut self);
    /// Reads the response.
    fn receive(self) -> (u16, Vec<u8>);
    /// Ends the request before its content is complete.
    fn cut(self);
    /// Waits for an interim response that asks for the content.
    fn await_continue(&mut self);

    fn finish(mut self) -> (u16, Vec<u8>) {
        self.end();
        self.receive()
    }
}

/// HTTP/1.1 with chunks, or with a length if there is one in the head.
struct Http1 {
    stream: TcpStream,
    is_chunked: bool,
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl Upload for Http1 {
    fn begin(at: Addresses, target: &str, lines: Lines<'_>) -> Http1 {
        let mut stream = TcpStream::connect(at.plain).unwrap();
        let is_chunked = lines.iter().all(|(name, _)| *name != "content-length");
        let framing = if is_chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
        let mut head = format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{framing}");
        for (name, value) in lines {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        Http1 { stream, is_chunked }
    }

    fn send(&mut self, part: &[u8]) -> bool {
        if !self.is_chunked {
            return self.stream.write_all(part).is_ok();
        }
        let chunk = [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
        self.stream.write_all(&chunk).is_ok()
    }

    fn end(&mut self) {
        if self.is_chunked {
            // Trailers are discarded.
            let _ = self.stream.write_all(b"0\r\nX-Digest: 5\r\n\r\n");
        }
    }

    fn receive(mut self) -> (u16, Vec<u8>) {
        let mut received = Vec::new();
        // If the server didn't want all of the content, the kernel may reset the connection after the response.
        let _ = self.stream.read_to_end(&mut received);
        // The server may have asked for the content before it came.
        let received = received.strip_prefix(CONTINUE).unwrap_or(&received);
        let end = received.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole head");
        let head = str::from_utf8(&received[..end]).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = &received[end + 4..];
        (status, if head.contains("chunked") { unchunk(body) } else { body.to_vec() })
    }

    fn cut(self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    fn await_continue(&mut self) {
        let mut interim = [0; CONTINUE.len()];
        self.stream.read_exact(&mut interim).unwrap();
        assert_eq!(interim, CONTINUE);
    }
}

struct Http2 {
    client: http2::Client<TcpStream>,
    stream: u32,
    /// Windows of the connection and of the stream.
    windows: [i64; 2],
    /// Frames on the stream that came before the end of the content.
    early: VecDeque<http2::Frame>,
}

impl Http2 {
    fn room(&self) -> usize {
        usize::try_from(self.windows[0].min(self.windows[1])).unwrap_or(0)
    }
}

impl Upload for Http2 {
    fn begin(at: Addresses, target: &str, lines: Lines<'_>) -> Http2 {
        let mut client = http2::Client::new(TcpStream::connect(at.plain).unwrap());
        let stream = client.begin_request(&pseudo("PUT", target, lines)).unwrap();
        Http2 { client, stream, windows: [65_535; 2], early: VecDeque::new() }
    }

    fn send(&mut self, mut part: &[u8]) -> bool {
        while !part.is_empty() && self.early.is_empty() {
            let (now, rest) = part.split_at(self.room().min(part.len()));
            part = rest;
            if now.is_empty() {
                let Ok(frame) = self.client.receive_frame() else { return false };
                match frame.kind {
                    http2::WINDOW_UPDATE => {
                        self.windows[usize::from(frame.stream != 0)] += i64::from(frame.number(0));
                    }
                    _ if frame.stream == self.stream => self.early.push_back(frame),
                    _ => {}
                }
                continue;
            }
            self.client.send_frame(DATA, 0, self.stream, now);
            for window in &mut self.windows {
                *window -= i64::try_from(now.len()).unwrap();
            }
        }
        self.early.is_empty()
    }

    fn end(&mut self) {
        self.client.send_frame(DATA, END_STREAM, self.stream, b"");
    }

    fn receive(mut self) -> (u16, Vec<u8>) {
        let mut response = None;
        loop {
            let frame = match self.early.pop_front() {
                Some(frame) => frame,
                None => self.client.receive_frame().expect("the response is complete"),
            };
            if frame.stream != self.stream {
                continue;
            }
            let is_last = frame.has(END_STREAM);
            match frame.kind {
                HEADERS => response = Some(self.client.decode_head(frame)),
                DATA => {
                    let bytes = u32::try_from(frame.payload.len()).unwrap();
                    response.as_mut().unwrap().body.extend_from_slice(&frame.payload);
                    if bytes > 0 {
                        self.client.send_window_update(0, bytes);
                        self.client.send_window_update(self.stream, bytes);
                    }
                }
                _ => continue,
            }
            if is_last {
                let response = response.unwrap();
                return (response.status, response.body);
            }
        }
    }

    fn cut(mut self) {
        self.client.send_frame(http2::RST_STREAM, 0, self.stream, &8_u32.to_be_bytes());
    }

    fn await_continue(&mut self) {
        loop {
            let frame = self.client.receive_frame().unwrap();
            if frame.kind == HEADERS {
                assert!(!frame.has(END_STREAM));
                assert_eq!(self.client.decode_head(frame).status, 100);
                return;
            }
        }
    }
}

struct Http3 {
    client: http3::Client,
    stream: http3::StreamId,
}

impl Upload for Http3 {
    fn begin(at: Addresses, target: &str, lines: Lines<'_>) -> Http3 {
        let mut client = http3::Client::connect(at.quic).unwrap();
        let mut fields = pseudo("PUT", target, lines);
        fields[1].1 = "https";
        let stream = client.begin_request(&fields);
        Http3 { client, stream }
    }

    fn send(&mut self, part: &[u8]) -> bool {
        self.client.send_content(self.stream, part).is_ok() && !self.client.is_complete(self.stream)
    }

    fn end(&mut self) {
        self.client.finish(self.stream);
    }

    fn receive(mut self) -> (u16, Vec<u8>) {
        let bytes = self.client.receive_bytes(self.stream).unwrap();
        self.client.close();
        let (mut rest, mut status, mut body) = (bytes.as_slice(), 0, Vec::new());
        while let Some((kind, payload)) = take_frame(&mut rest) {
            match kind {
                http3::HEADERS => status = decode(payload)[0].1.parse().unwrap(),
                http3::DATA => body.extend_from_slice(payload),
                _ => {}
            }
        }
        (status, body)
    }

    fn cut(mut self) {
        self.client.reset(self.stream, H3_REQUEST_CANCELLED);
        let _ = self.client.acknowledge_while(|| false);
    }

    fn await_continue(&mut self) {
        // A frame with a status.
        self.client.receive_part(self.stream, 3).unwrap();
        assert!(!self.client.is_complete(self.stream));
    }
}

/// Sends whole parts up to this length. Counts them in `sent`.
fn send_parts(upload: &mut impl Upload, bytes: u64, sent: &AtomicU64) -> Digest {
    let mut digest = Digest::NEW;
    for number in 0..bytes / PART_BYTES as u64 {
        let part = part(number);
        digest.add(&part);
        if !upload.send(&part) {
            break;
        }
        sent.fetch_add(part.len() as u64, Ordering::SeqCst);
    }
    digest
}

fn upload_all<U: Upload>(at: Addresses, lines: Lines<'_>) {
    let mut upload = U::begin(at, "/uploads/digest", lines);
    let digest = send_parts(&mut upload, upload_bytes(), &AtomicU64::new(0));
    let (status, body) = upload.finish();
    let expected = format!("{} {}", upload_bytes(), digest.0);
    assert_eq!((status, String::from_utf8(body).unwrap()), (200, expected));
}

#[test]
fn large_uploads_reach_their_handlers() {
    let uploads = Uploads::start();
    let at = uploads.at();
    thread::scope(|scope| {
        scope.spawn(|| upload_all::<Http1>(at, &[]));
        let length = upload_bytes().to_string();
        scope.spawn(move || upload_all::<Http1>(at, &[("content-length", &length)]));
        scope.spawn(|| upload_all::<Http2>(at, &[]));
        scope.spawn(|| upload_all::<Http3>(at, &[]));
    });
    for _ in 0..4 {
        assert_eq!(uploads.report(), Report { bytes: upload_bytes(), error: None });
    }
    if is_slow() {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kibibytes: u64 = peak.trim().strip_suffix(" kB").unwrap().parse().unwrap();
        assert!(kibibytes < 400 << 10, "{kibibytes} KiB");
    }
}

/// Not a real test: the next one starts it as a process, so that only the server's memory is measured.
#[test]
#[ignore = "it is started by another test"]
fn program() {
    let (proceed, proceeds) = channel::<()>();
    let (proceed, proceeds) = (Mutex::new(proceed), Mutex::new(proceeds));
    let late = move |_: &Request<'_>, mut content: ContentReader| {
        let _ = proceeds.lock().unwrap().recv();
        std::io::copy(&mut content, &mut std::io::sink()).map(|bytes| bytes.to_string())
    };
    let server = Server::new().group("/uploads", |group| {
        group.content_bytes_max(1 << 40).upload_route("PUT /late", late).route("GET /proceed", move |_| {
            let _ = proceed.lock().unwrap().send(());
        })
    });
    let print = |addresses: &cannery::Addresses| eprintln!("at {}", addresses.listeners[0].1);
    server.bind("127.0.0.1:0").run_with(print).unwrap();
}

/// A server in a process of its own.
#[cfg(target_os = "linux")]
struct Program {
    process: std::process::Child,
    at: Addresses,
}

#[cfg(target_os = "linux")]
impl Program {
    fn start() -> Program {
        use std::io::{BufRead, BufReader};
        use std::process::{Command, Stdio};

        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "uploads::program", "--ignored", "--nocapture"]);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| Some(line.strip_prefix("at ")?.parse().unwrap()));
        // It may write more.
        thread::spawn(move || lines.for_each(drop));
        let plain = address.expect("the server starts");
        Program { process, at: Addresses { plain, quic: plain } }
    }

    /// The most memory that the process has had, in bytes.
    fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }
}

#[cfg(target_os = "linux")]
impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The handlers begin to read once the clients can't send more.
#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_uploads() {
    const BYTES: u64 = 256 << 20;
    const MORE_BYTES_MAX: u64 = 8 << 20;

    fn upload<U: Upload>(at: Addresses, sent: &AtomicU64) {
        let part = part(1);
        let mut upload = U::begin(at, "/uploads/late", &[]);
        for _ in 0..BYTES / PART_BYTES as u64 {
            assert!(upload.send(&part));
            sent.fetch_add(part.len() as u64, Ordering::SeqCst);
        }
        let (status, body) = upload.finish();
        assert_eq!((status, String::from_utf8(body).unwrap()), (200, BYTES.to_string()));
    }

    let program = Program::start();
    let at = program.at;
    assert_eq!(over_http1(at.plain, "GET", "/", &[], b"").status, 404);
    let before = program.peak();
    let sent = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| upload::<Http1>(at, &sent));
        scope.spawn(|| upload::<Http2>(at, &sent));
        let last = Cell::new((0, 0));
        await_condition(|| {
            let now = sent.load(Ordering::SeqCst);
            let (bytes, rounds) = last.get();
            last.set((now, if now == bytes { rounds + 1 } else { 0 }));
            now > 0 && rounds > 20
        });
        assert!(last.get().0 < BYTES, "the server or the kernel keeps {} bytes", last.get().0);
        for _ in 0..2 {
            assert_eq!(over_http1(at.plain, "GET", "/uploads/proceed", &[], b"").status, 204);
        }
    });
    let more = program.peak() - before;
    println!("{more} bytes more than the {before} of an idle server");
    assert!(more < MORE_BYTES_MAX, "{more} bytes more than the {before} of an idle server");
}

/// Sends to a handler that does not read, until the server takes no more. Then lets it read.
fn check_held<U: Upload>(uploads: &Uploads, lines: Lines<'static>, kept_bytes_max: u64) {
    let at = uploads.at();
    let sent = AtomicU64::new(0);
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut upload = U::begin(at, "/uploads/late", lines);
            let digest = send_parts(&mut upload, upload_bytes().min(20 << 20), &sent);
            (digest, upload.finish())
        });
        let before = Cell::new((0, 0));
        await_condition(|| {
            let now = sent.load(Ordering::SeqCst);
            let (last, rounds) = before.get();
            before.set(if now == last { (now, rounds + 1) } else { (now, 0) });
            now > 0 && rounds > 20
        });
        let kept = sent.load(Ordering::SeqCst);
        assert!(kept <= kept_bytes_max, "the server keeps {kept} bytes");
        assert_eq!(get(at, "/hello/others").0, 200);

        uploads.proceed.send(()).unwrap();
        let (digest, (status, body)) = sending.join().unwrap();
        let expected = format!("{} {}", upload_bytes().min(20 << 20), digest.0);
        assert_eq!((status, String::from_utf8(body).unwrap()), (200, expected));
    });
}

#[test]
fn slow_handlers_hold_clients_back() {
    let uploads = Uploads::start();
    check_held::<Http2>(&uploads, &[], KEPT_BYTES_MAX);
    check_held::<Http3>(&uploads, &[], KEPT_BYTES_MAX);
    check_held::<Http1>(&uploads, &[], KEPT_BYTES_MAX_TCP);
    // Clients that don't wait until they are asked are held back as well.
    let lines: Lines<'_> = &[("expect", "100-continue")];
    check_held::<Http2>(&uploads, lines, KEPT_BYTES_MAX);
    check_held::<Http3>(&uploads, lines, KEPT_BYTES_MAX);
}

/// More streams of a connection than would fit into its window are held back.
#[test]
fn held_uploads_hold_back_no_other_request() {
    const UPLOADS: usize = 10;
    /// Seven eighths of a stream's window, less the heads of frames: the server tells the client of a larger window only once it has
    /// grown by an eighth.
    const REST_BYTES: usize = 13 * 1024;
    let uploads = Uploads::start();
    let mut fields = pseudo("PUT", "/uploads/late", &[]);
    fields[1].1 = "https";
    let get =
        [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/hello/you")];

    let mut client = http3::Client::connect(uploads.at().quic).unwrap();
    let held: Vec<_> = (0..UPLOADS).map(|_| client.begin_request(&fields[..])).collect();
    for stream in &held {
        // After this, the server holds the client back.
        for number in 0..4 {
            client.send_content(*stream, &part(number)).unwrap();
        }
        client.send_content(*stream, &part(4)[..REST_BYTES]).unwrap();
    }
    assert_eq!(client.request(&get).unwrap().status, 200);
    for _ in 0..UPLOADS {
        uploads.proceed.send(()).unwrap();
    }
    for stream in held {
        client.finish(stream);
        assert_eq!(client.receive(stream, "PUT").unwrap().status, 200);
        assert_eq!(uploads.report(), Report { bytes: (4 * PART_BYTES + REST_BYTES) as u64, error: None });
    }
    client.close();
}

/// The handler responds after a few bytes, but the client goes on.
fn check_early<U: Upload>(at: Addresses, target: &str, expected: (u16, &[u8])) {
    let mut upload = U::begin(at, target, &[]);
    assert!(upload.send(&part(0)[..PART_BYTES / 4]));
    send_parts(&mut upload, 4 << 20, &AtomicU64::new(0));
    let (status, body) = upload.receive();
    assert_eq!((status, body.as_slice()), expected);
}

#[test]
fn handlers_may_respond_before_the_end() {
    let uploads = Uploads::start();
    let start = &part(0)[..4];
    check_early::<Http1>(uploads.at(), "/uploads/start", (200, start));
    check_early::<Http2>(uploads.at(), "/uploads/start", (200, start));
    check_early::<Http3>(uploads.at(), "/uploads/start", (200, start));
}

#[test]
fn panics_of_handlers_end_no_connection() {
    let uploads = Uploads::start();
    let error: (u16, &[u8]) = (500, b"The server has failed to make this page.\n");
    check_early::<Http1>(uploads.at(), "/uploads/panic", error);
    check_early::<Http2>(uploads.at(), "/uploads/panic", error);
    check_early::<Http3>(uploads.at(), "/uploads/panic", error);

    // After a short upload, the connection stays open.
    let request = b"PUT /uploads/panic HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    let next = b"GET /hello/you HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let received = exchange(uploads.at().plain, &[request.as_slice(), next].concat());
    assert!(received.starts_with("HTTP/1.1 500 ") && received.ends_with("Hello you!"), "{received}");
}

/// Sends a part to a handler, and waits until it reads. Before, the handler would not be called for a request that ends.
fn begin<U: Upload>(uploads: &Uploads, lines: Lines<'_>) -> U {
    let before = uploads.begun.load(Ordering::SeqCst);
    let mut upload = U::begin(uploads.at(), "/uploads/digest", lines);
    assert!(upload.send(&part(0)));
    await_condition(|| uploads.begun.load(Ordering::SeqCst) > before);
    upload
}

#[test]
fn cut_content_is_an_error() {
    let uploads = Uploads::start();
    begin::<Http1>(&uploads, &[]).cut();
    let expected = Report { bytes: PART_BYTES as u64, error: Some(ErrorKind::ConnectionAborted) };
    assert_eq!(uploads.report(), expected);
    begin::<Http1>(&uploads, &[("content-length", "20000")]).cut();
    assert_eq!(uploads.report(), expected);
    begin::<Http2>(&uploads, &[]).cut();
    assert_eq!(uploads.report(), expected);
    begin::<Http3>(&uploads, &[]).cut();
    assert_eq!(uploads.report().error, expected.error, "a reset may overtake content");

    // The stream ends before the announced length.
    let mut upload = begin::<Http2>(&uploads, &[("content-length", "20000")]);
    upload.end();
    assert_eq!(uploads.report(), expected);
    let mut upload = begin::<Http3>(&uploads, &[("content-length", "20000")]);
    upload.end();
    let _ = upload.client.receive_bytes(upload.stream);
    assert_eq!(uploads.report(), expected);
}

#[test]
fn invalid_chunks_are_an_error() {
    let uploads = Uploads::start();
    let request = "PUT /uploads/digest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX";
    let received = exchange(uploads.at().plain, request.as_bytes());
    assert!(received.starts_with("HTTP/1.1 400 ") && received.contains("Connection: close"), "{received}");
    assert_eq!(uploads.report(), Report { bytes: 3, error: Some(ErrorKind::InvalidData) });
}

#[test]
fn content_beyond_the_limit_is_refused() {
    fn check<U: Upload>(uploads: &Uploads) {
        let mut upload = U::begin(uploads.at(), "/limited", &[]);
        send_parts(&mut upload, 1 << 20, &AtomicU64::new(0));
        let (status, body) = upload.receive();
        assert_eq!((status, body.as_slice()), (413, b"The content of the request is too long.\n".as_slice()));

        // The handler never runs if the length is announced.
        let upload = U::begin(uploads.at(), "/limited", &[("content-length", "200001")]);
        assert_eq!(upload.receive().0, 413);
        let mut upload = U::begin(uploads.at(), "/limited", &[("content-length", "5")]);
        assert!(upload.send(b"short"));
        assert_eq!(upload.finish(), (200, b"5".to_vec()));
    }
    let uploads = Uploads::start_with(|server| {
        server.upload_route("PUT /limited", |_, mut content| {
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes).map(|count| count.to_string())
        })
    });
    check::<Http1>(&uploads);
    check::<Http2>(&uploads);
    check::<Http3>(&uploads);
}

#[test]
fn clients_are_asked_to_continue() {
    fn check<U: Upload>(uploads: &Uploads) {
        let lines = [("expect", "100-continue"), ("content-length", "16384")];
        // The handler decides without the content.
        let upload = U::begin(uploads.at(), "/uploads/refuse", &lines);
        assert_eq!(upload.receive(), (403, b"No.\n".to_vec()));

        let mut upload = U::begin(uploads.at(), "/uploads/digest", &lines);
        upload.await_continue();
        assert!(upload.send(&part(0)));
        assert_eq!(upload.finish().0, 200);
        assert_eq!(uploads.report(), Report { bytes: PART_BYTES as u64, error: None });

        // Also if the content is collected for the handler.
        let mut upload = U::begin(uploads.at(), "/collect", &lines);
        upload.await_continue();
        assert!(upload.send(&part(0)));
        assert_eq!(upload.finish(), (200, part(0)));

        // The client doesn't wait.
        let mut upload = U::begin(uploads.at(), "/uploads/late", &lines);
        assert!(upload.send(&part(0)));
        uploads.proceed.send(()).unwrap();
        // Over HTTP/3, the end is only sent while the client reads.
        assert_eq!(upload.finish().0, 200);
        assert_eq!(uploads.report(), Report { bytes: PART_BYTES as u64, error: None });
    }
    let uploads = Uploads::start_with(|server| {
        server.route("PUT /collect", |request: &Request<'_>| request.content().to_vec())
    });
    check::<Http2>(&uploads);
    check::<Http3>(&uploads);
    check::<Http1>(&uploads);
}

#[test]
fn responses_can_be_written_while_content_arrives() {
    fn check<U: Upload>(at: Addresses) {
        let mut upload = U::begin(at, "/uploads/echo", &[]);
        let mut expected = Vec::new();
        for number in 0..3 {
            expected.extend_from_slice(&part(number));
            assert!(upload.send(&part(number)) || number > 0);
        }
        upload.end();
        assert!(upload.receive() == (200, expected));
    }
    let uploads = Uploads::start();
    check::<Http1>(uploads.at());
    check::<Http3>(uploads.at());
    check::<Http2>(uploads.at());
}

#[test]
fn requests_without_content_are_complete() {
    let uploads = Uploads::start_with(|server| {
        server.upload_route("GET /empty", |_, mut content| {
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes).map(|count| count.to_string())
        })
    });
    assert_eq!(get(uploads.at(), "/empty"), (200, "0".to_owned()));
    assert_eq!(Http1::begin(uploads.at(), "/uploads/digest", &[]).finish().0, 200);
    assert_eq!(Http2::begin(uploads.at(), "/uploads/digest", &[]).finish().0, 200);
    assert_eq!(Http3::begin(uploads.at(), "/uploads/digest", &[]).finish().0, 200);
    let seen = request(uploads.at(), "PUT", "/uploads/digest", &[], b"");
    assert_eq!(seen.status, 200);
}

#[test]
fn clients_that_send_nothing_are_ended() {
    let uploads = start_with_short_uploads();
    let mut stalled = Http1::begin(uploads.at(), "/uploads/digest", &[]);
    assert!(stalled.send(b"some"));
    assert_eq!(uploads.report(), Report { bytes: 4, error: Some(ErrorKind::ConnectionAborted) });
    let mut stalled = Http2::begin(uploads.at(), "/uploads/digest", &[]);
    assert!(stalled.send(b"some"));
    assert_eq!(uploads.report(), Report { bytes: 4, error: Some(ErrorKind::ConnectionAborted) });
    let mut stalled = Http3::begin(uploads.at(), "/uploads/digest", &[]);
    assert!(stalled.send(b"some"));
    assert_eq!(uploads.report(), Report { bytes: 4, error: Some(ErrorKind::ConnectionAborted) });
}

fn start_with_short_uploads() -> Uploads {
    Uploads::start_with(|server| {
        server.configure(|settings| settings.timeouts(|timeouts| timeouts.head = Duration::from_secs(1)))
    })
}

#[test]
fn uploads_end_with_the_server() {
    let mut uploads =
        Uploads::start_with(|server| server.configure(|settings| settings.drain(Duration::from_secs(1))));
    let _upload = begin::<Http1>(&uploads, &[]);
    let server = uploads.fixture.server.take().unwrap();
    server.stop_handle().stop();
    server.wait();
    assert_eq!(uploads.report().error, Some(ErrorKind::ConnectionAborted));
}

/// Uploads have threads of their own, so clients that send nothing keep no other handler from running.
#[test]
fn slow_uploads_occupy_no_threads_of_others() {
    let uploads = Uploads::start_with(|server| server.handler_threads(NonZeroUsize::MIN));
    let _stalled: Vec<_> = (0..20).map(|_| Http1::begin(uploads.at(), "/uploads/digest", &[])).collect();
    assert_eq!(get(uploads.at(), "/thread").1, "handler-");
}

#[test]
fn forms_with_files_are_read_while_they_arrive() {
    fn check<U: Upload>(at: Addresses) {
        let lines = [("content-type", "multipart/form-data; boundary=XyZ")];
        let mut upload = U::begin(at, "/photos", &lines);
        let head =
            |name: &str| format!("\r\n--XyZ\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        assert!(upload.send(head("title").as_bytes()) && upload.send(b"A title"));
        assert!(upload.send(head("photo").as_bytes()));
        let digest = send_parts(&mut upload, 2 << 20, &AtomicU64::new(0));
        assert!(upload.send(b"\r\n--XyZ--\r\n"));
        let (status, body) = upload.finish();
        let expected = format!("title {} photo {}", digest_of(b"A title").0, digest.0);
        assert_eq!((status, String::from_utf8(body).unwrap()), (200, expected));

        let mut upload = U::begin(at, "/photos", &lines);
        assert!(upload.send(head("title").as_bytes()));
        assert_eq!(upload.finish().0, 400, "the form is incomplete");
    }
    let uploads = Uploads::start_with(|server| {
        server.content_bytes_max(4 << 20).upload_route("PUT /photos", |request: &Request<'_>, content| {
            let mut form = Multipart::new(request, content)?;
            let mut seen = Vec::new();
            while let Some(mut part) = form.next_part()? {
                let mut bytes = Vec::new();
                part.read_to_end(&mut bytes)?;
                seen.push(format!("{} {}", part.name(), digest_of(&bytes).0));
            }
            Ok::<_, HandlerError>(seen.join(" "))
        })
    });
    check::<Http1>(uploads.at());
    check::<Http2>(uploads.at());
    check::<Http3>(uploads.at());
    assert_eq!(request(uploads.at(), "PUT", "/photos", &[], b"a=b").status, 415);
}

#[test]
fn requests_may_follow_an_upload() {
    let uploads = Uploads::start();
    let content = part(0);
    let mut requests = Vec::new();
    for head in ["PUT /uploads/digest", "PUT /uploads/start", "PUT /uploads/echo"] {
        let length = content.len();
        write!(requests, "{head} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n").unwrap();
        requests.extend_from_slice(&content);
    }
    requests.extend_from_slice(b"GET /hello/you HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(uploads.at().plain).unwrap();
    // Parts of different lengths, so that heads and contents are split anywhere.
    for (number, part) in requests.chunks(1000).enumerate() {
        let (first, second) = part.split_at(number * 37 % part.len());
        stream.write_all(first).unwrap();
        stream.write_all(second).unwrap();
    }
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    let text = String::from_utf8_lossy(&received);
    assert_eq!(text.matches("HTTP/1.1 200 OK\r\n").count(), 4, "{text}");
    assert!(
        text.contains(&format!("{} {}", content.len(), digest_of(&content).0))
            && text.ends_with("Hello you!")
    );
}

fn digest_of(bytes: &[u8]) -> Digest {
    let mut digest = Digest::NEW;
    digest.add(bytes);
    digest
}
