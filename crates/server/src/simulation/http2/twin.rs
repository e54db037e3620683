//! What a peer of HTTP/2 must have received: on each stream the answer of a connection that nothing disturbs, or the
//! beginning of it where the peer or the network is in the way.

use std::collections::BTreeMap;

use cannery_eventloop::simulated::{self, ReadRate};
use loona_hpack::Decoder;

use super::super::script::Ending;
use super::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    begins,
};
use super::requests::{Answer, Expected};
use super::script::{Fate, Script, Stream};

/// What our frames hold at most: what each peer takes that has not said otherwise (RFC 9113 §4.2).
const PAYLOAD_BYTES_MAX: usize = 16_384;

/// The last stream of a GOAWAY that only announces another (RFC 9113 §6.8).
const ANY_STREAM: u32 = 0x7fff_ffff;

/// Holds what a peer received against what it must have.
pub(super) fn check(
    script: &Script,
    received: &[u8],
    fate: simulated::ConnectionState,
    expected: &Expected,
    stopped: bool,
) -> Result<(), String> {
    let is_late = script.is_cut || script.dawdles || stopped;
    if is_late && (received.starts_with(b"HTTP/1.1 408 ") || b"HTTP/1.1 408 ".starts_with(received)) {
        // So slow that nobody could tell yet what it speaks.
        return Ok(());
    }
    let mut seen = Seen::default();
    let mut rest = received;
    while let Some(frame) = Frame::take(&mut rest) {
        seen.take(frame, script).map_err(|fault| format!("{fault}: {frame:?}"))?;
    }
    let is_open =
        fate == simulated::ConnectionState::Open && script.appetite == ReadRate::Unlimited && !stopped;
    if is_open {
        return Err("the connection was left open".into());
    }
    // Who is told the end, but has no room for it, sees the end itself. Settings come with it where nothing came before.
    let may_be_cut = if seen.is_begun { GOAWAY } else { SETTINGS };
    let is_disturbed = script.ending == Ending::Resets
        || script.dawdles
        || script.appetite != ReadRate::Unlimited
        || stopped && fate != simulated::ConnectionState::Closed;
    if !rest.is_empty() && !is_disturbed && !begins(rest, may_be_cut) {
        return Err(format!("half a frame: {}", rest.escape_ascii()));
    }
    let is_whole = !is_disturbed && !script.is_cut && !stopped;
    if is_whole && (seen.settings_acked, seen.pings_acked) != (script.tables.len(), script.pings.len()) {
        return Err(format!("{} SETTINGS, {} PINGs answered", seen.settings_acked, seen.pings_acked));
    }
    if is_whole && script.fault.is_some() && seen.code != script.fault {
        return Err(format!("the connection ended with {:?}, not {:?}", seen.code, script.fault));
    }
    let owed = if is_disturbed || script.is_cut || script.fault.is_some() { 0 } else { seen.last };
    check_streams(script, &mut seen, expected, owed)
}

/// Holds all streams against the answers of the older release, then of the newer one, and never of the older again. Those
/// up to `owed` must be there, as far as windows allow.
fn check_streams(script: &Script, seen: &mut Seen, expected: &Expected, owed: u32) -> Result<(), String> {
    let bodies: usize = script.streams.iter().map(|stream| expected.first[stream.request].body.len()).sum();
    // Where the connection has room for all, no stream is in another's way.
    let has_room = script.window >= bodies as u64;
    let mut newer = false;
    let mut bytes = 0;
    for stream in &script.streams {
        let answered = seen.streams.remove(&stream.id).unwrap_or_default();
        bytes += answered.body.len();
        let (old, new) = (&expected.first[stream.request], &expected.second[stream.request]);
        let owes = stream.id <= owed && has_room;
        let fault = if newer { Some(String::new()) } else { answered.differs(stream, old, owes).err() };
        if let Some(fault) = fault {
            answered.differs(stream, new, owes).map_err(|other| {
                format!("stream {} of the old release {fault:?}, of the new one {other:?}", stream.id)
            })?;
            newer = old != new && !answered.fields.is_empty();
        }
    }
    if let Some(id) = seen.streams.keys().next() {
        return Err(format!("an answer on {id}, which was not asked for"));
    }
    if bytes as u64 > script.window {
        return Err(format!("{bytes} bytes in a window of {}", script.window));
    }
    Ok(())
}

/// What came on a connection.
struct Seen {
    decoder: Decoder<'static>,
    /// The smallest table that the server knows of.
    least_table: u32,
    is_begun: bool,
    settings_acked: usize,
    pings_acked: usize,
    /// The last stream and the error of the last GOAWAY.
    last: u32,
    code: Option<u32>,
    streams: BTreeMap<u32, LoggedRequest>,
}

impl Default for Seen {
    fn default() -> Seen {
        const TABLE_BYTES: u32 = 4096;
        let mut decoder = Decoder::new();
        decoder.set_max_allowed_table_size(TABLE_BYTES as usize);
        Seen {
            decoder,
            least_table: TABLE_BYTES,
            is_begun: false,
            settings_acked: 0,
            pings_acked: 0,
            last: ANY_STREAM,
            code: None,
            streams: BTreeMap::new(),
        }
    }
}

/// What came on a stream.
#[derive(Debug, Default)]
struct LoggedRequest {
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    is_ended: bool,
    reset: Option<u32>,
}

impl Seen {
    fn take(&mut self, frame: Frame<'_>, script: &Script) -> Result<(), String> {
        if !std::mem::replace(&mut self.is_begun, true) && (frame.kind != SETTINGS || frame.has(ACK)) {
            return Err("said before SETTINGS".into());
        }
        if frame.payload.len() > PAYLOAD_BYTES_MAX {
            return Err("too large".into());
        }
        match frame.kind {
            SETTINGS if frame.has(ACK) => self.take_settings_ack(script),
            PING if frame.has(ACK) => {
                let is_next = script.pings.get(self.pings_acked).is_some_and(|said| frame.payload == said);
                self.pings_acked += 1;
                if is_next { Ok(()) } else { Err("no answer to the next PING".into()) }
            }
            SETTINGS | PING | WINDOW_UPDATE => Ok(()),
            GOAWAY => self.take_go_away(frame, script),
            HEADERS | DATA | RST_STREAM => self.take_of_stream(frame),
            _ => Err("not what a server says".into()),
        }
    }

    /// From here on no header block needs a larger table than these SETTINGS allow.
    fn take_settings_ack(&mut self, script: &Script) -> Result<(), String> {
        let table = script.tables.get(self.settings_acked).ok_or("SETTINGS that were not sent")?;
        self.settings_acked += 1;
        if let Some(bytes) = *table {
            self.decoder.set_max_allowed_table_size(bytes as usize);
            if bytes < self.least_table {
                self.least_table = bytes;
                self.decoder.set_max_table_size(bytes as usize);
            }
        }
        Ok(())
    }

    fn take_go_away(&mut self, frame: Frame<'_>, script: &Script) -> Result<(), String> {
        let (last, code) = frame.number(0).zip(frame.number(4)).ok_or("too short")?;
        if last > self.last {
            return Err("more streams than were told before".into());
        }
        if code != 0 && Some(code) != script.fault {
            return Err("an error where there is no fault".into());
        }
        (self.last, self.code) = (last, Some(code));
        Ok(())
    }

    fn take_of_stream(&mut self, frame: Frame<'_>) -> Result<(), String> {
        let stream = self.streams.entry(frame.stream).or_default();
        if stream.reset.is_some() {
            return Err("behind its reset".into());
        }
        if frame.kind == RST_STREAM {
            stream.reset = frame.number(0);
            return Ok(());
        }
        if stream.is_ended {
            return Err("behind its end".into());
        }
        stream.is_ended = frame.has(END_STREAM);
        match (frame.kind == HEADERS, stream.fields.is_empty()) {
            (true, true) if frame.has(END_HEADERS) => {
                let fields = self.decoder.decode(frame.payload).map_err(|error| format!("{error:?}"))?;
                let text = |bytes| String::from_utf8(bytes).map_err(|error| error.to_string());
                for (name, value) in fields {
                    stream.fields.push((text(name)?, text(value)?));
                }
                stream.fields.sort();
                Ok(())
            }
            (false, false) => {
                stream.body.extend_from_slice(frame.payload);
                Ok(())
            }
            _ => Err("not what comes next".into()),
        }
    }
}

impl LoggedRequest {
    /// What is wrong, if this is to be an answer as on HTTP/1, or the beginning of it.
    fn differs(&self, stream: &Stream, answer: &Answer, owes: bool) -> Result<(), String> {
        let is_begun = !self.fields.is_empty();
        if is_begun && self.fields != answer.fields {
            return Err(format!("its fields are {:?}, not {:?}", self.fields, answer.fields));
        }
        if !answer.body.starts_with(&self.body) {
            return Err(format!("its body is {}", self.body[..self.body.len().min(100)].escape_ascii()));
        }
        let is_whole = is_begun && self.body.len() == answer.body.len();
        if self.is_ended != is_whole && !(is_whole && answer.body.is_empty()) {
            return Err(format!("it has {} bytes, and its end: {}", self.body.len(), self.is_ended));
        }
        if self.body.len() as u64 > stream.most_window {
            return Err(format!("it has {} bytes in a window of {}", self.body.len(), stream.most_window));
        }
        match (stream.fate, self.reset) {
            (Fate::LoggedRequest, None) => {
                let least = stream.least_window.min(answer.body.len() as u64);
                if owes && (!is_begun || (self.body.len() as u64) < least) {
                    return Err(format!("it is cut at {} of {} bytes", self.body.len(), least));
                }
                Ok(())
            }
            (Fate::Reset, None) => Ok(()),
            (Fate::Malformed(code) | Fate::Spoilt(code), Some(reset)) if code == reset => {
                let is_answered = is_begun && matches!(stream.fate, Fate::Malformed(_));
                if is_answered { Err("what is no request is answered".into()) } else { Ok(()) }
            }
            (Fate::Malformed(_) | Fate::Spoilt(_), None) if !owes => Ok(()),
            (_, reset) => Err(format!("its reset is {reset:?}")),
        }
    }
}
