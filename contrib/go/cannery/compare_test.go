package cannery

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// result is a response in a comparable form.
type result struct {
	status int
	fields []string // sorted
	body   string
}

func newResult(status int, header http.Header, body []byte) result {
	r := result{status: status, body: string(body)}
	for name, values := range header {
		switch name {
		case "Date", "Connection", "Server", "Alt-Svc":
			continue
		}
		for _, value := range values {
			r.fields = append(r.fields, http.CanonicalHeaderKey(name)+": "+value)
		}
	}
	slices.Sort(r.fields)
	return r
}

func (r result) difference(other result) string {
	switch {
	case r.status != other.status:
		return fmt.Sprintf("status %d instead of %d", r.status, other.status)
	case !slices.Equal(r.fields, other.fields):
		return fmt.Sprintf("fields\n  %s\ninstead of\n  %s", strings.Join(r.fields, "\n  "), strings.Join(other.fields, "\n  "))
	case r.body != other.body:
		return fmt.Sprintf("body of %d bytes %.400q instead of %d bytes %.400q", len(r.body), r.body, len(other.body), other.body)
	}
	return ""
}

// handle passes a request, as it is sent, to a handler. It returns false if net/http refuses the request.
func handle(handler http.Handler, raw string) (result, bool) {
	request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		return result{}, false
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return newResult(recorder.Code, recorder.Result().Header, recorder.Body.Bytes()), true
}

func rawRequest(method, target string, fields [][2]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, target)
	for _, field := range fields {
		fmt.Fprintf(&b, "%s: %s\r\n", field[0], field[1])
	}
	return b.String() + "\r\n"
}

// TestVectors compares responses with those of `cannery explain --json`: CANNERY_VECTORS names a file with one object per
// line, for the archive CANNERY_ARCHIVE.
func TestVectors(t *testing.T) {
	vectors, path := os.Getenv("CANNERY_VECTORS"), os.Getenv("CANNERY_ARCHIVE")
	if vectors == "" || path == "" {
		t.Skip("CANNERY_VECTORS and CANNERY_ARCHIVE aren't set")
	}
	archive, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	file, err := os.Open(vectors)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	count, refused := 0, 0
	decoder := json.NewDecoder(file)
	for {
		var vector struct {
			Request struct {
				Method, Target string
				Fields         [][2]string
			}
			Response struct {
				Status int
				Fields [][2]string
				Body   []struct {
					Position, Bytes uint64
					Text            *string
				}
			}
		}
		if err := decoder.Decode(&vector); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		count++
		header := http.Header{}
		for _, field := range vector.Response.Fields {
			header.Add(field[0], latin1IfInvalid(field[1]))
		}
		var body []byte
		for _, part := range vector.Response.Body {
			if part.Text != nil {
				body = append(body, *part.Text...)
				continue
			}
			extent, err := archive.slice(part.Position, part.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			body = append(body, extent...)
		}
		raw := rawRequest(vector.Request.Method, vector.Request.Target, vector.Request.Fields)
		got, ok := handle(archive, raw)
		if !ok {
			refused++
			continue
		}
		for i, field := range got.fields {
			got.fields[i] = latin1IfInvalid(field)
		}
		if difference := got.difference(newResult(vector.Response.Status, header, body)); difference != "" {
			t.Errorf("%s%s", raw, difference)
		}
	}
	t.Logf("%d vectors, of which net/http refuses %d requests", count, refused)
}

// latin1IfInvalid decodes text that isn't UTF-8 as ISO 8859-1, as the vectors do.
func latin1IfInvalid(s string) string {
	if strings.ToValidUTF8(s, "") == s {
		return s
	}
	runes := make([]rune, len(s))
	for i := range runes {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// TestServerGivesTheSameResponses compares responses with those of cannery-server, for sites with all kinds of rules.
func TestServerGivesTheSameResponses(t *testing.T) {
	sites := []struct {
		name  string
		flags []string
		files func() map[string]string
	}{
		{"default", nil, siteFiles},
		{"zstd", []string{"--compress", "identity,gzip,brotli,zstd", "--format", "cdb64", "--last-modified", "2024-05-06"}, siteFiles},
		{"gzip only", []string{"--compress", "gzip", "--exclude-slash-redirects", "--exclude-etag"}, siteFiles},
		{"one host", []string{"--last-modified", "2024-05-06", "--include-folder-listing"}, withoutHosts},
		{"example", nil, exampleFiles},
		{"cloudflare", []string{"--redirects-dialect", "cloudflare"}, cloudflareFiles},
	}
	for _, site := range sites {
		t.Run(site.name, func(t *testing.T) {
			path := build(t, site.files(), site.flags...)
			archive, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer archive.Close()
			compareWithServer(t, archive, startServer(t, path))
		})
	}
}

func withoutHosts() map[string]string {
	files := siteFiles()
	for name := range files {
		if strings.HasPrefix(name, "_hosts/") {
			delete(files, name)
		}
	}
	before, after, _ := strings.Cut(files["_redirects"], "://")
	_ = after
	files["_redirects"] = before
	return files
}

func cloudflareFiles() map[string]string {
	files := withoutHosts()
	files["_redirects"] = "/a/*/z /docs/:splat 301\n/x-:one-:two /y/:two/:one 302\n/plain.txt /about\n/spa/* /app/index.html 200\n"
	return files
}

// exampleFiles are the sources of the example of the repository.
func exampleFiles() map[string]string {
	files := map[string]string{}
	site := os.DirFS("../../../examples/site")
	fs.WalkDir(site, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			content, _ := fs.ReadFile(site, name)
			files[name] = string(content)
		}
		return err
	})
	return files
}

// startServer starts cannery-server and returns its address.
func startServer(t *testing.T, archive string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	server := exec.Command(program(t, "cannery-server"), archive, "--bind", address, "--threads", "1", "--security-headers-disable")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if connection, err := net.Dial("tcp", address); err == nil {
			connection.Close()
			return address
		}
	}
	t.Fatal("the server doesn't listen")
	return ""
}

var (
	testTargets = strings.Fields(`/ /index.html /about /about.html /about/ /plain.txt /plain.txt/ /plain /tiny.txt /empty.txt /data.json
		/image.png /large.bin /style.css /404.html /405.html /odd/a%20b.txt /odd/100%2525.txt /odd/%C3%BC%C3%A9.txt /odd/a%3Fb.txt
		/odd/quote%22%3C%26'%3E.txt /odd/plus+semi;x=1,2 /odd/.well /odd/colon:at@.txt /odd/back%5Cslash.txt /odd /odd/ /docs /docs/
		/docs/start /docs/start.html /docs/start/ /docs/missing /docs/missing.css /docs/deep/er/one.txt /docs/deep /docs/deep/er
		/docs/deep/er/two.txt /app /app/ /app/anything /app/any/thing.html /app/missing.js /app/main.js /img/x.png /img/real.png
		/img/x.jpg /img/page /img/X.PNG /forced/page /forced/page.html /forced /forced/ /old /old/ /old?x=y /page-moved?q=1&r="<>
		/see-other /temp /ext?z /docs-old/a/b /docs-old/ /docs-old /docs-old/a%2Fb%20c /posts/hello /posts/hello/ /posts/ /posts/1/2/x
		/rw /rw/ /rw/start /rw/deep/er/one.txt /rw/none /rw/../plain.txt /gone /gone/x /gone/x.js /missing-target /rw-redirect
		/tail/x/end /single/page /single/x.js /strip/ /strip/x /strip//evil.com /strip/%2F/evil.com /strip/%5Cevil.com /q/a&b=c /q/a+b;c
		/alias/plain /alias/tiny /alias/none /only /docs/legacy/er/one.txt /docs/legacy/ /sub/x.txt /sub /r/x.txt /assets/x /nowhere
		/nowhere.js /nowhere.html /a//b /a/./b/../../about /../about /about/. /about/.. /%61bout /a%2Fb /a%00 /a#b /about?a#b
		/new-place /a/b/z /x-1-2 /spa/x /spa/x.css http://example.com/ http://example.com/old?x http://example.com?x
		/docs/_listing.json /_redirects /_headers /.hidden /odd/é.txt /<script> /%3Cscript%3E /a/b/c/d/e/f/g/h /img/.png /img/a.
		/docs/index.html /docs/index /a|b%2Fc /a%2 /a%zz * /odd/a%20b.txt?q http://EXAMPLE.com:99/sub/x.txt /%2e%2e/about /x/%2E/about /docs/deep/..`)
	testHosts = strings.Fields(`localhost EXAMPLE.com example.com:8080 example.com. www.example.com a.b.example.com x.deep.example.com
		deep.example.com a.example.org example.org rules.example.com a.wild.example.net wild.example.net project.pages.dev
		other.pages.dev [::1]:80 .example.com *.example.com`)
	testCodings = []string{
		"", "gzip", "br", "gzip, deflate, br, zstd", "zstd;q=0.5, gzip;q=0.7", "*", "identity;q=0, *;q=0", "gzip;q=0", "x-gzip",
		"identity;q=0.1, br;q=0.2", "*;q=0.5, br;q=0", "br;q=1.5, gzip", "identity;q=0", "deflate",
	}
	testRanges = []string{
		"bytes=0-0", "bytes=0-99", "bytes=-5", "bytes=5-", "bytes=0-1,3-4", "bytes=99999999-", "bytes=5-4", "bytes=", "items=0-1",
		"bytes=0-9,5-20,100-120", "bytes=0-1, 5-6 ,, 9-10", "bytes=-0", "BYTES=1-2", "bytes=0-18446744073709551616",
		"bytes=1-1,3-3,5-5,7-7,9-9,11-11,13-13,15-15", "bytes=1-1,3-3,5-5,7-7,9-9,11-11,13-13,15-15,17-17", "bytes=0-,1-", "bytes=a-b",
		"bytes=900-1000,10-20,15-30,0-5",
	}
	testDates = []string{
		"Mon, 06 May 2024 00:00:00 GMT", "Sun, 05 May 2024 23:59:59 GMT", "Monday, 06-May-24 00:00:00 GMT", "Mon May  6 00:00:00 2024",
		"Tue, 07 May 2030 00:00:00 GMT", "garbage", "Mon, 6 May 2024 00:00:00 GMT", "Monday, 06-May-99 00:00:00 GMT",
	}
)

func compareWithServer(t *testing.T, archive *Archive, address string) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { connection.Close() }()
	reader := bufio.NewReader(connection)
	random := rand.New(rand.NewSource(1))
	pick := func(list []string) string { return list[random.Intn(len(list))] }
	tags := []string{`"nope"`, "*", `W/"nope", "x`}
	tagsOf := map[string]string{} // by target
	targets := slices.Clone(testTargets)
	fs.WalkDir(archive.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		targets = append(targets, slashLocation("/"+name, ""))
		return err
	})
	refused, failures := 0, 0
	statuses := map[int]int{}

	for n := 0; n < 4000; n++ {
		target, host := targets[n%len(targets)], "localhost"
		method := "GET"
		switch random.Intn(10) {
		case 0:
			method = "HEAD"
		case 1:
			method = pick([]string{"OPTIONS", "POST", "DELETE", "BREW", "HEAD"})
		}
		if random.Intn(3) == 0 {
			host = pick(testHosts)
		}
		fields := [][2]string{{"Host", host}}
		pickTag := func() string {
			if tag := tagsOf[target]; tag != "" && random.Intn(2) == 0 {
				return tag
			}
			return pick(tags)
		}
		if coding := pick(testCodings); coding != "" {
			fields = append(fields, [2]string{"Accept-Encoding", coding})
		}
		if random.Intn(3) == 0 {
			fields = append(fields, [2]string{"Range", pick(testRanges)})
			switch random.Intn(6) {
			case 0:
				fields = append(fields, [2]string{"If-Range", pickTag()})
			case 1:
				fields = append(fields, [2]string{"If-Range", pick(testDates)})
			}
		}
		for _, name := range []string{"If-Match", "If-None-Match"} {
			if random.Intn(6) == 0 {
				fields = append(fields, [2]string{name, pick([]string{"", "W/"}) + pickTag() + pick([]string{"", `, "other"`})})
			}
		}
		for _, name := range []string{"If-Modified-Since", "If-Unmodified-Since"} {
			if random.Intn(6) == 0 {
				fields = append(fields, [2]string{name, pick(testDates)})
			}
		}
		raw := rawRequest(method, target, fields)
		got, ok := handle(archive, raw)
		if !ok {
			refused++
			continue
		}

		if _, err := io.WriteString(connection, raw); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(reader, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%s%v", raw, err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatalf("%s%v", raw, err)
		}
		if tag := response.Header.Get("ETag"); tag != "" {
			tagsOf[target] = tag
		}
		statuses[response.StatusCode]++
		if difference := got.difference(newResult(response.StatusCode, response.Header, body)); difference != "" {
			if failures++; failures <= 20 {
				t.Errorf("%s%s", raw, difference)
			}
		}
		if response.Close {
			connection.Close()
			if connection, err = net.Dial("tcp", address); err != nil {
				t.Fatal(err)
			}
			reader = bufio.NewReader(connection)
		}
	}
	t.Logf("%d differences, %d requests refused by net/http, responses by status: %v", failures, refused, statuses)
}

func TestCompareFindsDifferences(t *testing.T) {
	archive := openFixture(t)
	a, _ := handle(archive, rawRequest("GET", "/plain.txt", nil))
	b, _ := handle(archive, rawRequest("GET", "/tiny.txt", nil))
	if a.difference(a) != "" || a.difference(b) == "" || bytes.Equal([]byte(a.body), []byte(b.body)) {
		t.Error("responses aren't compared")
	}
}
