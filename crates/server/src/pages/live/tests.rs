//! Tests on real sockets that a worker waits for the folder before it responds, and that clients wait for
//! pages about its changes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::config::{Content, ListenerKind, LiveFolder, LivePage, LiveReload, Loading, NamedArchive};
use crate::worker::simulation;
use crate::{Address, Config, RunningServer};

/// A folder that changes when a test wants it.
#[derive(Default)]
struct Folder {
    refreshes: AtomicUsize,
    changes: AtomicUsize,
    /// Counts the times that a page was pending.
    pending: AtomicUsize,
}

impl Folder {
    /// Waits until a page was pending so often.
    fn await_pending(&self, times: usize) {
        while self.pending.load(Ordering::SeqCst) < times {
            std::thread::yield_now();
        }
    }
}

impl LiveReload for Folder {
    fn refresh(&self) {
        self.refreshes.fetch_add(1, Ordering::SeqCst);
    }

    fn page(&self, path: &[u8], query: &[u8]) -> LivePage {
        let changes = self.changes.load(Ordering::SeqCst).to_string();
        match path {
            b"/__/cannery/live" if query == changes.as_bytes() => {
                self.pending.fetch_add(1, Ordering::SeqCst);
                LivePage::Pending
            }
            b"/__/cannery/live" => LivePage::Ready { media_type: "text/plain", body: changes.into_bytes() },
            _ => LivePage::Missing,
        }
    }
}

fn start(folder: &Arc<Folder>) -> (RunningServer, SocketAddr) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("site.cdb");
    fs::write(&path, simulation::archive("first")).unwrap();
    let archives = vec![NamedArchive::new(None, path)];
    let mut config = Config::plain(Content::Archives { archives, loading: Loading::InMemory, watch: false });
    config.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    config.live_folder = Some(LiveFolder(folder.clone()));
    let server = RunningServer::start(&config).unwrap();
    let [(ListenerKind::Plain, Address::Internet(address))] = server.addresses().listeners[..] else {
        panic!("there is one address");
    };
    (server, address)
}

fn stop(server: RunningServer) {
    server.stop.stop();
    server.wait();
}

fn get(client: &mut TcpStream, target: &str) {
    write!(client, "GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
}

/// Returns the content of the next response.
fn content(client: &mut BufReader<TcpStream>) -> String {
    let mut length = 0;
    loop {
        let mut line = String::new();
        client.read_line(&mut line).unwrap();
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut content = vec![0; length];
    client.read_exact(&mut content).unwrap();
    String::from_utf8(content).unwrap()
}

#[test]
fn client_waits_for_a_pending_page() {
    let folder = Arc::new(Folder::default());
    let (server, address) = start(&folder);
    let mut client = BufReader::new(TcpStream::connect(address).unwrap());
    get(client.get_mut(), "/__/cannery/live?0");
    folder.await_pending(1);
    // A wake-up without a change is not enough.
    server.wake_handle().wake();
    folder.await_pending(2);

    folder.changes.store(1, Ordering::SeqCst);
    server.wake_handle().wake();
    assert_eq!(content(&mut client), "1");

    get(client.get_mut(), "/small");
    assert!(content(&mut client).starts_with("first"));
    drop(client);
    stop(server);
}

#[test]
fn client_that_sends_more_does_not_wait() {
    let folder = Arc::new(Folder::default());
    let (server, address) = start(&folder);
    let mut client = BufReader::new(TcpStream::connect(address).unwrap());
    client.get_mut().write_all(&b"GET /__/cannery/live?0 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2)).unwrap();
    assert_eq!(content(&mut client), "null");
    get(client.get_mut(), "/small");
    assert_eq!(content(&mut client), "null");
    assert!(content(&mut client).starts_with("first"));
    drop(client);
    stop(server);
}

#[test]
fn folder_is_refreshed_before_a_response() {
    let folder = Arc::new(Folder::default());
    let (server, address) = start(&folder);
    let mut client = BufReader::new(TcpStream::connect(address).unwrap());
    for _ in 0..3 {
        let before = folder.refreshes.load(Ordering::SeqCst);
        get(client.get_mut(), "/small");
        content(&mut client);
        assert!(folder.refreshes.load(Ordering::SeqCst) > before);
    }
    drop(client);
    stop(server);
}
