//! Differential test of QPACK against ls-qpack, in both directions: a side decodes what the other has encoded. Instructions and
//! acknowledgments arrive late and in pieces.
//!
//! This is no fuzz target, because no library for Rust is fit: the `qpack` crate and quiche have no dynamic table, that of `h3` is
//! private, and `ls-qpack-rs` needs libclang to build. So ls-qpack runs in a process of Python.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use cannery_wire::hpack::{Field, List};
use cannery_wire::qpack::{Decoder, EncoderTable, encode_line};

/// Connections in each direction, with different tables.
const CONNECTIONS: u64 = 60;

/// Operations of a connection: most encode a section.
const OPERATIONS: usize = 100;

/// The capacity of our decoder's table.
const OUR_CAPACITY: usize = 4096;

/// Fields as names and values.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

#[test]
fn ls_qpack_decodes_what_we_encode() {
    let Some(mut peer) = LsQpack::start() else { return };
    let mut references = 0;
    for seed in 0..CONNECTIONS {
        let mut random = Random::new(seed);
        let capacity = random.below(5000);
        peer.call("new", &capacity.to_string(), &[]);
        let mut table = EncoderTable::new();
        table.set_peer_settings(capacity as u64);
        // pylsqpack acknowledges sections, but no insertions, so our decoder does.
        let mut counter = Decoder::new();
        let (mut instructions, mut acknowledgments) = (Vec::new(), Vec::new());

        for number in 0..OPERATIONS {
            match random.below(4) {
                0 => {
                    let arrived = random.take(&mut instructions);
                    peer.call("instruct", "", &[&arrived]);
                    counter.read_encoder_stream(&arrived, &mut Vec::new()).expect("valid instructions");
                    counter.acknowledge_insertions(&mut acknowledgments);
                }
                1 => {
                    let arrived = random.take(&mut acknowledgments);
                    table.read_decoder_stream(&arrived).expect("valid acknowledgments");
                }
                _ => {
                    let (section, expected) = encode(&mut table, &mut random);
                    instructions.extend(table.take_encoder_stream());
                    let mut decoded = peer.call("decode", &(4 * number).to_string(), &[&section]);
                    let acknowledgment = decoded.remove(0);
                    assert_eq!(pairs(decoded), expected, "seed {seed}: {section:x?}");
                    references += usize::from(!acknowledgment.is_empty());
                    acknowledgments.extend(acknowledgment);
                }
            }
        }
    }
    assert!(references > 500, "{references} sections refer to the table");
}

#[test]
fn we_decode_what_ls_qpack_encodes() {
    let Some(mut peer) = LsQpack::start() else { return };
    let mut references = 0;
    for seed in 0..CONNECTIONS {
        let mut random = Random::new(seed);
        let mut instructions = peer.call("new", &OUR_CAPACITY.to_string(), &[]).concat();
        let mut decoder = Decoder::new();
        let mut acknowledgments = Vec::new();

        for number in 0..OPERATIONS {
            match random.below(4) {
                0 => {
                    let arrived = random.take(&mut instructions);
                    decoder.read_encoder_stream(&arrived, &mut Vec::new()).expect("valid instructions");
                    decoder.acknowledge_insertions(&mut acknowledgments);
                }
                1 => {
                    let arrived = random.take(&mut acknowledgments);
                    peer.call("acknowledge", "", &[&arrived]);
                }
                _ => {
                    let stream = 4 * number as u64;
                    let fields = random.fields();
                    let strings: Vec<&[u8]> =
                        fields.iter().flat_map(|(name, value)| [&name[..], &value[..]]).collect();
                    let encoded = peer.call("encode", &stream.to_string(), &strings);
                    let [new_instructions, section] = encoded.try_into().expect("two strings");
                    instructions.extend(new_instructions);

                    let mut decoded = Fields::new();
                    let take = |field: Field<'_>| {
                        decoded.push((field.name_text.to_vec(), field.value.to_vec()));
                    };
                    let outcome = decoder.decode(&section, &mut Vec::new(), take);
                    let outcome =
                        outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}: {section:x?}"));
                    assert_eq!((outcome.list, decoded), (List::Whole, fields), "seed {seed}: {section:x?}");
                    if let Some(count) = outcome.uses_table {
                        references += 1;
                        decoder.acknowledge(&mut acknowledgments, stream, count);
                    }
                }
            }
        }
    }
    assert!(references > 500, "{references} sections refer to the table");
}

/// Encodes a section of some lines of one of two archives, and some of the server.
fn encode(table: &mut EncoderTable, random: &mut Random) -> (Vec<u8>, Fields) {
    const NAMES: [&str; 5] = ["x-line", "content-type", "etag", "cache-control", "x-content-type-options"];

    let mut fields = Fields::new();
    let mut section = Vec::new();
    let identity = random.below(8) as u64 / 7;
    table.begin_section(&mut section, 0, identity);
    // ls-qpack refuses an empty section.
    for _ in 0..=random.below(8) {
        let id = random.below(56) as u8;
        let name = NAMES[usize::from(id) % NAMES.len()];
        // An ID has one line in each archive.
        let value = Random::new(1000 + 100 * identity + u64::from(id)).value();
        table.put_archive_line(&mut section, encode_line(id, name, &value).as_line());
        fields.push((name.into(), value));
    }
    for _ in 0..random.below(3) {
        let id = 56 + random.below(8) as u8;
        let value = Random::new(id.into()).value();
        table.put_server_line(&mut section, encode_line(id, "server", &value).as_line());
        fields.push(("server".into(), value));
    }
    table.end_section(&mut section);
    (section, fields)
}

fn pairs(strings: Vec<Vec<u8>>) -> Fields {
    let (names, values) = (strings.iter().step_by(2), strings.iter().skip(1).step_by(2));
    names.cloned().zip(values.cloned()).collect()
}

/// A process with an encoder and a decoder of ls-qpack.
struct LsQpack {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl LsQpack {
    /// Starts the process. Returns `None`, and prints a note, if tests with outside programs must be skipped.
    fn start() -> Option<LsQpack> {
        if env::var_os("CANNERY_OUTSIDE").is_some_and(|value| value == "skip") {
            println!("skipped: CANNERY_OUTSIDE=skip");
            return None;
        }
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let python = env::var_os("CANNERY_PYTHON")
            .map_or_else(|| project.join("target/outside/python/bin/python"), PathBuf::from);
        let mut command = Command::new(python);
        command.arg(project.join("tests/outside/qpack.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("`cargo xtask test` installs Python");
        let commands = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Some(LsQpack { child, commands, answers })
    }

    /// Runs a command, and returns the strings of its answer.
    fn call(&mut self, command: &str, number: &str, strings: &[&[u8]]) -> Vec<Vec<u8>> {
        let strings: Vec<String> = strings.iter().map(|string| hexadecimal(string)).collect();
        let mut answer = String::new();
        writeln!(self.commands, "{command} {number} {}", strings.join(" ")).expect("the process runs");
        self.answers.read_line(&mut answer).expect("text");
        assert!(!answer.is_empty(), "ls-qpack refuses `{command}`");
        answer.split_whitespace().map(bytes).collect()
    }
}

impl Drop for LsQpack {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the digits of bytes, and `-` for no bytes.
fn hexadecimal(bytes: &[u8]) -> String {
    if bytes.is_empty() { "-".into() } else { bytes.iter().map(|byte| format!("{byte:02x}")).collect() }
}

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Xorshift generator: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    /// Takes some of the bytes that are on their way.
    fn take(&mut self, bytes: &mut Vec<u8>) -> Vec<u8> {
        let length = self.below(2 * bytes.len() + 1).min(bytes.len());
        bytes.drain(..length).collect()
    }

    /// Returns a field value: text for which the code of Huffman is short, or any bytes.
    fn value(&mut self) -> Vec<u8> {
        let is_text = self.below(3) > 0;
        let mut value = Vec::new();
        for _ in 0..self.below(60) {
            value.push(match self.below(95) as u8 {
                byte if is_text => b"abcdefgh 0123456/=-"[usize::from(byte) % 19],
                byte => byte + b' ' + 128 * (self.below(2) as u8),
            });
        }
        value.trim_ascii().to_vec()
    }

    /// Returns a list of fields, many of which occur in other lists as well.
    fn fields(&mut self) -> Fields {
        const NAMES: [&str; 8] = [
            ":path",
            ":method",
            "accept",
            "cookie",
            "user-agent",
            "x-one",
            "x-two",
            "a-longer-name-of-a-field",
        ];
        let count = self.below(12);
        let mut fields = Fields::new();
        for _ in 0..count {
            let name = NAMES[self.below(NAMES.len())];
            let seed = if self.below(4) > 0 { self.below(6) } else { self.below(1 << 30) };
            fields.push((name.into(), Random::new(seed as u64).value()));
        }
        fields
    }
}
