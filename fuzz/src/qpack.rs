//! QPACK, decoded and encoded.
//!
//! It checks three promises: the decoder's result doesn't depend on how the encoder stream is split; fields that it returns
//! are those of the same lines encoded again; and our decoder gets the right fields from our sections, whenever the
//! instructions and acknowledgments arrive.
//!
//! Both sides are ours, so that a misreading of RFC 9204 in both would pass. `fuzz/tests/ls_qpack.rs` compares each with ls-qpack.

use cannery_archive::{NO_LINE_ID, NewQpackLine};
use cannery_testkit::Choices;
use cannery_wire::hpack::{Field, List};
use cannery_wire::qpack::{Decoder, EncoderTable, Error, FieldSection, encode_line, put_field};

/// Fields as names and values.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads an encoder stream and field sections: each is a byte with its kind, and a byte with its length.
pub fn qpack(data: &[u8]) {
    let (mut whole, mut pieced) = (Decoder::new(), Decoder::new());
    let mut strings = Vec::new();
    let mut choices = Choices::new(data);
    while let Some(kind) = choices.operation() {
        let bytes = choices.bytes();
        if kind % 2 == 0 {
            let read = whole.read_encoder_stream(bytes, &mut strings);
            let read_pieced =
                bytes.chunks(1).try_for_each(|piece| pieced.read_encoder_stream(piece, &mut strings));
            assert_eq!(read.is_ok(), read_pieced.is_ok(), "{bytes:x?}");
            if read.is_err() {
                return;
            }
            continue;
        }

        let (section, fields) = decode(&whole, bytes);
        assert_eq!((section, fields.clone()), decode(&pieced, bytes), "{bytes:x?}");
        if section.is_ok_and(|section| section.list == List::Whole) {
            check_encoded_again(&fields);
        }
    }
}

/// Decodes a section. Returns its fields as well.
fn decode(decoder: &Decoder, section: &[u8]) -> (Result<FieldSection, Error>, Fields) {
    let mut fields = Vec::new();
    let decoded = decoder.decode(section, &mut Vec::new(), |field: Field<'_>| {
        fields.push((field.name_text.to_vec(), field.value.to_vec()));
    });
    (decoded, fields)
}

/// Checks that fields are the same after they were encoded without a table.
fn check_encoded_again(fields: &Fields) {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        // Names of ours are text in lower case.
        let Ok(name) = str::from_utf8(name) else { return };
        if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return;
        }
        put_field(&mut section, name, value);
    }
    let (decoded, again) = decode(&Decoder::new(), &section);
    assert!(decoded.is_ok() && again == *fields, "{again:x?} instead of {fields:x?}");
}

/// Encodes the sections of one connection.
pub fn qpack_encoder(data: &[u8]) {
    let (mut table, mut peer) = (EncoderTable::new(), Decoder::new());
    let mut instructions = Vec::new();
    let mut acknowledgments = Vec::new();
    let mut choices = Choices::new(data);

    table.set_peer_settings(u64::from(choices.byte()) * 20);
    while let Some(operation) = choices.operation() {
        match operation % 4 {
            0 => {
                let arrived: Vec<u8> = take(&mut instructions, choices.byte());
                peer.read_encoder_stream(&arrived, &mut Vec::new()).expect("our instructions are valid");
                peer.acknowledge_insertions(&mut acknowledgments);
            }
            1 => {
                let arrived: Vec<u8> = take(&mut acknowledgments, choices.byte());
                table.read_decoder_stream(&arrived).expect("the peer's acknowledgments are valid");
            }
            _ => {
                let [archive, id] = [choices.byte(), choices.byte()];
                let (section, expected) = encode(&mut table, archive, id);
                instructions.extend(table.take_encoder_stream());
                let (decoded, fields) = decode(&peer, &section);
                let decoded = decoded.unwrap_or_else(|error| panic!("{error}: {section:x?}"));
                assert_eq!(fields, expected, "{section:x?}");
                if let Some(count) = decoded.uses_table {
                    peer.acknowledge(&mut acknowledgments, 0, count);
                }
            }
        }
    }

    // A peer may also acknowledge what it has not received.
    let mut table = EncoderTable::new();
    table.set_peer_settings(4096);
    let _ = table.read_decoder_stream(data);
}

/// Encodes a section of three lines, and returns it with its fields.
fn encode(table: &mut EncoderTable, archive: u8, id: u8) -> (Vec<u8>, Fields) {
    // The meaning of a line ID depends on the archive.
    let (number, identity) = (u16::from(archive & 1), u64::from(archive >> 1 & 3));
    let line_value = format!("{identity} {}", "x".repeat(usize::from(id & 63)));
    let shared = encode_line(id & 63, "x-line", line_value.as_bytes());
    let own_value = [b'0' + (id & 7)];
    let own = encode_line(56 | id & 7, "server", &own_value);
    let literal = NewQpackLine { id: NO_LINE_ID, ..shared.clone() };

    let mut section = Vec::new();
    table.begin_section(&mut section, number, identity);
    table.put_archive_line(&mut section, shared.as_line());
    table.put_server_line(&mut section, own.as_line());
    table.put_archive_line(&mut section, literal.as_line());
    table.end_section(&mut section);

    let line = (b"x-line".to_vec(), line_value.into_bytes());
    (section, vec![line.clone(), (b"server".to_vec(), own_value.to_vec()), line])
}

/// Takes up to this number of bytes.
fn take(bytes: &mut Vec<u8>, length: u8) -> Vec<u8> {
    let length = usize::from(length).min(bytes.len());
    bytes.drain(..length).collect()
}
