package cannery

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRedirectsLeadBelowTheMount(t *testing.T) {
	site := newArchiveOf(t, helloSite("hello"))
	tests := []struct{ prefix, target, location string }{
		{"", "/sub", "/sub/"},
		{"/docs", "/docs", "/docs/"},
		{"/docs", "/docs?x=y", "/docs/?x=y"},
		{"/docs", "/docs/", ""},
		{"/docs", "/docs/sub", "/docs/sub/"},
		{"/docs", "/docs/sub?x=y", "/docs/sub/?x=y"},
		{"/docs", "/docs/%73ub", "/docs/sub/"},
		{"/docs", "http://example.com/docs/sub", "/docs/sub/"},
		{"/docs", "http://example.com/docs", "/docs/"},
		{"/docs", "/docs/old/a%2Fb?c", "/docs/new/a%2Fb?c"},
		{"/docs", "/docs/sub/", ""},
		{"/docs/", "/docs/sub", "/docs/sub/"},
		{"/docs/", "/docs/", ""},
		{"/docs/", "/docs/old/a%2Fb", "/docs/new/a%2Fb"},
		{"/a/b", "/a/b", "/a/b/"},
		{"/a/b", "/a/b/sub", "/a/b/sub/"},
		{"/a b", "/a%20b/sub", "/a%20b/sub/"},
		{"/ä", "/%C3%A4/sub", "/%C3%A4/sub/"},
		{"/sub", "/sub/sub", "/sub/sub/"},
		// A location that begins with two slashes would lead to another host.
		{"/", "//sub", "/sub/"},
		{"//evil.example", "//evil.example/sub", "/sub/"},
		{"/\\evil.example", "/\\evil.example/sub", "/sub/"},
		{"/a/..", "/a/../sub", "/sub/"},
	}
	for _, test := range tests {
		handler := http.Handler(site)
		if test.prefix != "" {
			handler = http.StripPrefix(test.prefix, site)
		}
		response := get(handler, test.target)
		want := http.StatusPermanentRedirect
		if test.location == "" {
			want = http.StatusOK
		} else if strings.Contains(test.location, "/new/") {
			want = http.StatusMovedPermanently
		}
		if got := response.Header.Get("Location"); got != test.location || response.StatusCode != want {
			t.Errorf("%s below %s: %d, Location: %q", test.target, test.prefix, response.StatusCode, got)
		}
	}

	recorder := httptest.NewRecorder()
	http.StripPrefix("/docs", site).ServeHTTP(recorder, httptest.NewRequest("POST", "/docs", nil))
	if recorder.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", recorder.Code)
	}
}

// TestAbsentContentTypeStaysAbsent looks at responses with and without content, directly, through net/http, and through a
// writer that can't flush.
func TestAbsentContentTypeStaysAbsent(t *testing.T) {
	site := newArchiveOf(t, helloSite("hello"))
	for _, target := range []string{"/sub", "/untyped", "/empty", "/old/x"} {
		response := get(site, target)
		if values, exists := response.Header["Content-Type"]; exists {
			t.Errorf("%s: Content-Type is %q", target, values)
		}
	}
	if got := get(site, "/").Header.Get("Content-Type"); got != "text/html" {
		t.Errorf("Content-Type is %q", got)
	}

	handlers := map[string]http.Handler{
		"site":     site,
		"no flush": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { site.ServeHTTP(struct{ http.ResponseWriter }{w}, r) }),
		"wrapped":  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { site.ServeHTTP(wrapper{w}, r) }),
	}
	for name, handler := range handlers {
		for _, version := range []int{1, 2} {
			server := httptest.NewUnstartedServer(handler)
			server.EnableHTTP2 = version == 2
			server.StartTLS()
			for _, method := range []string{"GET", "HEAD"} {
				request, _ := http.NewRequest(method, server.URL+"/untyped", nil)
				response, err := server.Client().Do(request)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				values, exists := response.Header["Content-Type"]
				if exists || err != nil || response.ContentLength != 6 || response.ProtoMajor != version {
					t.Errorf("%s, %s: Content-Type is %q, %d bytes, %s", name, method, values, response.ContentLength, response.Proto)
				}
				if method == "GET" && string(body) != "<html>" {
					t.Errorf("%s: %q", name, body)
				}
			}
			server.Close()
		}
	}
}

type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// discard is a response writer without memory of its own.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { clear(d.header); return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// manyRules returns an archive with as many redirects and header rules.
func manyRules(t testing.TB, rules int) *Archive {
	var entries [][]byte
	for n := range rules {
		entries = append(entries, redirectRule(n, fmt.Sprintf("old-%d", n)))
	}
	for n := range rules {
		entries = append(entries, headersRule(n, fmt.Sprintf("old-%d", n), "X-Number", fmt.Sprint(n)))
	}
	w := newWriter(flagSlashRedirects | flagHeaderRules)
	w.page("/", "home", "text/html")
	return newArchiveOf(t, w.finish(entries...))
}

func TestRulesAreDecodedOnce(t *testing.T) {
	shapes := map[string]func(n int) (literal, rest string){
		"first segment":  func(n int) (string, string) { return fmt.Sprintf("old-%d/", n), "" },
		"second segment": func(n int) (string, string) { return "", fmt.Sprintf("/old-%d/", n) },
		"prefix":         func(n int) (string, string) { return fmt.Sprintf("nothing/h%d", n), "" },
		"suffix":         func(n int) (string, string) { return "nothing/", fmt.Sprintf("-%d", n) },
		"suffix twice":   func(n int) (string, string) { return "", fmt.Sprintf("-%d", n) },
	}
	for name, shape := range shapes {
		allocations := func(rules int) float64 {
			var entries [][]byte
			for n := range rules {
				start, end := shape(n)
				pattern := concat(literalPiece(start), []byte{capture, 0}, literalPiece(end))
				target := concat(literalPiece("/new/"), []byte{capture, 0})
				content := concat(u32(n), []byte{0}, u16(len(pattern)), pattern, []byte{kindRedirect, 0}, u16(301), u16(0), target)
				entries = append(entries, []byte{entryRule}, u32(len(content)), content)
				changes := concat([]byte{effectReplace, 0, 1}, u16(1), []byte("Xx"))
				content = concat(u32(n), []byte{0}, u16(len(pattern)), pattern, changes)
				entries = append(entries, []byte{entryHeaderRule}, u32(len(content)), content)
			}
			archive := newArchiveOf(t, newWriter(flagSlashRedirects|flagHeaderRules).finish(entries...))
			request := httptest.NewRequest("GET", "/nothing/here", nil)
			return testing.AllocsPerRun(20, func() { archive.ServeHTTP(discard{http.Header{}}, request) })
		}
		few, many := allocations(1), allocations(2000)
		if many > few || many > 60 {
			t.Errorf("%s: a miss allocates %v times with one rule, %v times with 2,000", name, few, many)
		}
	}
}

func TestRulesMatchInTheirOrder(t *testing.T) {
	site := manyRules(t, 300)
	for _, n := range []int{0, 1, 299} {
		response := get(site, fmt.Sprintf("/old-%d/x", n))
		if response.Header.Get("Location") != "/new/x" || response.Header.Get("X-Number") != fmt.Sprint(n) {
			t.Errorf("%d: %v", n, response.Header)
		}
	}
	if response := get(site, "/old-300/x"); response.StatusCode != http.StatusNotFound || response.Header.Get("X-Number") != "" {
		t.Errorf("%v", response)
	}

	// Rules without a literal segment are tried in order with the others.
	pieces := func(kinds ...any) (pattern []piece) {
		for _, kind := range kinds {
			if text, ok := kind.(string); ok {
				pattern = append(pattern, piece{kind: literal, text: text})
			} else {
				pattern = append(pattern, piece{kind: byte(kind.(int))})
			}
		}
		return pattern
	}
	patterns := [][]piece{
		pieces("a/", splat), pieces(capture, "/x"), pieces("a/x"), pieces("a", splat), pieces("b/", splat), pieces(splat), pieces("a"), {},
		pieces(capture, "/", capture, "/y"), pieces("a/", capture, "/y"), pieces("a/-", capture, "/y/", splat), pieces(capture, "/"),
		pieces(capture, "-", capture), pieces("a/", splat, "/y"), pieces("a", "/", "x"), pieces("a/x/"),
	}
	table := newRuleTable(patterns, func(p *[]piece) []piece { return *p })
	for _, path := range []string{
		"a/x", "a", "a/", "b/x", "ab", "", "c/x", "a/x/", "a/x/y", "a/x/y/", "c/x/y", "a/-x/y/z", "a/-x/y/", "c/", "c-d", "a/b/c/y",
	} {
		var got, want []int
		table.each(path, func(p *[]piece) bool {
			for i := range table.all {
				if &table.all[i] == p {
					if _, ok := matchRule(*p, path); ok {
						got = append(got, i)
					}
				}
			}
			return true
		})
		for i, pattern := range patterns {
			if _, ok := matchRule(pattern, path); ok {
				want = append(want, i)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: rules %v instead of %v", path, got, want)
		}
	}
}

// TestCorruptRulesOnlyAffectTheirKind damages one header rule.
func TestCorruptRulesOnlyAffectTheirKind(t *testing.T) {
	w := newWriter(flagSlashRedirects | flagHeaderRules)
	w.page("/", "home", "text/html")
	damaged := headersRule(0, "old", "X-A", "line\r\n")
	site := newArchiveOf(t, w.finish(redirectRule(0, "old"), damaged))
	if response := get(site, "/old/x"); response.Header.Get("Location") != "/new/x" {
		t.Errorf("%d", response.StatusCode)
	}
	if _, err := site.headerRules("", "/old/x", contentRules{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v", err)
	}
}

// BenchmarkMiss answers 404 beside 5,000 redirects and 5,000 header rules.
func BenchmarkMiss(b *testing.B) { benchmark(b, "/nothing/here") }

func BenchmarkPage(b *testing.B) { benchmark(b, "/") }

func benchmark(b *testing.B, target string) {
	archive := manyRules(b, 5000)
	request, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n")))
	if err != nil {
		b.Fatal(err)
	}
	w := discard{http.Header{}}
	archive.ServeHTTP(w, request)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		archive.ServeHTTP(w, request)
	}
}
