//! Runs of edits in every way of saving, while a client reads: it sees no half-written, missing or outdated page.
//!
//! `cargo xtask edits` runs them with thousands of edits, and prints what they count.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cannery_testkit::http1::Client;

use crate::harness::{Server, TIMEOUT};
use crate::live_folder::Live;

/// The folder in which everything is: the site at `site`, or releases to which `site` leads.
type Folder = Path;

/// A way in which editors and tools save a page.
struct Way {
    name: &'static str,
    /// The path of the page that is edited.
    target: &'static str,
    /// Whether the site is a symbolic link.
    is_linked: bool,
    /// Saves the page with a content, for the edit of this number.
    save: fn(&Folder, usize, &str),
}

impl Way {
    const fn plain(name: &'static str, save: fn(&Folder, usize, &str)) -> Way {
        Way { name, target: "/", is_linked: false, save }
    }
}

const PAGE: &str = "site/index.html";

const WAYS: [Way; 9] = [
    Way::plain("truncated and written", |folder, _, content| {
        fs::write(folder.join(PAGE), content).unwrap();
    }),
    Way::plain("written in pieces", |folder, _, content| {
        let mut file = File::create(folder.join(PAGE)).unwrap();
        for piece in content.as_bytes().chunks(100) {
            file.write_all(piece).unwrap();
        }
    }),
    Way::plain("renamed over", |folder, _, content| {
        fs::write(folder.join("site/index.tmp"), content).unwrap();
        fs::rename(folder.join("site/index.tmp"), folder.join(PAGE)).unwrap();
    }),
    Way::plain("moved to a backup and written", |folder, _, content| {
        let backup = folder.join("site/index.html~");
        fs::rename(folder.join(PAGE), &backup).unwrap();
        fs::write(folder.join(PAGE), content).unwrap();
        fs::remove_file(backup).unwrap();
    }),
    Way::plain("moved to a backup, renamed over", |folder, _, content| {
        let backup = folder.join("site/index.html~");
        fs::write(folder.join("site/index.tmp"), content).unwrap();
        fs::rename(folder.join(PAGE), &backup).unwrap();
        fs::rename(folder.join("site/index.tmp"), folder.join(PAGE)).unwrap();
        fs::remove_file(backup).unwrap();
    }),
    Way::plain("removed and written", |folder, _, content| {
        fs::remove_file(folder.join(PAGE)).unwrap();
        fs::write(folder.join(PAGE), content).unwrap();
    }),
    Way {
        name: "folder within swapped",
        target: "/docs/",
        is_linked: false,
        save: |folder, _, content| swap(folder, "site/docs", content),
    },
    Way::plain("folder swapped", |folder, _, content| swap(folder, "site", content)),
    Way {
        name: "link turned",
        target: "/",
        is_linked: true,
        save: |folder, number, content| {
            write_page(&folder.join(number.to_string()), content);
            symlink(number.to_string(), folder.join("next")).unwrap();
            fs::rename(folder.join("next"), folder.join("site")).unwrap();
            // A deploy keeps some releases.
            if let Some(old) = number.checked_sub(3) {
                fs::remove_dir_all(folder.join(old.to_string())).unwrap();
            }
        },
    },
];

/// Moves a folder away, and a new one to its place.
fn swap(folder: &Folder, name: &str, content: &str) {
    let (next, old) = (folder.join("next"), folder.join("old"));
    write_page(&next, content);
    fs::rename(folder.join(name), &old).unwrap();
    fs::rename(next, folder.join(name)).unwrap();
    fs::remove_dir_all(old).unwrap();
}

fn write_page(folder: &Path, content: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("index.html"), content).unwrap();
}

/// Creates a folder for edits of one way. Returns it and the path of the site.
fn folder_for(way: &Way) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    if way.is_linked {
        write_page(&folder.path().join("0"), &numbered(0));
        symlink("0", &root).unwrap();
    } else {
        write_page(&root, &numbered(0));
        write_page(&root.join("docs"), &numbered(0));
    }
    (folder, root)
}

/// Returns content that shows whether it is complete, and is longer than a piece.
fn numbered(number: usize) -> String {
    format!("version {number}\n").repeat(40)
}

/// Returns the number of a version if `content` is all of it.
fn number_of(content: &[u8]) -> Option<usize> {
    let content = std::str::from_utf8(content).ok()?;
    let number = content.lines().next()?.strip_prefix("version ")?.parse().ok()?;
    (content == numbered(number)).then_some(number)
}

/// Returns the number of edits in each way: `CANNERY_EDITS`, or a few.
fn edits() -> usize {
    std::env::var("CANNERY_EDITS").map_or(30, |edits| edits.parse().unwrap())
}

/// A client with a connection that persists.
struct Reader {
    client: Client<TcpStream>,
    request: String,
}

/// The responses that a client must not get.
#[derive(Debug, Default, PartialEq, Eq)]
struct Faults {
    missing: usize,
    half_written: usize,
    /// Older than an earlier response, or than the last edit.
    stale: usize,
}

impl Reader {
    fn new(address: &str, target: &str) -> Reader {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Reader {
            client: Client::new(stream),
            request: format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n\r\n"),
        }
    }

    /// Requests the page. Returns the number of its version, and counts a fault if it isn't at least `oldest`.
    fn read(&mut self, oldest: usize, faults: &mut Faults) -> Option<usize> {
        let response = self.client.request(self.request.as_bytes(), "GET").unwrap();
        let number = number_of(&response.body);
        match number {
            _ if response.status != 200 => faults.missing += 1,
            None => faults.half_written += 1,
            Some(number) if number < oldest => faults.stale += 1,
            Some(_) => {}
        }
        number.filter(|_| response.status == 200)
    }
}

/// Edits a page in one way while a client reads it.
fn edit_while_a_client_reads(server: &str, way: &Way, address: &str, folder: &Folder) -> Faults {
    let began = Instant::now();
    let count = edits();
    let seen = AtomicUsize::new(0);
    let mut faults = Faults::default();
    let mut responses = 0;

    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 1..=count {
                (way.save)(folder, number, &numbered(number));
                // Some edits are served before the next one, and some follow each other while a build runs.
                let is_awaited = number % 4 == 0 || number == count;
                let end = Instant::now() + TIMEOUT;
                while is_awaited && seen.load(Ordering::SeqCst) < number {
                    assert!(Instant::now() < end, "{server}: {}: {number} is never served", way.name);
                    std::thread::sleep(Duration::from_millis(1));
                }
                std::thread::sleep(Duration::from_millis(number as u64 % 7));
            }
        });

        let mut reader = Reader::new(address, way.target);
        let mut last = 0;
        while !writer.is_finished() {
            if let Some(number) = reader.read(last, &mut faults) {
                last = number;
                seen.store(number, Ordering::SeqCst);
            }
            responses += 1;
        }
    });

    println!(
        "{server}: {}: {count} edits, {responses} responses, {faults:?}, {:.1} s",
        way.name,
        began.elapsed().as_secs_f64()
    );
    faults
}

/// Runs the edits of each way, and fails afterwards if there were faults.
fn for_each_way(run: impl Fn(&Way) -> Faults) {
    let faults: Vec<_> = WAYS.iter().map(|way| (way.name, run(way))).collect();
    assert!(faults.iter().all(|(_, faults)| *faults == Faults::default()), "{faults:?}");
}

#[test]
fn readers_see_only_complete_versions() {
    for_each_way(|way| {
        let (folder, root) = folder_for(way);
        let live = Live::start_at(folder, root, &[]);
        edit_while_a_client_reads("serve", way, &live.address, live.folder.path())
    });
}

#[test]
fn readers_of_a_served_folder_see_only_complete_versions() {
    for_each_way(|way| {
        let (folder, root) = folder_for(way);
        let server = Server::start(&["--folder", root.to_str().unwrap()]);
        edit_while_a_client_reads("--folder", way, &server.address, folder.path())
    });
}

/// A folder of this size isn't scanned within a moment.
const LARGE_FOLDER_FILES: usize = 5000;

/// Creates a folder for edits of one way, which has many other files.
fn large_folder_for(way: &Way) -> (tempfile::TempDir, PathBuf) {
    let (folder, root) = folder_for(way);
    for number in 0..LARGE_FOLDER_FILES {
        let directory = root.join(format!("files/{}", number % 50));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("{number}.txt")), "text").unwrap();
    }
    (folder, root)
}

/// Edits a page `count` times, and requests it before and after each edit. Only requests find changes.
fn edit_without_events(way: &Way, count: usize, (folder, root): (tempfile::TempDir, PathBuf)) -> Faults {
    let began = Instant::now();
    // The only poll comes after the test.
    let live = Live::start_at(folder, root, &["--poll=3600000"]);
    let mut reader = Reader::new(&live.address, way.target);
    let mut faults = Faults::default();
    for number in 1..=count {
        // No scan for an earlier request counts for the next one, however short the time between them.
        reader.read(number - 1, &mut faults);
        (way.save)(live.folder.path(), number, &numbered(number));
        reader.read(number, &mut faults);
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("no events: {}: {count} edits, {faults:?}, {seconds:.1} s", way.name);
    faults
}

#[test]
fn no_page_is_out_of_date_without_events() {
    for_each_way(|way| edit_without_events(way, edits(), folder_for(way)));
}

#[test]
fn no_page_of_a_large_folder_is_out_of_date_without_events() {
    for way in WAYS.iter().filter(|way| ["truncated and written", "renamed over"].contains(&way.name)) {
        let faults = edit_without_events(way, edits().min(10), large_folder_for(way));
        assert_eq!(faults, Faults::default(), "{}", way.name);
    }
}
