package cannery

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fixture is the archive of siteFiles, and helloFixture that of helloFiles, which the examples embed. They are rebuilt by
// CANNERY_BIN=DIR go test -run Fixture -update, where DIR has cannery-archiver.
const (
	fixture      = "testdata/site.cdb.gz"
	helloFixture = "testdata/hello.cdb"
)

var update = flag.Bool("update", false, "rebuild the archives in testdata")

var helloFiles = map[string]string{
	"index.html":      "<!doctype html><title>Hello</title>",
	"hello.txt":       "Hello!\n",
	"docs/index.html": "<!doctype html><title>Documentation</title>\n",
}

// siteFiles are the sources of a site with all kinds of rules.
func siteFiles() map[string]string {
	text := strings.Repeat("All work and no play makes Jack a dull boy.\n", 200)
	page := func(title string) string { return "<!doctype html><title>" + title + "</title><p>" + text }
	return map[string]string{
		"index.html":           page("home"),
		"about.html":           page("about"),
		"plain.txt":            text,
		"tiny.txt":             "abc",
		"empty.txt":            "",
		"data.json":            `{"numbers": [` + strings.Repeat("1, ", 500) + `1]}`,
		"image.png":            "\x89PNG\r\n\x1a\n" + string(noise(5000)),
		"large.bin":            strings.Repeat(string(noise(4000)), 16),
		"style.css":            strings.Repeat("p { margin: 0 }\n", 100),
		"404.html":             page("root 404"),
		"405.html":             page("root 405"),
		"_416.html":            page("root 416"),
		"odd/a b.txt":          "space " + text,
		"odd/100%25.txt":       "percent",
		"odd/ü\u00e9.txt":      "umlaut",
		"odd/a?b.txt":          "question mark",
		"odd/quote\"<&'>.txt":  "markup",
		"odd/plus+semi;x=1,2":  "no suffix",
		"odd/.well":            "hidden",
		"odd/colon:at@.txt":    "colon",
		"odd/back\\slash.txt":  "backslash",
		"docs/index.html":      page("docs"),
		"docs/404.html":        page("docs 404"),
		"docs/start.html":      page("start"),
		"docs/deep/er/one.txt": "one",
		"docs/_412.html":       page("docs 412"),
		"app/index.html":       page("app"),
		"app/200.html":         page("app fallback"),
		"app/main.js":          "console.log(1)\n",
		"img/_wildcard.png":    "\x89PNG\r\n\x1a\nfallback" + string(noise(300)),
		"img/real.png":         "\x89PNG\r\n\x1a\nreal",
		"forced/page.html":     page("forced"),
		"_redirects": `/old /new-place 301
/page-moved /about?x=1#part 302
/see-other /about 303
/temp /about 307
/ext https://example.org/a?b=c 301
/docs-old/* /docs/:splat 301
/posts/:slug /blog/:slug/ 308
/posts/:year/:month/:slug /archive/:slug 301
/rw /plain.txt 200
/rw/* /docs/:splat 200
/gone /plain.txt 410
/gone/* /404.html 404
/missing-target /nowhere 200
/rw-redirect /old 200
/tail/*/end /about 301
/single/* /app/index.html 200
/forced/* /about 301!
/strip/* /:splat 301
/q/* /about?from=:splat 301
/alias/:name /:name.txt 200
://rules.example.com/only /about 301
://rules.example.com/docs/* /about 302
://*.wild.example.net/* /docs/:splat 301
`,
		"docs/_redirects": "./legacy/* ./deep/:splat 301\n",
		"_headers": `/*
  X-Frame-Options: DENY
  X-All: root
  Content-Security-Policy: default-src 'self'
/docs/*
  X-All: docs
  Cache-Control: public, max-age=86400
  Set-Cookie: a=1
  Set-Cookie: b=2
/docs/start
  ! X-Frame-Options
  Link: </style.css>; rel=preload
/app/*
  Cache-Control: public, max-age=31536000, immutable
  Content-Type: text/plain
  Vary: Origin
/plain.txt
  ! X-All
  Cache-Control: no-store
  Cache-Control: private
/old
  X-Redirect: yes
  Content-Language: en
/:any/deep/*
  X-Deep: 1
https://rules.example.com/*
  X-Host: rules
://*.wild.example.net/*
  X-Host: wild
https://:project.pages.dev/*
  X-Host: project
`,
		"_hosts/example.com/index.html":             page("example.com"),
		"_hosts/example.com/404.html":               page("example.com 404"),
		"_hosts/example.com/_headers":               "/*\n  X-Own: example.com\n",
		"_hosts/example.com/sub/x.txt":              text,
		"_hosts/example.com/_redirects":             "/old /sub/x.txt 302\n/r/* /sub/:splat 200\n",
		"_hosts/*.example.com/index.html":           page("any.example.com"),
		"_hosts/*.deep.example.com/index.html":      page("any.deep.example.com"),
		"_hosts/*.deep.example.com/200.html":        page("deep fallback"),
		"_hosts/_wildcard.example.org/index.html":   page("any.example.org"),
		"_hosts/project.pages.dev/index.html":       page("project"),
		"_hosts/project.pages.dev/assets/_405.html": page("project 405"),
	}
}

// noise returns bytes that don't compress.
func noise(n int) []byte {
	out := make([]byte, n)
	state := uint32(n)
	for i := range out {
		state = state*1664525 + 1013904223
		out[i] = byte(state >> 24)
	}
	return out
}

// program returns the path of a program of Cannery, and skips the test if CANNERY_BIN isn't set.
func program(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("CANNERY_BIN")
	if dir == "" {
		t.Skip("CANNERY_BIN doesn't name the directory of the programs")
	}
	return filepath.Join(dir, name)
}

// build builds an archive of files and returns its path.
func build(t *testing.T, files map[string]string, flags ...string) string {
	t.Helper()
	archiver := program(t, "cannery-archiver")
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, "site", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(dir, "site.cdb")
	arguments := append([]string{"--threads", "1", filepath.Join(dir, "site"), archive}, flags...)
	if output, err := exec.Command(archiver, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", archiver, err, output)
	} else if testing.Verbose() {
		t.Logf("%s", output)
	}
	return archive
}

func TestFixtureIsUpdated(t *testing.T) {
	if !*update {
		t.Skip("-update isn't set")
	}
	content, err := os.ReadFile(build(t, siteFiles(), "--released", "2024-01-02"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	w.Write(content)
	w.Close()
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fixture, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	hello, err := os.ReadFile(build(t, helloFiles, "--released", "2024-01-02"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(helloFixture, hello, 0o644); err != nil {
		t.Fatal(err)
	}
}

// fixtureBytes returns the archive in testdata.
func fixtureBytes(t testing.TB) []byte {
	t.Helper()
	file, err := os.Open(fixture)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// openFixture opens the archive in testdata with Open.
func openFixture(t testing.TB) *Archive {
	t.Helper()
	file := filepath.Join(t.TempDir(), "site.cdb")
	if err := os.WriteFile(file, fixtureBytes(t), 0o600); err != nil {
		t.Fatal(err)
	}
	archive, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { archive.Close() })
	return archive
}
