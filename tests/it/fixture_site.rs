//! Fixture site: a folder with a file of each kind, compiled, served, and listed for outside programs.

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::harness::{QUIC_FLAGS, Server, TLS_FLAGS, compile, files_below, percent_encode, request_at};

/// A served folder and the data that a program needs to load all of it.
pub(crate) struct FixtureSite {
    pub(crate) server: Server,
    /// The address of the TLS listener.
    pub(crate) tls: String,
    /// The address of the HTTP/3 listener.
    pub(crate) quic: SocketAddr,
    /// The source folder.
    pub(crate) folder: PathBuf,
    /// File with a line per target: target, tab, path of the source file.
    pub(crate) list: PathBuf,
    /// The number of targets.
    pub(crate) targets: usize,
    admin: String,
    place: tempfile::TempDir,
}

/// Returns incompressible bytes, the same on every machine.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

/// Returns compressible text without repeated lines.
pub(crate) fn text(length: usize) -> Vec<u8> {
    let lines = (0..).map(|number| format!("Line {number} of a text that goes on and on.\n"));
    lines.flat_map(String::into_bytes).take(length).collect()
}

impl FixtureSite {
    /// Compiles the folder in every coding and serves it.
    pub(crate) fn serve() -> FixtureSite {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("site");

        write_files(&folder);
        let archive = place.path().join("site.cdb");
        let flags = ["--compress", "identity,gzip,brotli,zstd", "--compress-level", "gzip=6,brotli=4,zstd=3"];

        compile(&folder, &archive, &[&flags[..], &["--last-modified", "@1700000000"]].concat());
        let own = ["--archive", archive.to_str().unwrap(), "--admin", "127.0.0.1:0"];
        let server = Server::start(&[&own, &TLS_FLAGS[..], &QUIC_FLAGS].concat());
        let tls = server.read_tls_address();
        let quic = server.read_quic_address();
        let admin = server.read_admin_address();

        let mut lines = String::new();
        let mut files = files_below(&folder);
        // Rule files are not served, and the error page has status 404 at its own path too.
        files.retain(|(name, _)| name[0] != b'_' && name != b"404.html");
        for (name, path) in &files {
            writeln!(lines, "/{}\t{}", percent_encode(name), path.display()).unwrap();
        }

        let list = place.path().join("targets");
        fs::write(&list, lines).unwrap();
        FixtureSite { server, tls, quic, folder, list, targets: files.len(), admin, place }
    }

    /// Returns a directory for the output of programs.
    pub(crate) fn place(&self) -> &Path {
        self.place.path()
    }

    /// Returns the URL of a target.
    pub(crate) fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.server.address)
    }

    /// Returns the number of connections that the server has accepted.
    pub(crate) fn connections(&self) -> usize {
        self.metric("cannery_connections_accepted_total").expect("the metric exists")
    }

    /// Returns the number of responses with this status.
    pub(crate) fn responses(&self, status: u16) -> usize {
        self.metric(&format!("cannery_responses_total{{status=\"{status}\"}}")).unwrap_or(0)
    }

    fn metric(&self, name: &str) -> Option<usize> {
        let metrics = String::from_utf8(request_at(&self.admin, "GET", "/metrics", "").body).unwrap();
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map(|value| value.parse().unwrap())
    }
}

fn write_files(folder: &Path) {
    let page = |title: &str, body: &str| {
        format!("<!doctype html>\n<html lang=\"en\"><title>{title}</title>\n{body}\n</html>\n").into_bytes()
    };

    let links = "<p><a href=\"guide/\">Guide</a> <a href=\"big.txt\">Text</a> <img src=\"a.svg\" alt=\"\">\n";
    let files: [(&str, Vec<u8>); 17] = [
        ("index.html", page("Start", &links.repeat(40))),
        ("guide/index.html", page("Guide", "<p><a href=\"/\">Back</a> <a href=\"page.html\">On</a>")),
        ("guide/page.html", page("Page", "<link rel=\"stylesheet\" href=\"/style.css\">")),
        ("404.html", page("Nothing here", "<p>Nothing.")),
        ("_405.html", page("Only to be read", &"<p>This address can only be read.\n".repeat(50))),
        ("_416.html", page("Not so long", "<p>There is no such part.")),
        ("_431.html", page("Too much", "<p>That is more than is read here.")),
        ("style.css", b"body { margin: 0; color: black; background: white }\n".repeat(50)),
        ("script.js", b"export const answer = () => 42;\n".repeat(50)),
        ("data.json", format!("[{}0]\n", "1234567, ".repeat(500)).into_bytes()),
        ("a.svg", b"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"8\" height=\"8\"/>\n".to_vec()),
        ("big.txt", text(300_000)),
        ("small.txt", b"small\n".to_vec()),
        ("empty.txt", Vec::new()),
        ("noise.bin", noise(700_000)),
        ("a name with spaces & \u{e4}.txt", b"reached\n".to_vec()),
        ("_redirects", b"/moved /small.txt 301\n/gone /404.html 410\n".to_vec()),
    ];

    for (name, content) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}
