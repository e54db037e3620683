package cannery

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
)

// writer collects the records of a small archive in the 32-bit format, without digests and indexes.
type writer struct {
	flags   uint32
	records []byte
	slots   [tables][][2]uint32 // hash and position
}

const recordsStart = tables * 8

func newWriter(flags uint32) *writer {
	w := &writer{flags: flags}
	w.record("cannery", make([]byte, factsSize))
	return w
}

func u16(n int) []byte { return binary.LittleEndian.AppendUint16(nil, uint16(n)) }
func u32(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// record adds a record and returns its position.
func (w *writer) record(key string, data []byte) int {
	position := recordsStart + len(w.records)
	w.records = append(w.records, concat(u32(len(key)), u32(len(data)), []byte(key), data)...)
	hash := uint32(5381)
	for i := 0; i < len(key); i++ {
		hash = hash*33 ^ uint32(key[i])
	}
	w.slots[hash%tables] = append(w.slots[hash%tables], [2]uint32{hash, uint32(position)})
	return position
}

// page adds a page at a path. Its head has the field line of its media type, if there is one.
func (w *writer) page(path, content, contentType string) {
	if contentType != "" {
		contentType = "Content-Type: " + contentType + "\r\n"
	}
	head := w.record("H"+string(u32(len(w.records))), concat(u16(200), []byte{1, 0},
		u16(0), u16(len(contentType)), u16(0), u16(0), []byte(contentType)))
	key := fmt.Sprintf("B%032d", len(w.records))
	position := w.record(key, []byte(content)) + 8 + len(key)
	w.record(path, concat([]byte{kindResource, originFile}, u16(200), []byte{1},
		[]byte{identity}, []byte("etag0123456789ab"), u32(position), u32(len(content)), u32(head)))
}

func literalPiece(text string) []byte { return concat([]byte{literal}, u16(len(text)), []byte(text)) }

// redirectRule returns the entry of a rule that redirects /NAME/* to /new/:splat.
func redirectRule(ordinal int, name string) []byte {
	pattern := concat(literalPiece(name+"/"), []byte{splat, 0})
	target := concat(literalPiece("/new/"), []byte{capture, 0})
	content := concat(u32(ordinal), []byte{0}, u16(len(pattern)), pattern,
		[]byte{kindRedirect, 0}, u16(301), u16(0), target)
	return concat([]byte{entryRule}, u32(len(content)), content)
}

// headersRule returns the entry of a header rule for /NAME/*.
func headersRule(ordinal int, name, field, value string) []byte {
	pattern := concat(literalPiece(name+"/"), []byte{splat, 0})
	content := concat(u32(ordinal), []byte{0}, u16(len(pattern)), pattern,
		[]byte{effectReplace, 0, byte(len(field))}, u16(len(value)), []byte(field), []byte(value))
	return concat([]byte{entryHeaderRule}, u32(len(content)), content)
}

// finish returns the archive, with these rules in its root scope.
func (w *writer) finish(rules ...[]byte) []byte {
	w.record("//", concat([]byte{0}, u32(0), u32(0), concat(rules...)))

	var header, rest []byte
	start := recordsStart + len(w.records)
	for _, slots := range w.slots {
		count := 2 * len(slots)
		header = append(header, concat(u32(start+len(rest)), u32(count))...)
		table := make([][2]uint32, count)
		for _, slot := range slots {
			at := int(slot[0]/tables) % count
			for table[at][1] != 0 {
				at = (at + 1) % count
			}
			table[at] = slot
		}
		for _, slot := range table {
			rest = append(rest, concat(u32(int(slot[0])), u32(int(slot[1])))...)
		}
	}
	file := concat(header, w.records, rest)
	facts := file[recordsStart+8+len("cannery"):]
	copy(facts, concat([]byte("CANR"), u32(Version), u32(int(w.flags)), u16(8), u16(100), make([]byte, 24)))
	binary.LittleEndian.PutUint64(facts[40:], uint64(len(file)))
	return file
}

// helloSite returns an archive with one page.
func helloSite(content string) []byte {
	w := newWriter(flagSlashRedirects)
	w.page("/", content, "text/html")
	w.page("/sub/", "sub", "text/html")
	w.page("/untyped", "<html>", "")
	w.page("/empty", "", "")
	return w.finish(redirectRule(0, "old"))
}

func newArchiveOf(t testing.TB, data []byte) *Archive {
	t.Helper()
	archive, err := New(data)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}
