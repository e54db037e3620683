//! `--profile-cpu`, `--profile-mem` and `--dummy-delay`.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{Server, compile, pages, run, write_folder};

/// The fields of a message of Protocol Buffers: numbers, and the bytes of strings and messages.
fn fields(mut message: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) = message.split_first().unwrap();
            *message = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        number
    }

    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        match tag & 7 {
            0 => fields.push((tag >> 3, varint(&mut message), [].as_slice())),
            2 => {
                let length = usize::try_from(varint(&mut message)).unwrap();
                let (bytes, rest) = message.split_at(length);
                fields.push((tag >> 3, 0, bytes));
                message = rest;
            }
            other => panic!("wire type {other}"),
        }
    }

    fields
}

/// Returns the strings of a profile, and the sums of the values of its samples.
fn profile(path: &Path) -> (Vec<String>, Vec<u64>) {
    let bytes = fs::read(path).unwrap();
    let all = fields(&bytes);
    let of = |number| all.iter().filter(move |(field, ..)| *field == number).map(|(_, _, bytes)| *bytes);
    let strings: Vec<_> = of(6).map(|text| String::from_utf8(text.to_vec()).unwrap()).collect();
    assert_eq!(strings[0], "", "the first string is empty");
    let mut sums = vec![0; of(1).count()];
    for sample in of(2) {
        let values = fields(sample).into_iter().filter(|(field, ..)| *field == 2);
        sums.iter_mut().zip(values).for_each(|(sum, (_, value, _))| *sum += value);
    }
    (strings, sums)
}

/// Prints a profile with `go tool pprof`, or returns `None` if there is no Go.
fn pprof_top(path: &Path) -> Option<String> {
    if Command::new("go").arg("version").output().is_err() {
        println!("skipped: the check by `go tool pprof` needs Go");
        return None;
    }
    let output = Command::new("go").args(["tool", "pprof", "-top"]).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Returns the CPU time of a process in clock ticks, of which a second has 100.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(") ").next().unwrap();
    after_name.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
#[cfg_attr(feature = "portable", ignore = "the memory profile needs Linux")]
fn profiles_are_written_when_the_server_stops() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site");
    write_folder(&source, &pages(&[("a.txt", "one")]));
    let archive = folder.path().join("site.cdb");
    compile(&source, &archive, &[]);
    let (cpu, memory) = (folder.path().join("cpu.pprof"), folder.path().join("memory.pprof"));
    let mut server = Server::start(&[
        archive.to_str().unwrap(),
        "--archive-mmap",
        "--profile-cpu",
        cpu.to_str().unwrap(),
        "--profile-mem",
        memory.to_str().unwrap(),
    ]);

    let mut stream = server.connect();
    let mut received = vec![0; 1 << 20];
    let batch = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n".repeat(100);
    let start = cpu_ticks(server.pid());
    while cpu_ticks(server.pid()) < start + 30 {
        stream.write_all(batch.as_bytes()).unwrap();
        assert!(stream.read(&mut received).unwrap() > 0);
    }
    drop(stream);
    assert_eq!(server.get("/a.txt").body, b"one");
    assert_eq!(fs::metadata(&cpu).unwrap().len(), 0, "it is written at the end");
    server.signal("TERM");
    assert_eq!(server.await_end(), Some(0));

    let (strings, sums) = profile(&cpu);
    assert_eq!(&strings[1..5], ["samples", "count", "cpu", "nanoseconds"]);
    // Kernels count a process's ticks in different ways, so we expect only half of the samples.
    assert!(sums[0] > 10 && sums[1] == sums[0] * (1_000_000_000 / 99), "{sums:?}");
    assert!(strings.iter().any(|name| name.contains("cannery_")), "{strings:#?}");
    assert!(strings.iter().any(|name| name.starts_with("worker")), "the threads have labels: {strings:#?}");

    let (strings, sums) = profile(&memory);
    assert!(sums[0] > 1 << 20 && sums[1] > 0 && sums[0] >= sums[1], "{sums:?}");
    assert!(strings.contains(&"[heap]".to_owned()) && strings.contains(&"mapped files".to_owned()));
    assert!(strings.iter().any(|name| name.ends_with("/site.cdb")), "{strings:?}");

    if let Some(top) = pprof_top(&cpu) {
        // It shortens the names of functions in its own way.
        assert!(top.contains("Type: cpu") && top.contains("Showing nodes accounting for"), "{top}");
    }
    if let Some(top) = pprof_top(&memory) {
        assert!(top.contains("[heap]"), "{top}");
    }
}

#[test]
fn profile_that_cannot_be_written_is_an_error() {
    let output = run("cannery-server", &["--dummy", "--profile-cpu", "/nowhere/cpu"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("/nowhere/cpu"), "{stderr}");
    let output = run("cannery-server", &["--dummy", "--processes", "2", "--profile-mem", "/tmp/memory"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn dummy_delay_precedes_each_response() {
    let delay = Duration::from_millis(30);
    let mut server = Server::start(&["--dummy-delay", "30ms"]);
    for _ in 0..3 {
        let start = Instant::now();
        assert_eq!(server.get("/").body, b"hello world!\n");
        assert!(start.elapsed() >= delay);
    }
    server.signal("TERM");
    assert_eq!(server.await_end(), Some(0));
}
