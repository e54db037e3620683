package cannery

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"testing/fstest"
)

// get returns the response to a GET request.
func get(handler http.Handler, target string) *http.Response {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest("GET", target, nil))
	return recorder.Result()
}

func bodyOf(response *http.Response) string {
	body, _ := io.ReadAll(response.Body)
	return string(body)
}

// openers open an archive, or a program with one, from a file and from memory.
func openers(t *testing.T) map[string]func([]byte) (*Archive, error) {
	return map[string]func([]byte) (*Archive, error){
		"Open": func(data []byte) (*Archive, error) {
			file := filepath.Join(t.TempDir(), "site.cdb")
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			return Open(file)
		},
		"OpenFS": func(data []byte) (*Archive, error) {
			return OpenFS(fstest.MapFS{"site.cdb": &fstest.MapFile{Data: data}}, "site.cdb")
		},
		"Read": func(data []byte) (*Archive, error) { return Read(bytes.NewReader(data), int64(len(data))) },
		"New":  New,
	}
}

// elf64Program returns the smallest program whose headers say that it has size bytes.
func elf64Program(size int) []byte {
	program := make([]byte, size)
	copy(program, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint64(program[32:], 64) // the table of segments
	binary.LittleEndian.PutUint16(program[54:], 56)
	binary.LittleEndian.PutUint16(program[56:], 1)
	binary.LittleEndian.PutUint64(program[64+32:], uint64(size)) // the end of the only segment
	return program
}

func elf32Program(size int) []byte {
	program := make([]byte, size)
	copy(program, "\x7fELF\x01\x01\x01")
	binary.LittleEndian.PutUint32(program[32:], 52) // the table of sections
	binary.LittleEndian.PutUint16(program[46:], 40)
	binary.LittleEndian.PutUint16(program[48:], 2)
	binary.LittleEndian.PutUint32(program[52+20:], uint32(size))
	binary.LittleEndian.PutUint32(program[92+4:], 8) // a section without bytes in the file
	binary.LittleEndian.PutUint32(program[92+20:], 1<<30)
	return program
}

// bundle returns a file with a program and an archive, as `cannery bundle` makes it.
func bundle(program, archive []byte) []byte {
	padding := make([]byte, (pageBytes-len(program)%pageBytes)%pageBytes)
	return concat(program, padding, archive)
}

func TestArchivesOpenFromFilesMemoryAndPrograms(t *testing.T) {
	archive := helloSite("hello")
	files := map[string][]byte{
		"archive": archive, "64-bit program": bundle(elf64Program(5000), archive),
		"32-bit program": bundle(elf32Program(300), archive), "whole pages": bundle(elf64Program(2*pageBytes), archive),
	}
	for how, open := range openers(t) {
		for name, data := range files {
			archive, err := open(data)
			if err != nil {
				t.Errorf("%s, %s: %v", how, name, err)
				continue
			}
			if got := bodyOf(get(archive, "/")); got != "hello" {
				t.Errorf("%s, %s: %q", how, name, got)
			}
			if content, err := fs.ReadFile(archive.FS(), "untyped"); string(content) != "<html>" {
				t.Errorf("%s, %s: %q, %v", how, name, content, err)
			}
			if err := archive.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestErrorsTellWhyAFileIsRefused(t *testing.T) {
	archive := helloSite("hello")
	program := elf64Program(5000)
	whole := bundle(program, archive)
	version := bytes.Clone(archive)
	version[recordsStart+8+7+4]++
	files := map[string]struct {
		data []byte
		want error
	}{
		"text": {[]byte("hello"), ErrNotArchive}, "zeros": {make([]byte, 5000), ErrNotArchive},
		"program": {program, ErrNotArchive}, "cut program": {program[:70], ErrNotArchive}, "ELF": {program[:64], ErrNotArchive},
		"cut archive": {archive[:len(archive)-1], ErrCorrupt}, "padding": {whole[:6000], ErrCorrupt},
		"cut after the program": {whole[:len(whole)-1], ErrCorrupt}, "version": {version, ErrVersion},
		"version after the program": {bundle(program, version), ErrVersion},
	}
	for how, open := range openers(t) {
		for name, file := range files {
			if _, err := open(file.data); !errors.Is(err, file.want) {
				t.Errorf("%s, %s: %v", how, name, err)
			}
		}
	}
	if _, err := New(nil); !errors.Is(err, ErrNotArchive) {
		t.Errorf("no data: %v", err)
	}
	if _, err := Read(bytes.NewReader(archive), int64(len(archive))+1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a wrong size: %v", err)
	}
	if _, err := OpenFS(fstest.MapFS{}, "site.cdb"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestDamagedProgramHeadersCauseNoPanic(t *testing.T) {
	original := bundle(elf64Program(300), helloSite("hello"))
	for at := 0; at < 120; at++ {
		for _, value := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			data := bytes.Clone(original)
			data[at] = value
			New(data)
			New(data[:at])
		}
	}
}

// TestThisProgramIsBundled appends an archive to the program that runs this test.
func TestThisProgramIsBundled(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("programs aren't ELF executables on this platform")
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrNotArchive) {
		t.Errorf("this program: %v", err)
	}
	file := filepath.Join(t.TempDir(), "app")
	if err := os.WriteFile(file, bundle(program, helloSite("hello")), 0o700); err != nil {
		t.Fatal(err)
	}
	archive, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if got := bodyOf(get(archive, "/")); got != "hello" {
		t.Errorf("%q", got)
	}
}

func TestBundledServerIsOpened(t *testing.T) {
	app := filepath.Join(t.TempDir(), "app")
	archive := build(t, map[string]string{"index.html": "hello"})
	if output, err := exec.Command(program(t, "cannery"), "bundle", archive, "-o", app).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	site, err := Open(app)
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	if got := bodyOf(get(site, "/")); got != "hello" {
		t.Errorf("%q", got)
	}
}

func TestClosedArchivesSayWhy(t *testing.T) {
	archive := newArchiveOf(t, helloSite("hello"))
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := archive.FS().Open("untyped")
	for _, err := range []error{err, archive.Close()} {
		if !errors.Is(err, ErrClosed) || !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	if response := get(archive, "/"); response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d", response.StatusCode)
	}
}

func TestLicensesAreThoseOfTheProject(t *testing.T) {
	for _, name := range []string{"LICENSE-APACHE", "LICENSE-MIT"} {
		want, err := os.ReadFile("../../../" + name)
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("the module isn't in the repository of Cannery")
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs: copy that of the project (%v)", name, err)
		}
	}
}
