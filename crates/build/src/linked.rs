//! Writes a static library that contains an archive, allowing the linker to embed it in a program.
//!
//! This is faster than including the file: rustc currently reads an included file into memory several times, but linkers only copy
//! the data once (see `docs/library.md` for measurements).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter};

use ar_archive_writer::{ArchiveKind, DEFAULT_OBJECT_READER, NewArchiveMember, write_archive_to_stream};
use object::write::{Object, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};

/// Alignment of the archive in memory. This must be the page size, because large contents begin at page boundaries
/// of the archive.
const ALIGNMENT: u64 = 4096;

/// A processor for which we can write object files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target(Architecture);

impl Target {
    /// Determines the target from the given build script variables (`CARGO_CFG_TARGET_OS` and so on). This is `None` if only the
    /// compiler can include the file there.
    ///
    /// Currently this only covers ELF on two processors: object files for others would need flags for their calling convention,
    /// and other systems use other formats.
    pub(crate) fn new(
        system: &OsStr,
        architecture: &OsStr,
        endianness: &OsStr,
        pointer_bits: &OsStr,
    ) -> Option<Target> {
        if system != "linux" || endianness != "little" || pointer_bits != "64" {
            return None;
        }
        match architecture.to_str()? {
            "x86_64" => Some(Target(Architecture::X86_64)),
            "aarch64" => Some(Target(Architecture::Aarch64)),
            _ => None,
        }
    }
}

/// Writes a static library with a single symbol, which is the address of `archive`.
pub(crate) fn write_library(library: File, target: Target, symbol: &str, archive: Vec<u8>) -> io::Result<()> {
    let object = write_object(target, symbol, &archive)?;
    drop(archive);

    let member = NewArchiveMember::new(object, &DEFAULT_OBJECT_READER, "archive.o".to_owned());
    write_archive_to_stream(&mut BufWriter::new(library), &[member], ArchiveKind::Gnu, false, Some(false))
}

/// Returns an object file that contains `archive` as read-only data.
fn write_object(target: Target, symbol: &str, archive: &[u8]) -> io::Result<Vec<u8>> {
    let mut object = Object::new(BinaryFormat::Elf, target.0, Endianness::Little);

    let data = object.add_section(Vec::new(), b".rodata.cannery".to_vec(), SectionKind::ReadOnlyData);
    object.set_section_data(data, archive, ALIGNMENT);
    object.add_symbol(Symbol {
        name: symbol.as_bytes().to_vec(),
        value: 0,
        size: archive.len() as u64,
        kind: SymbolKind::Data,
        scope: SymbolScope::Linkage,
        weak: false,
        section: SymbolSection::Section(data),
        flags: SymbolFlags::None,
    });

    // GNU linkers need this section, otherwise they would make the program's stack executable.
    object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Other);

    object.write().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use object::read::archive::ArchiveFile;
    use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

    use super::*;

    fn target(architecture: &str) -> Option<Target> {
        Target::new("linux".as_ref(), architecture.as_ref(), "little".as_ref(), "64".as_ref())
    }

    #[test]
    fn library_has_the_archive_as_aligned_read_only_data() {
        for architecture in ["x86_64", "aarch64"] {
            let mut library = tempfile::tempfile().unwrap();
            let content: Vec<u8> = (0..=255).cycle().take(100_000).collect();
            write_library(
                library.try_clone().unwrap(),
                target(architecture).unwrap(),
                "cannery_1",
                content.clone(),
            )
            .unwrap();

            let mut bytes = Vec::new();
            io::Seek::rewind(&mut library).unwrap();
            io::Read::read_to_end(&mut library, &mut bytes).unwrap();
            let archive = ArchiveFile::parse(&*bytes).unwrap();
            let symbols: Vec<_> =
                archive.symbols().unwrap().unwrap().map(|symbol| symbol.unwrap().name().to_vec()).collect();
            assert_eq!(symbols, [b"cannery_1"]);
            let member = archive.members().next().unwrap().unwrap();
            let object = object::File::parse(member.data(&*bytes).unwrap()).unwrap();
            let symbol = object.symbol_by_name("cannery_1").unwrap();
            assert_eq!(symbol.size(), 100_000);
            let section = object.section_by_index(symbol.section_index().unwrap()).unwrap();
            assert_eq!((section.kind(), section.align()), (SectionKind::ReadOnlyData, ALIGNMENT));
            assert_eq!(section.data().unwrap(), content);
            assert!(object.section_by_name(".note.GNU-stack").is_some());
        }
    }

    #[test]
    fn other_targets_are_left_to_the_compiler() {
        assert!(target("riscv64").is_none());
        assert!(
            Target::new("macos".as_ref(), "aarch64".as_ref(), "little".as_ref(), "64".as_ref()).is_none()
        );
        assert!(Target::new("linux".as_ref(), "x86_64".as_ref(), "little".as_ref(), "32".as_ref()).is_none());
        assert!(Target::new("linux".as_ref(), "aarch64".as_ref(), "big".as_ref(), "64".as_ref()).is_none());
    }
}
