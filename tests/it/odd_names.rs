//! File names with unusual bytes: the archiver serves them, or reports why it cannot.

use std::fs;

use crate::harness::{Server, compile, files_below, percent_encode, write_folder};

#[test]
fn unusual_names_are_served_or_reported() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("site");
    fs::create_dir(&folder).unwrap();
    let long = [b"x".repeat(251).as_slice(), b".txt"].concat();
    let deep = [b"d/".repeat(60).as_slice(), b"file.txt"].concat();
    let names: Vec<Vec<u8>> = [
        b"with space.txt".as_slice(),
        b"100%.txt",
        b"%41.txt",
        b"question?.txt",
        b"new\nline.txt",
        b"quote\".txt",
        b"back\\slash.txt",
        "caf\u{e9}.txt".as_bytes(),
        "cafe\u{301}.txt".as_bytes(),
        b"latin-\xe9.txt",
        b"Case.txt",
        b"case.txt",
        b"a",
        b"a.html",
        b"a.txt",
        b"200.png",
        b"404.png",
        b"+&=;,.txt",
        b"*.txt",
        b"dir with space/in.txt",
        b".well-known/acme",
        &long,
        &deep,
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    for (number, name) in names.iter().enumerate() {
        write_folder(&folder, &[(name, format!("content {number}").as_bytes())]);
    }
    write_folder(
        &folder,
        &[
            (b"empty.txt", b""),
            (b"hash#.txt", b"no"),
            (b"broken", b"-> nowhere"),
            (b"loop/again", b"-> ../loop"),
        ],
    );
    assert!(std::process::Command::new("mkfifo").arg(folder.join("fifo")).status().unwrap().success());
    let archive = place.path().join("site.cdb");
    let output = compile(&folder, &archive, &["--compress", "identity"]);
    let report =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    for word in ["broken", "fifo", "loop/again", "hash#.txt"] {
        assert!(report.contains(word), "{word} is not in {report}");
    }
    let server = Server::start_on_all_transports(&["--archive", archive.to_str().unwrap()]);
    for (number, name) in names.iter().enumerate() {
        let target = format!("/{}", percent_encode(name));
        let response = server.get(&target);
        assert_eq!(
            (response.status, response.body),
            (200, format!("content {number}").into_bytes()),
            "{target}"
        );
    }
    assert_eq!(server.get("/empty.txt").body, b"");
    assert_eq!(server.get("/hash%23.txt").status, 404);

    let extracted = place.path().join("extracted");
    let output =
        crate::harness::run("cannery", &["extract", archive.to_str().unwrap(), extracted.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(files_below(&extracted).len(), names.len() + 1);
}
