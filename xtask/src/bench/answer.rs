//! One answer, read as it comes from a socket, and compared with what it should be before anything is timed.
//!
//! Content is decoded by the programs of the codings' own makers, so that nothing of ours is trusted with it.

use std::fs::{self, File};
use std::io::{self, BufRead, Read};
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::project;

/// An answer, with its transfer coding taken off and its content coding on.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
    /// All bytes as they came.
    pub(crate) raw: Vec<u8>,
    pub(crate) head_bytes: usize,
}

impl Answer {
    /// An answer that came in frames: its bytes with their heads, of which the block of fields has so many.
    pub(crate) fn new(
        status: u16,
        fields: Vec<(String, String)>,
        content: Vec<u8>,
        raw: Vec<u8>,
        head_bytes: usize,
    ) -> Answer {
        Answer { status, fields, content, raw, head_bytes }
    }

    /// Reads one answer to a GET. It must tell its length or come in chunks, or else the connection is not kept.
    pub(crate) fn read(connection: &mut impl BufRead) -> io::Result<Answer> {
        let mut answer = Answer::default();
        let status_line = answer.line(connection)?;
        let status = status_line.split(' ').nth(1).and_then(|word| word.parse().ok());
        answer.status = status.ok_or_else(|| wrong(&format!("no status line: {status_line:?}")))?;
        loop {
            let line = answer.line(connection)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| wrong(&format!("no field: {line:?}")))?;
            answer.fields.push((name.to_owned(), value.trim().to_owned()));
        }
        answer.head_bytes = answer.raw.len();
        if answer.status == 304 {
            return Ok(answer);
        }
        if answer.field("Transfer-Encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            answer.read_chunks(connection)?;
        } else {
            let length = answer.field("Content-Length").and_then(|value| value.parse().ok());
            let length = length.ok_or_else(|| wrong("the length of the content is not told"))?;
            let content = answer.bytes(connection, length)?;
            answer.content = content;
        }
        Ok(answer)
    }

    /// The value of a field, of the first if there are several.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Fails unless this is the answer, with this status and this content after decoding, to someone who accepts
    /// these codings.
    pub(crate) fn check(&self, who: &str, accepted: &str, status: u16, expected: &[u8]) -> Result<(), Error> {
        let differs = |expected: String, got: String| {
            Err(Error::Unexpected { what: format!("the answer of {who}"), expected, got })
        };
        if self.status != status {
            return differs(format!("status {status}"), format!("status {}", self.status));
        }
        let coding = self.field("Content-Encoding");
        if coding.is_some_and(|coding| !accepted.split([',', ';', ' ']).any(|word| word == coding)) {
            return differs(format!("a coding of {accepted:?}"), format!("{coding:?}"));
        }
        let content = decoded(&self.content, coding)?;
        if content != expected {
            let place = content.iter().zip(expected).position(|(got, wanted)| got != wanted);
            let shorter = content.len().min(expected.len());
            return differs(
                format!("the file's {} bytes", expected.len()),
                format!("{} bytes, which differ from byte {} on", content.len(), place.unwrap_or(shorter)),
            );
        }
        Ok(())
    }

    fn line(&mut self, connection: &mut impl BufRead) -> io::Result<String> {
        let before = self.raw.len();
        connection.read_until(b'\n', &mut self.raw)?;
        let line =
            self.raw[before..].strip_suffix(b"\r\n").ok_or_else(|| wrong("the answer ends in a line"))?;
        Ok(String::from_utf8_lossy(line).into_owned())
    }

    fn bytes(&mut self, connection: &mut impl BufRead, count: usize) -> io::Result<Vec<u8>> {
        let before = self.raw.len();
        connection.take(count as u64).read_to_end(&mut self.raw)?;
        if self.raw.len() - before < count {
            return Err(wrong("the content ends before its length"));
        }
        Ok(self.raw[before..].to_vec())
    }

    fn read_chunks(&mut self, connection: &mut impl BufRead) -> io::Result<()> {
        loop {
            let size = self.line(connection)?;
            let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16);
            let size = size.map_err(|_| wrong("no chunk size"))?;
            let chunk = self.bytes(connection, size)?;
            self.content.extend_from_slice(&chunk);
            if !self.line(connection)?.is_empty() {
                return Err(wrong("a chunk that does not end, or trailers"));
            }
            if size == 0 {
                return Ok(());
            }
        }
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Content without its coding.
fn decoded(content: &[u8], coding: Option<&str>) -> Result<Vec<u8>, Error> {
    let program = match coding {
        None | Some("identity") => return Ok(content.to_vec()),
        Some("gzip") => "gzip",
        Some("br") => "brotli",
        Some("zstd") => "zstd",
        Some("deflate") => "zlib-flate",
        Some(other) => {
            return Err(Error::Unexpected {
                what: "a content coding".into(),
                expected: "one that we know".into(),
                got: other.into(),
            });
        }
    };
    // From a file and not through a pipe, which would have to be filled and emptied at the same time.
    let path = project::outside().join("running/content");
    let failed = |source| Error::file(&path, source);
    fs::create_dir_all(project::outside().join("running")).map_err(failed)?;
    fs::write(&path, content).map_err(failed)?;
    let flags: &[&str] = if program == "zlib-flate" { &["-uncompress"] } else { &["-dc"] };
    let mut command = Command::new(program);
    command.args(flags).stdin(File::open(&path).map_err(failed)?).stderr(Stdio::inherit());
    let output = command.output().map_err(|source| Error::start(&command, source))?;
    if output.status.success() { Ok(output.stdout) } else { Err(Error::failed(&command, output.status)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<Answer> {
        Answer::read(&mut text.as_bytes())
    }

    #[test]
    fn an_answer_ends_where_its_length_says() {
        let mut two =
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 304 Not Modified\r\n\r\n".as_slice();
        let first = Answer::read(&mut two).unwrap();
        assert_eq!((first.status, first.content.as_slice()), (200, b"ok".as_slice()));
        assert_eq!((first.head_bytes, first.raw.len()), (38, 40));
        assert_eq!(Answer::read(&mut two).unwrap().status, 304);
        assert!(two.is_empty());
    }

    #[test]
    fn chunks_are_put_together() {
        let answer =
            read("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n");
        assert_eq!(answer.unwrap().content, b"abcd");
    }

    #[test]
    fn an_answer_that_breaks_off_is_none() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
            "HTTP/1.1 200 OK\r\n\r\n",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn status_coding_and_content_are_compared() {
        let answer =
            read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Encoding: identity\r\n\r\nok").unwrap();
        let check =
            |status, content: &[u8], accepted| answer.check("a test", accepted, status, content).is_ok();
        assert!(check(200, b"ok", "identity, gzip"));
        assert!(!check(206, b"ok", "identity"));
        assert!(!check(200, b"o", "identity"));
        assert!(!check(200, b"oh", "identity"));
        assert!(!check(200, b"ok", "gzip"));
    }
}
