//! Header blocks of HTTP/2, read and written, against `loona-hpack`.
//!
//! Two promises: a sequence of blocks is read as the other decoder reads it, or refused by both; and what we send, whatever
//! was sent before and whatever table the peer wishes, is read by the other decoder as it was meant.

use cannery_archive::{NO_LINE_ID, NewHpackLine};
use cannery_wire::hpack::{DecodeError, Decoder, EncoderTable, Field, List, encode_line};
use cannery_wire::limits::HPACK_TABLE_BYTES;
use loona_hpack::Decoder as ForeignDecoder;
use loona_hpack::decoder::DecoderError;

/// Fields as names and values.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Blocks one behind the other, each behind a byte that tells its length.
pub fn hpack(data: &[u8]) {
    let (mut ours, mut foreign) = (Decoder::new(), ForeignDecoder::new());
    foreign.set_max_allowed_table_size(HPACK_TABLE_BYTES);
    let (mut rest, mut strings) = (data, Vec::new());
    while let Some((length, behind)) = rest.split_first() {
        let (block, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = behind;
        let mut fields: Fields = Vec::new();
        let list = ours.decode(block, &mut strings, |field: Field<'_>| {
            fields.push((field.name_text.to_vec(), field.value.to_vec()));
        });
        match (list, foreign.decode(block)) {
            (Ok(List::Whole), Ok(expected)) => assert_eq!(fields, expected, "{block:x?}"),
            // Fields beyond the limit are read and not handed over.
            (Ok(List::TooLarge), Ok(expected)) => assert!(expected.starts_with(&fields), "{block:x?}"),
            (Err(_), Err(_)) => return,
            // RFC 7541 §4.2: a size stands at the beginning of a block. The other reads it anywhere.
            (Err(DecodeError::TableSize), Ok(_)) => return,
            // A block of sizes alone, which has no fields either way.
            (Ok(_), Err(DecoderError::SizeUpdateAtEnd)) => return,
            (got, expected) => panic!("{got:?}, and not {expected:?}: {block:x?}"),
        }
    }
}

/// What is sent on one connection: three bytes for each line, or for each wish of the peer's.
pub fn hpack_encoder(data: &[u8]) {
    let (mut table, mut foreign) = (EncoderTable::new(), ForeignDecoder::new());
    for [what, archive, id] in data.as_chunks().0 {
        if *what == 0 {
            let [least, last] = [archive, id].map(|number| u32::from(*number) * 20);
            table.set_size_max(least.min(last), last);
            // A peer that knows RFC 7541 §4.2 takes no larger size from now on.
            foreign.set_max_allowed_table_size(HPACK_TABLE_BYTES.min(last as usize));
            continue;
        }
        // What the number of a line stands for depends on the archive that is answered from.
        let (number, identity) = (u16::from(archive & 1), u64::from(archive >> 1 & 3));
        let value = format!("{identity} {}", "x".repeat(usize::from(*id)));
        let (ours, own) = (
            encode_line(id & 63, "x-line", value.as_bytes()),
            encode_line(56 | id & 7, "server", &[b'0' + (id & 7)]),
        );
        let mut block = Vec::new();
        table.begin_block(&mut block, number, identity);
        // The same number always stands for the same line of an archive: only the value of the first is sent.
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
        let got = foreign.decode(&block).unwrap_or_else(|error| panic!("{error:?}: {block:x?}"));
        assert_eq!(got, expected, "{block:x?}");
    }
}
