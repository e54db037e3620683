//! JSON log format, where each line is an object (RFC 8259).
//!
//! Data from the peer is logged as text if it is valid UTF-8, and otherwise escaped as `\xHH`. Either way,
//! peers are not able to forge a line.

use cannery_base::date::format_rfc3339;

use super::encode::{is_plain, put_digits, put_number, put_peer};
use super::line::{Line, Moment};

/// Appends a line.
pub(super) fn encode(out: &mut Vec<u8>, line: &Line<'_>, time: &[u8], moment: Moment) {
    out.extend_from_slice(b"{\"time\":\"");
    out.extend_from_slice(time);
    put_digits::<3>(out, moment.milliseconds);
    out.extend_from_slice(b"Z\",\"peer\":\"");
    put_peer(out, line.client);
    out.push(b'"');

    if let Some(tls) = line.tls {
        put_text(out, "tls", tls.name().as_bytes());
    }
    if let Some(request) = line.request {
        put_text(out, "method", request.method);
        put_text(out, "target", request.target);
        if let Some(version) = request.version {
            put_text(out, "version", version.name().as_bytes());
        }
    }
    for (name, value) in [("host", line.host), ("referer", line.referer), ("user_agent", line.user_agent)] {
        if let Some(value) = value {
            put_text(out, name, value);
        }
    }

    out.extend_from_slice(b",\"status\":");
    put_number(out, line.status.into());
    out.extend_from_slice(b",\"bytes\":");
    put_number(out, line.bytes);
    if let Some(coding) = line.coding {
        put_text(out, "coding", coding);
    }

    if let Some((_, pattern)) = line.handled.route {
        put_text(out, "route", pattern.as_bytes());
    }

    out.extend_from_slice(b",\"duration\":");
    put_number(out, moment.duration.as_secs());
    out.push(b'.');
    put_digits::<6>(out, moment.duration.subsec_micros());
    out.extend_from_slice(b"}\n");
}

/// Appends `1994-11-06T08:49:37.` (RFC 3339), which is the part of the time shared by all lines of a second.
pub(super) fn encode_time(out: &mut Vec<u8>, seconds: u64) {
    let [time @ .., b'Z'] = &format_rfc3339(seconds) else { unreachable!("the time ends with its zone") };
    out.extend_from_slice(time);
    out.push(b'.');
}

fn put_text(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":\"");
    if is_plain(value) {
        out.extend_from_slice(value);
        out.push(b'"');
        return;
    }
    for chunk in value.utf8_chunks() {
        for character in chunk.valid().chars() {
            put_character(out, character);
        }
        for byte in chunk.invalid() {
            put_hexadecimal(out, b"\\\\x", *byte);
        }
    }
    out.push(b'"');
}

fn put_character(out: &mut Vec<u8>, character: char) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        // This includes control characters outside of ASCII. A terminal might interpret them.
        character if character.is_control() => {
            let byte = u8::try_from(character).expect("control characters are below U+00A0");
            put_hexadecimal(out, b"\\u00", byte);
        }
        character => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn put_hexadecimal(out: &mut Vec<u8>, prefix: &[u8], byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(prefix);
    out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_peers_is_escaped() {
        let mut out = Vec::new();
        put_text(&mut out, "x", b"a\"b\\c\n\x1b \xff \xc3\xa9 \xc2\x9b");
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, ",\"x\":\"a\\\"b\\\\c\\u000a\\u001b \\\\xff é \\u009b\"");
    }

    #[test]
    fn time_has_rfc_3339_format() {
        let mut out = Vec::new();
        encode_time(&mut out, 784_111_777);
        assert_eq!(out, b"1994-11-06T08:49:37.");
    }
}
