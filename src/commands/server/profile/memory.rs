//! Samples the process's memory by mapping once a second, from `/proc/self/smaps`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::encode::{Profile, Unit};
use crate::output::Failure;

/// Sampling interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// Takes samples, but only keeps the one with the highest memory usage.
pub(super) struct MemorySampler(Arc<State>);

struct State {
    smaps: File,
    largest: Mutex<Vec<MappingMemory>>,
}

/// Memory of all mappings with the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MappingMemory {
    /// A file, a name used by the kernel such as `[heap]`, or `[anonymous]`.
    name: String,
    resident_bytes: i64,
    /// Memory that is not shared with the page cache or another process.
    private_bytes: i64,
    swapped_bytes: i64,
}

impl MemorySampler {
    /// Opens the list of mappings.
    ///
    /// This must be done before we enter the sandbox.
    pub(super) fn open() -> Result<MemorySampler, Failure> {
        let smaps = File::open("/proc/self/smaps").map_err(|error| {
            Failure::failed(format!("`--profile-mem`: cannot read /proc/self/smaps: {error}"))
                .hint("memory profiles need Linux")
        })?;
        Ok(MemorySampler(Arc::new(State { smaps, largest: Mutex::default() })))
    }

    /// Starts a thread that takes a sample each second, until the process exits.
    pub(super) fn start(&self) -> Result<(), Failure> {
        let state = Arc::clone(&self.0);
        let run = move || loop {
            state.sample();
            std::thread::sleep(INTERVAL);
        };
        let thread = std::thread::Builder::new().name("profile".into()).spawn(run);
        thread.map(drop).map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))
    }

    /// Takes a final sample and returns the profile.
    pub(super) fn profile(&self) -> Profile {
        self.0.sample();
        let mut profile =
            Profile::new(&[("resident", Unit::Bytes), ("private", Unit::Bytes), ("swapped", Unit::Bytes)]);
        profile.set_default("resident");
        for mapping in self.0.largest.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let kind = if mapping.name.starts_with('/') { "mapped files" } else { "anonymous memory" };
            let stack = [mapping.name.clone(), kind.to_owned()];
            let values = [mapping.resident_bytes, mapping.private_bytes, mapping.swapped_bytes];
            profile.push(&stack, &values, None);
        }
        profile
    }
}

impl State {
    /// Takes a sample and, when it is the largest so far, keeps it.
    fn sample(&self) {
        // If it cannot be read, skip this sample.
        let Ok(text) = read(&self.smaps) else { return };
        let mappings = parse(&text);
        let total =
            |mappings: &[MappingMemory]| mappings.iter().map(|mapping| mapping.resident_bytes).sum::<i64>();
        let mut largest = self.largest.lock().unwrap_or_else(PoisonError::into_inner);
        if total(&mappings) > total(&largest) {
            *largest = mappings;
        }
    }
}

/// Reads the list again from the start.
fn read(smaps: &File) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match smaps.read_at(&mut buffer, bytes.len() as u64)? {
            0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Parses the list (`proc_pid_smaps(5)`), in which each mapping has a line with its addresses and name, followed by one line per
/// value.
///
/// Values of mappings with the same name are added up, in the order of their first occurrence.
fn parse(text: &str) -> Vec<MappingMemory> {
    let mut mappings: Vec<MappingMemory> = Vec::new();
    let mut current = None;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let Some(field) = first.strip_suffix(':') else {
            // Addresses, permissions, offset, device, inode.
            let name = words.skip(4).collect::<Vec<_>>().join(" ");
            let name = if name.is_empty() { "[anonymous]".to_owned() } else { name };
            let known = mappings.iter().position(|mapping| mapping.name == name);
            current = Some(known.unwrap_or(mappings.len()));
            if known.is_none() {
                mappings.push(MappingMemory { name, resident_bytes: 0, private_bytes: 0, swapped_bytes: 0 });
            }
            continue;
        };

        let kilobytes = words.next().and_then(|word| word.parse::<i64>().ok());
        let (Some(mapping), Some(kilobytes)) = (current.and_then(|at| mappings.get_mut(at)), kilobytes)
        else {
            continue;
        };
        let bytes = kilobytes.saturating_mul(1024);
        match field {
            "Rss" => mapping.resident_bytes += bytes,
            "Private_Clean" | "Private_Dirty" => mapping.private_bytes += bytes,
            "Swap" => mapping.swapped_bytes += bytes,
            _ => {}
        }
    }
    mappings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_one_name_are_added_up() {
        let text = "\
55f0-55f1 r--p 00000000 fd:00 12 /srv/a b
Size:                  8 kB
Rss:                   8 kB
Private_Clean:         4 kB
VmFlags: rd mr
7f00-7f01 rw-p 00000000 00:00 0
Rss:                  16 kB
Private_Dirty:        16 kB
Swap:                  4 kB
55f1-55f2 r-xp 00001000 fd:00 12 /srv/a b
Rss:                   4 kB
";

        let mapping = |name: &str, resident_bytes, private_bytes, swapped_bytes| MappingMemory {
            name: name.to_owned(),
            resident_bytes,
            private_bytes,
            swapped_bytes,
        };
        let expected =
            [mapping("/srv/a b", 12 << 10, 4 << 10, 0), mapping("[anonymous]", 16 << 10, 16 << 10, 4 << 10)];

        assert_eq!(parse(text), expected);
        assert_eq!(parse("garbage\nRss: x\n: 1\n").len(), 1);
    }
}
