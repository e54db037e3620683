package cannery

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// Version is the version of the archive format that this package reads.
const Version = 4

// Errors of this package. Compare with [errors.Is].
var (
	// ErrNotArchive is the error for a file that isn't an archive, and for a program without one.
	ErrNotArchive = errors.New("cannery: not an archive")
	// ErrVersion is the error for an archive of another version of the format.
	ErrVersion = errors.New("cannery: unsupported version of the archive format")
	// ErrCorrupt is the error for an archive that contradicts itself, for example because it was truncated.
	ErrCorrupt = errors.New("cannery: the archive is corrupt")
	// ErrClosed is the error for using an archive after [Archive.Close]. It matches [fs.ErrClosed], too.
	ErrClosed error = closedError{}
)

type closedError struct{}

func (closedError) Error() string        { return "cannery: the archive is closed" }
func (closedError) Is(target error) bool { return target == fs.ErrClosed }

const (
	tables    = 256
	probesMax = 1 << 16
	factsSize = 96

	flagSlashRedirects  = 1 << 0
	flagForcedRules     = 1 << 1
	flagHosts           = 1 << 2
	flagHeaderRules     = 1 << 4
	flagHostHeaderRules = 1 << 5
	flagsAll            = 1<<6 - 1
)

// Archive is an open archive. Its methods may be called from several goroutines.
type Archive struct {
	data              []byte
	width             int // bytes of a quantity: 4 or 8
	flags             uint32
	scopeDepthMax     int
	wildcardLabelsMax int
	unmap             func() error

	mu     sync.Mutex
	refs   int // requests and open files that use data
	closed bool

	// scopes are the decoded scopes by their keys. Scopes that don't exist aren't stored, so the archive bounds the memory
	// that requests can take.
	scopesMu sync.RWMutex
	scopes   map[string]*scope

	treeOnce sync.Once
	tree     map[string]*node
	treeErr  error
}

// Open maps the archive at path into memory. The file may also be a program that an archive follows, as `cannery bundle`
// makes it: a bundled program finds its own archive with [os.Executable].
//
// The error is [ErrNotArchive], [ErrVersion], [ErrCorrupt] for a truncated archive, or that of reading the file.
func Open(path string) (*Archive, error) {
	data, unmap, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	a, err := New(data)
	if err != nil {
		unmap(data)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	a.unmap = func() error { return unmap(data) }
	return a, nil
}

// OpenFS reads the archive with a name in fsys, for example an [embed.FS], into memory. See [Open] for its errors.
func OpenFS(fsys fs.FS, name string) (*Archive, error) {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	a, err := New(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

// Read reads the archive in a file of size bytes into memory. If the archive follows a program, only the archive is kept. See
// [Open] for its errors.
func Read(r io.ReaderAt, size int64) (*Archive, error) {
	start, err := locate(r, size)
	if err != nil {
		return nil, err
	}
	data := make([]byte, size-start)
	if _, err := io.ReadFull(io.NewSectionReader(r, start, size-start), data); err != nil {
		return nil, fmt.Errorf("cannery: reading the archive: %w", err)
	}
	return newArchive(data)
}

// New returns the archive in data, for example an embedded file, without copying it. The caller must not change data
// afterwards. See [Open] for its errors.
func New(data []byte) (*Archive, error) {
	start, err := locate(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	return newArchive(data[start:])
}

// newArchive returns the archive in data.
func newArchive(data []byte) (*Archive, error) {
	for _, width := range []int{4, 8} {
		a := &Archive{data: data, width: width, scopes: map[string]*scope{}}
		key, record, err := a.record(uint64(tables * 2 * width))
		if err == nil && string(key) == "cannery" && len(record) == factsSize {
			if err := a.readFacts(record); err != nil {
				return nil, err
			}
			return a, nil
		}
	}
	return nil, ErrNotArchive
}

func (a *Archive) readFacts(record []byte) error {
	d := decoder{data: record, width: 8}
	if string(d.take(4)) != "CANR" {
		return ErrNotArchive
	}
	if version := d.u32(); version != Version {
		return fmt.Errorf("%w: %d instead of %d", ErrVersion, version, Version)
	}
	a.flags = d.u32()
	a.scopeDepthMax = int(d.u16())
	d.take(2 + 3*8)
	length := d.quantity()
	d.take(8)
	a.wildcardLabelsMax = int(d.u16())
	if d.bad || a.flags&^flagsAll != 0 {
		return corrupt("the facts record")
	}
	if length != uint64(len(a.data)) {
		return fmt.Errorf("%w: it has %d bytes instead of %d", ErrCorrupt, len(a.data), length)
	}
	return nil
}

// Close releases the archive after the last response and the last open file that use it. It doesn't wait for them. Later
// requests get a 503, so replace an archive that is served with a [Handler].
//
// The error is [ErrClosed] if the archive is closed already.
func (a *Archive) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrClosed
	}
	a.closed = true
	return a.releaseIfUnused()
}

// acquire keeps the archive mapped until release. It returns false if the archive is closed.
func (a *Archive) acquire() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.refs++
	return true
}

func (a *Archive) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refs--
	a.releaseIfUnused()
}

// releaseIfUnused is called with the mutex locked.
func (a *Archive) releaseIfUnused() error {
	if !a.closed || a.refs > 0 {
		return nil
	}
	unmap := a.unmap
	a.data, a.unmap, a.scopes = nil, nil, nil
	if unmap == nil {
		return nil
	}
	return unmap()
}

func (a *Archive) has(flag uint32) bool { return a.flags&flag != 0 }

// slice returns a range of the file.
func (a *Archive) slice(position, length uint64) ([]byte, error) {
	size := uint64(len(a.data))
	if position > size || length > size-position {
		return nil, corrupt("a position")
	}
	return a.data[position : position+length : position+length], nil
}

// record returns the key and the data of the record at a position.
func (a *Archive) record(position uint64) (key, data []byte, err error) {
	if position > uint64(len(a.data)) {
		return nil, nil, corrupt("the position of a record")
	}
	d := decoder{data: a.data[position:], width: a.width}
	keyBytes, dataBytes := d.quantity(), d.quantity()
	key, data = d.take(keyBytes), d.take(dataBytes)
	if d.bad {
		return nil, nil, corrupt("a record")
	}
	return key, data, nil
}

// find returns the data of the record with a key, or nil if there is none.
func (a *Archive) find(key string) ([]byte, error) {
	hash := uint64(5381)
	for i := 0; i < len(key); i++ {
		hash = hash*33 ^ uint64(key[i])
	}
	if a.width == 4 {
		hash &= 1<<32 - 1
	}
	header, err := a.slice(hash%tables*2*uint64(a.width), 2*uint64(a.width))
	if err != nil {
		return nil, err
	}
	d := decoder{data: header, width: a.width}
	start, slots := d.quantity(), d.quantity()
	slotBytes := 2 * uint64(a.width)
	if slots > uint64(len(a.data))/slotBytes {
		return nil, corrupt("a table reference")
	}
	table, err := a.slice(start, slots*slotBytes)
	if err != nil || slots == 0 {
		return nil, err
	}
	at := hash / tables % slots
	for n := uint64(0); n < min(slots, probesMax); n++ {
		d := decoder{data: table[at*slotBytes:], width: a.width}
		found, position := d.quantity(), d.quantity()
		if position == 0 {
			return nil, nil
		}
		if found == hash {
			stored, data, err := a.record(position)
			if err != nil {
				return nil, err
			}
			if string(stored) == key {
				return data, nil
			}
		}
		if at++; at == slots {
			at = 0
		}
	}
	return nil, nil
}

// decoder reads the fields of a structure. After the first field that doesn't fit, bad is true and all values are zero.
type decoder struct {
	data  []byte
	width int
	bad   bool
}

// take returns the next n bytes.
func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.data)) {
		d.bad = true
		d.data = nil
		return nil
	}
	taken := d.data[:n:n]
	d.data = d.data[n:]
	return taken
}

func (d *decoder) u8() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u16() uint16 {
	if b := d.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// quantity returns a number of the width of the format.
func (d *decoder) quantity() uint64 {
	if d.width == 8 {
		return d.u64()
	}
	return uint64(d.u32())
}

// part returns a decoder for the next n bytes.
func (d *decoder) part(n uint64) decoder {
	taken := d.take(n)
	return decoder{data: taken, width: d.width, bad: d.bad}
}

func corrupt(what string) error { return fmt.Errorf("%w: %s", ErrCorrupt, what) }

// checkRegular returns an error unless the file is a regular file.
func checkRegular(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, &fs.PathError{Op: "open", Path: file.Name(), Err: errors.New("not a regular file")}
	}
	return info.Size(), nil
}
