package cannery

import (
	"errors"
	"io"
	"io/fs"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestPathsAreNormalized has the examples of FORMAT.md.
func TestPathsAreNormalized(t *testing.T) {
	paths := map[string]string{
		"/a/b.html": "/a/b.html", "//a/./b.html": "/a/b.html", "/x/%2e%2E/%61/b.html": "/a/b.html", "/../a/": "/a/",
		"/a/b/..": "/a/", "/a/.": "/a/", "/..": "/", "/A%20b": "/A b", "/100%2525": "/100%25", "/a%2Fb": "/a\x00b",
		"/a%2": "", "/a%00": "", "a": "", "/" + strings.Repeat("a", pathBytesMax): "",
	}
	for target, want := range paths {
		got, err := decodeTarget(target)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q is %q, %v instead of %q", target, got, err, want)
		}
	}
}

func TestDatesAreParsed(t *testing.T) {
	const now = 1_700_000_000
	dates := map[string]int64{
		"Sun, 06 Nov 1994 08:49:37 GMT": 784111777, "Sunday, 06-Nov-94 08:49:37 GMT": 784111777,
		"Sun Nov  6 08:49:37 1994": 784111777, "Thu, 31 Dec 1998 23:59:60 GMT": 915148799,
		"Sun, 31 Feb 1994 08:49:37 GMT": -1, "Sun, 6 Nov 1994 08:49:37 GMT": -1, "Sun, 06 Nov 1994 24:49:37 GMT": -1,
		"Sun, 06 ovD 1994 08:49:37 GMT": -1, "Wed, 31 Dec 1969 23:59:59 GMT": -1, "": -1,
	}
	for value, want := range dates {
		if got, ok := parseDate(value, now); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q is %d, %v", value, got, ok)
		}
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	data := fixtureBytes(t)
	files := map[string][]byte{
		"empty": {}, "short": data[:1000], "truncated": data[:len(data)-1], "longer": append(slices.Clone(data), 0),
		"foreign": make([]byte, len(data)), "version": slices.Clone(data),
	}
	files["version"][2063+4] = Version + 1
	for name, content := range files {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(file); err == nil {
			t.Errorf("%s is opened", name)
		} else if name == "empty" && !errors.Is(err, ErrNotArchive) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("a directory is opened")
	}
	if _, err := Open("missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file is %v", err)
	}
}

func TestResponses(t *testing.T) {
	server := httptest.NewServer(openFixture(t))
	defer server.Close()
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	tests := []struct {
		method, path, host string
		fields             [2]string
		status             int
		wantName, want     string
	}{
		{"GET", "/", "", [2]string{"Accept-Encoding", "br"}, 200, "Content-Encoding", "br"},
		{"GET", "/about", "", [2]string{}, 200, "Vary", "Accept-Encoding"},
		{"HEAD", "/tiny.txt", "", [2]string{}, 200, "Content-Length", "3"},
		{"GET", "/tiny.txt", "", [2]string{"Range", "bytes=1-1"}, 206, "Content-Range", "bytes 1-1/3"},
		{"GET", "/tiny.txt", "", [2]string{"Range", "bytes=9-"}, 416, "Content-Range", "bytes */3"},
		{"GET", "/tiny.txt", "", [2]string{"If-None-Match", "*"}, 304, "X-All", "root"},
		{"GET", "/tiny.txt", "", [2]string{"If-Match", `"other"`}, 412, "X-All", "root"},
		{"GET", "/large.bin", "", [2]string{"Range", "bytes=0-0,9-9"}, 206, "Content-Length", "?"},
		{"GET", "/docs", "", [2]string{}, 308, "Location", "/docs/"},
		{"GET", "/page-moved?y=2", "", [2]string{}, 302, "Location", "/about?x=1&y=2#part"},
		{"GET", "/strip//evil.com", "", [2]string{}, 301, "Location", "/evil.com"},
		{"GET", "/rw/start", "", [2]string{}, 200, "X-All", "root"},
		{"GET", "/app/some/where", "", [2]string{}, 200, "Content-Type", "text/plain"},
		{"GET", "/app/missing.js", "", [2]string{}, 404, "Cache-Control", "no-store"},
		{"GET", "/", "EXAMPLE.com:80", [2]string{}, 200, "X-Own", "example.com"},
		{"GET", "/old", "example.com", [2]string{}, 302, "Location", "/sub/x.txt"},
		{"GET", "/x", "a.deep.example.com", [2]string{}, 200, "Content-Type", "text/html; charset=utf-8"},
		{"POST", "/", "", [2]string{}, 405, "Allow", "GET, HEAD, OPTIONS"},
		{"BREW", "/", "", [2]string{}, 501, "Allow", "GET, HEAD, OPTIONS"},
		{"OPTIONS", "/", "", [2]string{}, 204, "Allow", "GET, HEAD, OPTIONS"},
	}
	for _, test := range tests {
		request, err := http.NewRequest(test.method, server.URL+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = test.host
		request.Header.Set("Accept-Encoding", "identity")
		if test.fields[0] != "" {
			request.Header.Set(test.fields[0], test.fields[1])
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Errorf("%s %s: %v", test.method, test.path, err)
		}
		if test.method == "GET" && response.StatusCode != 304 && response.ContentLength != int64(len(body)) {
			t.Errorf("%s %s: %d bytes instead of %d", test.method, test.path, len(body), response.ContentLength)
		}
		value := response.Header.Get(test.wantName)
		if response.StatusCode != test.status || value != test.want && test.want != "?" {
			t.Errorf("%s %s: %d, %s: %q", test.method, test.path, response.StatusCode, test.wantName, value)
		}
	}
}

func TestSiteReplacesFieldsOfTheCaller(t *testing.T) {
	archive := openFixture(t)
	get := func(path string) http.Header {
		recorder := httptest.NewRecorder()
		for _, name := range []string{"X-Frame-Options", "Referrer-Policy", "Vary"} {
			recorder.Header().Set(name, "caller")
		}
		request := httptest.NewRequest("GET", path, nil)
		request.Host = "localhost"
		archive.ServeHTTP(recorder, request)
		return recorder.Header()
	}
	header := get("/about")
	if got := header.Values("X-Frame-Options"); !slices.Equal(got, []string{"DENY"}) {
		t.Errorf("X-Frame-Options is %q", got)
	}
	if header.Get("Referrer-Policy") != "caller" || len(header.Values("Vary")) != 2 {
		t.Errorf("fields of the caller are missing: %v", header)
	}
	if got := get("/docs/start").Values("X-Frame-Options"); len(got) > 0 {
		t.Errorf("removed field is %q", got)
	}
}

func TestStripPrefixServesBelowAPath(t *testing.T) {
	handler := http.StripPrefix("/site", openFixture(t))
	for target, want := range map[string]int{"/site/about": 200, "/site/odd/100%2525.txt": 200, "/site/a%2Fb": 404, "/site/": 200, "/site": 308} {
		recorder := httptest.NewRecorder()
		request := httptest.NewRequest("GET", target, nil)
		request.Host = "localhost"
		handler.ServeHTTP(recorder, request)
		if recorder.Code != want {
			t.Errorf("%s: %d", target, recorder.Code)
		}
	}
}

func TestFileSystem(t *testing.T) {
	archive := openFixture(t)
	files := archive.FS()
	for name, content := range siteFiles() {
		base := filepath.Base(name)
		if strings.HasPrefix(name, "_hosts/") || strings.HasPrefix(base, "_") || base == ".well" || base == "200.html" {
			continue
		}
		got, err := fs.ReadFile(files, name)
		if err != nil || string(got) != content {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	// Not the root, because TestFS refuses the backslash in odd/back\slash.txt, which fs.ValidPath allows.
	for dir, name := range map[string]string{"docs": "deep/er/one.txt", "app": "main.js"} {
		sub, err := fs.Sub(files, dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := fstest.TestFS(sub, name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"about", "docs/", "_redirects", "nothing"} {
		if _, err := fs.Stat(files, name); err == nil {
			t.Errorf("%s exists", name)
		}
	}
}

func TestGzipIsDecoded(t *testing.T) {
	archive, err := Open(build(t, map[string]string{"index.html": strings.Repeat("hello ", 1000)}, "--compress", "gzip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	content, err := fs.ReadFile(archive.FS(), "index.html")
	if err != nil || len(content) != 6000 {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	if err := fstest.TestFS(archive.FS(), "index.html"); err != nil {
		t.Error(err)
	}
}

func TestCloseWaitsForOpenFiles(t *testing.T) {
	archive := openFixture(t)
	file, err := archive.FS().Open("tiny.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if content, err := io.ReadAll(file); string(content) != "abc" || err != nil {
		t.Errorf("%q, %v", content, err)
	}
	if err := file.Close(); err != nil || archive.data != nil {
		t.Errorf("the archive is still mapped: %v", err)
	}
	if _, err := archive.FS().Open("tiny.txt"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("opening gives %v", err)
	}
	recorder := httptest.NewRecorder()
	archive.ServeHTTP(recorder, httptest.NewRequest("GET", "/", nil))
	if recorder.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d", recorder.Code)
	}
	if err := archive.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closing again gives %v", err)
	}
}

// TestDamagedArchivesCauseNoPanic flips bytes, mostly outside bodies, and truncates.
func TestDamagedArchivesCauseNoPanic(t *testing.T) {
	original := fixtureBytes(t)
	archive, err := newArchive(original)
	if err != nil {
		t.Fatal(err)
	}
	// The structure of the archive: all but the contents of bodies.
	var structure []int
	position := uint64(tables * 2 * archive.width)
	for i := 0; i < int(position); i++ {
		structure = append(structure, i)
	}
	for position < uint64(len(original)) {
		key, data, err := archive.record(position)
		if err != nil || len(key) == 0 {
			break // the hash tables
		}
		size := uint64(2*archive.width + len(key) + len(data))
		if key[0] != 'B' && key[0] != 'P' {
			for i := position; i < position+size; i++ {
				structure = append(structure, int(i))
			}
		}
		position += size
	}
	for ; position < uint64(len(original)); position++ {
		structure = append(structure, int(position))
	}

	random := rand.New(rand.NewSource(1))
	interesting := []byte{0, 1, 2, 4, 0x7f, 0x80, 0xff}
	targets := []string{"/", "/about", "/docs", "/docs/start", "/rw/start", "/app/x", "/img/x.png", "/nothing.js", "/old", "/strip/x/y"}
	data := make([]byte, len(original))
	statuses := map[int]int{}
	for n := 0; n < 1500; n++ {
		copy(data, original)
		for flips := 1 + random.Intn(20); flips > 0; flips-- {
			at := structure[random.Intn(len(structure))]
			if random.Intn(2) == 0 {
				data[at] ^= 1 << random.Intn(8)
			} else {
				data[at] = interesting[random.Intn(len(interesting))]
			}
		}
		archive, err := newArchive(data)
		if err != nil {
			continue
		}
		for n, target := range targets {
			request := httptest.NewRequest("GET", target, nil)
			request.Host = []string{"localhost", "example.com", "x.deep.example.com"}[n%3]
			request.Header.Set("Range", "bytes=0-1,5-9")
			if random.Intn(2) == 0 {
				request.Header.Set("Accept-Encoding", "br, gzip")
			}
			recorder := httptest.NewRecorder()
			archive.ServeHTTP(recorder, request)
			statuses[recorder.Code]++
		}
		if n%10 == 0 {
			fs.WalkDir(archive.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
				if err == nil && !entry.IsDir() {
					fs.ReadFile(archive.FS(), name)
				}
				return nil
			})
		}
	}
	for n := 0; n < 200; n++ {
		if _, err := newArchive(original[:random.Intn(len(original))]); err == nil {
			t.Error("a truncated archive is opened")
		}
	}
	if statuses[500] == 0 || statuses[200] == 0 {
		t.Errorf("the archives are damaged too little or too much: %v", statuses)
	}
	t.Logf("responses by status: %v", statuses)
}

func FuzzArchive(f *testing.F) {
	original := fixtureBytes(f)
	f.Add(uint32(0), []byte{1}, "/")
	f.Add(uint32(2063), []byte("CANR"), "/docs/%2e")
	f.Fuzz(func(t *testing.T, at uint32, patch []byte, path string) {
		data := slices.Clone(original)
		copy(data[int(at)%len(data):], patch)
		archive, err := newArchive(data)
		if err != nil {
			return
		}
		request := httptest.NewRequest("GET", "/", nil)
		request.URL.Path = path
		archive.ServeHTTP(httptest.NewRecorder(), request)
	})
}
