//! Tests with the examples of RFC 7541 appendix C and with invalid blocks, and a comparison of the decoder to a simple table.

use proptest::prelude::*;

use super::*;
use crate::compression::hpack::put_field;
use crate::compression::huffman;

/// Decodes a block. Each field becomes `name: value`.
fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, DecodeError> {
    let mut fields = Vec::new();
    decoder.decode(block, &mut Vec::new(), |field| {
        assert_eq!(field.name, Name::from_bytes(field.name_text));
        let [name, value] = [field.name_text, field.value].map(String::from_utf8_lossy);
        fields.push(format!("{name}: {value}"));
    })?;
    Ok(fields)
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u8> = hexadecimal.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Returns the table's entries (newest first, as in the appendix) and its size.
fn table(decoder: &Decoder) -> (Vec<String>, usize) {
    let entries = (0..).map_while(|number| decoder.table.get(number));
    let entries: Vec<_> = entries.collect();
    let size = entries.iter().map(Field::size).sum();
    let print = |field: &Field<'_>| {
        let [name, value] = [field.name_text, field.value].map(String::from_utf8_lossy);
        format!("{name}: {value}")
    };
    (entries.iter().map(print).collect(), size)
}

#[test]
fn single_fields_of_the_appendix() {
    // From RFC 7541 appendix C.2.
    let literal_kept = bytes("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572");
    let mut decoder = Decoder::new();
    assert_eq!(fields(&mut decoder, &literal_kept).unwrap(), ["custom-key: custom-header"]);
    assert_eq!(table(&decoder), (vec!["custom-key: custom-header".to_owned()], 55));
    let mut decoder = Decoder::new();
    let unkept = [
        ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path"),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret"),
        ("82", ":method: GET"),
    ];
    for (block, field) in unkept {
        assert_eq!(fields(&mut decoder, &bytes(block)).unwrap(), [field]);
    }
    assert_eq!(table(&decoder), (vec![], 0));
}

#[test]
fn requests_of_the_appendix() {
    // From RFC 7541 appendix C.3 without Huffman code, and C.4 with it.
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let coded = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];

    for blocks in [plain, coded] {
        let mut decoder = Decoder::new();
        let [first, second, third] = blocks.map(|block| fields(&mut decoder, &bytes(block)).unwrap());
        assert_eq!(first, [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"]);
        assert_eq!(
            second,
            [
                ":method: GET",
                ":scheme: http",
                ":path: /",
                ":authority: www.example.com",
                "cache-control: no-cache"
            ]
        );
        assert_eq!(
            third,
            [
                ":method: GET",
                ":scheme: https",
                ":path: /index.html",
                ":authority: www.example.com",
                "custom-key: custom-value"
            ]
        );

        let left = ["custom-key: custom-value", "cache-control: no-cache", ":authority: www.example.com"];
        assert_eq!(table(&decoder), (left.map(String::from).to_vec(), 164));
    }
}

#[test]
fn responses_of_the_appendix_evict_old_entries() {
    // From RFC 7541 appendix C.5 (without Huffman code) and C.6 (with Huffman code). The table has 256 bytes.
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 \
         474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 \
         666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 \
         3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    let coded = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 \
         63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 \
         b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    let (first_date, second_date) =
        ("date: Mon, 21 Oct 2013 20:13:21 GMT", "date: Mon, 21 Oct 2013 20:13:22 GMT");
    let cookie = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    let caching = "cache-control: private";
    let location = "location: https://www.example.com";

    for blocks in [plain, coded] {
        let mut decoder = Decoder::new();
        decoder.table.set_size_max(256);
        let blocks = blocks.map(|block| fields(&mut decoder, &bytes(block)).unwrap());
        assert_eq!(blocks[0], [":status: 302", caching, first_date, location]);
        assert_eq!(blocks[1], [":status: 307", caching, first_date, location]);
        let third = [":status: 200", caching, second_date, location, "content-encoding: gzip", cookie];
        assert_eq!(blocks[2], third);

        let left = [cookie, "content-encoding: gzip", second_date];
        assert_eq!(table(&decoder), (left.map(String::from).to_vec(), 215));
    }
}

#[test]
fn forbidden_fields_are_flagged() {
    let is_well_formed = |name: &[u8], value: &[u8]| {
        let lengths = [name.len(), value.len()].map(|length| u8::try_from(length).unwrap());
        let block = [&[0x40, lengths[0]], name, &[lengths[1]], value, &[0xbe]].concat();
        let mut marks = Vec::new();
        Decoder::new().decode(&block, &mut Vec::new(), |field| marks.push(field.is_well_formed)).unwrap();
        assert_eq!(marks.len(), 2);
        assert_eq!(marks[0], marks[1], "the table keeps the flag");
        marks[0]
    };
    assert!(is_well_formed(b":path", b"/"));
    assert!(is_well_formed(b"x-a", b"b c"));
    assert!(!is_well_formed(b"X-a", b"b"));
    assert!(!is_well_formed(b"x-a", b"b\r\nc"));
    assert!(!is_well_formed(b":status", b"200"));
    let mut marks = Vec::new();
    Decoder::new().decode(&[0x88, 0x82], &mut Vec::new(), |field| marks.push(field.is_well_formed)).unwrap();
    assert_eq!(marks, [false, true], "requests must not have `:status` of the static table");
}

#[test]
fn invalid_blocks_are_refused() {
    let error = |block: &[u8]| fields(&mut Decoder::new(), block).unwrap_err();
    assert_eq!(error(&[0x80]), DecodeError::Index, "no field has the index 0");
    assert_eq!(error(&[0xbe]), DecodeError::Index, "the table is empty");
    assert_eq!(error(&[0x7e, 0]), DecodeError::Index, "nor does it have names");
    assert_eq!(error(&[0x3f, 0xe2, 0x1f]), DecodeError::TableSize, "4097 bytes");
    assert_eq!(error(&[0x82, 0x20]), DecodeError::TableSize, "after a field");
    assert_eq!(error(&[0x3f]), DecodeError::Truncated);
    assert_eq!(error(&[0x00, 0x81]), DecodeError::Truncated);
    assert_eq!(error(&[0x04, 0x82, 0xff, 0xff]), DecodeError::Huffman);
    assert_eq!(error(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), DecodeError::Number);
}

#[test]
fn smaller_table_evicts_the_oldest() {
    let mut decoder = Decoder::new();
    fields(&mut decoder, b"\x40\x01a\x01b\x40\x01c\x01d").unwrap();
    // 34 bytes for each: 34, then 4096 again.
    assert_eq!(fields(&mut decoder, &[0x3f, 3, 0x3f, 0xe1, 0x1f, 0xbe]).unwrap(), ["c: d"]);
    assert_eq!(fields(&mut decoder, &[0xbf]), Err(DecodeError::Index));
}

#[test]
fn field_larger_than_the_table_empties_it() {
    let mut decoder = Decoder::new();
    let large = [b"\x40\x01a\x01b\x40\x01c\x7f\xe1\x1e".as_slice(), &[b'x'; 4064]].concat();
    assert_eq!(fields(&mut decoder, &large).unwrap().len(), 2);
    assert_eq!(table(&decoder), (vec![], 0));
    assert_eq!(fields(&mut decoder, b"\x40\x01a\x01b\xbe").unwrap(), ["a: b", "a: b"]);
}

#[test]
fn name_outlives_its_evicted_entry() {
    // The new field's name is from an entry it evicts (RFC 7541 §4.4).
    let name = [b'n'; 4000];
    let first = [b"\x40\x7f\xa1\x1e".as_slice(), &name, b"\0"].concat();
    let mut decoder = Decoder::new();
    fields(&mut decoder, &first).unwrap();
    let again = [b"\x7e\x40".as_slice(), &[b'v'; 64]].concat();
    let expected = format!("{}: {}", "n".repeat(4000), "v".repeat(64));
    assert_eq!(fields(&mut decoder, &again).unwrap(), std::slice::from_ref(&expected));
    assert_eq!(table(&decoder), (vec![expected], 4096));
}

#[test]
fn decompression_bomb_differs_from_large_request() {
    let mut decoder = Decoder::new();
    let kept = [b"\x40\x01a\x7f\x80\x1e".as_slice(), &[b'x'; 3967]].concat();
    fields(&mut decoder, &kept).unwrap();
    let mut handed = 0;
    let list = decoder.decode(&[0xbe; 10], &mut Vec::new(), |field| handed += field.size());
    assert_eq!((list, handed), (Ok(List::TooLarge), 16_000));
    assert_eq!(decoder.decode(&[0xbe; 4], &mut Vec::new(), |_| {}), Ok(List::Whole));
    assert_eq!(decoder.decode(&[0xbe; 40], &mut Vec::new(), |_| {}), Err(DecodeError::TooLarge));
}

#[test]
fn table_memory_is_bounded() {
    let mut decoder = Decoder::new();
    assert_eq!(decoder.table.allocated_bytes(), 0);
    fields(&mut decoder, &[0x82, 0x84]).unwrap();
    assert_eq!(decoder.table.allocated_bytes(), 0, "nothing was inserted");
    for length in (0..4000_usize).chain([10; 1000]) {
        let mut block = b"\x40\x01a".to_vec();
        integer::put(&mut block, 0, 7, length as u64);
        block.resize(block.len() + length, b'v');
        fields(&mut decoder, &block).unwrap();
        assert!(decoder.table.allocated_bytes() <= 2 * HPACK_TABLE_BYTES + 4096, "{length}");
    }
}

/// A simple dynamic table.
#[derive(Default)]
struct Plain {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

/// An operation of an encoder.
#[derive(Debug, Clone)]
enum Operation {
    Indexed(usize),
    Literal { kept: bool, named: Option<usize>, name: Vec<u8>, value: Vec<u8>, coded: bool },
    Resize(usize),
}

impl Plain {
    fn size(&self) -> usize {
        self.entries.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
    }

    fn evict_to(&mut self, size: usize) {
        while self.size() > size {
            self.entries.pop();
        }
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    let name = prop_oneof![
        prop::sample::select(vec![":path", "te", "user-agent", "x-other"])
            .prop_map(|name| name.as_bytes().to_vec()),
        prop::collection::vec(b'a'..=b'z', 1..30),
    ];
    let value = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..40),
        1 => prop::collection::vec(any::<u8>(), 0..4200),
    ];
    prop_oneof![
        3 => (0_usize..200).prop_map(Operation::Indexed),
        5 => (any::<bool>(), prop::option::of(0_usize..200), name, value, any::<bool>()).prop_map(
            |(kept, named, name, value, coded)| Operation::Literal { kept, named, name, value, coded }
        ),
        1 => (0_usize..=HPACK_TABLE_BYTES).prop_map(Operation::Resize),
    ]
}

fn put_string(block: &mut Vec<u8>, string: &[u8], coded: bool) {
    if coded {
        integer::put(block, 0x80, 7, huffman::encoded_bytes(string) as u64);
        huffman::encode(string, block);
    } else {
        integer::put(block, 0, 7, string.len() as u64);
        block.extend_from_slice(string);
    }
}

proptest! {
    #[test]
    fn decodes_any_encoder_output(operations in prop::collection::vec(operation(), 0..120)) {
        let (mut decoder, mut plain) = (Decoder::new(), Plain::default());
        let mut size_max = HPACK_TABLE_BYTES;
        for operation in operations {

            let mut block = Vec::new();
            let known = |plain: &Plain, index: usize| {
                let place = index % (STATIC_FIELDS + plain.entries.len());
                let field = STATIC_TABLE.get(place).map(|field| (field.name_text.to_vec(), field.value.to_vec()));
                (place + 1, field.unwrap_or_else(|| plain.entries[place - STATIC_FIELDS].clone()))
            };

            let expected = match operation {
                Operation::Resize(size) => {
                    size_max = size;
                    plain.evict_to(size);
                    integer::put(&mut block, 0x20, 5, size as u64);
                    vec![]
                }
                Operation::Indexed(index) => {
                    let (index, field) = known(&plain, index);
                    integer::put(&mut block, 0x80, 7, index as u64);
                    vec![field]
                }
                Operation::Literal { kept, named, mut name, value, coded } => {
                    let (form, bits) = if kept { (0x40, 6) } else { (0, 4) };
                    if let Some(index) = named {
                        let (index, field) = known(&plain, index);
                        name = field.0;
                        integer::put(&mut block, form, bits, index as u64);
                    } else {
                        block.push(form);
                        put_string(&mut block, &name, coded);
                    }
                    put_string(&mut block, &value, coded);
                    if kept {
                        let size = name.len() + value.len() + 32;
                        plain.evict_to(size_max.saturating_sub(size));
                        if size <= size_max {
                            plain.entries.insert(0, (name.clone(), value.clone()));
                        }
                    }
                    vec![(name, value)]
                }
            };

            let mut got = Vec::new();
            let take = |field: Field<'_>| got.push((field.name_text.to_vec(), field.value.to_vec()));
            decoder.decode(&block, &mut Vec::new(), take).unwrap();
            prop_assert_eq!(got, expected);

            let held: Vec<_> = (0..).map_while(|number| decoder.table.get(number)).collect();
            let held: Vec<_> = held.iter().map(|field| (field.name_text.to_vec(), field.value.to_vec())).collect();
            prop_assert_eq!(&held, &plain.entries);
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..8)) {
        let mut decoder = Decoder::new();
        for block in blocks {
            let mut bytes = 0;
            let list = decoder.decode(&block, &mut Vec::new(), |field| bytes += field.size());
            prop_assert!(bytes <= FIELD_LIST_BYTES_MAX);
            let table_bytes: usize = (0..).map_while(|number| decoder.table.get(number)).map(|field| field.size()).sum();
            prop_assert!(table_bytes <= HPACK_TABLE_BYTES);
            if list.is_err() {
                break;
            }
        }
    }

    #[test]
    fn truncated_block_yields_whole_fields(
        named in prop::collection::vec(("[a-z]{1,12}", "[ -~]{0,40}"), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut block = Vec::new();
        let mut ends = vec![0];
        for (name, value) in &named {
            put_field(&mut block, name, value.as_bytes());
            ends.push(block.len());
        }
        let cut = cut.index(block.len() + 1);
        let mut got = Vec::new();
        let take = |field: Field<'_>| {
            got.push((String::from_utf8_lossy(field.name_text).into_owned(), field.value.to_vec()));
        };
        let list = Decoder::new().decode(&block[..cut], &mut Vec::new(), take);
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        let expected: Vec<_> =
            named[..whole].iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
        prop_assert_eq!(got, expected);
        prop_assert_eq!(list.is_ok(), ends.contains(&cut));
    }
}
