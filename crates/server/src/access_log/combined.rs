//! A line in the combined format, as Apache made it known and most tools read it.
//!
//! What a peer sent stands between quotes: quotes, backslashes, control bytes and all that is not ASCII are
//! escaped as `\xHH`, so that no line can be forged and no terminal told what to do.

use cannery_site::spell_date;

use super::line::Line;

pub(super) fn spell(out: &mut Vec<u8>, line: &Line<'_>, time: &[u8]) {
    put_peer(out, line);
    out.extend_from_slice(b" - - ");
    out.extend_from_slice(time);
    out.extend_from_slice(b" \"");
    if let Some(head) = line.head {
        put_escaped(out, head.method_name);
        out.push(b' ');
        put_escaped(out, head.request.target);
        out.extend_from_slice(if head.is_http10 { b" HTTP/1.0" } else { b" HTTP/1.1" });
    } else {
        out.push(b'-');
    }
    out.extend_from_slice(b"\" ");
    put_number(out, line.status.into());
    out.push(b' ');
    put_number(out, line.bytes);
    for value in [line.head.and_then(|head| head.referer), line.head.and_then(|head| head.user_agent)] {
        out.extend_from_slice(b" \"");
        put_escaped(out, value.unwrap_or(b"-"));
        out.push(b'"');
    }
    out.push(b'\n');
}

/// `[06/Nov/1994:08:49:37 +0000]`, in UTC: a server's log should not depend on where it stands.
pub(super) fn spell_time(out: &mut Vec<u8>, seconds: u64) {
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    let date = spell_date(seconds);
    let parts: [&[u8]; 9] =
        [b"[", &date[5..7], b"/", &date[8..11], b"/", &date[12..16], b":", &date[17..25], b" +0000]"];
    parts.into_iter().for_each(|part| out.extend_from_slice(part));
}

/// The address without its port; `-` where there is none, as with local sockets.
pub(super) fn put_peer(out: &mut Vec<u8>, line: &Line<'_>) {
    use std::io::Write;
    // Writing to a vector never fails.
    let _ = match line.peer {
        Some(peer) => write!(out, "{}", peer.ip().to_canonical()),
        None => out.write_all(b"-"),
    };
}

pub(super) fn put_number(out: &mut Vec<u8>, number: u64) {
    use std::io::Write;
    let _ = write!(out, "{number}");
}

fn put_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        match byte {
            b' '..=b'~' if *byte != b'"' && *byte != b'\\' => out.push(*byte),
            byte => {
                let (high, low) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
                out.extend_from_slice(&[b'\\', b'x', high, low]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_peer_sends_can_end_its_place() {
        let mut out = Vec::new();
        put_escaped(&mut out, b"a\"b\\c\n\x1b[0m\xc3\xa9 ~\x7f");
        assert_eq!(out, br"a\x22b\x5Cc\x0A\x1B[0m\xC3\xA9 ~\x7F");
    }

    #[test]
    fn the_time_is_spelled_as_everybody_does() {
        let mut out = Vec::new();
        spell_time(&mut out, 784_111_777);
        assert_eq!(out, b"[06/Nov/1994:08:49:37 +0000]");
    }
}
