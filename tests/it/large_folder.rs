//! Folders whose archives are too large for memory: `cannery-server --folder` and `cannery serve` keep them on disk.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::{Server, request_at, server_command, wait_until};
use crate::live_folder::Live;
use crate::served_folder::compiler;

/// Longer than the largest archive that is held in memory (`MEMORY_ARCHIVE_BYTES_MAX`).
const VIDEO_BYTES: u64 = 70 << 20;

/// Bytes in the middle of the video, which has no others but zeros.
const MARK: &[u8] = b"a scene in the middle";
const MARK_AT: u64 = 40 << 20;

/// A site with a page, and a directory for temporary files on disk.
struct Site {
    folder: tempfile::TempDir,
    root: PathBuf,
    temporary: PathBuf,
}

impl Site {
    fn new() -> Site {
        // `/tmp` may be in memory.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = folder.path().join("site");
        let temporary = folder.path().join("temporary");
        fs::create_dir(&root).unwrap();
        fs::create_dir(&temporary).unwrap();
        fs::write(root.join("index.html"), "before").unwrap();
        Site { folder, root, temporary }
    }

    fn add_video(&self) {
        let next = self.folder.path().join("next.mp4");
        let file = File::create(&next).unwrap();
        file.set_len(VIDEO_BYTES).unwrap();
        file.write_all_at(MARK, MARK_AT).unwrap();
        fs::rename(next, self.root.join("video.mp4")).unwrap();
    }

    fn command(&self, mut command: Command) -> Command {
        command.env("TMPDIR", &self.temporary).env_remove("CACHE_DIRECTORY");
        command
    }

    /// Starts `cannery-server --folder`.
    fn serve(&self, command: Command, flags: &[&str]) -> Server {
        let mut command = self.command(command);
        command.arg("--folder").arg(&self.root).args(flags).args(["--bind", "127.0.0.1:0", "--threads", "2"]);
        Server::run(command)
    }

    /// Waits until an edit is served.
    fn edit(&self, address: &str) {
        fs::write(self.root.join("index.html"), "after").unwrap();
        wait_until("the edit", || request_at(address, "GET", "/", "").body == b"after");
    }
}

fn assert_video(address: &str) {
    let last = MARK_AT + MARK.len() as u64 - 1;
    let part = request_at(address, "GET", "/video.mp4", &format!("Range: bytes={MARK_AT}-{last}\r\n"));
    assert_eq!((part.status, &part.body[..]), (206, MARK));
    let whole = request_at(address, "GET", "/video.mp4", "");
    assert_eq!((whole.status, whole.body.len() as u64), (200, VIDEO_BYTES));
    let mark_at = usize::try_from(MARK_AT).unwrap();
    assert!(whole.body[mark_at..].starts_with(MARK) && whole.body[..mark_at].iter().all(|byte| *byte == 0));
}

/// Asserts that a process has mapped an archive in the directory, and none in shared memory.
#[cfg(target_os = "linux")]
fn assert_on_disk(process: u32, directory: &Path) {
    let prefix = format!(" {}/", directory.display());
    let mapped = || fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let is_on_disk = |line: &str| line.contains(&prefix) && line.ends_with(" (deleted)");
    // The archive of a build is mapped when it is finished.
    wait_until("an archive on disk", || mapped().lines().any(is_on_disk));
    assert!(!mapped().contains("memfd:"), "{}", mapped());
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "the files have no name");
}

#[test]
fn large_files_are_served_from_inside_the_sandbox() {
    let site = Site::new();
    site.add_video();
    let server = site.serve(server_command(), &[]);
    assert_video(&server.address);
    site.edit(&server.address);
    assert_video(&server.address);
    assert_eq!(server.stop(), Some(0));
}

/// Without the sandbox, because other processes can't read the mappings of one inside it.
#[test]
#[cfg(target_os = "linux")]
fn large_archives_of_folders_are_on_disk() {
    let site = Site::new();
    site.add_video();
    let server = site.serve(Command::new(env!("CARGO_BIN_EXE_cannery-server")), &["--sandbox", "off"]);
    for edits in 0..2 {
        if edits > 0 {
            site.edit(&server.address);
        }
        assert_video(&server.address);
        assert_on_disk(server.pid(), &site.temporary);
        assert_on_disk(compiler(&server).0, &site.temporary);
    }

    // A small site is in memory again.
    fs::remove_file(site.root.join("video.mp4")).unwrap();
    let prefix = format!(" {}/", site.temporary.display());
    wait_until("no archive on disk", || {
        !fs::read_to_string(format!("/proc/{}/maps", server.pid())).unwrap().contains(&prefix)
    });
}

#[test]
fn folder_is_served_if_there_is_no_directory_for_large_archives() {
    let site = Site::new();
    let server = site.serve(server_command(), &[]);
    fs::remove_dir(&site.temporary).unwrap();
    site.add_video();
    let line = server.await_line("held in memory");
    let expected = [site.temporary.to_str().unwrap(), "held in memory", "os error 2", "create the directory"];
    assert!(expected.iter().all(|words| line.contains(words)), "{line}");
    assert_video(&server.address);
    site.edit(&server.address);
    assert_video(&server.address);
    #[cfg(not(feature = "portable"))]
    {
        server.signal("TERM");
        let lines = server.lines();
        assert!(!lines.iter().any(|line| line.contains("held in memory")), "again: {lines:#?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn large_archives_of_served_folders_are_on_disk() {
    let Site { folder, root, temporary } = Site::new();
    let site = Site { folder: tempfile::tempdir_in(folder.path()).unwrap(), root: root.clone(), temporary };
    site.add_video();
    let mut command = site.command(Command::new(env!("CARGO_BIN_EXE_cannery")));
    command.stderr(Stdio::null());
    let live = Live::start_by(command, folder, root, &[]);
    for edits in 0..2 {
        if edits > 0 {
            site.edit(&live.address);
        }
        assert_video(&live.address);
        assert_on_disk(live.pid(), &site.temporary);
    }
}

#[test]
fn served_folder_reports_a_missing_directory() {
    let Site { folder, root, temporary } = Site::new();
    let site = Site { folder: tempfile::tempdir_in(folder.path()).unwrap(), root: root.clone(), temporary };
    site.add_video();
    fs::remove_dir(&site.temporary).unwrap();
    let command = site.command(Command::new(env!("CARGO_BIN_EXE_cannery")));
    let live = Live::start_by(command, folder, root, &[]);
    assert_video(&live.address);
    let compressed = live.event("compressed");
    assert!(compressed.contains("held-in-memory") && compressed.contains("TMPDIR"), "{compressed}");
}
