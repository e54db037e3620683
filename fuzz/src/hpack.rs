//! HPACK, decoded and encoded, against `loona-hpack`.
//!
//! It checks two promises: both decoders decode a sequence of blocks to the same fields, or both refuse it;
//! and the other decoder gets the right fields from our blocks, whatever was sent before and whatever table
//! size the peer sets.

use cannery_archive::{NO_LINE_ID, NewHpackLine};
use cannery_wire::hpack::{DecodeError, Decoder, EncoderTable, Field, List, encode_line};
use cannery_wire::limits::HPACK_TABLE_BYTES;
use loona_hpack::Decoder as OtherDecoder;
use loona_hpack::decoder::DecoderError;

/// Fields as names and values.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Decodes a sequence of blocks, each after a byte with its length.
pub fn hpack(data: &[u8]) {
    let (mut ours, mut other) = (Decoder::new(), OtherDecoder::new());
    other.set_max_allowed_table_size(HPACK_TABLE_BYTES);
    let mut rest = data;
    let mut strings = Vec::new();
    while let Some((length, after)) = rest.split_first() {
        let (block, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;

        let mut fields: Fields = Vec::new();
        let list = ours.decode(block, &mut strings, |field: Field<'_>| {
            fields.push((field.name_text.to_vec(), field.value.to_vec()));
        });

        match (list, other.decode(block)) {
            (Ok(List::Whole), Ok(expected)) => assert_eq!(fields, expected, "{block:x?}"),
            // Fields beyond the limit are decoded, but not returned.
            (Ok(List::TooLarge), Ok(expected)) => assert!(expected.starts_with(&fields), "{block:x?}"),
            (Err(_), Err(_)) => return,
            // RFC 7541 §4.2: size updates come first in a block. The other decoder accepts them anywhere.
            (Err(DecodeError::TableSize), Ok(_)) => return,
            // A block of size updates without fields.
            (Ok(_), Err(DecoderError::SizeUpdateAtEnd)) => return,
            (got, expected) => panic!("{got:?} instead of {expected:?}: {block:x?}"),
        }
    }
}

/// Encodes the blocks of one connection: three bytes for each line, or for each SETTINGS of the peer's.
pub fn hpack_encoder(data: &[u8]) {
    let (mut table, mut other) = (EncoderTable::new(), OtherDecoder::new());
    for [operation, archive, id] in data.as_chunks().0 {
        if *operation == 0 {
            let [smallest, last] = [archive, id].map(|number| u32::from(*number) * 20);
            table.set_size_max(smallest.min(last), last);
            // RFC 7541 §4.2: the peer accepts no larger size from now on.
            other.set_max_allowed_table_size(HPACK_TABLE_BYTES.min(last as usize));
            continue;
        }

        // The meaning of a line ID depends on the archive.
        let (number, identity) = (u16::from(archive & 1), u64::from(archive >> 1 & 3));
        let value = format!("{identity} {}", "x".repeat(usize::from(*id)));
        let (ours, own) = (
            encode_line(id & 63, "x-line", value.as_bytes()),
            encode_line(56 | id & 7, "server", &[b'0' + (id & 7)]),
        );

        let mut block = Vec::new();
        table.begin_block(&mut block, number, identity);
        // An ID always means the same line of an archive, so that the value depends on the ID alone.
        let first = encode_line(id & 63, "x-line", format!("{identity} {}", id & 63).as_bytes());
        table.put_archive_line(&mut block, first.as_line());
        table.put_server_line(&mut block, own.as_line());
        let literal = NewHpackLine { id: NO_LINE_ID, ..ours };
        table.put_archive_line(&mut block, literal.as_line());

        let pair = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), value.to_vec());
        let expected = vec![
            pair("x-line", format!("{identity} {}", id & 63).as_bytes()),
            pair("server", &[b'0' + (id & 7)]),
            pair("x-line", value.as_bytes()),
        ];

        let got = other.decode(&block).unwrap_or_else(|error| panic!("{error:?}: {block:x?}"));
        assert_eq!(got, expected, "{block:x?}");
    }
}
