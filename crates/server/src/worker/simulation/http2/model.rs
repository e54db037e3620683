//! Reference model of an HTTP/2 connection.
//!
//! Each stream must receive the response that the HTTP/1 model returns for its request. A prefix of it is
//! permitted if the script, a window or a shutdown explains why the rest is missing.

use std::collections::BTreeMap;

use cannery_eventloop::simulated::{self, ReadRate};
use cannery_testkit::http2::{
    ACK, DATA, Decoder, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, may_begin_frame,
};

use super::super::script::Ending;
use super::requests::{Expected, Response};
use super::script::{Fate, Script, Stream};

/// Default of SETTINGS_MAX_FRAME_SIZE, which no peer changes here (RFC 9113 §4.2).
const PAYLOAD_BYTES_MAX: usize = 16_384;

/// The last stream ID of a GOAWAY that announces another GOAWAY (RFC 9113 §6.8).
const ANY_STREAM: u32 = 0x7fff_ffff;

/// Compares the bytes that a peer received with the model.
///
/// # Errors
/// Returns an error if they contain a frame that the script does not explain, or lack one that it requires.
pub(super) fn check(
    script: &Script,
    received: &[u8],
    state: simulated::ConnectionState,
    expected: &Expected,
    stopped: bool,
) -> Result<(), String> {
    let is_late = script.is_cut || script.may_time_out || stopped;
    if is_late && (received.starts_with(b"HTTP/1.1 408 ") || b"HTTP/1.1 408 ".starts_with(received)) {
        // Since the client timed out before its preface was complete, the server did not know the protocol
        // yet.
        return Ok(());
    }

    let mut connection = Received::default();
    let mut rest = received;
    while let Some(frame) = Frame::parse(&mut rest) {
        connection.take(&frame, script).map_err(|fault| format!("{fault}: {frame:?}"))?;
    }

    let is_open =
        state == simulated::ConnectionState::Open && script.read_rate == ReadRate::Unlimited && !stopped;
    if is_open {
        return Err("the connection was left open".into());
    }

    // If the socket buffer is full, the final GOAWAY may be truncated. If no frame has been sent before, it
    // will be preceded by SETTINGS.
    let may_be_cut = if connection.has_frames { GOAWAY } else { SETTINGS };
    let is_disturbed = script.ending == Ending::Reset
        || script.may_time_out
        || script.read_rate != ReadRate::Unlimited
        || stopped && state != simulated::ConnectionState::Closed;
    if !rest.is_empty() && !is_disturbed && !may_begin_frame(rest, may_be_cut) {
        return Err(format!("incomplete frame: {}", rest.escape_ascii()));
    }

    let is_whole = !is_disturbed && !script.is_cut && !stopped;
    if is_whole
        && (connection.settings_acked, connection.pings_acked) != (script.tables.len(), script.pings.len())
    {
        return Err(format!(
            "{} SETTINGS and {} PINGs were acknowledged",
            connection.settings_acked, connection.pings_acked
        ));
    }
    if is_whole && script.fault.is_some() && connection.code != script.fault {
        return Err(format!("the connection ended with {:?}, not {:?}", connection.code, script.fault));
    }

    let last_required =
        if is_disturbed || script.is_cut || script.fault.is_some() { 0 } else { connection.last };
    check_streams(script, &mut connection, expected, last_required)
}

/// Compares all streams with the responses of the old release or, starting from some stream, of the new one.
/// Streams up to `last_required` must have a response, as far as their windows allow.
fn check_streams(
    script: &Script,
    connection: &mut Received,
    expected: &Expected,
    last_required: u32,
) -> Result<(), String> {
    let bodies: usize = script.streams.iter().map(|stream| expected.first[stream.request].body.len()).sum();
    // If the connection window has room for all bodies, no stream has to wait for another.
    let has_room = script.window >= bodies as u64;

    let mut is_newer = false;
    let mut bytes = 0;
    for stream in &script.streams {
        let received_stream = connection.streams.remove(&stream.id).unwrap_or_default();
        bytes += received_stream.body.len();
        let old = &expected.first[stream.request];
        let new = &expected.second[stream.request];
        let is_required = stream.id <= last_required && has_room;
        let fault = if is_newer {
            Some(String::new())
        } else {
            received_stream.check(stream, old, is_required).err()
        };
        if let Some(fault) = fault {
            received_stream.check(stream, new, is_required).map_err(|other| {
                format!("stream {} of the old release {fault:?}, of the new one {other:?}", stream.id)
            })?;
            is_newer = old != new && !received_stream.fields.is_empty();
        }
    }

    if let Some(id) = connection.streams.keys().next() {
        return Err(format!("a response on stream {id}, which the peer did not open"));
    }
    if bytes as u64 > script.window {
        return Err(format!("{bytes} bytes in a window of {}", script.window));
    }
    Ok(())
}

/// State of a connection, from the frames that the peer received.
struct Received {
    decoder: Decoder<'static>,
    /// The smallest table size that the server has acknowledged.
    table_bytes_min: u32,
    has_frames: bool,
    settings_acked: usize,
    pings_acked: usize,
    /// The last stream ID of the most recent GOAWAY.
    last: u32,
    /// Its error code.
    code: Option<u32>,
    streams: BTreeMap<u32, ReceivedStream>,
}

impl Default for Received {
    fn default() -> Received {
        const TABLE_BYTES: u32 = 4096;
        let mut decoder = Decoder::new();
        decoder.set_max_allowed_table_size(TABLE_BYTES as usize);
        Received {
            decoder,
            table_bytes_min: TABLE_BYTES,
            has_frames: false,
            settings_acked: 0,
            pings_acked: 0,
            last: ANY_STREAM,
            code: None,
            streams: BTreeMap::new(),
        }
    }
}

/// State of a stream, from the frames that the peer received.
#[derive(Debug, Default)]
struct ReceivedStream {
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    is_ended: bool,
    reset: Option<u32>,
}

impl Received {
    fn take(&mut self, frame: &Frame, script: &Script) -> Result<(), String> {
        if !std::mem::replace(&mut self.has_frames, true) && (frame.kind != SETTINGS || frame.has(ACK)) {
            return Err("precedes SETTINGS".into());
        }
        if frame.payload.len() > PAYLOAD_BYTES_MAX {
            return Err("exceeds SETTINGS_MAX_FRAME_SIZE".into());
        }
        match frame.kind {
            SETTINGS if frame.has(ACK) => self.take_settings_ack(script),
            PING if frame.has(ACK) => {
                let is_next =
                    script.pings.get(self.pings_acked).is_some_and(|payload| frame.payload == *payload);
                self.pings_acked += 1;
                if is_next { Ok(()) } else { Err("doesn't acknowledge the next PING".into()) }
            }
            SETTINGS | PING | WINDOW_UPDATE => Ok(()),
            GOAWAY => self.take_goaway(frame, script),
            HEADERS | DATA | RST_STREAM => self.take_stream_frame(frame),
            _ => Err("a server doesn't send this frame".into()),
        }
    }

    /// Applies the table size of the acknowledged SETTINGS because later header blocks must respect it.
    fn take_settings_ack(&mut self, script: &Script) -> Result<(), String> {
        let table =
            script.tables.get(self.settings_acked).ok_or("acknowledges SETTINGS that were not sent")?;
        self.settings_acked += 1;
        if let Some(bytes) = *table {
            self.decoder.set_max_allowed_table_size(bytes as usize);
            if bytes < self.table_bytes_min {
                self.table_bytes_min = bytes;
                self.decoder.set_max_table_size(bytes as usize);
            }
        }
        Ok(())
    }

    fn take_goaway(&mut self, frame: &Frame, script: &Script) -> Result<(), String> {
        if frame.payload.len() < 8 {
            return Err("too short".into());
        }
        let last = frame.number(0);
        let code = frame.number(4);
        if last > self.last {
            return Err("raises the last stream ID".into());
        }
        if code != 0 && Some(code) != script.fault {
            return Err("an error code that the script doesn't cause".into());
        }
        (self.last, self.code) = (last, Some(code));
        Ok(())
    }

    fn take_stream_frame(&mut self, frame: &Frame) -> Result<(), String> {
        let stream = self.streams.entry(frame.stream).or_default();
        if stream.reset.is_some() {
            return Err("follows RST_STREAM".into());
        }

        if frame.kind == RST_STREAM {
            if frame.payload.len() != 4 {
                return Err("has the wrong length".into());
            }
            stream.reset = Some(frame.number(0));
            return Ok(());
        }

        if stream.is_ended {
            return Err("follows END_STREAM".into());
        }
        stream.is_ended = frame.has(END_STREAM);

        match (frame.kind == HEADERS, stream.fields.is_empty()) {
            (true, true) if frame.has(END_HEADERS) => {
                let fields = self.decoder.decode(&frame.payload).map_err(|error| format!("{error:?}"))?;
                let text = |bytes| String::from_utf8(bytes).map_err(|error| error.to_string());
                for (name, value) in fields {
                    stream.fields.push((text(name)?, text(value)?));
                }
                stream.fields.sort();
                Ok(())
            }
            (false, false) => {
                stream.body.extend_from_slice(&frame.payload);
                Ok(())
            }
            _ => Err("an unexpected frame on this stream".into()),
        }
    }
}

impl ReceivedStream {
    /// Compares the stream with the expected response.
    ///
    /// # Errors
    /// Returns an error if it is neither that response nor a permitted prefix of it.
    fn check(&self, stream: &Stream, expected: &Response, is_required: bool) -> Result<(), String> {
        let has_fields = !self.fields.is_empty();
        if has_fields && self.fields != expected.fields {
            return Err(format!("its fields are {:?}, not {:?}", self.fields, expected.fields));
        }
        if !expected.body.starts_with(&self.body) {
            return Err(format!("its body is {}", self.body[..self.body.len().min(100)].escape_ascii()));
        }

        let is_whole = has_fields && self.body.len() == expected.body.len();
        if self.is_ended != is_whole && !(is_whole && expected.body.is_empty()) {
            return Err(format!("it has {} bytes, and END_STREAM: {}", self.body.len(), self.is_ended));
        }
        if self.body.len() as u64 > stream.window_max {
            return Err(format!("it has {} bytes in a window of {}", self.body.len(), stream.window_max));
        }

        match (stream.fate, self.reset) {
            (Fate::Answered, None) => {
                let least = stream.window_final.min(expected.body.len() as u64);
                if is_required && (!has_fields || (self.body.len() as u64) < least) {
                    return Err(format!("it ends after {} of {} bytes", self.body.len(), least));
                }
                Ok(())
            }
            (Fate::Reset, None) => Ok(()),
            (Fate::Malformed(code) | Fate::WrongLength(code), Some(reset)) if code == reset => {
                let is_answered = has_fields && matches!(stream.fate, Fate::Malformed(_));
                if is_answered { Err("a malformed request has a response".into()) } else { Ok(()) }
            }
            (Fate::Malformed(_) | Fate::WrongLength(_), None) if !is_required => Ok(()),
            (_, reset) => Err(format!("its reset is {reset:?}")),
        }
    }
}
