//! Tests of both sides against each other, in memory: whole sessions, streams that are cut, and hostile clients.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cannery_archive::{Archive, RecordKind};
use cannery_publish::protocol::{
    Activate, Activated, Frame, FrameError, FrameKind, Hello, Offer, Refusal, RefusalKind, ReleaseInfo,
    Releases, Selector, write_frame, write_stream,
};
use cannery_publish::{Client, ClientError, Host, Recipe, Source, StageReport, serve};

use crate::support::{Site, noise, read_all};

/// Releases in memory.
#[derive(Default)]
struct MemoryHost {
    releases: Vec<Arc<Archive>>,
    current: Option<usize>,
    /// Files that were created and not published.
    unfinished: usize,
    is_full: bool,
}

impl MemoryHost {
    fn with(sites: &[Site]) -> MemoryHost {
        let releases = sites.iter().map(Site::archive).collect();
        MemoryHost { releases, current: Some(0), ..MemoryHost::default() }
    }

    fn current_serial(&self) -> u64 {
        self.releases[self.current.unwrap()].facts().serial
    }

    fn position(&self, digest: &str) -> Option<usize> {
        self.releases.iter().position(|release| release.facts().digest.to_string() == digest)
    }
}

impl Host for MemoryHost {
    fn releases(&mut self) -> Result<Releases, Refusal> {
        let info = |(index, release): (usize, &Arc<Archive>)| ReleaseInfo {
            name: index.to_string(),
            current: self.current == Some(index),
            bytes: release.bytes().len() as u64,
            serial: Some(release.facts().serial),
            digest: Some(release.facts().digest.to_string()),
            paths: release.facts().paths,
            date: None,
            damaged: None,
            signed: None,
            state: None,
        };
        Ok(Releases {
            directory: "memory".into(),
            is_missing: false,
            trust: None,
            releases: self.releases.iter().enumerate().map(info).collect(),
        })
    }

    fn open(&mut self, digest: &str) -> Result<Option<(String, Arc<Archive>)>, Refusal> {
        let found = self.position(digest);
        Ok(found.map(|index| (index.to_string(), Arc::clone(&self.releases[index]))))
    }

    fn admit(&mut self, _: &Offer) -> Result<(), Refusal> {
        Ok(())
    }

    fn sources(&mut self) -> Vec<Source> {
        let source = |(index, archive): (usize, &Arc<Archive>)| Source {
            name: index.to_string(),
            archive: Arc::clone(archive),
        };
        self.releases.iter().enumerate().map(source).collect()
    }

    fn create(&mut self) -> Result<File, Refusal> {
        if self.is_full {
            return Err(Refusal::new(RefusalKind::Host, "the disk is full").hint("make room"));
        }
        self.unfinished += 1;
        Ok(tempfile::tempfile().unwrap())
    }

    fn publish(&mut self, file: File) -> Result<String, Refusal> {
        self.unfinished -= 1;
        self.releases.push(Arc::new(Archive::from_bytes(read_all(file)).unwrap()));
        Ok((self.releases.len() - 1).to_string())
    }

    fn activate(&mut self, activate: &Activate) -> Result<Activated, Refusal> {
        let Selector::Digest(digest) = &activate.release else { panic!("no test uses names") };
        let index =
            self.position(digest).ok_or_else(|| Refusal::new(RefusalKind::Request, "no such release"))?;
        let before = self.current.replace(index).map(|before| before.to_string());
        Ok(Activated { name: index.to_string(), serial: 0, before, removed: Vec::new(), warning: None })
    }
}

/// The bytes that a client has sent.
#[derive(Clone, Default)]
struct Recording(Arc<Mutex<Vec<u8>>>);

struct Recorder {
    pipe: Box<dyn Write + Send>,
    recording: Recording,
}

impl Write for Recorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.pipe.write(bytes)?;
        self.recording.0.lock().unwrap().extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipe.flush()
    }
}

/// Runs a client against a host. Returns both, and what the client has sent.
fn session<T>(mut host: MemoryHost, client: impl FnOnce(&mut Client) -> T) -> (T, MemoryHost, Vec<u8>) {
    let (mut host_input, client_output) = io::pipe().unwrap();
    let (client_input, mut host_output): (PipeReader, _) = io::pipe().unwrap();
    let server = std::thread::spawn(move || {
        let outcome = serve(&mut host_input, &mut host_output, &mut host);
        (host, outcome)
    });
    let recording = Recording::default();
    let recorder = Recorder { pipe: Box::new(client_output), recording: recording.clone() };
    let (mut connected, hello) = Client::greet(Box::new(client_input), Box::new(recorder)).unwrap();
    assert_eq!(hello, Hello::own());
    let result = client(&mut connected);
    drop(connected);
    let (host, outcome) = server.join().unwrap();
    outcome.unwrap();
    let sent = recording.0.lock().unwrap().clone();
    (result, host, sent)
}

fn sites() -> (Site, Site) {
    let shared = noise(1, 3000);
    let old = Site::new(&[("index.html", b"old page"), ("big", &shared)], 1);
    let new = Site::new(&[("index.html", b"new page"), ("big", &shared), ("more", b"another")], 2);
    (old, new)
}

fn push(client: &mut Client, site: &Site, base: Option<&Site>) -> Result<(), ClientError> {
    let archive = site.archive();
    let recipe = Recipe::of(&archive).unwrap();
    let base = base.map(|base| Recipe::of(&base.archive()).unwrap());
    let report = client.stage(&archive, &recipe, base.as_ref(), None, &mut |_| {}, &mut |_| {})?;
    assert!(report.staged.was_known || report.bodies > 0);
    let release = Selector::Digest(archive.facts().digest.to_string());
    client.activate(&Activate { release, keep: None, signed: None, settle_ms: None }).map(drop)
}

#[test]
fn release_arrives_bit_by_bit() {
    let (old, new) = sites();
    for base in [None, Some(&old), Some(&new)] {
        let (result, host, sent) =
            session(MemoryHost::with(std::slice::from_ref(&old)), |client| push(client, &new, base));
        result.unwrap();
        assert_eq!(host.current_serial(), 2);
        assert!(host.releases[1].bytes() == new.bytes());
        assert!(sent.len() < 2500, "{} bytes: the shared content was not sent", sent.len());
        assert_eq!(host.unfinished, 0);
    }
}

#[test]
fn known_release_is_not_sent_again() {
    let (old, new) = sites();
    let hosts = MemoryHost::with(&[old, new.clone()]);
    let (result, host, sent) = session(hosts, |client| {
        assert_eq!(client.list().unwrap().current().unwrap().serial, Some(1));
        push(client, &new, None)
    });
    result.unwrap();
    assert_eq!((host.current_serial(), host.releases.len()), (2, 2));
    assert!(sent.len() < 2500, "{}", sent.len());
}

#[test]
fn archives_can_be_fetched() {
    let (old, new) = sites();
    let (fetched, ..) = session(MemoryHost::with(&[old, new.clone()]), |client| {
        let mut bytes = Vec::new();
        client.fetch(&new.archive().facts().digest.to_string(), &mut bytes, &mut |_| {}).unwrap();
        bytes
    });
    assert!(fetched == new.bytes());
}

#[test]
fn stream_that_is_cut_changes_nothing() {
    let (old, new) = sites();
    let (_, _, sent) =
        session(MemoryHost::with(std::slice::from_ref(&old)), |client| push(client, &new, None).unwrap());
    // A host does the same for the same bytes, so the recording stands for the client.
    for end in 0..sent.len() {
        let mut host = MemoryHost::with(std::slice::from_ref(&old));
        let mut answers = Vec::new();
        let outcome = serve(&mut &sent[..end], &mut answers, &mut host);
        assert!(!matches!(outcome, Ok(Some(_))), "nothing was refused, at byte {end}");
        assert_eq!(host.current_serial(), 1, "at byte {end}");
        assert!(host.releases.iter().skip(1).all(|release| release.bytes() == new.bytes()), "at byte {end}");
    }
}

/// Serves a client that sends these bytes, and returns the refusal.
fn refusal(host: &mut MemoryHost, input: &[u8]) -> Option<Refusal> {
    let mut answers = Vec::new();
    serve(&mut &*input, &mut answers, host).unwrap()
}

fn frames(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| write_frame(&mut bytes, frame).unwrap());
    bytes
}

fn hello() -> Frame {
    Frame::json(FrameKind::Hello, &Hello::own())
}

/// Returns what a client sends that offers `site` and then sends these contents.
fn offering(site: &Site, digest: &str, contents: &[u8]) -> Vec<u8> {
    let recipe = Recipe::of(&site.archive()).unwrap().compress(None).unwrap();
    let offer = Offer { digest: digest.to_owned(), base: None, signed: None, retries: false };
    let mut bytes = frames(&[hello(), Frame::json(FrameKind::Offer, &offer)]);
    write_stream(&mut bytes, &recipe, &mut |_| {}).unwrap();
    write_frame(&mut bytes, &Frame::empty(FrameKind::End)).unwrap();
    write_stream(&mut bytes, contents, &mut |_| {}).unwrap();
    write_frame(&mut bytes, &Frame::empty(FrameKind::End)).unwrap();
    bytes
}

#[test]
fn hostile_clients_are_refused() {
    let (old, new) = sites();
    let digest = new.archive().facts().digest.to_string();
    let data = |bytes: &[u8]| Frame { kind: FrameKind::Data, payload: bytes.to_vec() };
    let cases: [(&str, Vec<u8>); 9] = [
        ("Hello", frames(&[Frame::empty(FrameKind::List)])),
        ("frame", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("malformed", frames(&[data(b"x")]).replace_kind(b'C')),
        ("another release", offering(&new, &"0".repeat(64), b"")),
        ("fewer contents", offering(&new, &digest, b"")),
        ("fewer contents", offering(&new, &digest, &[7; 20])),
        ("digest", offering(&new, &digest, &[7; 5000])),
        ("decompress", {
            let offer = Offer { digest: digest.clone(), base: None, signed: None, retries: false };
            let frame = Frame::json(FrameKind::Offer, &offer);
            frames(&[hello(), frame, data(b"no recipe"), Frame::empty(FrameKind::End)])
        }),
        ("no release with the digest", {
            let fetch = cannery_publish::protocol::Fetch { digest: "../../etc/passwd".into() };
            frames(&[hello(), Frame::json(FrameKind::Fetch, &fetch)])
        }),
    ];
    for (words, input) in cases {
        let mut host = MemoryHost::with(std::slice::from_ref(&old));
        let refusal = refusal(&mut host, &input).unwrap();
        assert!(refusal.message.contains(words), "`{words}` is not in {}", refusal.message);
        assert_eq!((host.current_serial(), host.releases.len()), (1, 1));
    }
}

trait ReplaceKind {
    fn replace_kind(self, letter: u8) -> Vec<u8>;
}

impl ReplaceKind for Vec<u8> {
    fn replace_kind(mut self, letter: u8) -> Vec<u8> {
        self[0] = letter;
        self
    }
}

#[test]
fn contents_after_the_last_one_are_refused() {
    let (old, new) = sites();
    let (_, _, sent) =
        session(MemoryHost::with(std::slice::from_ref(&old)), |client| push(client, &new, None).unwrap());
    // Before the end of the contents, which is the last end frame.
    let end = sent.windows(5).rposition(|window| window == [b';', 0, 0, 0, 0]).unwrap();
    let extra = frames(&[Frame { kind: FrameKind::Data, payload: b"x".to_vec() }]);
    let mut host = MemoryHost::with(&[old]);
    let refusal = refusal(&mut host, &[&sent[..end], &extra, &sent[end..]].concat()).unwrap();
    assert!(refusal.message.contains("more contents"), "{}", refusal.message);
    assert_eq!(host.releases.len(), 1);
}

/// A host with a release whose large body has a wrong byte.
fn damaged_host(site: &Site) -> MemoryHost {
    let mut bytes = site.bytes();
    let body = &site.files.iter().max_by_key(|(_, content)| content.len()).unwrap().1;
    let position = bytes.windows(body.len()).position(|window| window == body).unwrap();
    bytes[position + body.len() / 2] ^= 1;
    let archive = Arc::new(Archive::from_bytes(bytes).unwrap());
    MemoryHost { releases: vec![archive], current: Some(0), ..MemoryHost::default() }
}

fn stage(client: &mut Client, site: &Site) -> StageReport {
    let archive = site.archive();
    let recipe = Recipe::of(&archive).unwrap();
    client.stage(&archive, &recipe, None, None, &mut |_| {}, &mut |_| {}).unwrap()
}

#[test]
fn contents_of_a_damaged_release_are_transferred_again() {
    let (old, new) = sites();
    let (report, host, _) = session(damaged_host(&old), |client| stage(client, &new));
    assert_eq!((report.staged.damaged.as_slice(), report.staged.was_known), (&["0".to_owned()][..], false));
    assert!(host.releases[1].bytes() == new.bytes());

    // The same release is there, but damaged: the client sends it again.
    let (report, host, _) = session(damaged_host(&new), |client| stage(client, &new));
    assert_eq!((report.staged.damaged.len(), report.staged.was_known), (1, false));
    assert!(host.releases[1].bytes() == new.bytes());

    // A client that doesn't answer a second list learns the name.
    let (old_archive, new_archive) = (old.archive(), new.archive());
    let bodies = |archive: &Archive| -> Vec<(Vec<u8>, Vec<u8>)> {
        let entries = archive.entries().map(Result::unwrap);
        let body = |entry: cannery_archive::Entry<'_>| match entry.kind() {
            RecordKind::Body(digest) => Some((digest.0.to_vec(), entry.data.to_vec())),
            _ => None,
        };
        entries.filter_map(body).collect()
    };
    let old_bodies = bodies(&old_archive);
    let missing = bodies(&new_archive).into_iter().filter(|body| !old_bodies.contains(body));
    let contents: Vec<u8> = missing.flat_map(|(digest, content)| [digest, content].concat()).collect();
    let sent = offering(&new, &new_archive.facts().digest.to_string(), &contents);
    let refusal = refusal(&mut damaged_host(&old), &sent).unwrap();
    assert!(refusal.message.contains("the release 0 on the host is damaged"), "{}", refusal.message);
}

#[test]
fn other_versions_are_named() {
    let newer = Hello { cannery: "9.9.9".into(), protocol: 9, protocol_oldest: 8 };
    let mut host = MemoryHost::default();
    let refusal = refusal(&mut host, &frames(&[Frame::json(FrameKind::Hello, &newer)])).unwrap();
    assert!(refusal.message.contains("9.9.9") && refusal.hint.is_some(), "{refusal:?}");

    let answer = frames(&[Frame::json(FrameKind::Hello, &newer)]);
    let greeted = Client::greet(Box::new(io::Cursor::new(answer)), Box::new(io::sink()));
    assert!(matches!(greeted, Err(ClientError::Frame(FrameError::Version { .. }))));
}

#[test]
fn client_is_told_why_the_host_refuses() {
    let (old, new) = sites();
    let host = MemoryHost { is_full: true, ..MemoryHost::with(&[old]) };
    let (result, host, _) = session(host, |client| push(client, &new, None));
    let Err(ClientError::Refused(refusal)) = result else { panic!("{result:?}") };
    assert_eq!((refusal.message.as_str(), refusal.hint.as_deref()), ("the disk is full", Some("make room")));
    assert_eq!(host.current_serial(), 1);
}

#[test]
fn hostile_hosts_are_refused() {
    let (_, new) = sites();
    let archive = new.archive();
    let recipe = Recipe::of(&archive).unwrap();
    let data = |bytes: &[u8]| Frame { kind: FrameKind::Data, payload: bytes.to_vec() };
    let (missing, end) = (Frame::empty(FrameKind::Missing), Frame::empty(FrameKind::End));
    for answers in [
        vec![],
        vec![end.clone()],
        vec![missing.clone()],
        // More bodies than there are.
        vec![missing.clone(), data(&[0, 200, 1]), end.clone()],
        vec![missing.clone(), data(&[0xff; 11]), end.clone()],
        // Nothing is missing, but then nothing is staged.
        vec![missing, end.clone(), end],
        vec![Frame::empty(FrameKind::Known)],
        vec![Frame::empty(FrameKind::Baseless)],
    ] {
        let input = frames(&[&[hello()], answers.as_slice()].concat());
        let (mut client, _) = Client::greet(Box::new(io::Cursor::new(input)), Box::new(io::sink())).unwrap();
        let staged = client.stage(&archive, &recipe, None, None, &mut |_| {}, &mut |_| {});
        assert!(staged.is_err(), "{answers:?}");
    }
}

#[test]
fn endless_list_of_missing_contents_is_refused() {
    let (_, new) = sites();
    let archive = new.archive();
    let start = frames(&[hello(), Frame::empty(FrameKind::Missing)]);
    let data = frames(&[Frame { kind: FrameKind::Data, payload: vec![0; 1 << 20] }]);
    let endless = io::Cursor::new(start).chain(EndlessFrames { frame: data, at: 0 });
    let (mut client, _) = Client::greet(Box::new(endless), Box::new(io::sink())).unwrap();
    let recipe = Recipe::of(&archive).unwrap();
    let staged = client.stage(&archive, &recipe, None, None, &mut |_| {}, &mut |_| {});
    assert!(matches!(staged, Err(ClientError::Frame(FrameError::StreamTooLong(_)))));
}

/// The same frame again and again.
struct EndlessFrames {
    frame: Vec<u8>,
    at: usize,
}

impl Read for EndlessFrames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.frame.len() - self.at);
        buffer[..count].copy_from_slice(&self.frame[self.at..][..count]);
        self.at = (self.at + count) % self.frame.len();
        Ok(count)
    }
}

/// Counts how often a client waits for the host after it has sent something.
#[derive(Clone, Default)]
struct Turns {
    count: Arc<AtomicUsize>,
    has_sent: Arc<AtomicBool>,
}

struct Counted<T> {
    pipe: T,
    turns: Turns,
}

impl<T: Write> Write for Counted<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.turns.has_sent.store(true, Ordering::Relaxed);
        self.pipe.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipe.flush()
    }
}

impl<T: Read> Read for Counted<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.turns.has_sent.swap(false, Ordering::Relaxed) {
            self.turns.count.fetch_add(1, Ordering::Relaxed);
        }
        self.pipe.read(buffer)
    }
}

/// Runs a client against a host with two releases, and returns the number of its turns and the host's current release.
fn turns(
    client: impl FnOnce(Box<dyn Read + Send>, Box<dyn Write + Send>, &Activate) -> Activated,
) -> (usize, u64) {
    let (old, new) = sites();
    let release = Selector::Digest(new.archive().facts().digest.to_string());
    let activate = Activate { release, keep: None, signed: None, settle_ms: None };
    let mut host = MemoryHost::with(&[old, new]);
    let (mut host_input, output) = io::pipe().unwrap();
    let (input, mut host_output) = io::pipe().unwrap();
    let server = std::thread::spawn(move || {
        serve(&mut host_input, &mut host_output, &mut host).unwrap();
        host.current_serial()
    });
    let turns = Turns::default();
    let input = Counted { pipe: input, turns: turns.clone() };
    let output = Counted { pipe: output, turns: turns.clone() };
    assert_eq!(client(Box::new(input), Box::new(output), &activate).before.as_deref(), Some("0"));
    (turns.count.load(Ordering::Relaxed), server.join().unwrap())
}

#[test]
fn activation_can_take_one_turn() {
    let at_once = turns(|input, output, activate| {
        let mut client = Client::greet_and_activate(input, output, activate).unwrap();
        client.activated().unwrap()
    });
    assert_eq!(at_once, (1, 2));
    let in_steps = turns(|input, output, activate| {
        let (mut client, _) = Client::greet(input, output).unwrap();
        assert_eq!(client.list().unwrap().releases.len(), 2);
        client.activate(activate).unwrap()
    });
    assert_eq!(in_steps, (3, 2));
}
