//! Tests with the examples of RFC 9204 appendix B and with invalid bytes, and a comparison of the decoder to a simple table.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::compression::hpack::put_string;
use crate::compression::qpack::put_field;

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u8> = hexadecimal.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn print(field: &Field<'_>) -> String {
    assert_eq!(field.name, Name::from_bytes(field.name_text));
    let [name, value] = [field.name_text, field.value].map(String::from_utf8_lossy);
    format!("{name}: {value}")
}

/// Decodes a section. Each field becomes `name: value`.
fn fields(decoder: &Decoder, section: &[u8]) -> Result<(Vec<String>, Option<InsertCount>), Error> {
    let mut fields = Vec::new();
    let decoded = decoder.decode(section, &mut Vec::new(), |field| fields.push(print(&field)))?;
    assert_eq!(decoded.list, List::Whole);
    Ok((fields, decoded.uses_table))
}

fn read(decoder: &mut Decoder, hexadecimal: &str) -> Result<(), Error> {
    decoder.read_encoder_stream(&bytes(hexadecimal), &mut Vec::new())
}

fn table(decoder: &Decoder) -> Vec<String> {
    decoder.table.fields().map(|field| print(&field)).collect()
}

#[test]
fn examples_of_the_appendix() {
    // From RFC 9204 appendix B.1.
    let mut decoder = Decoder::new();
    let section = bytes("0000 510b 2f69 6e64 6578 2e68 746d 6c");
    assert_eq!(fields(&decoder, &section), Ok((vec![":path: /index.html".to_owned()], None)));

    // B.2.
    read(&mut decoder, "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d").unwrap();
    read(&mut decoder, "c10c 2f73 616d 706c 652f 7061 7468").unwrap();
    assert_eq!(table(&decoder), [":path: /sample/path", ":authority: www.example.com"]);
    let (found, uses_table) = fields(&decoder, &bytes("0381 10 11")).unwrap();
    assert_eq!(found, [":authority: www.example.com", ":path: /sample/path"]);
    let mut out = Vec::new();
    decoder.acknowledge(&mut out, 4, uses_table.unwrap());
    assert_eq!(out, [0x84]);

    // B.3.
    read(&mut decoder, "4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565").unwrap();
    decoder.acknowledge_insertions(&mut out);
    assert_eq!(out, [0x84, 0x01]);
    decoder.acknowledge_insertions(&mut out);
    assert_eq!(out.len(), 2, "nothing new has arrived");

    // B.4.
    read(&mut decoder, "02").unwrap();
    let (found, uses_table) = fields(&decoder, &bytes("0500 80 c1 81")).unwrap();
    assert_eq!(found, [":authority: www.example.com", ":path: /", "custom-key: custom-value"]);
    assert_eq!(uses_table, Some(InsertCount(4)));
    out.clear();
    decoder.cancel(&mut out, 8);
    assert_eq!(out, [0x48]);

    // B.5.
    read(&mut decoder, "810d 6375 7374 6f6d 2d76 616c 7565 32").unwrap();
    assert_eq!(
        table(&decoder),
        [
            "custom-key: custom-value2",
            ":authority: www.example.com",
            "custom-key: custom-value",
            ":path: /sample/path",
        ]
    );
}

#[test]
fn invalid_sections_are_errors() {
    let mut decoder = Decoder::new();
    // Set the capacity to 96 and insert `:authority: a` three times, so that the first one is evicted.
    read(&mut decoder, "3f41 c001 61 c001 61 c001 61").unwrap();
    for (section, fault) in [
        ("", Fault::Truncated),
        ("00", Fault::Truncated),
        ("0000 51", Fault::Truncated),
        ("0000 510b 2f", Fault::Truncated),
        ("0000 ff24", Fault::Index), // Static index 99.
        ("0000 80", Fault::Index),   // Relative index 0, with Base 0.
        ("0000 10", Fault::Index),   // Post-base index 0, with no Required Insert Count.
        ("0400 82", Fault::Index),   // Evicted.
        ("0300 83", Fault::Index),   // Before the first.
        ("0381 12", Fault::Index),   // At the Required Insert Count.
        ("0500", Fault::Blocked),
        ("8400", Fault::Blocked),   // As many above the insert count as entries fit.
        ("8500", Fault::Prefix),    // One more.
        ("ff02 00", Fault::Prefix), // Beyond the full range.
        ("0083", Fault::Prefix),    // The Base is negative.
        ("0384", Fault::Prefix),
        ("0000 2381 61 00 61", Fault::Truncated),
        ("0000 29ff 00", Fault::Huffman),
        ("00ff ffff ffff ffff ffff ffff", Fault::Integer),
    ] {
        assert_eq!(fields(&decoder, &bytes(section)), Err(Error::FieldSection(fault)), "{section}");
    }

    // Two of three entries are left.
    assert_eq!(fields(&decoder, &bytes("0400 80")).unwrap().0, [":authority: a"]);
}

#[test]
fn invalid_instructions_are_errors() {
    for (instructions, fault) in [
        ("3fe2 1f", Fault::Capacity),           // 4,097.
        ("c001 61", Fault::EntryTooLarge),      // The capacity is 0.
        ("3f02 c001 61", Fault::EntryTooLarge), // The capacity is 33, and the entry 43.
        ("3fe1 1f ff24 00", Fault::Index),      // Static index 99.
        ("3fe1 1f 80 00", Fault::Index),        // No entry.
        ("3fe1 1f 00", Fault::Index),
        ("3fe1 1f 61 ff 00", Fault::Huffman),
        ("3fff ffff ffff ffff ffff ff", Fault::Integer),
    ] {
        let mut decoder = Decoder::new();
        assert_eq!(read(&mut decoder, instructions), Err(Error::EncoderStream(fault)), "{instructions}");
    }
}

#[test]
fn incomplete_instructions_are_bounded() {
    let mut decoder = Decoder::new();
    // Set the capacity to 4,096, followed by a name of 2^28 bytes.
    read(&mut decoder, "3fe1 1f 5fe1 ffff 7f").unwrap();
    let more = [b'a'; 1024];
    let result = (0..32).try_for_each(|_| decoder.read_encoder_stream(&more, &mut Vec::new()));
    assert_eq!(result, Err(Error::EncoderStream(Fault::EntryTooLarge)));
}

#[test]
fn large_sections_are_cut_and_bombs_refused() {
    let mut decoder = Decoder::new();
    let mut stream = bytes("3fe1 1f");
    put_string(&mut stream, 0x40, 5, b"x");
    put_string(&mut stream, 0, 7, &[b'~'; 4000]);
    decoder.read_encoder_stream(&stream, &mut Vec::new()).unwrap();

    let decode = |count: usize| {
        let section: Vec<u8> = [2, 0].into_iter().chain(std::iter::repeat_n(0x80, count)).collect();
        let mut taken = 0;
        let decoded = decoder.decode(&section, &mut Vec::new(), |_| taken += 1);
        decoded.map(|section| (section.list, taken))
    };
    assert_eq!(decode(4), Ok((List::Whole, 4)));
    assert_eq!(decode(5), Ok((List::TooLarge, 4)));
    assert_eq!(decode(100), Err(Error::TooLarge));
}

/// A QPACK encoder. It remembers everything that was ever in its table.
#[derive(Debug, Default)]
struct Model {
    /// All entries that were ever inserted.
    entries: Vec<(String, String)>,
    /// Absolute indices of all entries that are left, oldest first.
    kept: VecDeque<usize>,
    capacity: usize,
    stream: Vec<u8>,
}

impl Model {
    fn size(entry: &(String, String)) -> usize {
        entry.0.len() + entry.1.len() + 32
    }

    fn set_capacity(&mut self, capacity: usize) {
        integer::put(&mut self.stream, 0x20, 5, capacity as u64);
        self.capacity = capacity;
        self.evict(0);
    }

    fn evict(&mut self, room: usize) {
        let size = |kept: &VecDeque<usize>| {
            kept.iter().map(|index| Model::size(&self.entries[*index])).sum::<usize>()
        };
        while size(&self.kept) + room > self.capacity {
            self.kept.pop_front().unwrap();
        }
    }

    /// Inserts an entry if it fits. This can refer to an earlier entry if `refer` allows that.
    fn insert(&mut self, name: &str, value: &str, refer: bool) {
        let entry = (name.to_owned(), value.to_owned());
        if Model::size(&entry) > self.capacity {
            return;
        }
        let relative = |index: usize| (self.entries.len() - 1 - index) as u64;
        let whole = self.kept.iter().find(|index| self.entries[**index] == entry);
        let named = self.kept.iter().find(|index| self.entries[**index].0 == entry.0);
        let fixed = STATIC_TABLE.iter().position(|field| field.name_text == name.as_bytes());

        match (whole.filter(|_| refer), named.filter(|_| refer), fixed.filter(|_| refer)) {
            (Some(whole), ..) => integer::put(&mut self.stream, 0, 5, relative(*whole)),
            (_, Some(named), _) => {
                integer::put(&mut self.stream, 0x80, 6, relative(*named));
                put_string(&mut self.stream, 0, 7, value.as_bytes());
            }
            (_, _, Some(fixed)) => {
                integer::put(&mut self.stream, 0xc0, 6, fixed as u64);
                put_string(&mut self.stream, 0, 7, value.as_bytes());
            }
            _ => {
                put_string(&mut self.stream, 0x40, 5, name.as_bytes());
                put_string(&mut self.stream, 0, 7, value.as_bytes());
            }
        }

        self.evict(Model::size(&entry));
        self.kept.push_back(self.entries.len());
        self.entries.push(entry);
    }

    /// Encodes fields. The Base is at this absolute index.
    fn section(&self, fields: &[(String, String)], base: usize) -> Vec<u8> {
        let mut lines = Vec::new();
        let mut required = 0;
        let mut refer = |lines: &mut Vec<u8>, index: usize, before: (u8, u32), after: (u8, u32)| {
            required = required.max(index + 1);
            if index < base {
                integer::put(lines, before.0, before.1, (base - 1 - index) as u64);
            } else {
                integer::put(lines, after.0, after.1, (index - base) as u64);
            }
        };
        for field in fields {
            let whole = self.kept.iter().find(|index| self.entries[**index] == *field);
            let named = self.kept.iter().find(|index| self.entries[**index].0 == field.0);
            match (whole, named) {
                (Some(whole), _) => refer(&mut lines, *whole, (0x80, 6), (0x10, 4)),
                (None, Some(named)) => {
                    refer(&mut lines, *named, (0x40, 4), (0, 3));
                    put_string(&mut lines, 0, 7, field.1.as_bytes());
                }
                (None, None) => put_field(&mut lines, &field.0, field.1.as_bytes()),
            }
        }

        let mut section = Vec::new();
        if required == 0 {
            section.extend_from_slice(&[0, 0]);
        } else {
            integer::put(&mut section, 0, 8, required as u64 % (2 * ENTRIES_MAX) + 1);
            if base >= required {
                integer::put(&mut section, 0, 7, (base - required) as u64);
            } else {
                integer::put(&mut section, 0x80, 7, (required - base - 1) as u64);
            }
        }
        section.extend(lines);
        section
    }
}

/// A step of an encoder.
#[derive(Debug, Clone)]
enum Step {
    SetCapacity(usize),
    Insert { field: (String, String), refer: bool },
    Section { fields: Vec<(String, String)>, base: prop::sample::Index },
}

fn field() -> impl Strategy<Value = (String, String)> {
    let name = prop_oneof![Just(":path".to_owned()), Just("accept".to_owned()), "[a-d]", "x-[a-z]{1,9}"];
    (name, prop_oneof!["[ab]", "[ -~]{0,40}", "[a-z]{200,300}"])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => prop_oneof![Just(0_usize), 0..=QPACK_TABLE_BYTES, Just(QPACK_TABLE_BYTES)].prop_map(Step::SetCapacity),
        20 => (field(), any::<bool>()).prop_map(|(field, refer)| Step::Insert { field, refer }),
        5 => (prop::collection::vec(field(), 0..6), any::<prop::sample::Index>())
            .prop_map(|(fields, base)| Step::Section { fields, base }),
    ]
}

proptest! {
    #[test]
    fn decoding_reverses_encoding(steps in prop::collection::vec(step(), 0..400), cut in 1_usize..40) {
        let mut model = Model::default();
        model.set_capacity(QPACK_TABLE_BYTES);
        let mut decoder = Decoder::new();
        let mut strings = Vec::new();
        for step in steps {
            match step {
                Step::SetCapacity(capacity) => model.set_capacity(capacity),
                Step::Insert { field: (name, value), refer } => model.insert(&name, &value, refer),
                Step::Section { fields: sent, base } => {
                    for piece in mem::take(&mut model.stream).chunks(cut) {
                        decoder.read_encoder_stream(piece, &mut strings).unwrap();
                    }
                    let base = base.index(model.entries.len() + 1);
                    let sent_text: Vec<_> = sent.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                    let (found, _) = fields(&decoder, &model.section(&sent, base)).unwrap();
                    prop_assert_eq!(found, sent_text);
                }
            }
        }
    }

    #[test]
    fn no_bytes_cause_a_panic(stream in prop::collection::vec(any::<u8>(), 0..200), section in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut decoder = Decoder::new();
        let mut strings = Vec::new();
        let is_valid = decoder.read_encoder_stream(&[&[0x3f, 0xe1, 0x1f], &stream[..]].concat(), &mut strings).is_ok();
        if is_valid {
            let _ = decoder.decode(&section, &mut strings, |_| {});
        }
        prop_assert!(decoder.table.fields().map(|field| field.size()).sum::<usize>() <= QPACK_TABLE_BYTES);
    }
}
