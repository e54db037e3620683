//! Archives with random changes: every command reports an error or an answer, and the server survives them.
//!
//! Opening a large archive reads a few bytes only, so a changed one may be served. Every number in it is then untrusted.

use std::fs;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{Server, compile, is_slow, pages, percent_encode, server_command, write_folder};
use crate::random::Random;

/// Exit code of a program that has panicked.
const PANICKED: i32 = 101;

const PATHS: [&str; 8] =
    ["/", "/page", "/page.html", "/docs/", "/docs/missing", "/old/a/b", "/gone", "/text.txt"];

/// Returns the number of changed archives for each command.
fn mutants() -> u64 {
    if is_slow() { 2_000 } else { 100 }
}

/// The server verifies archives of up to this size before it starts, so that it would serve no changed one.
const VERIFIED_BYTES_MAX: usize = 16 << 20;

/// Compiles a site that has a record of every kind, and a file with this many bytes. Returns the archive and the place of that file.
fn archive(folder: &Path, filler: usize) -> (Vec<u8>, Range<usize>) {
    let text = "A line that every coding makes shorter.\n".repeat(200);
    let files = [
        ("index.html", "<title>Start</title>"),
        ("page.html", "<title>Page</title>"),
        ("404.html", "<title>Not found</title>"),
        ("docs/index.html", "<title>Docs</title>"),
        ("docs/_404.html", "<title>No such document</title>"),
        ("_hosts/*.example.com/index.html", "<title>Host</title>"),
        ("_redirects", "/old/* /docs/:splat 301\n/:a/b/:c /page?x=:c 302\n/gone /404.html 410\n"),
        ("_headers", "/docs/*\n  X-Docs: yes\n"),
        ("text.txt", text.leak()),
    ];
    let source = folder.join("site");
    write_folder(&source, &pages(&files));
    // Videos aren't compressed.
    fs::write(source.join("filler.mp4"), vec![b'~'; filler]).unwrap();
    let archive = folder.join("site.cdb");
    compile(&source, &archive, &["--compress", "identity,gzip,brotli,zstd", "--include-folder-listing"]);
    let bytes = fs::read(archive).unwrap();
    let start = bytes.windows(64).position(|window| window.iter().all(|byte| *byte == b'~'));
    (bytes, start.map_or(0..0, |start| start..start + filler))
}

/// Changes a few bits, numbers or runs, or the length, but not within the filler.
fn mutate((bytes, filler): &(Vec<u8>, Range<usize>), random: &mut Random) -> Vec<u8> {
    let mut mutant = bytes.clone();
    for _ in 0..=random.below(4) {
        let mut place = random.index(mutant.len() - 16);
        while filler.contains(&place) {
            place = random.index(mutant.len() - 16);
        }
        match random.below(6) {
            0..=2 => mutant[place] ^= 1 << random.below(8),
            3 => {
                let number = [0, 1, u32::MAX, i32::MAX.unsigned_abs(), 1 << 16][random.index(5)];
                mutant[place..place + 4].copy_from_slice(&number.to_le_bytes());
            }
            4 => {
                let from = random.index(mutant.len() - 16);
                mutant.copy_within(from..from + 16, place);
            }
            _ => mutant.truncate(place.max(64)),
        }
    }
    mutant
}

#[test]
fn commands_survive_changed_archives() {
    let folder = tempfile::tempdir().unwrap();
    let good = archive(folder.path(), 64);
    let mutant = folder.path().join("mutant.cdb");
    let out = folder.path().join("out");
    let name = mutant.to_str().unwrap();
    let out_name = out.to_str().unwrap();
    for seed in 1..=mutants() {
        fs::write(&mutant, mutate(&good, &mut Random::new(seed))).unwrap();
        let commands: [&[&str]; 4] = [
            &["inspect", "--list", name],
            &["verify", name],
            &["explain", name, "/docs/missing"],
            &["extract", name, out_name],
        ];

        for arguments in commands {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
            let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
            let code = output.status.code();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(code.is_some_and(|code| code != PANICKED), "seed {seed}, {arguments:?}: {errors}");
        }

        let _ = fs::remove_dir_all(&out);
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 3, "seed {seed} wrote elsewhere: {left:?}");
    }
}

#[test]
fn server_survives_changed_archives() {
    let folder = tempfile::tempdir().unwrap();
    let good = archive(folder.path(), VERIFIED_BYTES_MAX);
    let mutant = folder.path().join("mutant.cdb");
    let mut served = 0;
    for seed in 1..=mutants().div_ceil(2) {
        fs::write(&mutant, mutate(&good, &mut Random::new(seed))).unwrap();

        let mut command = server_command();
        command.args(["--archive", mutant.to_str().unwrap(), "--bind", "127.0.0.1:0", "--threads", "1"]);
        let Some(server) = Server::try_run(command) else { continue };

        served += 1;
        for path in PATHS {
            for coding in ["identity", "br"] {
                let request = format!(
                    "GET {} HTTP/1.1\r\nHost: a.example.com\r\nAccept-Encoding: {coding}\r\n\
                         Connection: close\r\n\r\n",
                    percent_encode(path.as_bytes())
                );
                let mut stream = server.connect();
                stream.write_all(request.as_bytes()).unwrap();
                // The server sends a response or closes the connection, before the timeout.
                let _ = stream.read_to_end(&mut Vec::new()).unwrap();
            }
        }

        assert_eq!(server.get("/__/heartbeat").body, b"OK\n", "seed {seed}");
        assert_eq!(server.stop(), Some(0), "seed {seed}");
    }

    assert!(served > 0, "no changed archive could be opened");
}
