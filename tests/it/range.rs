//! Range requests (RFC 9110, section 14).

use crate::harness::{Response, Server, decode, pages, serve};

/// Returns content without repetitions, so that each range is unique.
fn numbered(length: usize) -> Vec<u8> {
    (0..).flat_map(|number: u32| number.to_be_bytes()).take(length).collect()
}

fn site(length: usize, flags: &[&str]) -> (Server, Vec<u8>) {
    let content = numbered(length);
    (serve(&[(b"a.bin", &content), (b"empty.bin", b"")], flags), content)
}

fn range(server: &Server, target: &str, range: &str) -> Response {
    server.request("GET", target, &format!("Range: {range}\r\n"))
}

#[test]
fn each_form_of_range_gives_its_bytes() {
    let (server, content) = site(100_000, &[]);
    for (requested, first, last) in [
        ("bytes=0-0", 0, 0),
        ("bytes=0-99999", 0, 99_999),
        ("bytes=10-19", 10, 19),
        ("bytes=99990-", 99_990, 99_999),
        ("bytes=-7", 99_993, 99_999),
        ("bytes=-1000000", 0, 99_999),
        ("bytes=50000-1000000", 50_000, 99_999),
        ("bytes=20000-40000", 20_000, 40_000),
        ("Bytes=5-5", 5, 5),
        ("bytes=0-9,5-14", 0, 14),
        ("bytes=10-19,0-9", 0, 19),
    ] {
        let response = range(&server, "/a.bin", requested);
        assert_eq!(response.status, 206, "{requested}");
        assert_eq!(
            response.field("Content-Range"),
            Some(&*format!("bytes {first}-{last}/100000")),
            "{requested}"
        );
        assert!(response.body == content[first..=last], "{requested}");
        assert_eq!(response.field("Accept-Ranges"), Some("bytes"));
        assert!(response.field("ETag").is_some() && response.field("Cache-Control").is_some());
    }
}

#[test]
fn invalid_ranges_are_ignored() {
    let (server, content) = site(1000, &[]);
    for requested in ["bytes", "bytes=", "bytes=x-y", "bytes=9-1", "octets=0-1", "bytes=0-1-2", "bytes=--1"] {
        let response = range(&server, "/a.bin", requested);
        assert_eq!((response.status, response.body.len()), (200, content.len()), "{requested}");
    }
    let twice = server.request("GET", "/a.bin", "Range: bytes=0-1\r\nRange: bytes=4-5\r\n");
    assert_eq!(twice.status, 200);
}

#[test]
fn unsatisfiable_range_gets_the_complete_length() {
    let (server, _) = site(1000, &[]);
    for (target, requested, complete) in
        [("/a.bin", "bytes=1000-", 1000), ("/a.bin", "bytes=-0", 1000), ("/empty.bin", "bytes=0-", 0)]
    {
        let response = range(&server, target, requested);
        assert_eq!(response.status, 416, "{requested}");
        assert_eq!(response.field("Content-Range"), Some(&*format!("bytes */{complete}")));
        assert_eq!(response.field("Cache-Control"), Some("no-store"));
        assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
    }
}

/// Returns the parts of a multipart body: position of the first and last byte, and the bytes.
fn parts(response: &Response) -> Vec<(usize, usize, Vec<u8>)> {
    let media_type = response.field("Content-Type").unwrap();
    let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let delimiter = format!("\r\n--{boundary}");

    let mut rest = response.body.as_slice();
    let mut parts = Vec::new();
    loop {
        rest = rest.strip_prefix(delimiter.as_bytes()).unwrap();
        if rest == b"--\r\n" {
            return parts;
        }

        let end = rest.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&rest[2..end]).unwrap();
        let range = head.lines().find_map(|line| line.strip_prefix("Content-Range: bytes ")).unwrap();
        let (range, complete) = range.split_once('/').unwrap();
        let (first, last) = range.split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        assert!(last < complete.parse().unwrap());
        assert!(head.lines().any(|line| line.starts_with("Content-Type: ")), "{head}");

        rest = &rest[end + 4..];
        parts.push((first, last, rest[..=last - first].to_vec()));
        rest = &rest[last - first + 1..];
    }
}

#[test]
fn several_ranges_are_sent_as_multipart() {
    let (server, content) = site(100_000, &[]);
    let response = range(&server, "/a.bin", "bytes=90000-90009,0-0,-1,20000-50000");
    assert_eq!(response.status, 206);
    assert_eq!(response.field("Content-Range"), None, "only the parts have it");
    let parts = parts(&response);
    let places: Vec<_> = parts.iter().map(|(first, last, _)| (*first, *last)).collect();
    assert_eq!(places, [(90_000, 90_009), (0, 0), (99_999, 99_999), (20_000, 50_000)]);
    for (first, last, bytes) in parts {
        assert!(bytes == content[first..=last]);
    }
}

#[test]
fn ranges_longer_than_the_content_send_all() {
    let (server, content) = site(1000, &[]);
    for requested in
        ["bytes=0-400,500-900", "bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16", "bytes=0-,5-6,-3"]
    {
        let response = range(&server, "/a.bin", requested);
        let whole = response.body == content;
        assert!(
            whole && (response.status == 200 || response.field("Content-Range").is_some()),
            "{requested}"
        );
    }
}

#[test]
fn ranges_apply_to_coded_bytes() {
    let text: String = (0..4000).map(|number| format!("line {number}\n")).collect();
    let server = serve(&[(b"a.txt", text.as_bytes())], &[]);
    for coding in ["gzip", "br"] {
        let whole = server.get_with_coding("/a.txt", coding);
        assert_eq!(whole.field("Content-Encoding"), Some(coding));
        let request = |range: String| {
            server.request("GET", "/a.txt", &format!("Accept-Encoding: {coding}\r\nRange: bytes={range}\r\n"))
        };

        let first = request("0-999".into());
        let second = request("1000-".into());
        for part in [&first, &second] {
            assert_eq!(part.status, 206);
            for name in ["Content-Encoding", "ETag", "Vary"] {
                assert_eq!(part.field(name), whole.field(name), "{name}");
            }
        }

        let joined = [first.body, second.body].concat();
        assert!(decode(Some(coding), &joined) == text.as_bytes());
        // The coding belongs to each part, not to the multipart body.
        let several = request("0-9,20-29".into());
        assert_eq!((several.status, several.field("Content-Encoding")), (206, None));
        assert_eq!(parts(&several)[1].2, whole.body[20..30]);
    }
}

#[test]
fn if_range_sends_changed_content_in_full() {
    let (server, content) = site(1000, &["--last-modified", "@784111777"]);
    let tag = server.get("/a.bin").field("ETag").unwrap().to_owned();
    for (validator, expected) in [
        (tag.as_str(), 206),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 206),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 206),
        (&*format!("W/{tag}"), 200),
        ("\"x\"", 200),
        ("Sun, 06 Nov 1994 08:49:38 GMT", 200),
        ("*", 200),
    ] {
        let lines = format!("Range: bytes=0-9\r\nIf-Range: {validator}\r\n");
        let response = server.request("GET", "/a.bin", &lines);
        assert_eq!(response.status, expected, "{validator}");
        assert_eq!(response.body.len(), if expected == 206 { 10 } else { content.len() });
    }
}

#[test]
fn conditions_come_before_ranges() {
    let (server, _) = site(1000, &[]);
    let tag = server.get("/a.bin").field("ETag").unwrap().to_owned();
    let with =
        |line: String| server.request("GET", "/a.bin", &format!("Range: bytes=0-9\r\n{line}\r\n")).status;
    assert_eq!(with(format!("If-None-Match: {tag}")), 304);
    assert_eq!(with("If-Match: \"x\"".into()), 412);
    assert_eq!(with(format!("If-Match: {tag}")), 206);
}

#[test]
fn ranges_apply_to_get_only() {
    let (server, _) = site(1000, &[]);
    let response = server.request("HEAD", "/a.bin", "Range: bytes=0-9\r\n");
    assert_eq!((response.status, response.field("Content-Length")), (200, Some("1000")));
    assert_eq!(response.field("Accept-Ranges"), Some("bytes"));
    assert_eq!(server.request("POST", "/a.bin", "Range: bytes=0-9\r\n").status, 405);
    let server = serve(&pages(&[("404.html", "none")]), &[]);
    assert_eq!(range(&server, "/nothing", "bytes=0-0").status, 404);
}

#[test]
fn pieces_of_any_size_form_the_file() {
    let (server, content) = site(50_000, &[]);
    for piece in [1023, 8192, 8193, 20_000] {
        let mut joined = Vec::new();
        while joined.len() < content.len() {
            let requested = format!("bytes={}-{}", joined.len(), joined.len() + piece - 1);
            joined.extend(range(&server, "/a.bin", &requested).body);
        }
        assert!(joined == content, "{piece}");
    }
}
