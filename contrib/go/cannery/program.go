package cannery

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// pageBytes is the unit of positions where an archive starts after a program.
const pageBytes = 4096

// elfLayout has the offsets of the fields of ELF (elf(5)) that tell where a program ends.
type elfLayout struct {
	width              int // bytes of an offset or a length
	segments, sections elfTable
}

type elfTable struct {
	offset     int // in the file header: the offset of the table
	count      int // in the file header: the number of entries. The bytes of an entry are in the two bytes before it.
	entryBytes int
	partOffset int // in an entry
	partBytes  int // in an entry
}

var (
	elf32 = elfLayout{4, elfTable{28, 44, 32, 4, 16}, elfTable{32, 48, 40, 16, 20}}
	elf64 = elfLayout{8, elfTable{32, 56, 56, 8, 32}, elfTable{40, 60, 64, 24, 32}}
)

// locate returns the position of the archive in a file: 0, or after a program.
func locate(file io.ReaderAt, size int64) (int64, error) {
	program, err := programBytes(file)
	switch {
	case err != nil:
		return 0, err
	case program == 0:
		return 0, nil
	case size <= program:
		return 0, fmt.Errorf("%w: this is a program without an archive", ErrNotArchive)
	}
	start := program + (pageBytes-program%pageBytes)%pageBytes
	if start < program || size-start < tables*2*4 {
		return 0, fmt.Errorf("%w: the archive in this program was truncated", ErrCorrupt)
	}
	return start, nil
}

// programBytes returns the length of the program at the start of a file, or 0 if there is none. As in cannery-server, only ELF
// executables for little-endian machines are recognized.
func programBytes(file io.ReaderAt) (int64, error) {
	const headerBytes = 64
	header, err := readAt(file, 0, headerBytes)
	if header == nil || string(header[:4]) != "\x7fELF" || header[5] != 1 {
		return 0, err
	}
	var layout elfLayout
	switch header[4] {
	case 1:
		layout = elf32
	case 2:
		layout = elf64
	default:
		return 0, nil
	}
	word := func(b []byte, at int) uint64 {
		if layout.width == 4 {
			return uint64(binary.LittleEndian.Uint32(b[at:]))
		}
		return binary.LittleEndian.Uint64(b[at:])
	}

	end := uint64(headerBytes)
	for _, table := range []elfTable{layout.segments, layout.sections} {
		count := int(binary.LittleEndian.Uint16(header[table.count:]))
		if count == 0 {
			continue
		}
		if int(binary.LittleEndian.Uint16(header[table.count-2:])) != table.entryBytes {
			return 0, nil
		}
		offset, length := word(header, table.offset), count*table.entryBytes
		if offset > math.MaxInt64-uint64(length) {
			return 0, nil
		}
		end = max(end, offset+uint64(length))

		// In a truncated file, the table may be missing.
		entries, err := readAt(file, int64(offset), length)
		if err != nil {
			return 0, err
		}
		for ; len(entries) > 0; entries = entries[table.entryBytes:] {
			const noBits = 8 // sections that don't occupy any bytes in the file
			if table == layout.sections && binary.LittleEndian.Uint32(entries[4:]) == noBits {
				continue
			}
			offset, length := word(entries, table.partOffset), word(entries, table.partBytes)
			if offset > math.MaxInt64 || length > math.MaxInt64-offset {
				return 0, nil
			}
			end = max(end, offset+length)
		}
	}
	return int64(end), nil
}

// readAt reads length bytes. It returns nil if the file ends too early.
func readAt(file io.ReaderAt, offset int64, length int) ([]byte, error) {
	b := make([]byte, length)
	n, err := file.ReadAt(b, offset)
	switch {
	case n == length:
		return b, nil
	case err == io.EOF:
		return nil, nil
	}
	return nil, fmt.Errorf("cannery: reading the archive: %w", err)
}
